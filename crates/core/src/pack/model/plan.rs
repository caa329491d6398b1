//! The answer of packing: nodes to launch, pods that fit on nodes that are there, and pods left over with the reasons.

use std::sync::Arc;

use serde::Serialize;

use super::numbers::float_of_count;
use crate::pack::explain::reason::Reason;
use crate::pack::option_price::MaxOptionPrice;
use crate::problem::{Policy, Problem};
use crate::requirements::NodeSelectorRequirement;
use crate::resources::Resources;

/// Settings of packing, beside those of the pools.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Worth of one node less, in dollars an hour: part of the objective of `cost`, not of the price.
    pub price_per_node: f64,
    /// Smallest number of instance types that a claim that may be spot keeps, where its pods allow.
    pub spot_types: usize,
    /// Smallest number of instance families of these types.
    pub spot_families: usize,
    /// Largest price of an option that is kept for its price, as a multiple of the cheapest option's.
    pub price_spread: f64,
    /// Largest price of any option, those kept for variety among them, as a multiple of the cheapest option's.
    pub max_option_price: MaxOptionPrice,
    /// Largest number of instance types that a claim names (spec core 3.10).
    pub most_types: usize,
    /// True if `ScheduleAnyway` spread over hosts with a `maxSkew` of ten or more bounds what a new node holds, as long as
    /// nothing is left over for it.
    pub soft_spread_on_new_nodes: bool,
    /// Policy that replaces those of all pools: for a comparison.
    pub policy: Option<Policy>,
    /// The bound on the work, in steps; by the problem's size where it is not given.
    pub most_steps: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            price_per_node: 0.02,
            spot_types: 15,
            spot_families: 5,
            price_spread: 1.25,
            max_option_price: MaxOptionPrice::default(),
            most_types: 600,
            soft_spread_on_new_nodes: true,
            policy: None,
            most_steps: None,
        }
    }
}

/// The answer of packing. Pods, pools, nodes and instance types are named by their index in the problem.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Packing {
    /// The nodes to launch.
    pub claims: Vec<PlannedClaim>,
    /// Existing nodes, in the problem's order, with the pods that they take.
    pub on_existing: Vec<(usize, Vec<usize>)>,
    /// Pods left over, with the reason of each.
    pub unscheduled: Vec<(usize, Arc<Reason>)>,
    /// Dollars an hour if each claim gets its cheapest option.
    pub total_price: f64,
    /// Dollars an hour if each claim gets the mean of its options.
    pub expected_price: f64,
    /// DaemonSets that do not count on nodes that they are meant for.
    pub daemons_not_counted: Vec<DaemonNotCounted>,
}

impl Packing {
    /// Sums anew what the claims cost. No claims cost 0: the standard library's sum of no numbers is -0, which people would read.
    pub fn sum_prices(&mut self) {
        let sum = |each: fn(&PlannedClaim) -> f64| self.claims.iter().fold(0.0, |sum, claim| sum + each(claim));
        (self.total_price, self.expected_price) = (sum(|claim| claim.price), sum(PlannedClaim::expected_price));
    }
}

/// A DaemonSet that does not count on nodes that it is meant for: nothing is kept free for its pods there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonNotCounted {
    /// Its index among the problem's.
    pub daemon: usize,
    /// Indices of the pools on whose nodes it does not count; empty if it counts in no pool.
    pub pools: Vec<usize>,
    /// The reason, as a sentence.
    pub why: String,
}

impl DaemonNotCounted {
    /// Says it in one sentence, with its pools and its reason.
    #[must_use]
    pub fn sentence(&self, problem: &Problem) -> String {
        let pod = &problem.daemon_pods[self.daemon];
        let pools: Vec<&str> = self.pools.iter().map(|pool| problem.node_pools[*pool].name.as_str()).collect();
        let where_ = match pools.as_slice() {
            [] => String::new(),
            [one] => format!(" on nodes of pool {one}"),
            all => format!(" on nodes of pools {}", all.join(", ")),
        };
        format!("DaemonSet {}/{} is not counted{where_}: {}", pod.namespace, pod.name, self.why)
    }
}

/// A node to launch.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedClaim {
    /// The pool it belongs to.
    pub pool: usize,
    /// The pods planned on it.
    pub pods: Vec<usize>,
    /// Requests of these pods and of its daemons, `pods` included.
    pub requests: Resources,
    /// All that the node has to be: the pool's requirements and labels, its pods', the instance types, and capacity
    /// type and zone as far as they are open.
    pub requirements: Vec<NodeSelectorRequirement>,
    /// True if `minValues` of its pool have been lowered in these.
    pub min_values_relaxed: bool,
    /// The instance types that it may be, cheapest first.
    pub options: Vec<LaunchOption>,
    /// Number of instance types that could carry the pods and are no options because they cost more than [`MaxOptionPrice`]
    /// allows, alone or on average, where variety wanted more options than there are; otherwise 0.
    pub too_dear: usize,
    /// The zone in which the first option is cheapest.
    pub cheapest_zone: String,
    /// The capacity type with which the first option is cheapest.
    pub cheapest_capacity_type: String,
    /// Dollars an hour of the first option there.
    pub price: f64,
}

impl PlannedClaim {
    #[must_use]
    pub fn cheapest_type(&self) -> Option<usize> {
        self.options.first().map(|option| option.instance_type)
    }

    /// Dollars an hour, if the cheapest offering of each option is equally likely.
    #[must_use]
    pub fn expected_price(&self) -> f64 {
        let sum: f64 = self.options.iter().map(|option| option.price).sum();
        if self.options.is_empty() { 0.0 } else { sum / float_of_count(self.options.len()) }
    }

    /// Ids of the capacity reservations of which it holds an instance; none if it is bought.
    pub fn reservations(&self) -> impl Iterator<Item = &str> {
        let pins = self.requirements.iter().filter(|one| one.key == crate::labels::CAPACITY_RESERVATION_ID);
        pins.flat_map(|pin| &pin.values).map(String::as_str)
    }
}

/// An instance type that a node may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LaunchOption {
    /// Its index in the problem.
    pub instance_type: usize,
    /// Dollars an hour of its cheapest available offering that agrees with the claim.
    pub price: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_claims_cost_nothing_and_not_less() {
        let mut packing = Packing { total_price: 3.0, ..Packing::default() };
        packing.sum_prices();
        assert_eq!(
            (format!("{:.4}", packing.total_price), format!("{}", packing.expected_price)),
            ("0.0000".into(), "0".into())
        );
    }
}
