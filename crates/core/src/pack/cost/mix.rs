//! Several shapes: the best mix of patterns, rounded down, and the rest by the same values.

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
    let Some(master) = planner.best_mix(context, pool, shapes, candidates, &left) else { return vec![] };
    let mut plan: Vec<(Pattern, u32)> = Vec::new();
    for (pattern, level) in master.solution() {
        let possible = pattern.iter().map(|(shape, count)| left[*shape as usize] / count).min().unwrap_or(0);
        let times = ((level + 1e-6) as u32).min(possible);
        if times > 0 {
            pattern.iter().for_each(|(shape, count)| left[*shape as usize] -= count * times);
            plan.push((pattern.clone(), times));
        }
    }
    planner.rest(candidates, master.duals(), &mut left, &mut plan);
    plan
}

struct Planner<'c, 'a> {
    filler: Filler<'c, 'a>,
    variety: Variety<'c, 'a>,
}

impl Planner<'_, '_> {
    /// The linear program's best mix, patterns generated as they pay.
    fn best_mix(
        &mut self,
        context: &Context<'_>,
        pool: usize,
        shapes: &Shapes<'_>,
        candidates: &Candidates,
        counts: &[u32],
    ) -> Option<Master> {
        let singles = self.singles(context, pool, shapes, candidates)?;
        let mut master = Master::new(counts, &singles);
        for _ in 0..ROUNDS {
            let duals = master.duals().to_vec();
            let mut found: Vec<(f64, Pattern, f64)> = Vec::new();
            for candidate in &candidates.all {
                let (value, pattern) = self.filling(candidate, &duals, counts);
                if value > candidate.cost * WORTH_A_ROUND {
                    found.push((value / candidate.cost, pattern, candidate.cost));
                }
            }
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut entered = false;
            for (_, pattern, cost) in found.into_iter().take(shapes.all.len().max(8)) {
                entered |= master.enter(pattern, cost);
            }
            if !entered {
                break;
            }
        }
        Some(master)
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

    /// The best filling that leaves the node enough variety; smaller where the largest does not.
    fn filling(&mut self, candidate: &Candidate, value: &[f64], left: &[u32]) -> (f64, Pattern) {
        let (worth, pattern) = self.filler.fill(candidate, value, left);
        if pattern.is_empty() || self.variety.enough(&pattern) { (worth, pattern) } else { (0.0, Pattern::new()) }
    }

    /// What rounding left: again and again the pattern that is worth most for its cost.
    fn rest(&mut self, candidates: &Candidates, value: &[f64], left: &mut [u32], plan: &mut Vec<(Pattern, u32)>) {
        let floor = value.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let value: Vec<f64> =
            value.iter().map(|value| if *value > 0.0 { *value } else { floor.min(1.0) * 1e-3 }).collect();
        while left.iter().any(|count| *count > 0) {
            let mut best: Option<(f64, Pattern)> = None;
            for candidate in &candidates.all {
                let (worth, pattern) = self.filling(candidate, &value, left);
                let ratio = worth / candidate.cost;
                if !pattern.is_empty() && best.as_ref().is_none_or(|(most, _)| ratio > *most) {
                    best = Some((ratio, pattern));
                }
            }
            let Some((_, pattern)) = best.or_else(|| self.one_alone(candidates, left)) else { break };
            let times = pattern.iter().map(|(shape, count)| left[*shape as usize] / count).min().unwrap_or(0);
            if times == 0 {
                break;
            }
            pattern.iter().for_each(|(shape, count)| left[*shape as usize] -= count * times);
            plan.push((pattern, times));
        }
    }

    /// A pod alone on a node, where nothing else is left to do.
    fn one_alone(&self, candidates: &Candidates, left: &[u32]) -> Option<(f64, Pattern)> {
        let carried = candidates.all.iter().flat_map(|candidate| &candidate.shapes);
        let shape = carried.copied().filter(|shape| left[*shape as usize] > 0).min()?;
        Some((0.0, vec![(shape, 1)]))
    }
}
