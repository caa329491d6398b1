//! Worth of nodes, pods and moves in a pass.

use super::Pass;
use crate::pack::NodePrice;
use crate::pack::model::ids::NodeId;

impl Pass<'_, '_, '_> {
    pub(super) fn worth_in(&self, pool: usize) -> Vec<f64> {
        let width = self.fleet.context.names.0.len();
        let mut asked = vec![0.0; width];
        let own = self.nodes.iter().zip(&self.fleet.nodes).filter(|(view, _)| view.pool == Some(pool));
        own.for_each(|(_, node)| asked.iter_mut().zip(node.asked()).for_each(|(sum, amount)| *sum += amount as f64));
        match self.fleet.pool_at(pool) {
            Some(at) => self.fleet.worth(at, &asked, self.node_price()),
            None => vec![0.0; width],
        }
    }

    /// Worth of amounts in a pool, in dollars an hour.
    pub fn value(&self, pool: usize, amounts: impl Iterator<Item = i64>) -> f64 {
        amounts.zip(&self.worth[pool]).map(|(amount, worth)| amount as f64 * worth).sum()
    }

    /// True if a node is worth its price when it is full, or its pods are not worth moving for what they would save.
    pub fn is_efficient(&self, node: NodeId) -> bool {
        let view = &self.nodes[node];
        let Some(pool) = view.pool else { return true };
        let member = &self.fleet.nodes[node];
        let excess = view.price - self.value(pool, member.whole.iter().copied());
        excess <= self.least(pool, view.price, member.pods.len())
    }

    pub(super) fn mean_pod_of(&self, pool: usize) -> f64 {
        let own = self.nodes.iter().zip(&self.fleet.nodes).filter(|(view, _)| view.pool == Some(pool));
        let add = |(worth, pods): (f64, usize), node: &crate::pack::fleet::FleetNode<'_>| {
            (worth + self.value(pool, node.asked()), pods + node.pods.len())
        };
        let (worth, pods) = own.fold((0.0, 0), |sum, (_, node)| add(sum, node));
        if pods == 0 { 0.0 } else { worth / pods as f64 }
    }

    /// Smallest saving, in dollars an hour, by replacing nodes of a pool at that price and moving that many pods.
    pub fn least(&self, pool: usize, price: f64, pods: usize) -> f64 {
        let moves = self.settings.least_per_move * self.mean_pod[pool] * pods as f64;
        (price * self.settings.least_saving).max(moves)
    }

    /// Cost of a node beside its price, as packing has it.
    pub fn node_price(&self) -> NodePrice {
        NodePrice::new(self.settings.price_per_node)
    }

    /// Cost beside their price of `new` nodes, which cost `price` together, instead of `old` others; fewer of them give nothing
    /// back.
    pub fn node_prices(&self, price: f64, new: usize, old: usize) -> f64 {
        self.node_price().extra_for(price / new.max(1) as f64) * new.saturating_sub(old) as f64
    }

    /// True if deleting a node, which saves `price`, saves enough for each of its pods, which all move.
    pub fn is_worth_deleting(&self, node: NodeId, price: f64) -> bool {
        let (view, member) = (&self.nodes[node], &self.fleet.nodes[node]);
        let mean = view.pool.map_or(0.0, |pool| self.mean_pod[pool]);
        price >= self.settings.least_per_pod * mean * member.pods.len() as f64
    }
}
