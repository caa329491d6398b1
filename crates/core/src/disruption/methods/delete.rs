//! Nodes go whose pods all have places on others: as many in one command as the budgets allow.

use super::budget::Allowance;
use super::command::Command;
use super::pass::Pass;
use super::{Method, Reason, balanced, replace};
use crate::problem::Policy;

/// The method, in pools that are packed by price.
pub(super) struct Delete {
    /// Whether pods may come only to nodes that are worth their price: others are to be replaced, and what comes to them
    /// would move twice.
    pub to_efficient: bool,
}

impl Method for Delete {
    fn name(&self) -> &'static str {
        if self.to_efficient { "delete" } else { "delete, what is left" }
    }

    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<Command> {
        let candidates = pass.candidates(|policy| policy != Policy::FewestNodes);
        let receivers = receivers(pass, self.to_efficient);
        let mut allowance = Allowance::of(pass, Reason::Underutilized, pass.settings.most_candidates);
        let start = pass.fleet.mark();
        let mut taken = Vec::new();
        for node in candidates {
            if allowance.is_spent() {
                break;
            }
            // What has taken pods in stays.
            if pass.fleet.nodes[node as usize].arrivals > 0 {
                continue;
            }
            let mut after = allowance.clone();
            if let Err(why) = after.take(pass, node) {
                pass.bar(node, why);
                continue;
            }
            match clear(pass, node, &receivers) {
                Ok(()) => {
                    taken.push(node);
                    allowance = after;
                }
                Err(pod) => {
                    let name = pass.pod_name(pod);
                    pass.note(node, format!("pod {name} fits on no other node"));
                }
            }
        }
        let command = (!taken.is_empty()).then(|| pass.command((Reason::Underutilized, self.name()), taken, None));
        pass.fleet.rollback(start);
        let command = command.filter(|command| balanced::approves(pass, command))?;
        let better = if self.to_efficient { replace::of_all(pass, command.saving()) } else { None };
        Some(better.unwrap_or(command))
    }
}

/// Nodes to which pods may come: those first that are the least worth taking away, so that what receives is what stays.
pub(super) fn receivers(pass: &Pass<'_, '_, '_>, efficient: bool) -> Vec<u32> {
    let launched = pass.order.len() as u32..pass.nodes.len() as u32;
    let all = launched.chain(pass.order.iter().rev().copied());
    all.filter(|node| {
        let view = &pass.nodes[*node as usize];
        view.receives && !pass.fleet.nodes[*node as usize].gone && (view.efficient || !efficient)
    })
    .collect()
}

/// Takes a node away and gives each of its pods another; answers the pod that finds none, with nothing changed.
fn clear(pass: &mut Pass<'_, '_, '_>, node: u32, receivers: &[u32]) -> Result<(), u32> {
    let mark = pass.fleet.mark();
    pass.fleet.clear(node);
    for pod in pass.fleet.nodes[node as usize].pods.clone() {
        if !pass.fleet.put(pod, receivers) {
            pass.fleet.rollback(mark);
            return Err(pod);
        }
    }
    Ok(())
}
