//! Aims of replacements: nodes that cost more than their pods are worth elsewhere, and the price that may be paid in their
//! stead.

use super::command::ConsolidationCommand;
use super::pass::Pass;
use crate::pack::model::ids::NodeId;
use crate::problem::Policy;

impl Pass<'_, '_, '_> {
    /// Pools that are packed by price.
    pub fn cost_pools(&self) -> Vec<usize> {
        let pools = self.fleet.context.pools.iter().map(|pool| pool.index);
        pools.filter(|pool| self.cluster.packing(*pool) == Policy::Cost).collect()
    }

    /// Candidates of a pool that cost by enough more than what their pods are worth elsewhere.
    pub fn replaceable(&self, pool: usize) -> Vec<NodeId> {
        let mut all = self.candidates(|policy| policy == Policy::Cost);
        all.retain(|node| self.nodes[*node].pool == Some(pool) && self.is_worth_replacing(pool, *node));
        all
    }

    /// True if a node costs by enough more than its pods are worth elsewhere.
    pub fn is_worth_replacing(&self, pool: usize, node: NodeId) -> bool {
        let (view, member) = (&self.nodes[node], &self.fleet.nodes[node]);
        view.price - self.value(pool, member.asked()) > self.least(pool, view.price, member.pods.len())
    }

    /// Price of these nodes of a pool, and the highest price that may be paid in their stead.
    pub fn at_most(&self, pool: usize, nodes: &[NodeId]) -> (f64, f64) {
        let price: f64 = nodes.iter().map(|node| self.nodes[*node].price).sum();
        let pods: usize = nodes.iter().map(|node| self.fleet.nodes[*node].pods.len()).sum();
        (price, price - self.least(pool, price, pods))
    }

    /// True if a command is no move by price, or as many of these are still open.
    pub fn within_price_moves(&self, command: &ConsolidationCommand) -> bool {
        !self.is_price_move(command) || self.price_moves >= command.candidates.len()
    }
}
