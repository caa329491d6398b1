//! Prices of the same pods planned otherwise: by other policies, and without spot capacity.

use std::fmt::Write as _;
use std::sync::Arc;

use dovetail_core::pack::{Options, Packing};
use dovetail_core::problem::Policy;
use dovetail_core::{Problem, problem::Pool};
use serde::Serialize;

use super::live::HOURS_OF_A_MONTH;
use crate::survive;
use crate::what_if::forbid_spot;

/// One way to plan the same pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Alternative {
    /// The way, in words.
    pub name: &'static str,
    pub nodes: usize,
    /// Dollars an hour of the new nodes, each at its cheapest option.
    pub hourly_price: f64,
    pub monthly_price: f64,
    /// Number of pods that stay pending.
    pub pending: usize,
}

impl Alternative {
    fn new(name: &'static str, packing: &Packing) -> Self {
        // A sum of none is -0.
        let hourly_price = packing.claims.iter().map(|claim| claim.price).fold(0.0, |sum, price| sum + price);
        let monthly_price = hourly_price * HOURS_OF_A_MONTH;
        let (nodes, pending) = (packing.claims.len(), packing.unscheduled.len());
        Self { name, nodes, hourly_price, monthly_price, pending }
    }
}

/// The plan as it is, first, and the same pods by each other policy and without spot capacity.
pub(super) fn alternatives(problem: &Arc<Problem>, packing: &Packing, options: &Options) -> Vec<Alternative> {
    let mut all = vec![Alternative::new("as planned", packing)];
    let mut try_with = |name, change: &dyn Fn(&mut Problem)| {
        let mut other = problem.clone();
        change(Arc::make_mut(&mut other));
        all.push(Alternative::new(name, &survive::solve(&other, options)));
    };
    let uses = |pools: &[Pool], policy| pools.iter().all(|pool| pool.policy == policy);
    if !uses(&problem.node_pools, Policy::Cost) {
        try_with("by the policy cost", &|other| set_policy(other, Policy::Cost));
    }
    if !uses(&problem.node_pools, Policy::FewestNodes) {
        try_with("by fewest nodes, Karpenter's rules", &|other| set_policy(other, Policy::FewestNodes));
    }
    let sells_spot = |one: &Arc<dovetail_core::InstanceType>| {
        one.offerings.iter().any(|offering| offering.capacity_type == dovetail_api::names::labels::SPOT)
    };
    if problem.instance_types.iter().any(sells_spot) {
        try_with("without spot", &forbid_spot);
    }
    all
}

fn set_policy(problem: &mut Problem, policy: Policy) {
    problem.node_pools.iter_mut().for_each(|pool| pool.policy = policy);
}

/// The alternatives as lines.
pub(super) fn lines(all: &[Alternative]) -> String {
    let mut text = String::from("what the new nodes cost, and would cost otherwise:\n");
    let width = all.iter().map(|one| one.name.len()).max().unwrap_or_default();
    for one in all {
        let Alternative { name, nodes, hourly_price, monthly_price, pending } = one;
        let waiting = if *pending > 0 { format!("; {pending} pod(s) pending") } else { String::new() };
        let _ = writeln!(
            text,
            "  {name:<width$}  {nodes:>5} node(s)  ${hourly_price:.4} an hour, ${monthly_price:.0} a month{waiting}"
        );
    }
    text
}
