//! Replacement of nodes by several new ones, beside what others have room for: one by several, and many by many (gate
//! `ManyToManyConsolidation`). No other system does that: Karpenter launches one node a command.
//!
//! The nodes to launch are those that packing plans for the pods that move, by its own objective. A command takes as many nodes
//! as the budgets allow, and pays by itself: the next one need not follow.

mod afresh;
mod fleet;

use super::budget::Allowance;
use super::command::ConsolidationCommand;
use super::pass::Pass;
use super::replace::is_spot;
use super::{Method, RemovalReason, balanced};
use crate::pack::model::ids::NodeId;

/// Replaces nodes by several new ones together.
pub(super) struct Many;

/// Largest number of nodes that are looked at one by one, where no larger number of them comes to a command.
const SINGLES: usize = 8;

impl Method for Many {
    fn name(&self) -> &'static str {
        "many by many"
    }

    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand> {
        if !pass.settings.many_to_many {
            return None;
        }
        pass.cost_pools().into_iter().find_map(|pool| self.in_pool(pass, pool))
    }
}

impl Many {
    /// The first nodes in order: all that may go together, then half as many, and so on; then each by itself.
    fn in_pool(&self, pass: &mut Pass<'_, '_, '_>, pool: usize) -> Option<ConsolidationCommand> {
        let candidates = candidates(pass, pool);
        let together = together(pass, &candidates);
        let mut count = together.len();
        while count > 0 {
            if let Some(command) = self.attempt(pass, pool, &together[..count]) {
                return Some(command);
            }
            count /= 2;
        }
        let singles = candidates.iter().filter(|node| together.first() != Some(node)).take(SINGLES);
        singles.into_iter().find_map(|node| self.attempt(pass, pool, &[*node]))
    }

    fn attempt(&self, pass: &mut Pass<'_, '_, '_>, pool: usize, nodes: &[NodeId]) -> Option<ConsolidationCommand> {
        let (_, most) = pass.at_most(pool, nodes);
        let packing = afresh::packed(pass, nodes)?;
        if packing.price() + pass.node_prices(packing.price(), packing.claims.len(), nodes.len()) > most {
            return None;
        }
        let start = pass.fleet.mark();
        let claims = fleet::launched(pass, nodes, &packing, most);
        let command =
            claims.map(|claims| pass.command(RemovalReason::Underutilized, self.name(), nodes.to_vec(), claims));
        pass.fleet.rollback(start);
        let allowed = command.filter(|command| balanced::approves(pass, command) && pass.within_price_moves(command));
        allowed.filter(|command| pass.has_paid(nodes, command.saving()))
    }
}

/// Nodes of a pool that are worth replacing, and that may go by themselves.
fn candidates(pass: &mut Pass<'_, '_, '_>, pool: usize) -> Vec<NodeId> {
    let allowance = Allowance::left_in(pass, RemovalReason::Underutilized, pass.settings.most_candidates);
    let mut all = pass.replaceable(pool);
    let may_be_spot = pass.settings.spot_to_spot;
    // Nodes on demand may become spot ones; a spot node does so by its own gate only.
    all.retain(|node| may_be_spot || !is_spot(pass, *node));
    all.retain(|node| match allowance.clone().take_node(pass, *node) {
        Ok(()) => true,
        Err(why) => {
            pass.bar(*node, why);
            false
        }
    });
    all
}

/// The first of the candidates that may go in one command. The others may go in the next, so that nothing stands in their way.
fn together(pass: &Pass<'_, '_, '_>, candidates: &[NodeId]) -> Vec<NodeId> {
    let mut allowance = Allowance::left_in(pass, RemovalReason::Underutilized, pass.settings.most_candidates);
    let mut all = candidates.to_vec();
    all.retain(|node| !allowance.is_spent() && allowance.take_node(pass, *node).is_ok());
    all
}
