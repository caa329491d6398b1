//! `fewest-nodes`, Karpenter's rule: each pod goes to the planned node with the fewest pods that still takes it, and
//! only then is a node opened; a node stays open while any instance type holds what is on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::pack::limits::Limits;
use crate::pack::model::bits::Bits;
use crate::pack::model::context::Context;
use crate::pack::model::item::Item;
use crate::pack::place::draft::Draft;

/// Plans nodes of one pool for the items, in their order; takes what it places off their counts.
pub(crate) fn pack(context: &Context<'_>, pool: usize, items: &mut [Item<'_>], limits: &mut Limits) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for item in items {
        // Rejections are for good, as nodes only tighten: a node that refuses leaves the class's queue.
        let mut queue: BinaryHeap<Reverse<(u32, usize)>> =
            drafts.iter().enumerate().map(|(at, draft)| Reverse((draft.pods(), at))).collect();
        while !item.left.is_none() && context.work(1) {
            match queue.pop() {
                Some(Reverse((pods, at))) => {
                    if drafts[at].add(context, item, 1) {
                        item.left.take(1);
                        queue.push(Reverse((pods + 1, at)));
                    }
                }
                None => {
                    let Some(draft) = open(context, pool, item, limits) else { break };
                    item.left.take(1);
                    queue.push(Reverse((1, drafts.len())));
                    drafts.push(draft);
                }
            }
        }
    }
    drafts
}

fn open(context: &Context<'_>, pool: usize, item: &Item<'_>, limits: &mut Limits) -> Option<Draft> {
    let mut types: Bits = context.pools[pool].types.clone();
    limits.keep(context.problem, &mut types);
    let mut draft = Draft::new(context, pool, types);
    if !draft.add(context, item, 1) {
        return None;
    }
    limits.take(context.problem, draft.types.iter());
    Some(draft)
}
