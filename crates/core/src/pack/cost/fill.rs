//! Filling one node with what is worth most.

use super::super::context::Context;
use super::super::joint::JointId;
use super::super::topology::node_rules::Tally;
use super::Pattern;
use super::candidates::Candidate;
use super::shapes::Shapes;

/// How strongly cpu and memory count when pods are ordered by worth per resource taken. No one order is best for all
/// types: the best of several is taken.
const WEIGHTS: [[f64; 2]; 5] = [[1.0, 1.0], [1.0, 0.25], [0.25, 1.0], [1.0, 0.02], [0.02, 1.0]];

/// How much every other resource counts.
const OTHER_WEIGHT: f64 = 0.3;

/// Fills nodes; keeps its buffers.
pub(super) struct Filler<'c, 'a> {
    context: &'c Context<'a>,
    shapes: &'c Shapes<'c>,
    pool: usize,
    order: Vec<(f64, u32)>,
    room: Vec<i64>,
    tally: Tally,
}

impl<'c, 'a> Filler<'c, 'a> {
    pub fn new(context: &'c Context<'a>, pool: usize, shapes: &'c Shapes<'c>) -> Self {
        Self { context, shapes, pool, order: vec![], room: vec![], tally: Tally::default() }
    }

    /// The most valuable filling of a candidate found, with its value. At most `left` pods of each shape.
    pub fn fill(&mut self, candidate: &Candidate, value: &[f64], left: &[u32]) -> (f64, Pattern) {
        let mut best = (0.0, Pattern::new());
        for weights in WEIGHTS {
            self.rank(candidate, value, left, weights);
            let found = self.by_order(candidate, value, left, &best);
            if let Some(found) = found {
                best = found;
            }
        }
        best.1.sort_unstable();
        best
    }

    /// Orders the shapes by value for what they take.
    fn rank(&mut self, candidate: &Candidate, value: &[f64], left: &[u32], weights: [f64; 2]) {
        let room = self.context.room(self.pool, candidate.at);
        self.order.clear();
        for shape in &candidate.shapes {
            if left[*shape as usize] == 0 || value[*shape as usize] <= 0.0 {
                continue;
            }
            let requests = &self.shapes.all[*shape as usize].requests;
            let mut taken = 0.0;
            for (resource, (asked, have)) in requests.iter().zip(room).enumerate() {
                if *asked > 0 {
                    taken += weights.get(resource).unwrap_or(&OTHER_WEIGHT) * *asked as f64 / *have as f64;
                }
            }
            self.order.push((value[*shape as usize] / taken, *shape));
        }
        self.order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }

    fn by_order(
        &mut self,
        candidate: &Candidate,
        value: &[f64],
        left: &[u32],
        best: &(f64, Pattern),
    ) -> Option<(f64, Pattern)> {
        self.room.clear();
        self.tally.clear();
        self.room.extend_from_slice(self.context.room(self.pool, candidate.at));
        let mut worth = 0.0;
        let mut pattern = Pattern::new();
        let mut joint = JointId::NONE;
        for (_, shape) in &self.order {
            let one = &self.shapes.all[*shape as usize];
            let mut count = i64::from(left[*shape as usize]);
            for (asked, have) in one.requests.iter().zip(&self.room) {
                if *asked > 0 {
                    count = count.min(have / asked);
                }
            }
            count = count.min(i64::from(one.cap));
            if let Some(rules) = one.rules.filter(|_| count > 0) {
                count = i64::from(self.tally.allows(rules, count as u32));
            }
            if count <= 0 {
                continue;
            }
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
                self.tally.add(rules, count as u32);
            }
            for (have, asked) in self.room.iter_mut().zip(&one.requests) {
                *have -= asked * count;
            }
            worth += value[*shape as usize] * count as f64;
            pattern.push((*shape, count as u32));
        }
        (worth > best.0 * (1.0 + 1e-9)).then_some((worth, pattern))
    }
}
