//! Deletion of nodes whose pods all have places on others: as many in one command as the budgets allow.

use super::budget::Allowance;
use super::command::ConsolidationCommand;
use super::many::Many;
use super::pass::Pass;
use super::replace::{Replace, bound};
use super::{Method, RemovalReason, balanced};
use crate::pack::model::ids::{NodeId, PodId};
use crate::problem::Policy;

/// The method, in pools that are packed by price.
pub(super) struct Delete {
    /// True if pods may come only to nodes that are worth their price: others are to be replaced, and pods that come to them
    /// would move twice.
    pub to_efficient: bool,
}

/// Part of the saving that the nodes that have taken pods in may cost too much. Beyond that nodes of the right size are better
/// than fewer of these.
const WASTE: f64 = 0.15;

impl Method for Delete {
    fn name(&self) -> &'static str {
        if self.to_efficient { "delete" } else { "delete, what is left" }
    }

    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand> {
        let receivers = receivers(pass, self.to_efficient);
        let before: Vec<u32> = receivers.iter().map(|node| pass.fleet.nodes[*node].arrivals).collect();
        let start = pass.fleet.mark();
        let (taken, allowance, cut) = batch(pass, &receivers);
        if taken.is_empty() {
            return None;
        }
        let mut command = pass.command(RemovalReason::Underutilized, self.name(), taken.clone(), vec![]);
        if cut {
            // Nodes that have room left are filled by the next command.
            pass.fleet.rollback(start);
            return Some(command).filter(|command| balanced::approves(pass, command));
        }
        let took_in = receivers.iter().zip(before).filter(|(node, before)| pass.fleet.nodes[**node].arrivals > *before);
        let mut too_large: Vec<(f64, NodeId)> =
            took_in.filter_map(|(node, _)| Some((waste(pass, *node)?, *node))).collect();
        too_large.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut wasted: f64 = too_large.iter().map(|(waste, _)| waste).sum();
        if let Some((waste, node)) = too_large.first()
            && let Some(with_last) = self.with_last(pass, taken, *node, allowance)
        {
            command = with_last;
            wasted -= waste;
        }
        pass.fleet.rollback(start);
        let better = self.to_efficient && wasted > WASTE * command.saving();
        let replaced = if better { Many.propose(pass).or_else(|| Replace.propose(pass)) } else { None };
        replaced.or_else(|| Some(command).filter(|command| balanced::approves(pass, command)))
    }
}

impl Delete {
    /// The command with the node that is too large for the pods that have come to it: all its pods go to a new, smaller node
    /// instead.
    fn with_last(
        &self,
        pass: &mut Pass<'_, '_, '_>,
        mut taken: Vec<NodeId>,
        node: NodeId,
        mut allowance: Allowance,
    ) -> Option<ConsolidationCommand> {
        let view = pass.nodes[node].clone();
        let own = pass.cluster.nodes.get(node.index())?.pods.iter().filter(|pod| pod.moves).count();
        let pool = view.pool.filter(|_| view.kept.is_none())?;
        allowance.take_own(pass, node).ok()?;
        let mut launch = pass.fleet.launch(pass.fleet.pool_at(pool)?, None)?;
        pass.fleet.clear(node);
        taken.push(node);
        let pods = pass.fleet.nodes[node].pods.clone();
        let all = pods.into_iter().all(|pod| pass.fleet.load(&mut launch, pod));
        let most = view.price - pass.least(pool, view.price, own);
        let claim =
            bound(pass, &launch, &taken, most).filter(|_| all).and_then(|bound| pass.fleet.claim(&launch, bound));
        pass.fleet.abandon(&mut launch);
        Some(pass.command(RemovalReason::Underutilized, self.name(), taken, vec![claim?]))
    }
}

/// Excess of a node's price over the worth of the pods that it has now; `None` where that is not worth another move.
fn waste(pass: &Pass<'_, '_, '_>, node: NodeId) -> Option<f64> {
    let pool = pass.nodes[node].pool?;
    let asked = pass.value(pool, pass.fleet.nodes[node].asked());
    pass.is_worth_replacing(pool, node).then(|| pass.nodes[node].price - asked)
}

/// Takes away all nodes whose pods have places on the receivers; its changes stay. The last value is true if more would go if
/// more were allowed at once.
fn batch(pass: &mut Pass<'_, '_, '_>, receivers: &[NodeId]) -> (Vec<NodeId>, Allowance, bool) {
    let candidates = pass.candidates(|policy| policy == Policy::Cost);
    let mut allowance = Allowance::left_in(pass, RemovalReason::Underutilized, pass.settings.most_candidates);
    let (mut taken, mut cut) = (Vec::new(), false);
    for node in candidates {
        if allowance.is_spent() {
            cut = true;
            break;
        }
        // A node that has taken pods in stays.
        if pass.fleet.nodes[node].arrivals > 0 {
            continue;
        }
        let saved = pass.saved_beside(&taken, node);
        if !pass.is_worth_deleting(node, saved) {
            pass.note(node, "what it costs is not worth the move of so many pods");
            continue;
        }
        let mut after = allowance.clone();
        if let Err(why) = after.take_node(pass, node) {
            pass.bar(node, why);
            cut = true;
            continue;
        }
        let mark = pass.fleet.mark();
        match clear(pass, node, receivers) {
            Ok(()) if !pass.has_paid(&[node], saved) => pass.fleet.rollback(mark),
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
    (taken, allowance, cut)
}

/// Nodes to which pods may come: those first that are the least worth taking away, so that what receives is what stays.
pub(super) fn receivers(pass: &Pass<'_, '_, '_>, efficient: bool) -> Vec<NodeId> {
    let launched = pass.nodes.ids().skip(pass.order.len());
    let all = launched.chain(pass.order.iter().rev().copied());
    all.filter(|node| {
        let view = &pass.nodes[*node];
        view.receives && !pass.fleet.nodes[*node].gone && (view.efficient || !efficient)
    })
    .collect()
}

/// Takes a node away and gives each of its pods another; an error with the pod that finds none, with nothing changed.
fn clear(pass: &mut Pass<'_, '_, '_>, node: NodeId, receivers: &[NodeId]) -> Result<(), PodId> {
    let mark = pass.fleet.mark();
    pass.fleet.clear(node);
    for pod in pass.fleet.nodes[node].pods.clone() {
        if !pass.fleet.put(pod, receivers) {
            pass.fleet.rollback(mark);
            return Err(pod);
        }
    }
    Ok(())
}
