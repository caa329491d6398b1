//! Payback: the time for which nodes have to be to spare until the saving of a command would have paid for its moves.

use super::Pass;
use crate::pack::model::ids::NodeId;

/// The reason that keeps a node whose pods have places elsewhere.
const NOT_YET: &str = "it has not been to spare for long enough to pay for the moves of its pods";

impl Pass<'_, '_, '_> {
    /// True if nodes that could go, which would save `saving` dollars an hour, could have gone for so long that this would have
    /// paid for the moves of their pods by now. Nodes for which it is false are noted.
    pub fn has_paid(&mut self, nodes: &[NodeId], saving: f64) -> bool {
        let hours = |time: f64| time / 3600.0;
        let waited =
            nodes.iter().map(|node| self.cluster.nodes.get(node.index()).map_or(0.0, |own| own.spare.as_secs_f64()));
        let saved = saving * hours(waited.fold(f64::INFINITY, f64::min).min(1e9));
        let moves: f64 = nodes.iter().map(|node| self.worth_of_pods(*node)).sum();
        let has_paid = saved >= moves * hours(self.settings.payback.as_secs_f64());
        if !has_paid {
            nodes.iter().for_each(|node| self.note(*node, NOT_YET));
            self.spare.extend(nodes);
        }
        has_paid
    }

    /// Worth in dollars an hour of as many mean pods as a node has.
    fn worth_of_pods(&self, node: NodeId) -> f64 {
        self.nodes[node].pool.map_or(0.0, |pool| self.mean_pod[pool]) * self.fleet.nodes[node].pods.len() as f64
    }
}
