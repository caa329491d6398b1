//! The best filling of one node where shapes are few: all fillings in turn, those left out that cannot be better.

use smallvec::SmallVec;

use super::Pattern;
use crate::pack::model::classes::Amounts;
use crate::pack::model::ids::ShapeId;
use crate::pack::model::numbers::{count_of_amount, float};

/// Largest number of partial fillings that are looked at: the bound on work.
const MOST_STEPS: usize = 3000;

/// A shape that may be taken.
#[derive(Debug)]
pub(super) struct ShapeChoice<'s> {
    pub shape: ShapeId,
    pub value: f64,
    pub requests: &'s Amounts,
    /// Largest number of pods that may be taken.
    pub most: u32,
    /// Part of the node that one pod takes, summed over resources.
    pub part: f64,
}

/// The result of a search: a filling with its worth, and the number of steps.
#[derive(Debug, Default)]
pub(super) struct SearchResult {
    pub filling: Option<(f64, Pattern)>,
    pub steps: usize,
}

/// Worth of one unit, or its part of the whole, for each resource.
type Rates = SmallVec<[f64; 5]>;

/// The search, see [`best`].
struct Search<'s> {
    choices: Vec<ShapeChoice<'s>>,
    /// Largest worth of one unit of each resource, and then of the node as a whole, among the choices from each one on.
    most_worth: Vec<Rates>,
    steps: usize,
    taken: Vec<u32>,
    best: f64,
    found: Option<Vec<u32>>,
}

/// A filling of `room` that is worth more than `known`, if there is one and it is found within the bound on work.
pub(super) fn best(mut choices: Vec<ShapeChoice<'_>>, room: &Amounts, known: f64) -> SearchResult {
    let density = |choice: &ShapeChoice<'_>| choice.value / choice.part;
    // Choices worth most for what they take come first, so that good fillings are found early and cut off much of what follows.
    choices.sort_by(|a, b| density(b).total_cmp(&density(a)).then(a.shape.cmp(&b.shape)));
    let mut most_worth = vec![Rates::from_elem(0.0, room.len() + 1); choices.len() + 1];
    // From the end on, so that each knows the best of all that come after it.
    for (at, choice) in choices.iter().enumerate().rev() {
        let mut worth = most_worth[at + 1].clone();
        for (worth, asked) in worth.iter_mut().zip(choice.requests) {
            *worth = worth.max(choice.value / float(*asked));
        }
        worth[room.len()] = worth[room.len()].max(density(choice));
        most_worth[at] = worth;
    }
    let taken = vec![0; choices.len()];
    let mut search = Search { choices, most_worth, steps: 0, taken, best: known * (1.0 + 1e-6), found: None };
    let whole: Rates = room.iter().map(|have| 1.0 / float((*have).max(1))).collect();
    search.from(0, 0.0, &mut room.clone(), &whole);
    let pattern = |taken: Vec<u32>| {
        let counts = search.choices.iter().zip(taken).filter(|(_, count)| *count > 0);
        let mut pattern: Pattern = counts.map(|(choice, count)| (choice.shape, count)).collect();
        pattern.sort_unstable();
        pattern
    };
    let filling = search.found.take().map(|taken| (search.best, pattern(taken)));
    SearchResult { filling, steps: search.steps }
}

impl Search<'_> {
    fn from(&mut self, at: usize, worth: f64, room: &mut Amounts, whole: &Rates) {
        // Every partial filling is a filling: the rest of the node stays empty.
        if worth > self.best {
            self.best = worth;
            self.found = Some(self.taken.clone());
        }
        if at == self.choices.len() || self.steps >= MOST_STEPS {
            return;
        }
        self.steps += 1;
        let mut parts = 0.0;
        let mut more = f64::INFINITY;
        for ((have, whole), worth) in room.iter().zip(whole).zip(&self.most_worth[at]) {
            parts += float(*have) * whole;
            // A resource that some choice asks nothing of bounds nothing.
            more = more.min(if worth.is_finite() { float(*have) * worth } else { f64::INFINITY });
        }
        // Say 10 is the best known, 6 are in, 3 cpu are left, and no choice that follows is worth more than 1 a
        // cpu: at most 9, so nothing that begins like this is looked at.
        if worth + more.min(parts * self.most_worth[at][room.len()]) <= self.best {
            return;
        }
        let choice = &self.choices[at];
        let (value, requests) = (choice.value, choice.requests);
        let asked = requests.iter().zip(room.iter()).filter(|(asked, _)| **asked > 0);
        let most = asked.fold(i64::from(choice.most), |most, (asked, have)| most.min(have / asked));
        let most = count_of_amount(most);
        for (have, asked) in room.iter_mut().zip(requests) {
            *have -= asked * i64::from(most);
        }
        // As many as fit first, then one less each time.
        for count in (0..=most).rev() {
            self.taken[at] = count;
            self.from(at + 1, worth + value * f64::from(count), room, whole);
            if self.steps >= MOST_STEPS {
                break;
            }
            // Its place is free for what comes after it.
            if count > 0 {
                room.iter_mut().zip(requests).for_each(|(have, asked)| *have += asked);
            }
        }
        self.taken[at] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The largest worth of any filling.
    fn every(choices: &[(f64, Amounts, u32)], room: &Amounts) -> f64 {
        let Some(((value, asked, most), rest)) = choices.split_first() else { return 0.0 };
        let mut best = 0.0;
        for count in 0..=i64::from(*most) {
            let left: Amounts = room.iter().zip(asked).map(|(have, asked)| have - asked * count).collect();
            if left.iter().all(|have| *have >= 0) {
                best = f64::max(best, value * float(count) + every(rest, &left));
            }
        }
        best
    }

    proptest! {
        #[test]
        fn the_filling_found_is_the_best_there_is(
            shapes in prop::collection::vec((1u32..50, 0i64..9, 1i64..9, 1u32..4), 1..4),
            cpu in 1i64..30,
            memory in 1i64..30,
        ) {
            let room = Amounts::from_slice(&[cpu, memory]);
            let all: Vec<(f64, Amounts, u32)> = shapes
                .iter()
                .map(|(value, cpu, memory, most)| (f64::from(*value), Amounts::from_slice(&[*cpu, *memory]), *most))
                .collect();
            let part = |asked: &Amounts| asked.iter().zip(&room).map(|(asked, have)| float(*asked) / float(*have)).sum();
            let choices = all.iter().enumerate().map(|(at, (value, requests, most))| ShapeChoice {
                shape: ShapeId::from(at), value: *value, requests, most: *most, part: part(requests),
            });
            let most = every(&all, &room);
            match best(choices.collect(), &room, 0.0).filling {
                Some((worth, pattern)) => {
                    prop_assert!((worth - most).abs() < 1e-6, "{worth} of {most}");
                    let sum: f64 = pattern.iter().map(|(shape, count)| all[shape.index()].0 * f64::from(*count)).sum();
                    prop_assert!((sum - worth).abs() < 1e-6);
                }
                None => prop_assert_eq!(most, 0.0),
            }
        }
    }
}
