//! Several shapes: the best mix of patterns, rounded down, and the rest by the same values.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::super::context::Context;
use super::Pattern;
use super::candidates::{Candidate, Candidates};
use super::fill::Filler;
use super::lp::Master;
use super::shapes::Shapes;
use super::variety::Variety;

/// How often patterns are generated anew at most: the bound on work, instead of time, keeps the answer the same.
const ROUNDS: usize = 60;

/// Patterns that are worth less than this beyond their cost are not worth another round.
const WORTH_A_ROUND: f64 = 1.002;

/// With so few shapes all candidates are asked in every round; otherwise so many, and the others in turns.
const FEW_ROWS: usize = 64;
const ASKED_FIRST: usize = 24;
const TURNS: usize = 6;

/// No more patterns enter in a round: later ones are worth less by then.
const MOST_ENTERING: usize = 64;

/// With more shapes than this the linear program is left out, and a pod is worth what it costs with its like.
const MOST_ROWS: usize = 200;

/// The patterns to launch and how often.
pub(super) fn plan(
    context: &Context<'_>,
    pool: usize,
    shapes: &Shapes<'_>,
    candidates: &Candidates,
) -> Vec<(Pattern, u32)> {
    let mut left = shapes.counts();
    let mut planner =
        Planner { filler: Filler::new(context, pool, shapes), variety: Variety::new(context, pool, shapes) };
    let Some(singles) = planner.singles(context, pool, shapes, candidates) else { return vec![] };
    let mut plan: Vec<(Pattern, u32)> = Vec::new();
    let mut value: Vec<f64> = singles.iter().map(|(held, cost)| cost / f64::from(*held)).collect();
    if shapes.all.len() <= MOST_ROWS {
        let master = planner.best_mix(candidates, &left, &singles);
        value = master.duals().to_vec();
        round_down(&master, &mut left, &mut plan);
    }
    planner.rest(candidates, &value, &mut left, &mut plan);
    plan
}

/// The patterns of the mix as often as they come whole.
fn round_down(master: &Master, left: &mut [u32], plan: &mut Vec<(Pattern, u32)>) {
    for (pattern, level) in master.solution() {
        let possible = pattern.iter().map(|(shape, count)| left[*shape as usize] / count).min().unwrap_or(0);
        let times = ((level + 1e-6) as u32).min(possible);
        if times > 0 {
            pattern.iter().for_each(|(shape, count)| left[*shape as usize] -= count * times);
            plan.push((pattern.clone(), times));
        }
    }
}

struct Planner<'c, 'a> {
    filler: Filler<'c, 'a>,
    variety: Variety<'c, 'a>,
}

impl Planner<'_, '_> {
    /// The linear program's best mix, patterns generated as they pay.
    fn best_mix(&mut self, candidates: &Candidates, counts: &[u32], singles: &[(u32, f64)]) -> Master {
        let mut master = Master::new(counts, singles);
        // What each candidate was last worth for its cost: those that were worth most are asked again first.
        let mut known = vec![f64::INFINITY; candidates.all.len()];
        let mut order: Vec<usize> = (0..candidates.all.len()).collect();
        let asked_first = if counts.len() <= FEW_ROWS { order.len() } else { ASKED_FIRST };
        for round in 0..ROUNDS {
            let duals = master.duals().to_vec();
            order.sort_by(|a, b| known[*b].total_cmp(&known[*a]).then(a.cmp(b)));
            let mut found: Vec<(f64, Pattern, f64)> = Vec::new();
            for (rank, at) in order.iter().enumerate() {
                // The rest takes turns, unless the best have nothing more to say.
                if rank >= asked_first && !found.is_empty() && (at + round) % TURNS != 0 {
                    continue;
                }
                let candidate = &candidates.all[*at];
                let (value, pattern) = self.filling(candidate, &duals, counts);
                known[*at] = value / candidate.cost;
                if known[*at] > WORTH_A_ROUND {
                    found.push((known[*at], pattern, candidate.cost));
                }
            }
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut entered = false;
            for (_, pattern, cost) in found.into_iter().take(counts.len().clamp(8, MOST_ENTERING)) {
                entered |= master.enter(pattern, cost);
            }
            if !entered {
                break;
            }
        }
        master
    }

    /// For each shape the cheapest way to carry it alone: how many on a node, and the node's cost.
    fn singles(
        &mut self,
        context: &Context<'_>,
        pool: usize,
        shapes: &Shapes<'_>,
        candidates: &Candidates,
    ) -> Option<Vec<(u32, f64)>> {
        let mut best: Vec<Option<(u32, f64)>> = vec![None; shapes.all.len()];
        for candidate in &candidates.all {
            let room = context.room(pool, candidate.at);
            for shape in &candidate.shapes {
                let one = &shapes.all[*shape as usize];
                let mut count = one.count.min(one.cap);
                for (asked, have) in one.requests.iter().zip(room).filter(|(asked, _)| **asked > 0) {
                    count = count.min((have / asked).clamp(0, i64::from(u32::MAX)) as u32);
                }
                while count > 1 && !self.variety.enough(&vec![(*shape, count)]) {
                    count = count * 3 / 4;
                }
                let slot = &mut best[*shape as usize];
                let each = candidate.cost / f64::from(count);
                if count > 0 && slot.is_none_or(|(held, cost)| each < cost / f64::from(held)) {
                    *slot = Some((count, candidate.cost));
                }
            }
        }
        best.into_iter().collect()
    }

    /// The best filling that leaves the node enough variety; of a part of the node where the whole does not.
    fn filling(&mut self, candidate: &Candidate, value: &[f64], left: &[u32]) -> (f64, Pattern) {
        for quarters in [4, 3, 2, 1] {
            let (worth, pattern) = self.filler.fill(candidate, value, left, quarters);
            if self.variety.enough(&pattern) {
                return (worth, pattern);
            }
        }
        (0.0, Pattern::new())
    }

    /// What rounding left: again and again the pattern that is worth most for its cost.
    fn rest(&mut self, candidates: &Candidates, value: &[f64], left: &mut [u32], plan: &mut Vec<(Pattern, u32)>) {
        let floor = value.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let value: Vec<f64> =
            value.iter().map(|value| if *value > 0.0 { *value } else { floor.min(1.0) * 1e-3 }).collect();
        // What a candidate is worth only falls as pods go: the most hopeful is filled again, and taken if it is still
        // worth more than the next ever was.
        let mut hopes: BinaryHeap<(Hope, Reverse<usize>)> =
            (0..candidates.all.len()).map(|at| (Hope(f64::INFINITY), Reverse(at))).collect();
        while left.iter().any(|count| *count > 0) {
            let Some((_, Reverse(at))) = hopes.pop() else { break };
            let candidate = &candidates.all[at];
            let (worth, pattern) = self.filling(candidate, &value, left);
            if pattern.is_empty() {
                continue;
            }
            let ratio = worth / candidate.cost;
            if hopes.peek().is_some_and(|(next, _)| next.0 > ratio) {
                hopes.push((Hope(ratio), Reverse(at)));
                continue;
            }
            let times = pattern.iter().map(|(shape, count)| left[*shape as usize] / count).min().unwrap_or(0);
            pattern.iter().for_each(|(shape, count)| left[*shape as usize] -= count * times);
            plan.push((pattern, times));
            hopes.push((Hope(ratio), Reverse(at)));
        }
        while let Some(pattern) = one_alone(candidates, left) {
            let times = left[pattern[0].0 as usize];
            left[pattern[0].0 as usize] = 0;
            plan.push((pattern, times));
        }
    }
}

/// A pod alone on a node, where nothing else is left to do.
fn one_alone(candidates: &Candidates, left: &[u32]) -> Option<Pattern> {
    let carried = candidates.all.iter().flat_map(|candidate| &candidate.shapes);
    let shape = carried.copied().filter(|shape| left[*shape as usize] > 0).min()?;
    Some(vec![(shape, 1)])
}

/// What a candidate may be worth for its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hope(f64);

impl Eq for Hope {}

impl PartialOrd for Hope {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Hope {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
