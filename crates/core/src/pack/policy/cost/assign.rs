//! From patterns of shapes to nodes with pods of classes.

use smallvec::SmallVec;

use super::Pattern;
use super::shapes::{Shapes, half_of};
use crate::pack::model::context::Context;
use crate::pack::model::ids::NodeRulesId;
use crate::pack::model::item::Item;
use crate::pack::place::planned_node::PlannedNode;

/// Assigns a pattern's pods to the items of its shapes, which may make several planned nodes of one pattern. Pods that rules
/// for nodes keep apart stay with their item.
pub(super) fn assign_pattern(
    context: &Context<'_>,
    empty: &PlannedNode,
    shapes: &Shapes<'_>,
    items: &mut [Item<'_>],
    pattern: &Pattern,
    times: u32,
    planned_nodes: &mut Vec<(PlannedNode, u32)>,
) {
    let mut left = times;
    while left > 0 {
        let mut planned = empty.clone();
        let mut taken: Vec<(usize, u32)> = Vec::new();
        for (shape, count) in pattern {
            take_pods(context, &mut planned, &shapes.all[*shape].items, items, *count, &mut taken);
        }
        // Rules between pods let none of them in: what is left stays with its items, for another node.
        if taken.is_empty() {
            return;
        }
        // As long as no item runs out, the next node is the same.
        let again = taken.iter().map(|(at, count)| items[*at].left.count() / count).min().unwrap_or(0).min(left - 1);
        taken.iter().for_each(|(at, count)| items[*at].left.placed(count * again));
        left -= 1 + again;
        planned_nodes.push((planned, 1 + again));
    }
}

/// Takes `wanted` pods of a shape, those with most left first where rules tell them apart.
fn take_pods(
    context: &Context<'_>,
    planned: &mut PlannedNode,
    of_shape: &[usize],
    items: &mut [Item<'_>],
    mut wanted: u32,
    taken: &mut Vec<(usize, u32)>,
) {
    // With rules the order decides the number of nodes: items with most left come first, as they need the most nodes of their
    // own.
    let ruled = of_shape.iter().any(|at| context.topology.of_class[items[*at].class].node_rules != NodeRulesId::NONE);
    let mut order: Vec<usize> = of_shape.to_vec();
    if ruled {
        order.sort_by_key(|at| std::cmp::Reverse(items[*at].left));
    }
    // Each item gives no more than half its workload as long as there are others.
    let mut most: SmallVec<[u32; 8]> = order.iter().map(|at| half_of(context, items[*at].class)).collect();
    loop {
        let mut bound = false;
        for (at, most) in order.iter().copied().zip(&mut most) {
            let item = &mut items[at];
            let wish = wanted.min(item.left.count());
            // Taken less than wished: the second round may take more, where no other item filled the gap.
            bound |= wish > *most;
            let count = planned.tally.allows(context.node_rules(item.class), wish.min(*most));
            let count = planned.add_most(context, item, count);
            if count > 0 {
                item.left.placed(count);
                wanted -= count;
                *most -= count;
                match taken.iter_mut().find(|(own, _)| *own == at) {
                    Some((_, own)) => *own += count,
                    None => taken.push((at, count)),
                }
            }
            if wanted == 0 {
                return;
            }
        }
        if !bound {
            return;
        }
        // No other item is left that could share the node: better half a workload on it than a node half empty.
        most.fill(u32::MAX);
    }
}
