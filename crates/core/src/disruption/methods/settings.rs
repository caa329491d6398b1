//! Rules of consolidation: savings and bounds, with their defaults.

use jiff::SignedDuration;

use crate::pack::MaxOptionPrice;

/// The rules. Prices are dollars an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsolidationSettings {
    /// Smallest saving of a move, as a part of the price that it replaces. In `fewest-nodes` any saving is enough, as Karpenter
    /// has it.
    pub least_saving: f64,
    /// Smallest saving by replacing a node for each of its pods, as a part of the price of the pool's mean pod on the best mix
    /// of nodes. The 15 % alone would move every pod of a node for the last cent.
    pub least_per_move: f64,
    /// Smallest saving by deleting a node, whose pods then all move to others, for each of them, as a part of the same price. A
    /// saving lasts only as long as the pods are as they are.
    pub least_per_pod: f64,
    /// Time for which a mean pod's price has to be saved, for each pod of a move, before it is done: by what it saves an hour,
    /// over the time for which it could have been done ([`super::NodeState::spare`]). Zero where nothing is known of that, and
    /// for `plan`, for which no time passes.
    pub payback: SignedDuration,
    /// Worth of one node less, as packing has it.
    pub price_per_node: f64,
    /// Ceiling on the price of a replacement's options, as packing has it.
    pub max_option_price: MaxOptionPrice,
    /// Smallest age of a node that goes, but for an empty one.
    pub least_age: SignedDuration,
    /// Minimum time between two moves of a pod for a saving.
    pub rest: SignedDuration,
    /// Number of nodes that may still be replaced because prices differ alone: by one that is no smaller.
    pub price_moves: usize,
    /// True if spot nodes are replaced by cheaper spot nodes (gate `SpotToSpotConsolidation`).
    pub spot_to_spot: bool,
    /// Number of cheaper instance types that a single spot node's replacement has to have.
    pub spot_types: usize,
    /// True if nodes are replaced by several (gate `ManyToManyConsolidation`).
    pub many_to_many: bool,
    /// Largest number of nodes that one command replaces.
    pub most_candidates: usize,
    /// Number of waves in which a command's pods may go: so many times as many as their PodDisruptionBudget allows at once.
    pub waves: u32,
}

impl Default for ConsolidationSettings {
    fn default() -> Self {
        Self {
            least_saving: 0.15,
            least_per_move: 0.4,
            least_per_pod: 0.4,
            payback: SignedDuration::ZERO,
            price_per_node: 0.02,
            max_option_price: MaxOptionPrice::default(),
            least_age: SignedDuration::from_mins(10),
            rest: SignedDuration::from_hours(1),
            price_moves: 0,
            spot_to_spot: false,
            spot_types: 15,
            many_to_many: false,
            most_candidates: 100,
            waves: 1,
        }
    }
}

/// Usual part of a cluster's nodes that may be replaced within an hour because prices differ alone.
pub const PRICE_MOVES: f64 = 0.01;

impl ConsolidationSettings {
    /// Number of a cluster's `nodes` that may be replaced within an hour because prices differ alone: one in a hundred, rounded
    /// up.
    #[must_use]
    pub fn price_moves_of(nodes: usize) -> usize {
        Self::price_moves_within(nodes, PRICE_MOVES)
    }

    /// Number that is this part of `nodes`, from 0 to 1, rounded up.
    #[must_use]
    pub fn price_moves_within(nodes: usize, part: f64) -> usize {
        // Products such as 0.07 of 100 are a little above the whole number that is meant.
        (nodes as f64 * part - 1e-9).ceil().max(0.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_nodes_is_rounded_up_and_a_whole_number_stays() {
        let all = [(0, 0.01), (1, 0.01), (100, 0.01), (101, 0.01), (100, 0.07), (10, 0.0), (10, 1.0)];
        let moves = all.map(|(nodes, part)| ConsolidationSettings::price_moves_within(nodes, part));
        assert_eq!(moves, [0, 1, 1, 2, 7, 0, 10]);
    }
}
