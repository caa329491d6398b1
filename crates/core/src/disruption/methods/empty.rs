//! Deletion of empty nodes, as many as the budgets allow (core spec 5.5).

use super::budget::Allowance;
use super::command::ConsolidationCommand;
use super::pass::Pass;
use super::{Method, RemovalReason};

/// Takes nodes away that have no pod which needs another.
pub(super) struct Empty;

impl Method for Empty {
    fn name(&self) -> &'static str {
        "empty"
    }

    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand> {
        let mut allowance = Allowance::left_in(pass, RemovalReason::Empty, usize::MAX);
        let mut taken = Vec::new();
        for node in pass.order.clone() {
            let (view, member) = (&pass.nodes[node], &pass.fleet.nodes[node]);
            // A pod of negative cost keeps no node, but has to have a place all the same: other methods look for it.
            if !view.empty || view.kept.is_some() || member.gone || !member.pods.is_empty() {
                continue;
            }
            match allowance.take_node(pass, node) {
                Ok(()) => taken.push(node),
                Err(why) => pass.bar(node, why),
            }
        }
        (!taken.is_empty()).then(|| pass.command(RemovalReason::Empty, self.name(), taken, vec![]))
    }
}
