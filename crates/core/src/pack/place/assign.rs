//! Choice of the pool for a class's pods, and nodes for pods that have to be together.

use super::planned_node::{Candidate, PlannedNode};
use crate::pack::filter::taints;
use crate::pack::limits::LimitsLeft;
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::{Class, ClassAlternative};
use crate::pack::model::context::{Context, Selection};
use crate::pack::model::ids::{ClassId, PoolId, TierId};
use crate::pack::model::item::{Item, PodsLeft};
use crate::pack::model::numbers::count_of_amount;
use crate::pack::model::offers::Mask;
use crate::pack::model::reserved::{Room, in_order};
use crate::problem::Policy;

/// Work to compare a pool with a class by one of its alternatives, in steps.
const ITEM: usize = 4;

/// A number of pods of a class, with the candidate that was chosen for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingPods {
    pub class: ClassId,
    pub candidate: Candidate,
    pub count: u32,
}

impl WaitingPods {
    /// One pod of a class.
    pub fn one(class: ClassId, candidate: Candidate) -> Self {
        Self { class, candidate, count: 1 }
    }
}

/// The first alternative of a class for which a pool has a node, and the first such pool; of one pool only, if given.
/// Where volumes can be had in several ways, the pool comes first.
pub(crate) fn assign<'c>(
    context: &'c Context<'_>,
    waiting: WaitingPods,
    room: Room<'_>,
    only: Option<PoolId>,
) -> Option<(PoolId, Item<'c>)> {
    first(context, waiting, room, only).map(|(pool, item, _)| (pool, item))
}

/// The first alternative and pool as in [`assign`], with the instance types that hold one of the pods.
pub(crate) fn first<'c>(
    context: &'c Context<'_>,
    waiting: WaitingPods,
    room: Room<'_>,
    only: Option<PoolId>,
) -> Option<(PoolId, Item<'c>, Bits)> {
    // A class of 500 pods is looked at as one pod here: a node that holds one holds one of each, and the policy finds out how
    // many it holds.
    let class = &context.classes[waiting.class];
    let alternatives = class.open_alternatives(waiting.candidate);
    let ways = context.volume_ways(waiting.class);
    let pools = || context.pools.ids().filter(|pool| only.is_none_or(|only| only == *pool));
    // A pod that has no place without its soft rules has none with them: they are not given up one after the other for that.
    let fits = |tier: &TierId| {
        let one = class.alternatives[*tier];
        pools().any(|pool| item(context, waiting, one, pool, room).is_some())
    };
    // A pod with ten preferences has eleven alternatives. If its bare requirements have no pool, all eleven would
    // be tried in vain.
    if waiting.candidate == Candidate::ANYWHERE && !class.hard.is_empty() && !class.hard.iter().any(fits) {
        return None;
    }
    // The order of the loops is the order of what matters: what the pod prefers, then the weight of the pool, then
    // which of its volumes it gets.
    alternatives.chunks(ways).find_map(|ways| heaviest(context, waiting, ways, room, only))
}

/// Smallest ratio by which an earlier pool of the same weight has to be dearer to lose to a cheaper one: the pods of a batch
/// rather share nodes.
const AS_CHEAP: f64 = 1.02;

/// The heaviest pool that has a node by one of some alternatives, and of those of one weight the cheapest: the names of pools
/// are no wish.
fn heaviest<'c>(
    context: &'c Context<'_>,
    waiting: WaitingPods,
    ways: &[ClassAlternative],
    room: Room<'_>,
    only: Option<PoolId>,
) -> Option<(PoolId, Item<'c>, Bits)> {
    let mut best: Option<(f64, (PoolId, Item<'c>, Bits))> = None;
    for pool in context.pools.ids().filter(|pool| only.is_none_or(|only| only == *pool)) {
        if best.as_ref().is_some_and(|(_, (known, ..))| context.weight(*known) != context.weight(pool)) {
            break;
        }
        let item = |one: &ClassAlternative| item(context, waiting, *one, pool, room);
        let Some((item, types)) = ways.iter().find_map(item) else { continue };
        if only.is_some() || !context.has_equals(pool) {
            return best.map(|(_, found)| found).or(Some((pool, item, types)));
        }
        let price = price_of_a_pod(context, waiting, pool, &item, &types);
        if best.as_ref().is_none_or(|(least, _)| price * AS_CHEAP < *least) {
            best = Some((price, (pool, item, types)));
        }
    }
    best.map(|(_, found)| found)
}

/// Number of types that are priced in one step of work.
const TYPES_A_STEP: usize = 8;

/// Lowest price of one of the pods, in dollars an hour, on nodes of a pool that hold nothing else.
fn price_of_a_pod(context: &Context<'_>, waiting: WaitingPods, pool: PoolId, item: &Item<'_>, types: &Bits) -> f64 {
    if !context.work(1 + types.count() / TYPES_A_STEP) {
        return f64::INFINITY;
    }
    let (kind, bought) = (item.kind(context, pool), context.bought(item.offering_bits));
    let requests = &context.classes[item.class].requests;
    let prices = types.iter().map(|at| {
        let room = context.room(kind, at).iter().zip(requests).filter(|(_, asked)| **asked > 0);
        let held = room.map(|(have, asked)| have / asked).min().unwrap_or(1);
        bought.price[at] / f64::from(count_of_amount(held).clamp(1, waiting.count.max(1)))
    });
    prices.fold(f64::INFINITY, f64::min)
}

impl Class {
    /// The alternatives that a candidate leaves: its own, or all.
    pub fn open_alternatives(&self, candidate: Candidate) -> &[ClassAlternative] {
        match candidate {
            Candidate::ANYWHERE => self.alternatives.as_slice(),
            Candidate { tier, .. } => self.alternatives.get(tier).map_or(&[], std::slice::from_ref),
        }
    }
}

/// A class's item for a pool by one of its alternatives, if it could get a node there, with the types that hold one of its
/// pods.
pub(crate) fn item<'c>(
    context: &'c Context<'_>,
    waiting: WaitingPods,
    ClassAlternative { set, forgiving }: ClassAlternative,
    pool: PoolId,
    room: Room<'_>,
) -> Option<(Item<'c>, Bits)> {
    if !context.work(ITEM + room.limits[pool].steps()) {
        return None;
    }
    let WaitingPods { class: id, candidate, count } = waiting;
    let class = &context.classes[id];
    let keys = context.topology.of_class[id].keys;
    let example = class.example(context.problem);
    if example.existing_only {
        return None;
    }
    // `ANYWHERE` is in no list: no bin, and all offering bits.
    let bin = context.bins.for_keys(keys).get(candidate.bin);
    let mask = bin.map_or(!0, |bin| bin.mask);
    let set = context.bins.narrowed(set, keys, candidate.bin);
    let view = &context.pools[pool];
    let of = &context.problem.node_pools[view.index];
    // The cheapest test first: taints need no look at any type.
    if taints::untolerated(&of.taints, &example.tolerations, forgiving).is_some() {
        return None;
    }
    let selection = context.selection(set, pool)?;
    let offering_bits = selection.offering_bits & mask & room.open;
    // Reserved capacity is tried by itself first: it is paid for already.
    in_order(&context.offers, offering_bits).find_map(|offering_bits| {
        let limits = &room.limits[pool];
        let (mut types, offering_bits) = open_types(context, (class, selection), (pool, limits), offering_bits);
        limits.retain_within(context.problem, &mut types, offering_bits);
        let good =
            !types.is_empty() && crate::pack::model::options::enough_values(context, pool, &types, offering_bits);
        let left = PodsLeft::new(count);
        good.then_some((Item { class: id, set, selection, candidate, offering_bits, left }, types))
    })
}

/// The types of a selection that hold a pod of the class, and the offering bits by which they are bought: those that are worth it,
/// and that quotas leave them.
fn open_types(
    context: &Context<'_>,
    (class, selection): (&Class, &Selection),
    (pool, limits): (PoolId, &LimitsLeft),
    mut offering_bits: Mask,
) -> (Bits, Mask) {
    let view = &context.pools[pool];
    let policy = context.problem.node_pools[view.index].policy;
    // Spot that costs as much as on demand can only lose. Other policies keep it, as Karpenter does, and `minValues` may
    // need it.
    let only_worthwhile = policy == Policy::Cost && view.min_values.is_empty();
    let of = |offering_bits: Mask| {
        let offering_bits = if only_worthwhile { context.offers.worthwhile(offering_bits) } else { offering_bits };
        let mut types: Bits = selection.types.clone();
        if offering_bits != selection.offering_bits {
            // The selection has the types of all its offering bits; of fewer bits fewer types can be had.
            types.and(&context.bought(offering_bits).types);
        }
        context.fitting(context.kind(pool, selection.absent, offering_bits), &class.first, &mut types);
        (types, offering_bits)
    };
    let (mut types, mut open) = of(offering_bits);
    // Bits are closed by the types that are left, so that there may be more to close; nearly always there is none.
    while let closed @ 1.. = limits.closed(&types, open) {
        offering_bits &= !closed;
        (types, open) = of(offering_bits);
    }
    (types, open)
}

/// Plans nodes for pods that have to be on a node with others.
pub(crate) struct Together<'c, 'a> {
    context: &'c Context<'a>,
    room: Room<'c>,
}

impl<'c, 'a> Together<'c, 'a> {
    pub fn new(context: &'c Context<'a>, room: Room<'c>) -> Self {
        Self { context, room }
    }

    /// A node with the first pod of a group, and one that needs it.
    pub fn open(&self, first: WaitingPods, second: Option<WaitingPods>) -> Option<PlannedNode> {
        let context = self.context;
        // The pools in order, as for any other pod: a lighter one is taken only where no heavier one holds both.
        context.pools.ids().find_map(|pool| {
            let mut planned = PlannedNode::new(context, pool, context.pools[pool].types.clone());
            let first = self.item(first, pool)?;
            self.room.limits[pool].narrow_for(context, &first, &mut planned);
            let with_second = |planned: &mut PlannedNode| match second {
                Some(second) => self.item(second, pool).is_some_and(|second| planned.add(context, &second, 1)),
                None => true,
            };
            (planned.open(context, &first) && with_second(&mut planned)).then_some(planned)
        })
    }

    /// Adds as many of a class as the node takes, those apart that are on it.
    pub fn add(&self, planned: &mut PlannedNode, waiting: WaitingPods) {
        // Those on the node are still counted as waiting: they are assigned when it is admitted.
        let own = (waiting.class, waiting.candidate);
        let there = planned.shares.iter().filter(|share| (share.class, share.candidate) == own);
        let there: u32 = there.map(|share| share.count).sum();
        let Some(item) = self.item(waiting, planned.pool) else { return };
        let rules = self.context.node_rules(item.class);
        let mut most = planned.tally.allows(rules, waiting.count.saturating_sub(there));
        // Each step is the largest that still fits, halved until nothing does.
        let mut step = most;
        while step > 0 {
            step = step.min(most);
            if planned.add(self.context, &item, step) {
                most -= step;
            } else {
                step /= 2;
            }
            if most == 0 {
                break;
            }
        }
    }

    fn item(&self, waiting: WaitingPods, pool: PoolId) -> Option<Item<'c>> {
        assign(self.context, waiting, self.room, Some(pool)).map(|(_, item)| item)
    }
}
