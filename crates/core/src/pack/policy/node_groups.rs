//! `node-groups`, Cluster Autoscaler's way, for comparison: a pool is a group of nodes of fixed types, and whichever of
//! them a node becomes has to hold what is planned on it. Pods go to the first node that takes them, the largest first; a
//! group grows up to its limit of nodes and never shrinks below its least.

use crate::pack::limits::LimitsLeft;
use crate::pack::model::context::Context;
use crate::pack::model::ids::PoolId;
use crate::pack::model::item::Item;
use crate::pack::model::numbers::len_of;
use crate::pack::model::plan::PlannedClaim;
use crate::pack::place::planned_node::PlannedNode;
use crate::problem::Policy;

/// Plans nodes of one group for the items, in their order; takes what it places off their counts.
pub(crate) fn pack(
    context: &Context<'_>,
    pool: PoolId,
    items: &mut [Item<'_>],
    limits: &mut LimitsLeft,
) -> Vec<PlannedNode> {
    let mut planned_nodes: Vec<PlannedNode> = Vec::new();
    for item in items {
        // First fit, in the order in which the nodes came: Cluster Autoscaler estimates by the same.
        for planned in &mut planned_nodes {
            fill(context, planned, item);
        }
        while !item.left.is_none() {
            let mut planned = PlannedNode::new(context, pool, context.pools[pool].types.clone());
            limits.narrow_for(context, item, &mut planned);
            fill(context, &mut planned, item);
            if planned.pods() == 0 {
                break;
            }
            limits.subtract(context.problem, planned.options());
            planned_nodes.push(planned);
        }
    }
    planned_nodes
}

/// Adds as many of an item as the node takes.
fn fill(context: &Context<'_>, planned: &mut PlannedNode, item: &mut Item<'_>) {
    let mut step = planned.tally.allows(context.node_rules(item.class), item.left.count());
    while step > 0 && !item.left.is_none() {
        step = step.min(item.left.count());
        if planned.add(context, item, step) {
            item.left.placed(step);
        } else {
            step /= 2;
        }
    }
}

/// Largest number of nodes by which a group is filled up.
const MOST_MISSING: usize = 1000;

/// Empty nodes of groups that have fewer than their least.
pub(crate) fn missing(context: &Context<'_>, claims: &[PlannedClaim]) -> Vec<PlannedNode> {
    let mut planned_nodes = Vec::new();
    for (at, view) in context.pools.enumerate() {
        let pool = &context.problem.node_pools[view.index];
        if pool.policy != Policy::NodeGroups || view.types.is_empty() {
            continue;
        }
        let there = claims.iter().filter(|claim| claim.pool == view.index).count();
        let missing = len_of(pool.min_nodes).saturating_sub(there).min(MOST_MISSING);
        let mut empty = PlannedNode::new(context, at, view.types.clone());
        // A group is bought as it is written; reservations are for pods.
        empty.offering_bits &= !context.offers.reserved;
        planned_nodes.extend(std::iter::repeat_n(empty, missing));
    }
    planned_nodes
}
