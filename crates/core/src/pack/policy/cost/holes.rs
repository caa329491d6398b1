//! Pods that a plan left over, put where planned nodes have room to spare, at no cost.

use super::shapes::half_of;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::InstanceTypeId;
use crate::pack::model::item::Item;
use crate::pack::model::numbers::count_of_amount;
use crate::pack::model::offers::Mask;
use crate::pack::model::options::varied_enough;
use crate::pack::place::planned_node::PlannedNode;

/// Largest number of looks at planned nodes: the bound on work.
const MOST_LOOKS: usize = 2_000_000;

/// Number of looks at holes that are one step of work.
const LOOKS_A_STEP: usize = 16;

/// Room to spare on the type that is cheapest for what a node holds.
struct Hole {
    planned: usize,
    cheapest: InstanceTypeId,
    price: f64,
    offering_bits: Mask,
    room: Amounts,
}

impl Hole {
    fn in_node(context: &Context<'_>, planned: &PlannedNode, at: usize) -> Option<Self> {
        let (cheapest, price) = cheapest(context, planned)?;
        let room = context
            .room(planned.kind(context), cheapest)
            .iter()
            .zip(&planned.requests)
            .map(|(have, taken)| have.saturating_sub(*taken));
        Some(Self { planned: at, cheapest, price, offering_bits: planned.offering_bits, room: room.collect() })
    }
}

/// The cheapest type that a node may be, and its price.
pub(crate) fn cheapest(context: &Context<'_>, planned: &PlannedNode) -> Option<(InstanceTypeId, f64)> {
    let bought = context.bought(planned.offering_bits);
    let first = bought.order.iter().find(|at| planned.types.has(**at))?;
    Some((*first, bought.price[*first]))
}

/// Puts pods left over on nodes planned once, as long as that makes none dearer and takes no needed choice away.
pub(super) fn fill(context: &Context<'_>, items: &mut [Item<'_>], planned_nodes: &mut [(PlannedNode, u32)]) {
    if items.iter().all(|item| item.left.is_none()) {
        return;
    }
    // A node that is planned several times would have to take the same pods each time.
    let single = planned_nodes.iter().enumerate().filter(|(_, (_, times))| *times == 1);
    let mut holes: Vec<Hole> = single.filter_map(|(at, (planned, _))| Hole::in_node(context, planned, at)).collect();
    let mut looks = 0;
    for item in items.iter_mut().filter(|item| !item.left.is_none()) {
        for hole in &mut holes {
            looks += 1;
            // The bound is on all items together: beyond it pods get nodes of their own, which is dearer and no
            // less right.
            if item.left.is_none() || looks > MOST_LOOKS || (looks.is_multiple_of(LOOKS_A_STEP) && !context.work(1)) {
                break;
            }
            let (planned, _) = &mut planned_nodes[hole.planned];
            let Some(grown) = grown(context, hole, planned, item) else { continue };
            *planned = grown;
            // The node may have become another type by what it took: its hole is read anew.
            if let Some(smaller) = Hole::in_node(context, planned, hole.planned) {
                *hole = smaller;
            }
        }
    }
}

/// The node with as many of the item's pods as it has room for; takes them off the item.
fn grown(context: &Context<'_>, hole: &Hole, planned: &PlannedNode, item: &mut Item<'_>) -> Option<PlannedNode> {
    let requests = &context.classes[item.class].requests;
    // Looked at first, as most holes are too small for most pods.
    let full = requests.iter().zip(&hole.room).any(|(asked, have)| asked > have);
    if full || hole.offering_bits & item.offering_bits == 0 || !item.selection.types.has(hole.cheapest) {
        return None;
    }
    let fits = requests.iter().zip(&hole.room).filter(|(asked, _)| **asked > 0).map(|(asked, have)| have / asked);
    let there: u32 = planned.shares.iter().filter(|share| share.class == item.class).map(|share| share.count).sum();
    // Filling a hole must not put more than half of a workload on one node either.
    let most = half_of(context, item.class).saturating_sub(there);
    let most = count_of_amount(fits.fold(i64::from(item.left.count().min(most)), i64::min));
    let count = planned.tally.allows(context.node_rules(item.class), most);
    if count == 0 {
        return None;
    }
    let mut grown = planned.clone();
    let good = grown.add(context, item, count)
        && cheapest(context, &grown).is_some_and(|(_, price)| price <= hole.price)
        && (varied_enough(context, &grown.types, grown.offering_bits)
            || !varied_enough(context, &planned.types, planned.offering_bits));
    good.then(|| {
        item.left.placed(count);
        grown
    })
}
