//! `fewest-nodes`, Karpenter's rule: each pod goes to the planned node with the fewest pods that still takes it, and
//! only then is a node opened; a node stays open while any instance type holds what is on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::pack::limits::LimitsLeft;
use crate::pack::model::context::Context;
use crate::pack::model::ids::PoolId;
use crate::pack::model::item::Item;
use crate::pack::place::planned_node::PlannedNode;

/// Plans nodes of one pool for the items, in their order; takes what it places off their counts.
pub(crate) fn pack(
    context: &Context<'_>,
    pool: PoolId,
    items: &mut [Item<'_>],
    limits: &mut LimitsLeft,
) -> Vec<PlannedNode> {
    let mut planned_nodes: Vec<PlannedNode> = Vec::new();
    for item in items {
        // Rejections are for good, as nodes only tighten: a node that refuses leaves the class's queue.
        let mut queue: BinaryHeap<Reverse<(u32, usize)>> =
            planned_nodes.iter().enumerate().map(|(at, planned)| Reverse((planned.pods(), at))).collect();
        while !item.left.is_none() && context.work(1) {
            // The node with the fewest pods, and the oldest of equals.
            match queue.pop() {
                Some(Reverse((pods, at))) => {
                    if planned_nodes[at].add(context, item, 1) {
                        item.left.placed(1);
                        queue.push(Reverse((pods + 1, at)));
                    }
                }
                None => {
                    let Some(planned) = open(context, pool, item, limits) else { break };
                    item.left.placed(1);
                    queue.push(Reverse((1, planned_nodes.len())));
                    planned_nodes.push(planned);
                }
            }
        }
    }
    planned_nodes
}

fn open(context: &Context<'_>, pool: PoolId, item: &Item<'_>, limits: &mut LimitsLeft) -> Option<PlannedNode> {
    let mut planned = PlannedNode::new(context, pool, context.pools[pool].types.clone());
    limits.narrow_for(context, item, &mut planned);
    if !planned.add(context, item, 1) {
        return None;
    }
    // At its largest type, as it may still become that.
    limits.subtract(context.problem, planned.options());
    Some(planned)
}
