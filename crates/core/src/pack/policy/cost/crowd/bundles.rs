//! Bundles: pods that may be on the same nodes and ask for about the same proportion of cpu and memory.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::super::candidates::TypeCandidates;
use super::super::shapes::{Shape, Shapes, half_of};
use super::fluid::Flow;
use crate::pack::filter::topology::node_rules::Tally;
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{BundleId, IndexVec, InstanceTypeId, JointId, ShapeId};
use crate::pack::model::item::Item;
use crate::pack::model::numbers::float;
use crate::pack::model::offers::Mask;

/// Largest number of bundles, if there are not more kinds.
pub(super) const MOST: usize = 160;

/// Largest number of bundles for each kind of pods.
///
/// More tell pods apart better, but the program needs as many patterns as there are bundles, and patterns of three bundles
/// each: it ends its rounds before it has found them. Ten thousand jobs of 5,000 shapes, all of one kind, end at 603.7 $/h with
/// 32 bundles after 50 rounds, and at 660 with 160 after the 60 that there are at most.
const MOST_OF_A_KIND: usize = 32;

/// Smallest factor between a bundle's pods for which it is cut.
const ALIKE: f64 = 1.05;

/// Weight of a difference in size beside one in proportion.
const SIZE_COUNTS: f64 = 0.25;

/// Weight of a difference in the number of nodes that crowded pods need, beside one in proportion.
const NODES_COUNT: f64 = 0.25;

/// Bounds from which pods are crowded: the number of nodes that they need at least, as each may hold few of them, and the part
/// of the nodes that they could be on which that number exceeds.
pub(super) const MANY_NODES: u32 = 8;
const GOOD_PART: f64 = 0.25;

/// The pods of one item as bundles count them.
#[derive(Debug, Clone)]
pub(super) struct BundleEntry<'c> {
    pub item: usize,
    pub requests: &'c Amounts,
    /// Requests of one pod, as a part of all that is asked.
    pub weight: f64,
    /// The logarithm of its cpu over its memory, each as a part of all that is asked.
    proportion: f64,
    pub count: u32,
    pub left: u32,
    /// Largest number that one node should hold.
    pub half: u32,
    /// Largest number that one node may hold by their own rules.
    pub cap: u32,
    /// True if its pods need a good part of the nodes that they could be on, as each may hold few: they get bundles of their
    /// own.
    crowded: bool,
}

impl BundleEntry<'_> {
    /// Smallest number of nodes that the pods left need.
    pub fn nodes(&self) -> u32 {
        self.left.div_ceil(self.cap.max(1))
    }
}

/// The nodes that pods may be on.
struct Kind {
    types: Bits,
    offering_bits: Mask,
    joint: JointId,
}

/// Pods that are planned alike.
#[derive(Debug, Clone)]
pub(super) struct Bundle {
    types: Bits,
    offering_bits: Mask,
    joint: JointId,
    /// Its entries, the largest first.
    pub entries: Vec<usize>,
    /// Requests of all its pods.
    pub total: Vec<f64>,
    /// The most that one pod asks for of each resource.
    pub largest: Amounts,
    /// Smallest amount that a pod asks for of each resource, divided by its weight.
    pub least: Vec<f64>,
    pub weight: f64,
    /// Worth of all its pods, in dollars an hour.
    pub value: f64,
    /// The part of it that one node may hold by the rules of its pods, if these are crowded: its entries then come by the
    /// nodes that they need, the most first.
    pub most: Option<f64>,
}

impl BundleId {
    /// The bundle that a shape of [`Bundles::shapes`] stands for.
    pub fn of_shape(shape: ShapeId) -> Self {
        Self::from(shape.index())
    }
}

#[derive(Debug)]
pub(super) struct Bundles<'c> {
    pub entries: Vec<BundleEntry<'c>>,
    pub all: IndexVec<BundleId, Bundle>,
}

impl<'c> Bundles<'c> {
    /// Bundles of the entries, at most `most` if there are not more kinds.
    pub fn from_items(
        context: &'c Context<'_>,
        open: &Bits,
        items: &[Item<'_>],
        entries: Vec<BundleEntry<'c>>,
        most: usize,
    ) -> Self {
        let mut kinds: IndexMap<(&Bits, Mask, JointId, bool), Vec<usize>, FxBuildHasher> = IndexMap::default();
        for (at, entry) in entries.iter().enumerate() {
            let item = &items[entry.item];
            // Pods of one kind may be on the same nodes. Bundles never mix kinds, so every pod of a bundle may be
            // wherever its bundle is.
            let kind = (&item.selection.types, item.offering_bits, item.selection.joint, entry.crowded);
            kinds.entry(kind).or_default().push(at);
        }
        let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
        for (kind, members) in kinds.values().enumerate() {
            parts.push((kind, members.clone()));
        }
        cut(&entries, &mut parts, most.min(kinds.len() * MOST_OF_A_KIND));
        let bundle = |(kind, members): (usize, Vec<usize>)| {
            let item = &items[entries[kinds[kind][0]].item];
            let mut types = item.selection.types.clone();
            types.and(open);
            if item.offering_bits != item.selection.offering_bits {
                types.and(&context.bought(item.offering_bits).types);
            }
            let kind = Kind { types, offering_bits: item.offering_bits, joint: item.selection.joint };
            Bundle::from_items(context, &entries, members, kind)
        };
        let all = parts.into_iter().map(bundle).collect();
        Self { entries, all }
    }

    /// The bundles as shapes, each as large as its largest pod.
    pub fn shapes(&self) -> Shapes<'static> {
        let shape = |bundle: &Bundle| Shape {
            requests: bundle.largest.clone(),
            types: bundle.types.clone(),
            offering_bits: bundle.offering_bits,
            joint: bundle.joint,
            count: bundle.entries.iter().map(|at| self.entries[*at].count).sum(),
            cap: u32::MAX,
            half: u32::MAX,
            rules: None,
            items: vec![],
        };
        Shapes { all: self.all.iter().map(shape).collect() }
    }

    /// Finds the pods of which a node may hold so few that they need a good part of the nodes that they could be on, by a
    /// mix of nodes that does not know of that.
    pub fn find_crowded(&mut self, flow: &Flow, candidates: &TypeCandidates) {
        let mut nodes: IndexVec<BundleId, f64> = IndexVec::from_elem(0.0, self.all.len());
        for mix in &flow.mixes {
            let carried = candidates.all[mix.candidate].shapes.iter();
            carried.for_each(|shape| nodes[BundleId::of_shape(*shape)] += mix.nodes);
        }
        for (bundle, nodes) in self.all.iter().zip(nodes) {
            for at in &bundle.entries {
                let entry = &mut self.entries[*at];
                // Say 40 pods may be two on a node: they need 20 nodes. Of 30 nodes that is a lot, and they get a
                // bundle of their own; of 300 they find room anywhere.
                entry.crowded = entry.nodes() >= MANY_NODES && f64::from(entry.nodes()) > nodes * GOOD_PART;
            }
        }
    }

    /// Sets the worth of each bundle by the program.
    pub fn set_values(&mut self, flow: &Flow) {
        self.all.iter_mut().zip(&flow.values).for_each(|(bundle, value)| bundle.value = *value);
    }

    /// The types that every bundle may be on that may be on this one.
    pub fn types_like(&self, at: InstanceTypeId) -> Option<Bits> {
        let mut with = self.all.iter().map(|bundle| &bundle.types).filter(|types| types.has(at));
        let mut types = with.next()?.clone();
        with.for_each(|more| types.and(more));
        Some(types)
    }
}

/// True for resources by which pods are told apart: all but the count of pods.
pub(super) fn differs_by_pod(resource: usize) -> bool {
    resource != 2
}

/// The entries of the items `which`.
pub(super) fn entries<'c>(context: &'c Context<'_>, items: &[Item<'_>], which: &[usize]) -> Vec<BundleEntry<'c>> {
    let mut all = vec![0.0; context.names.0.len()];
    for item in which.iter().map(|at| &items[*at]) {
        let requests = &context.classes[item.class].requests;
        let count = f64::from(item.left.count());
        all.iter_mut().zip(requests).for_each(|(sum, asked)| *sum += float(*asked) * count);
    }
    let part = |requests: &Amounts, at: usize| if all[at] > 0.0 { float(requests[at]) / all[at] } else { 0.0 };
    let entry = |at: &usize| {
        let item = &items[*at];
        let requests = &context.classes[item.class].requests;
        let asked: f64 = (0..all.len()).filter(|at| differs_by_pod(*at)).map(|at| part(requests, at)).sum();
        // Pods count a little: those that ask for nothing else have to be somewhere.
        let weight = asked + part(requests, 2) * 1e-3;
        // A hundredth of the weight on both sides, as a pod may ask for no memory at all. The logarithm makes twice
        // and half as much equally far.
        let proportion = ((part(requests, 0) + weight * 0.01) / (part(requests, 1) + weight * 0.01)).ln();
        let count = item.left.count();
        let half = half_of(context, item.class);
        let cap = Tally::default().opens(context.node_rules(item.class), half);
        BundleEntry { item: *at, requests, weight, proportion, count, left: count, half, cap, crowded: false }
    };
    which.iter().map(entry).collect()
}

/// Cuts the parts that differ most in themselves, by proportion, by size or by the nodes that they need, until there are enough.
fn cut(entries: &[BundleEntry<'_>], parts: &mut Vec<(usize, Vec<usize>)>, most: usize) {
    let keys = |at: usize| {
        let entry = &entries[at];
        let nodes = if entry.crowded { f64::from(entry.nodes()).ln() * NODES_COUNT } else { 0.0 };
        [entry.proportion, entry.weight.ln() * SIZE_COUNTS, nodes]
    };
    let weight = |at: &usize| entries[*at].weight * f64::from(entries[*at].count);
    let spread = |members: &[usize]| {
        let range = |axis: usize| {
            let bounds = members.iter().map(|at| keys(*at)[axis]);
            let (low, high) =
                bounds.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), key| (low.min(key), high.max(key)));
            high - low
        };
        let ranges = [range(0), range(1), range(2)];
        // The first of equals, so that the cut does not depend on noise.
        let axis = (1..ranges.len()).fold(0, |widest, axis| if ranges[axis] > ranges[widest] { axis } else { widest });
        let widest = ranges[axis];
        let sum: f64 = members.iter().map(weight).sum();
        (if widest > ALIKE.ln() { sum * widest } else { 0.0 }, axis)
    };
    let mut worst: Vec<(f64, usize)> = parts.iter().map(|(_, members)| spread(members)).collect();
    while parts.len() < most {
        let at = (0..worst.len()).max_by(|a, b| worst[*a].0.total_cmp(&worst[*b].0).then(b.cmp(a)));
        // All that is left to cut differs by less than it matters.
        let Some(at) = at.filter(|at| worst[*at].0 > 0.0) else { return };
        let axis = worst[at].1;
        let (kind, mut members) = std::mem::take(&mut parts[at]);
        members.sort_by(|a, b| keys(*a)[axis].total_cmp(&keys(*b)[axis]).then(a.cmp(b)));
        // In the middle of the range and not of the pods: the halves are each half as wide.
        let middle = f64::midpoint(keys(members[0])[axis], keys(members[members.len() - 1])[axis]);
        let upper = members.split_off(members.partition_point(|at| keys(*at)[axis] <= middle));
        worst[at] = spread(&members);
        worst.push(spread(&upper));
        parts[at] = (kind, members);
        parts.push((kind, upper));
    }
}

impl Bundle {
    fn from_items(
        context: &Context<'_>,
        entries: &[BundleEntry<'_>],
        mut members: Vec<usize>,
        Kind { types, offering_bits, joint }: Kind,
    ) -> Self {
        let crowded = members.iter().any(|at| entries[*at].crowded);
        members.sort_by(|a, b| entries[*b].weight.total_cmp(&entries[*a].weight).then(a.cmp(b)));
        let resources = context.names.0.len();
        let (mut total, mut largest) = (vec![0.0; resources], context.nothing());
        let mut least = vec![f64::INFINITY; resources];
        let mut weight = 0.0;
        for entry in members.iter().map(|at| &entries[*at]) {
            weight += entry.weight * f64::from(entry.count);
            for (at, asked) in entry.requests.iter().enumerate() {
                total[at] += float(*asked) * f64::from(entry.count);
                largest[at] = largest[at].max(*asked);
                // For its weight: a light pod that asks for little says nothing of what a heavy one asks for.
                least[at] = least[at].min(float(*asked) / entry.weight);
            }
        }
        let held = |entry: &BundleEntry<'_>| entry.weight * f64::from(entry.count.min(entry.cap));
        let most = crowded.then(|| members.iter().map(|at| held(&entries[*at])).sum::<f64>() / weight);
        let mut bundle =
            Self { types, offering_bits, joint, entries: members, total, largest, least, weight, value: 0.0, most };
        bundle.order(entries);
        bundle
    }

    /// Orders the entries of crowded pods anew, and leaves out those of which none is left.
    pub fn order(&mut self, entries: &[BundleEntry<'_>]) {
        self.entries.retain(|at| entries[*at].left > 0);
        if self.most.is_some() {
            self.entries.sort_by_key(|at| std::cmp::Reverse(entries[*at].nodes()));
        }
    }
}
