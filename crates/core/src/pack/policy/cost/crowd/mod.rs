//! Packing of very many shapes of few pods each: too many for patterns of shapes, and each too rare for any pattern to come
//! whole.
//!
//! Pods that may be on the same nodes and ask for cpu and memory in about the same proportion are a bundle. A linear program
//! that cuts bundles at will finds the numbers of nodes of each type, and the parts of bundles that go to them ([`fluid`]).
//! Where a node may hold only a few of a workload's pods, and these need a good part of all nodes, they are bundles of their
//! own, of which the program puts no more on a node than that. Nodes are then filled with the pods themselves, large ones
//! first, so that all resources run out together ([`fill`]). Pods that whole nodes leave over are planned by their worth in
//! that program.

mod bundles;
mod fill;
mod fluid;
mod knapsack;
mod meant;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::candidates::TypeCandidates;
use super::hope::Hope;
use super::{Aims, holes};
use crate::pack::limits::LimitsLeft;
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{IndexVec, PoolId};
use crate::pack::model::item::Item;
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::rounded_down;
use crate::pack::place::planned_node::PlannedNode;
use crate::pack::policy::fewest;
use bundles::{BundleEntry, Bundles};
use fill::{BundleFiller, Filled};
use fluid::{Flow, Mix};
use meant::Meant;

/// Largest missing part of a node at which a part of one is planned as a whole one: what it leaves empty, pods left over may
/// have.
const NEARLY_WHOLE: f64 = 0.07;

/// Smallest worth of a part of a node's pods, for its cost, at which it is planned as the program has it.
const WORTH_KEEPING: f64 = 0.9;

/// Ratio up to which another node may be hoped to be worth more than one that is taken for what is left.
const AS_GOOD: f64 = 1.004;

/// Number of bundles of the rough program that estimates the number of nodes, where pods may be crowded.
const ROUGHLY: usize = 32;

/// Bound on the further programs for crowded pods that whole nodes leave over, and number of their bundles: each of these pods
/// needs a node that has none of its kind, and the pods left show best which.
const MOST_AGAIN: usize = 2;
const AGAIN: usize = 64;

/// Nodes that are planned, by kind and types.
#[derive(Clone, Copy)]
pub(super) struct OpenTypes<'o> {
    pub kind: NodeKind,
    /// The types that limits leave.
    pub types: &'o Bits,
}

/// Plans nodes of one pool for some of the items; takes what it places off their counts.
pub(super) fn pack(
    context: &Context<'_>,
    open: OpenTypes<'_>,
    limits: &LimitsLeft,
    items: &mut [Item<'_>],
    which: &[usize],
    aims: Aims,
) -> Vec<(PlannedNode, u32)> {
    let mut planned_nodes = Vec::new();
    let mut again = 0;
    loop {
        // Later programs have little left, and few bundles tell it apart.
        let most = if again == 0 { bundles::MOST } else { AGAIN };
        let program = Program::for_items(context, open, items, which, most, aims);
        let last = again == MOST_AGAIN || !program.is_crowded();
        program.carry_out(context, open, items, last, &mut planned_nodes);
        if last {
            break;
        }
        again += 1;
    }
    planned_nodes.extend(what_no_bundle_holds(context, open.kind.pool, items, which, limits));
    planned_nodes
}

/// Bundles, and the best mix of nodes for them.
struct Program<'c> {
    bundles: Bundles<'c>,
    candidates: TypeCandidates,
    rooms: Vec<Amounts>,
    flow: Flow,
}

impl<'c> Program<'c> {
    /// The program for the pods of some items that are left, in at most `most` bundles. Crowded pods are found by a rough one.
    fn for_items(
        context: &'c Context<'_>,
        open: OpenTypes<'_>,
        items: &[Item<'_>],
        which: &[usize],
        most: usize,
        aims: Aims,
    ) -> Self {
        let left: Vec<usize> = which.iter().copied().filter(|at| !items[*at].left.is_none()).collect();
        let mut entries = bundles::entries(context, items, &left);
        // A rough program first: the number of nodes decides if 20 pods that may not share one are many.
        if entries.iter().any(|entry| entry.nodes() >= bundles::MANY_NODES) {
            let mut rough = Self::with(context, open, items, entries, ROUGHLY, aims);
            rough.bundles.find_crowded(&rough.flow, &rough.candidates);
            entries = rough.bundles.entries;
        }
        Self::with(context, open, items, entries, most, aims)
    }

    fn with(
        context: &'c Context<'_>,
        open: OpenTypes<'_>,
        items: &[Item<'_>],
        entries: Vec<BundleEntry<'c>>,
        most: usize,
        aims: Aims,
    ) -> Self {
        let mut bundles = Bundles::from_items(context, open.types, items, entries, most);
        let candidates = TypeCandidates::for_kind(context, open.kind, &bundles.shapes(), aims);
        let room = |candidate| fill::varied_room(context, open.kind, candidate, candidates.aims, &bundles);
        let rooms: Vec<Amounts> = candidates.all.iter().map(room).collect();
        // The room and not the node: what a filling may use so that a spot node keeps its choice.
        let flow = fluid::best(context, &bundles, &candidates, &rooms);
        bundles.set_values(&flow);
        Self { bundles, candidates, rooms, flow }
    }
}

impl Program<'_> {
    fn is_crowded(&self) -> bool {
        self.bundles.all.iter().any(|bundle| bundle.most.is_some())
    }

    /// Fills the nodes that it has, as many as come whole, and with `all` those for the rest; takes their pods off the items'
    /// counts.
    fn carry_out(
        self,
        context: &Context<'_>,
        open: OpenTypes<'_>,
        items: &mut [Item<'_>],
        all: bool,
        planned_nodes: &mut Vec<(PlannedNode, u32)>,
    ) {
        let Self { bundles, candidates, rooms, flow } = self;
        let mut filler = BundleFiller::new(context, open, &candidates, &rooms, items, bundles);
        let mut parts = Vec::new();
        for mix in flow.mixes {
            let candidate = mix.candidate;
            if let Some(left) = whole_nodes(&mut filler, mix, planned_nodes) {
                parts.push((candidate, left));
            }
        }
        // Before the last program, crowded pods are left for the next one: parts of nodes and the rest would
        // scatter them.
        if all {
            for (candidate, mut left) in parts {
                let Some(filled) = filler.fill(candidate, Some(&mut left)) else { continue };
                // Say half a node is left of the program, and the pods for it are worth 0.6 of its price: better
                // that they go where there is room, or on a smaller node.
                if worth(context, &filled, candidates.aims) < WORTH_KEEPING {
                    filler.put_back(filled);
                } else {
                    planned_nodes.push((filler.accept(filled), 1));
                }
            }
            the_rest(context, &mut filler, &candidates, planned_nodes);
        }
        filler.taken().for_each(|(item, count)| items[item].left.placed(count));
    }
}

/// Nodes for pods that are left: no type was worth a look for their bundle.
fn what_no_bundle_holds(
    context: &Context<'_>,
    pool: PoolId,
    items: &mut [Item<'_>],
    which: &[usize],
    limits: &LimitsLeft,
) -> Vec<(PlannedNode, u32)> {
    let left: Vec<usize> = which.iter().copied().filter(|at| !items[*at].left.is_none()).collect();
    let mut some: Vec<Item<'_>> = left.iter().map(|at| items[*at].clone()).collect();
    // Few pods, of which no candidate knew: the plain policy is good enough, and needs no prices.
    let planned = fewest::pack(context, pool, &mut some, &mut limits.clone());
    left.into_iter().zip(some).for_each(|(at, item)| items[at] = item);
    planned.into_iter().map(|planned| (planned, 1)).collect()
}

/// Plans the nodes of one type that the program has, as many as come whole, with the parts of bundles that are meant for them.
/// Returns the parts that are left for a part of a node.
fn whole_nodes(
    filler: &mut BundleFiller<'_, '_, '_>,
    mix: Mix,
    planned_nodes: &mut Vec<(PlannedNode, u32)>,
) -> Option<Meant> {
    let Mix { candidate, nodes, quota } = mix;
    let mut meant = Meant { node: IndexVec::from_elem(0.0, quota.len()), all: quota.clone() };
    // Say the program has 3.95 nodes: four are filled, and the fourth has some room for what is left over.
    for _ in 0..rounded_down(nodes + NEARLY_WHOLE) {
        // Parts that the last node did not take stay meant for the next.
        meant.node.iter_mut().zip(&quota).for_each(|(own, all)| *own += all / nodes);
        let filled = filler.fill(candidate, Some(&mut meant))?;
        planned_nodes.push((filler.accept(filled), 1));
    }
    meant.node.clone_from(&meant.all);
    Some(meant)
}

/// Plans the pods that are left: again and again the node that is worth most for its cost.
fn the_rest(
    context: &Context<'_>,
    filler: &mut BundleFiller<'_, '_, '_>,
    candidates: &TypeCandidates,
    planned_nodes: &mut Vec<(PlannedNode, u32)>,
) {
    let all = 0..candidates.all.len();
    let mut hopes: BinaryHeap<(Hope, Reverse<usize>)> = all.map(|at| (Hope(f64::INFINITY), Reverse(at))).collect();
    while let Some((_, Reverse(at))) = hopes.pop() {
        let Some(filled) = filler.fill(at, None) else { continue };
        let ratio = worth(context, &filled, candidates.aims);
        // Filled again, it is worth less than it was. If another may now be better, its pods go back and that one
        // has its turn.
        if hopes.peek().is_some_and(|(next, _)| next.0 > ratio * AS_GOOD) {
            filler.put_back(filled);
        } else {
            planned_nodes.push((filler.accept(filled), 1));
        }
        hopes.push((Hope(ratio), Reverse(at)));
    }
}

/// Worth of a node's pods divided by its cost.
fn worth(context: &Context<'_>, filled: &Filled, aims: Aims) -> f64 {
    let price = holes::cheapest(context, &filled.planned).map_or(f64::INFINITY, |(_, price)| price);
    filled.value / aims.node_price.with(price).max(f64::MIN_POSITIVE)
}
