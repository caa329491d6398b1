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
    /// Shapes that may be taken: their value, what they take of cpu, memory and the rest.
    able: Vec<(u32, f64, [f64; 3])>,
    order: Vec<(f64, u32)>,
    pattern: Pattern,
    whole: Vec<i64>,
    room: Vec<i64>,
    tally: Tally,
}

impl<'c, 'a> Filler<'c, 'a> {
    pub fn new(context: &'c Context<'a>, pool: usize, shapes: &'c Shapes<'c>) -> Self {
        Self {
            context,
            shapes,
            pool,
            able: vec![],
            order: vec![],
            pattern: Pattern::new(),
            whole: vec![],
            room: vec![],
            tally: Tally::default(),
        }
    }

    /// The most valuable filling of so many quarters of a candidate found, with its value. At most `left` pods of each
    /// shape.
    pub fn fill(&mut self, candidate: &Candidate, value: &[f64], left: &[u32], quarters: i64) -> (f64, Pattern) {
        self.whole.clear();
        let room = self.context.room(self.pool, candidate.at);
        self.whole.extend(room.iter().map(|have| if quarters == 4 { *have } else { have / 4 * quarters }));
        self.look(candidate, value, left);
        let mut best = (0.0, Pattern::new());
        for weights in WEIGHTS {
            self.rank(weights);
            let worth = self.by_order(candidate, value, left);
            if worth > best.0 * (1.0 + 1e-9) {
                best.0 = worth;
                best.1.clone_from(&self.pattern);
            }
        }
        best.1.sort_unstable();
        best
    }

    /// Finds the shapes that may be taken, and what each takes of the node.
    fn look(&mut self, candidate: &Candidate, value: &[f64], left: &[u32]) {
        let room = self.context.room(self.pool, candidate.at);
        self.able.clear();
        for shape in &candidate.shapes {
            if left[*shape as usize] == 0 || value[*shape as usize] <= 0.0 {
                continue;
            }
            let mut taken = [0.0; 3];
            for (resource, (asked, have)) in self.shapes.all[*shape as usize].requests.iter().zip(room).enumerate() {
                if *asked > 0 {
                    taken[resource.min(2)] += *asked as f64 / *have as f64;
                }
            }
            self.able.push((*shape, value[*shape as usize], taken));
        }
    }

    /// Orders the shapes by value for what they take.
    fn rank(&mut self, weights: [f64; 2]) {
        self.order.clear();
        let ranked = self.able.iter().map(|(shape, value, [cpu, memory, rest])| {
            (value / (weights[0] * cpu + weights[1] * memory + OTHER_WEIGHT * rest), *shape)
        });
        self.order.extend(ranked);
        self.order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }

    /// Fills in that order, into the pattern kept; answers what it is worth.
    fn by_order(&mut self, candidate: &Candidate, value: &[f64], left: &[u32]) -> f64 {
        self.room.clear();
        self.tally.clear();
        self.room.extend_from_slice(&self.whole);
        let mut worth = 0.0;
        self.pattern.clear();
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
            self.pattern.push((*shape, count as u32));
        }
        worth
    }
}
