//! Nodes that one pool gets for the pods that it takes: by its policy, and fewer where a limit leaves too few.

use super::{cost, fewest, node_groups};
use crate::pack::limits::LimitsLeft;
use crate::pack::model::context::Context;
use crate::pack::model::ids::PoolId;
use crate::pack::model::item::Item;
use crate::pack::model::numbers::float_of_total;
use crate::pack::place::planned_node::PlannedNode;
use crate::problem::Policy;

pub(in crate::pack) fn policy_of(context: &Context<'_>, pool: PoolId) -> Policy {
    context.problem.node_pools[context.pools[pool].index].policy
}

/// Nodes of one pool for the items, by the pool's policy, with the number of each.
pub(in crate::pack) fn nodes(
    context: &Context<'_>,
    pool: PoolId,
    items: &mut [Item<'_>],
    limits: &mut LimitsLeft,
) -> Vec<(PlannedNode, u32)> {
    match policy_of(context, pool) {
        Policy::FewestNodes => once_each(fewest::pack(context, pool, items, limits)),
        Policy::NodeGroups => once_each(node_groups::pack(context, pool, items, limits)),
        Policy::Cost => cheapest(context, pool, items, limits),
    }
}

/// Surcharges on a node, as multiples of the mean node's price, that are tried where a limit leaves too few nodes for the
/// cheapest.
const DEARER_NODES: [f64; 3] = [1.0, 6.0, 40.0];
/// Number of times that the interval between too many nodes and few enough is halved.
const HALVINGS: usize = 2;

/// The cheapest nodes for the items; where a limit leaves too few nodes for those, the cheapest found of fewer.
fn cheapest(context: &Context<'_>, pool: PoolId, items: &[Item<'_>], limits: &LimitsLeft) -> Vec<(PlannedNode, u32)> {
    let base = context.options.price_per_node;
    let plan = |node_price: f64, varied: bool| {
        let node_price = cost::NodePrice::new(base).and(node_price - base);
        cost::pack(context, pool, limits, &mut items.to_vec(), cost::Aims { node_price, varied })
    };
    let planned = plan(base, true);
    let Some(most) = limits.nodes() else { return planned };
    let nodes = |planned: &[(PlannedNode, u32)]| planned.iter().map(|(_, times)| u64::from(*times)).sum::<u64>();
    // No limit binds, or none can be met.
    if most == 0 || nodes(&planned) <= most {
        return planned;
    }
    let pods =
        |planned: &[(PlannedNode, u32)]| planned.iter().map(|(planned, times)| planned.pods() * times).sum::<u32>();
    let worth = |planned: &[(PlannedNode, u32)]| (std::cmp::Reverse(pods(planned)), cost::price(context, planned));
    let mean = (cost::price(context, &planned) / float_of_total(nodes(&planned))).max(base);
    // The fewest nodes are always an answer: whatever is found by price has to place as many pods for less.
    let mut best = once_each(fewest::pack(context, pool, &mut items.to_vec(), &mut limits.clone()));
    let mut few = |node_price: f64, varied: bool| {
        let planned = plan(node_price, varied);
        let few = nodes(&planned) <= most;
        if few && worth(&planned) < worth(&best) {
            best = planned;
        }
        few
    };
    // Choice among types is given up before pods are.
    for varied in [true, false] {
        // With the choice given up, the price of a node itself is tried first: it may be few enough already.
        let first = if varied { None } else { Some(0.0) };
        let prices = first.into_iter().chain(DEARER_NODES).map(|factor| base + factor * mean);
        let mut too_low = base;
        for price in prices {
            // Say 12 nodes are planned and 9 are allowed. At one mean node more a node it is 10, at six more it is 8: a price between them that gives 9 is looked for by halving twice.
            if !few(price, varied) {
                too_low = price;
                continue;
            }
            let mut enough = price;
            for _ in 0..if price > base { HALVINGS } else { 0 } {
                let middle = f64::midpoint(too_low, enough);
                *(if few(middle, varied) { &mut enough } else { &mut too_low }) = middle;
            }
            return best;
        }
    }
    best
}

fn once_each(planned_nodes: Vec<PlannedNode>) -> Vec<(PlannedNode, u32)> {
    planned_nodes.into_iter().map(|planned| (planned, 1)).collect()
}
