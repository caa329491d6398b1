//! Filling of one node with the pods that are worth most.

use std::collections::BinaryHeap;

use super::Pattern;
use super::candidates::TypeCandidate;
use super::search::{self, SearchResult, ShapeChoice};
use super::shapes::Shapes;
use crate::pack::filter::topology::node_rules::Tally;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{IndexVec, JointId, ShapeId};
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::{count_of_amount, float, part_of};

/// Weights of cpu and memory when pods are ordered by worth per resource taken. No one order is best for all types: the best of
/// several is taken.
const EVENLY: [f64; 2] = [1.0, 1.0];
const BY_CPU: [[f64; 2]; 2] = [[1.0, 0.25], [1.0, 0.02]];
const BY_MEMORY: [[f64; 2]; 2] = [[0.25, 1.0], [0.02, 1.0]];

/// Number of shapes above which only the resource that runs out first is tried as the one that counts.
const FEW_SHAPES: usize = 48;

/// Number of shapes above which that resource is tried only once.
const MANY_SHAPES: usize = 256;

/// Number of shapes that a filling compares in one step of work.
const SHAPES_A_STEP: usize = 2;

/// The bits of a key of [`PatternFiller::rank`] that are the place of a shape among the able.
const PLACE: u64 = 0xffff;

/// Weight of every other resource.
const OTHER_WEIGHT: f64 = 0.3;

/// A shape that may be taken: its value, and what it takes of cpu, memory and the rest.
#[derive(Debug, Clone, Copy)]
struct Able {
    shape: ShapeId,
    value: f64,
    taken: [f64; 3],
}

/// The contents of one node, with their worth.
#[derive(Debug, Default)]
pub(super) struct Filling {
    pub worth: f64,
    pub pattern: Pattern,
}

/// Fills nodes; keeps its buffers.
pub(super) struct PatternFiller<'c, 'a> {
    context: &'c Context<'a>,
    shapes: &'c Shapes<'c>,
    kind: NodeKind,
    able: Vec<Able>,
    /// Smallest amount of each resource that any of these asks for.
    least: Amounts,
    /// The able by worth, see [`PatternFiller::rank`].
    order: BinaryHeap<u64>,
    pattern: Pattern,
    whole: Amounts,
    room: Amounts,
    tally: Tally,
}

impl<'c, 'a> PatternFiller<'c, 'a> {
    pub fn new(context: &'c Context<'a>, kind: NodeKind, shapes: &'c Shapes<'c>) -> Self {
        Self {
            context,
            shapes,
            kind,
            able: vec![],
            least: Amounts::new(),
            order: BinaryHeap::new(),
            pattern: Pattern::new(),
            whole: Amounts::new(),
            room: Amounts::new(),
            tally: Tally::default(),
        }
    }

    pub fn context(&self) -> &'c Context<'a> {
        self.context
    }

    /// The most valuable filling found of a candidate, or of `quarters` quarters of it, with at most `left` pods of each shape.
    pub fn fill(
        &mut self,
        candidate: &TypeCandidate,
        value: &IndexVec<ShapeId, f64>,
        left: &IndexVec<ShapeId, u32>,
        quarters: i64,
    ) -> Filling {
        // Filling is where most of the time goes, so its steps grow with the shapes that it looks at.
        if !self.context.work(1 + candidate.shapes.len() / SHAPES_A_STEP) {
            return Filling::default();
        }
        self.whole.clear();
        let room = self.context.room(self.kind, candidate.at);
        self.whole.extend(room.iter().map(|have| if quarters == 4 { *have } else { have / 4 * quarters }));
        self.find_entries(candidate, value, left);
        let mut best = Filling::default();
        // Three tries of different orders are far cheaper than one search, and mostly find the same.
        self.attempt(EVENLY, candidate, left, &mut best);
        let of_whole = |at: usize| part_of(self.room[at], self.whole[at]);
        // The resource that the first try used up was scarce: the next try counts it.
        let cpu_first = of_whole(0) <= of_whole(1);
        let few = self.able.len() <= FEW_SHAPES;
        let tried = if self.able.len() <= MANY_SHAPES { 2 } else { 1 };
        for (weights, first) in [(BY_CPU, cpu_first), (BY_MEMORY, !cpu_first)] {
            if few || first {
                weights.into_iter().take(tried).for_each(|weights| self.attempt(weights, candidate, left, &mut best));
            }
        }
        best.pattern.sort_unstable();
        best
    }

    /// The most valuable filling by a search, for shapes that no rules bind to each other: one worth more than `known`,
    /// if there is any, and the steps that it took.
    pub fn search(
        &mut self,
        candidate: &TypeCandidate,
        value: &IndexVec<ShapeId, f64>,
        left: &IndexVec<ShapeId, u32>,
        known: f64,
    ) -> SearchResult {
        self.find_entries(candidate, value, left);
        let bound = |one: &Able| {
            let shape = &self.shapes.all[one.shape];
            shape.rules.is_some() || shape.joint != JointId::NONE
        };
        // The search adds amounts and knows no rules.
        if self.able.iter().any(bound) {
            return SearchResult::default();
        }
        let choices = self.able.iter().map(|one| {
            let shape = &self.shapes.all[one.shape];
            let most = left[one.shape].min(shape.cap);
            let part = one.taken.iter().sum();
            ShapeChoice { shape: one.shape, value: one.value, requests: &shape.requests, most, part }
        });
        let room = Amounts::from_slice(self.context.room(self.kind, candidate.at));
        search::best(choices.collect(), &room, known)
    }

    fn attempt(
        &mut self,
        weights: [f64; 2],
        candidate: &TypeCandidate,
        left: &IndexVec<ShapeId, u32>,
        best: &mut Filling,
    ) {
        self.rank(weights);
        let worth = self.by_order(candidate, left);
        if worth > best.worth * (1.0 + 1e-9) {
            best.worth = worth;
            best.pattern.clone_from(&self.pattern);
        }
    }

    /// Finds the shapes that may be taken, with the parts of the node that each takes.
    fn find_entries(
        &mut self,
        candidate: &TypeCandidate,
        value: &IndexVec<ShapeId, f64>,
        left: &IndexVec<ShapeId, u32>,
    ) {
        let room = self.context.room(self.kind, candidate.at);
        let part: smallvec::SmallVec<[f64; 4]> = room.iter().map(|have| 1.0 / float((*have).max(1))).collect();
        self.able.clear();
        self.least.clear();
        self.least.resize(room.len(), i64::MAX);
        for shape in &candidate.shapes {
            let value = value[*shape];
            // A shape without a value would only take room: the rest is planned when values are known for all.
            if left[*shape] == 0 || value <= 0.0 {
                continue;
            }
            let mut taken = [0.0; 3];
            let requests = &self.shapes.all[*shape].requests;
            for (resource, ((asked, part), least)) in requests.iter().zip(&part).zip(&mut self.least).enumerate() {
                // Cpu, memory, and everything else in one.
                taken[resource.min(2)] += float(*asked) * part;
                *least = (*least).min(*asked);
            }
            self.able.push(Able { shape: *shape, value, taken });
        }
    }

    /// Orders the shapes by value for what they take, the first of equals first: the bits of a positive number are in
    /// the order of the numbers, and the last of them, which do not matter, make room for the place.
    fn rank(&mut self, weights: [f64; 2]) {
        let mut order = std::mem::take(&mut self.order).into_vec();
        order.clear();
        order.extend(self.able.iter().enumerate().map(|(at, one)| {
            let taken = weights[0] * one.taken[0] + weights[1] * one.taken[1] + OTHER_WEIGHT * one.taken[2];
            // A heap of integers instead of a sort of floats: most fillings end long before the last shape is
            // looked at.
            ((one.value / taken).to_bits() & !PLACE) | (PLACE - u64::try_from(at).unwrap_or(PLACE).min(PLACE))
        }));
        self.order = BinaryHeap::from(order);
    }

    /// Fills in that order, into the pattern kept; returns its worth.
    fn by_order(&mut self, candidate: &TypeCandidate, left: &IndexVec<ShapeId, u32>) -> f64 {
        self.room.clone_from(&self.whole);
        self.tally.clear();
        self.pattern.clear();
        let mut worth = 0.0;
        let mut joint = JointId::NONE;
        while let Some(key) = self.order.pop() {
            let Able { shape, value, .. } = self.able[place_of(key)];
            let one = &self.shapes.all[shape];
            // Not one pod of it fits any more. A smaller shape may.
            if one.requests.iter().zip(&self.room).any(|(asked, have)| asked > have) {
                continue;
            }
            let mut count = i64::from(left[shape].min(one.cap));
            for (asked, have) in one.requests.iter().zip(&self.room) {
                if *asked > 0 && asked.saturating_mul(count) > *have {
                    count = have / asked;
                }
            }
            let mut count = count_of_amount(count);
            if let Some(rules) = one.rules.filter(|_| count > 0) {
                count = self.tally.allows(rules, count);
            }
            if count == 0 {
                continue;
            }
            // Most shapes ask for nothing that a type leaves open, and then both are `NONE`.
            if one.joint != joint {
                let Some(met) = self.context.meet(joint, one.joint) else { continue };
                let mut types = one.types.clone();
                self.context.keep_joint(met, &mut types);
                if !types.has(candidate.at) {
                    continue;
                }
                joint = met;
            }
            if let Some(rules) = one.rules {
                self.tally.add(rules, count);
            }
            for (have, asked) in self.room.iter_mut().zip(&one.requests) {
                *have -= asked * i64::from(count);
            }
            worth += value * f64::from(count);
            self.pattern.push((shape, count));
            // Not even the least of any shape is left of some resource: nothing more fits.
            if self.least.iter().zip(&self.room).any(|(least, have)| least > have) {
                break;
            }
        }
        worth
    }
}

/// The place among the able that a key of [`PatternFiller::rank`] has in its last bits.
fn place_of(key: u64) -> usize {
    usize::try_from(PLACE - (key & PLACE)).unwrap_or_default()
}
