//! What packing answers: the nodes to launch, what fits on nodes that are there, and what is left over and why.

use std::sync::Arc;

use serde::Serialize;

use super::numbers::float_of_count;
use crate::pack::explain::reason::Reason;
use crate::pack::option_price::MaxOptionPrice;
use crate::problem::{Policy, Problem};
use crate::requirements::NodeSelectorRequirement;
use crate::resources::Resources;

/// How to pack, beside what the pools say themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What a node more is worth avoiding, in dollars an hour: part of the objective of `cost`, not of the price.
    pub price_per_node: f64,
    /// How many instance types a claim that may be spot keeps at least, where its pods allow.
    pub spot_types: usize,
    /// In how many families these are at least.
    pub spot_families: usize,
    /// How many times the cheapest option's price an option kept may cost.
    pub price_spread: f64,
    /// How many times the cheapest option's price any option may cost, those kept for variety among them.
    pub max_option_price: MaxOptionPrice,
    /// How many instance types a claim names at most (spec core 3.10).
    pub most_types: usize,
    /// Whether `ScheduleAnyway` spread over hosts with a `maxSkew` of ten or more bounds what a new node holds, as long as
    /// nothing is left over for it.
    pub soft_spread_on_new_nodes: bool,
    /// What to aim at in every pool, whatever the pools say: for a comparison.
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

/// The answer. Pods, pools, nodes and instance types are named by their index in the problem.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Packing {
    /// The nodes to launch.
    pub claims: Vec<PlannedClaim>,
    /// Existing nodes, in the problem's order, that take pods, and which.
    pub on_existing: Vec<(usize, Vec<usize>)>,
    /// Pods left over, and why.
    pub unscheduled: Vec<(usize, Arc<Reason>)>,
    /// Dollars an hour if each claim gets its cheapest option.
    pub total_price: f64,
    /// Dollars an hour if each claim gets the mean of its options.
    pub expected_price: f64,
    /// DaemonSets that do not count on nodes that they are meant for.
    pub daemons_not_counted: Vec<DaemonNotCounted>,
}

/// A DaemonSet that does not count on nodes that it is meant for: nothing is kept free for its pods there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonNotCounted {
    /// Its index among the problem's.
    pub daemon: usize,
    /// The pools, by index, on whose nodes it does not count; all of them where it is none.
    pub pools: Vec<usize>,
    /// Why.
    pub why: String,
}

impl DaemonNotCounted {
    /// As one sentence.
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
    /// What these and its daemons request, `pods` included.
    pub requests: Resources,
    /// All that the node has to be: the pool's requirements and labels, its pods', the instance types, and capacity
    /// type and zone as far as they are open.
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Whether `minValues` of its pool have been lowered in these.
    pub min_values_relaxed: bool,
    /// The instance types that it may be, cheapest first.
    pub options: Vec<LaunchOption>,
    /// How many instance types that could carry the pods are no options because they cost more than [`MaxOptionPrice`]
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
    /// The cheapest instance type.
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
}

/// An instance type that a node may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LaunchOption {
    /// Its index in the problem.
    pub instance_type: usize,
    /// Dollars an hour of its cheapest available offering that agrees with the claim.
    pub price: f64,
}
