//! Several shapes: the best mix of patterns, rounded down, and the rest by the same values.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::candidates::{TypeCandidate, TypeCandidates};
use super::fill::{Filling, PatternFiller};
use super::hope::Hope;
use super::lp::Master;
use super::rates;
use super::shapes::Shapes;
use super::variety::Variety;
use super::{Answer, Pattern};
use crate::pack::model::context::Context;
use crate::pack::model::ids::{IndexVec, ShapeId};
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::{count_of_amount, len_of, rounded_down};

/// Largest number of rounds that generate patterns: the bound on work, instead of time, keeps the answer the same.
const ROUNDS: usize = 60;

/// Smallest worth of a pattern, divided by its cost, for which there is another round.
const WORTH_A_ROUND: f64 = 1.002;

/// Number of shapes, and of pairs of a candidate and a shape that it carries, up to which all candidates are asked in every
/// round; beyond, the number of those that are, and the turns in which the others are.
pub(super) const FEW_ROWS: usize = 24;
const FEW_PAIRS: usize = 16_384;
const ASKED_FIRST: usize = 24;
const TURNS: usize = 6;

/// Largest number of patterns that enter in a round: later ones are worth less by then.
const MOST_ENTERING: usize = 64;

/// Number of shapes above which the linear program is left out, and a pod is worth what it asks for.
pub(super) const MOST_ROWS: usize = 200;

/// Number of pods of each shape below which, where shapes are not few, it is left out too: rounding would leave nothing of its
/// answer.
pub(super) const LEAST_PODS_A_SHAPE: usize = 8;

/// Largest price of an answer with fewer nodes, as a multiple of the cheapest answer found.
const FEWER_NODES_MAY_COST: f64 = 1.02;

/// First surcharge on a node when fewer are looked for, as a multiple of the mean node's price.
const FIRST_NODE_PRICE: f64 = 0.1;

/// Number of surcharges that are tried, ever closer to the one at which the answer gets too dear.
const TRIES: usize = 3;

/// Bounds on the number of shapes that are looked at in generating patterns, beside the bound on rounds. The number grows with
/// the pods, less with many shapes: what the linear program knows of few pods of each is lost in rounding.
const MOST_LOOKS: usize = 1_000_000;
const LEAST_LOOKS: usize = 20_000;
const LOOKS_A_POD: usize = 60;
const LOOKS_A_POD_OF_SOME_SHAPES: usize = 400;
const LOOKS_A_POD_OF_FEW_SHAPES: usize = 300;

/// Largest number of shapes that are some and not many.
const SOME_ROWS: usize = 64;

/// Number of pairs of shapes for which a step of the linear program takes as long as one look.
const PAIRS_A_LOOK: usize = 64;

/// Largest number of steps of all searches together, and for each pod: the bound on their work.
const MOST_STEPS: usize = 1_000_000;
const STEPS_A_POD: usize = 150;

/// Smallest worth of a candidate, filled in order, divided by its cost, at which it is searched.
const WORTH_A_SEARCH: f64 = 0.8;

/// Ratio up to which another pattern may be hoped to be worth more than one that is taken for what is left.
const AS_GOOD: f64 = 1.004;

/// Largest number of shapes for which fewer nodes are looked for.
const FEW_FOR_FEWER: usize = 32;

/// The patterns to launch with their numbers of nodes: among answers little dearer than the cheapest the one with the fewest
/// nodes. Where the cheapest is not wanted no fewer nodes are looked for.
pub(super) fn plan(
    context: &Context<'_>,
    kind: NodeKind,
    shapes: &Shapes<'_>,
    candidates: &mut TypeCandidates,
    unwanted: impl Fn(&Answer) -> bool,
) -> Answer {
    let counts = shapes.counts();
    let pods: usize = counts.iter().map(|count| len_of(*count)).sum();
    candidates.set_node_price(candidates.aims.node_price);
    let (filler, variety) =
        (PatternFiller::new(context, kind, shapes), Variety::new(context, kind, shapes, candidates.aims));
    let mut planner = Planner { filler, variety, steps: MOST_STEPS.min(pods * STEPS_A_POD) };
    let Some(singles) = planner.singles(context, kind, shapes, candidates) else { return Answer::new() };
    // Say 100 shapes have 300 pods: no pattern of a mix would come once as a whole, so rounding down would leave
    // everything.
    let sparse = counts.len() > FEW_ROWS && pods < counts.len() * LEAST_PODS_A_SHAPE;
    if shapes.all.len() > MOST_ROWS || sparse {
        let value = rates::worth(context, kind, shapes, candidates, &singles);
        let mut answer = Answer::new();
        planner.rest(candidates, &value, &mut counts.clone(), &mut answer);
        return answer;
    }
    let mut master = Master::new(counts.as_slice(), singles.as_slice(), candidates.aims.node_price);
    let a_pod = match counts.len() {
        few if few <= FEW_ROWS => LOOKS_A_POD_OF_FEW_SHAPES,
        some if some <= SOME_ROWS => LOOKS_A_POD_OF_SOME_SHAPES,
        _ => LOOKS_A_POD,
    };
    // Looks and not seconds: the same problem has the same answer on a slow machine.
    let looks = MOST_LOOKS.min(LEAST_LOOKS + pods.saturating_mul(a_pod));
    planner.best_mix(&mut master, candidates, &counts, WorkBound { rounds: ROUNDS, looks });
    let best = planner.whole(&master, candidates, &counts);
    // Fewer nodes take three more programs, which is worth it for small ones only.
    if shapes.all.len() > FEW_FOR_FEWER || unwanted(&best) {
        return best;
    }
    planner.fewer_nodes(&mut master, candidates, &counts, looks, best)
}

/// Takes the patterns of the mix as often as they come whole.
fn round_down(master: &Master, left: &mut IndexVec<ShapeId, u32>, answer: &mut Answer) {
    for (pattern, price, level) in master.solution() {
        // Patterns share shapes, so what one took may be missing for the next: none takes more than there is.
        let possible = pattern.iter().map(|(shape, count)| left[*shape] / count).min().unwrap_or(0);
        let times = rounded_down(level + 1e-6).min(possible);
        if times > 0 {
            pattern.iter().for_each(|(shape, count)| left[*shape] -= count * times);
            answer.add(pattern.clone(), price, times);
        }
    }
}

/// The bound on the work of one linear program.
#[derive(Clone, Copy)]
struct WorkBound {
    rounds: usize,
    /// Largest number of shapes that are looked at.
    looks: usize,
}

struct Planner<'c, 'a> {
    filler: PatternFiller<'c, 'a>,
    variety: Variety<'c, 'a>,
    /// Number of steps that are left to searches.
    steps: usize,
}

impl Planner<'_, '_> {
    /// The mix rounded down to whole nodes, and nodes for the rest.
    fn whole(&mut self, master: &Master, candidates: &TypeCandidates, counts: &IndexVec<ShapeId, u32>) -> Answer {
        let mut left = counts.clone();
        let mut answer = Answer::new();
        round_down(master, &mut left, &mut answer);
        self.rest(candidates, master.duals(), &mut left, &mut answer);
        answer
    }

    /// Among answers little dearer than the cheapest, which is the best known, the one with the fewest nodes.
    fn fewer_nodes(
        &mut self,
        master: &mut Master,
        candidates: &mut TypeCandidates,
        counts: &IndexVec<ShapeId, u32>,
        looks: usize,
        mut best: Answer,
    ) -> Answer {
        let most = best.price * FEWER_NODES_MAY_COST;
        let mean = best.price / f64::from(best.nodes.max(1));
        // The dearest node known to be within bounds, and the cheapest known not to be.
        // Say the mean node costs $1. A node is first taken to cost $0.10 more, then 0.25, 0.625 and so on as long as
        // the answer stays within 2 % of the cheapest; then the middle between the last that did and the first that did
        // not.
        let mut bracket = (0.0, None);
        let mut next = FIRST_NODE_PRICE;
        for _ in 0..TRIES {
            let node = candidates.aims.node_price.and(next * mean);
            candidates.set_node_price(node);
            master.reprice(node);
            self.best_mix(master, candidates, counts, WorkBound { rounds: ROUNDS / 4, looks: looks / 8 });
            let other = self.whole(master, candidates, counts);
            if other.price > most {
                bracket.1 = Some(next);
            } else {
                bracket.0 = next;
                // Fewer nodes first, then the price: all that comes here is cheap enough.
                if (other.nodes, Hope(other.price)) < (best.nodes, Hope(best.price)) {
                    best = other;
                }
            }
            next = match bracket {
                (low, None) => low * 2.5,
                (low, Some(high)) => (low + high) / 2.0,
            };
        }
        best
    }

    /// The linear program's best mix, patterns generated as they pay.
    fn best_mix(
        &mut self,
        master: &mut Master,
        candidates: &TypeCandidates,
        counts: &IndexVec<ShapeId, u32>,
        bound: WorkBound,
    ) {
        let mut looks = 0;
        // Worth of each candidate when last filled, divided by its cost: those that were worth most are asked again first.
        let mut known = vec![f64::INFINITY; candidates.all.len()];
        let mut order: Vec<usize> = (0..candidates.all.len()).collect();
        let pairs: usize = candidates.all.iter().map(|one| one.shapes.len()).sum();
        let all = counts.len() <= FEW_ROWS && pairs < FEW_PAIRS;
        let asked_first = if all { order.len() } else { ASKED_FIRST };
        let mut thorough = false;
        for round in 0..bound.rounds {
            master.price();
            // Copied, as entering patterns changes them: all patterns of a round are made by the same values.
            let duals = master.duals().clone();
            order.sort_by(|a, b| known[*b].total_cmp(&known[*a]).then(a.cmp(b)));
            let mut found: Vec<(f64, Pattern, f64)> = Vec::new();
            for (rank, at) in order.iter().enumerate() {
                // The rest takes turns, unless the best have nothing more to say.
                if rank >= asked_first && !found.is_empty() && (at + round) % TURNS != 0 {
                    continue;
                }
                let candidate = &candidates.all[*at];
                looks += candidate.shapes.len();
                // A search is hundreds of fillings: only where filling in order was near enough to paying.
                let search = thorough && known[*at] > WORTH_A_SEARCH;
                let (value, pattern) = match search {
                    true => self.searched(candidate, &duals, counts),
                    false => self.filling(candidate, &duals, counts),
                };
                known[*at] = value / candidate.cost;
                if known[*at] > WORTH_A_ROUND {
                    found.push((known[*at], pattern, candidate.price));
                }
            }
            let entered = self.enter(master, found, counts.len());
            looks += entered * (counts.len() * counts.len() / PAIRS_A_LOOK);
            if looks > bound.looks {
                break;
            }
            if entered == 0 {
                // With many shapes a search does not get through the fillings that there are.
                if thorough || counts.len() > FEW_ROWS {
                    break;
                }
                // A search may improve what filling in order no longer does.
                thorough = true;
            }
        }
    }

    /// Lets the patterns found enter the program, which has `rows` rows; returns the number that did.
    fn enter(&self, master: &mut Master, mut found: Vec<(f64, Pattern, f64)>, rows: usize) -> usize {
        // The best enters first: it changes what pods are worth, and many of the others gain nothing any more.
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut entered = 0;
        for (_, pattern, price) in found.into_iter().take(rows.clamp(8, MOST_ENTERING)) {
            if !self.filler.context().work(rows * rows / PAIRS_A_LOOK) {
                break;
            }
            entered += usize::from(master.enter(pattern, price));
        }
        entered
    }

    /// The cheapest way to carry each shape alone: the number on a node, and the node's price.
    fn singles(
        &mut self,
        context: &Context<'_>,
        kind: NodeKind,
        shapes: &Shapes<'_>,
        candidates: &TypeCandidates,
    ) -> Option<IndexVec<ShapeId, (u32, f64)>> {
        let node = candidates.aims.node_price;
        let mut best: IndexVec<ShapeId, Option<(u32, f64)>> = IndexVec::from_elem(None, shapes.all.len());
        for candidate in &candidates.all {
            let room = context.room(kind, candidate.at);
            for shape in &candidate.shapes {
                let one = &shapes.all[*shape];
                let mut count = one.count.min(one.cap);
                for (asked, have) in one.requests.iter().zip(room).filter(|(asked, _)| **asked > 0) {
                    count = count.min(count_of_amount(have / asked));
                }
                // Three quarters each time: 40, 30, 22, 16 … A few tries too small cost less than 39 looks.
                while count > 1 && !self.variety.enough(&vec![(*shape, count)]) {
                    count = count * 3 / 4;
                }
                let slot = &mut best[*shape];
                let each = candidate.cost / f64::from(count);
                // Cheapest by the pod, and not by the node.
                if count > 0 && slot.is_none_or(|(held, price)| each < node.with(price) / f64::from(held)) {
                    *slot = Some((count, candidate.price));
                }
            }
        }
        // A shape that no candidate carries has no single, and then there is no program.
        best.into_iter().collect()
    }

    /// The best filling that leaves the node enough variety; of a part of the node where the whole does not.
    fn filling(
        &mut self,
        candidate: &TypeCandidate,
        value: &IndexVec<ShapeId, f64>,
        left: &IndexVec<ShapeId, u32>,
    ) -> (f64, Pattern) {
        // A node filled to the brim fits its own type only. Filled by three quarters it may be many, which spot
        // needs.
        for quarters in [4, 3, 2, 1] {
            let Filling { worth, pattern } = self.filler.fill(candidate, value, left, quarters);
            if self.variety.enough(&pattern) {
                return (worth, pattern);
            }
        }
        (0.0, Pattern::new())
    }

    /// The best filling by a search, where that finds more than filling in order, as long as the steps last.
    fn searched(
        &mut self,
        candidate: &TypeCandidate,
        value: &IndexVec<ShapeId, f64>,
        left: &IndexVec<ShapeId, u32>,
    ) -> (f64, Pattern) {
        let known = self.filling(candidate, value, left);
        if self.steps == 0 {
            return known;
        }
        let found = self.filler.search(candidate, value, left, known.0);
        self.steps = self.steps.saturating_sub(found.steps);
        match found.filling {
            Some(better) if self.variety.enough(&better.1) => better,
            _ => known,
        }
    }

    /// Plans the pods that rounding left: again and again the pattern that is worth most for its cost.
    fn rest(
        &mut self,
        candidates: &TypeCandidates,
        value: &IndexVec<ShapeId, f64>,
        left: &mut IndexVec<ShapeId, u32>,
        answer: &mut Answer,
    ) {
        // A shape that the program held to be worth nothing still has to be somewhere: it fills what is left of a node, and
        // never decides for one.
        let floor = value.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let value: IndexVec<ShapeId, f64> =
            value.iter().map(|value| if *value > 0.0 { *value } else { floor.min(1.0) * 1e-3 }).collect();
        // A candidate's worth only falls as pods go: the most hopeful is filled again, and taken if it is still worth more than
        // the next ever was.
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
            if hopes.peek().is_some_and(|(next, _)| next.0 > ratio * AS_GOOD) {
                hopes.push((Hope(ratio), Reverse(at)));
                continue;
            }
            let times = pattern.iter().map(|(shape, count)| left[*shape] / count).min().unwrap_or(0);
            pattern.iter().for_each(|(shape, count)| left[*shape] -= count * times);
            answer.add(pattern, candidate.price, times);
            hopes.push((Hope(ratio), Reverse(at)));
        }
        // No filling takes these: each gets a node of its own, whose options are found when the claim is written.
        while let Some(pattern) = one_alone(candidates, left) {
            let times = left[pattern[0].0];
            left[pattern[0].0] = 0;
            answer.add(pattern, 0.0, times);
        }
    }
}

/// A pod alone on a node, where nothing else is left to do.
fn one_alone(candidates: &TypeCandidates, left: &IndexVec<ShapeId, u32>) -> Option<Pattern> {
    let carried = candidates.all.iter().flat_map(|candidate| &candidate.shapes);
    let shape = carried.copied().filter(|shape| left[*shape] > 0).min()?;
    Some(vec![(shape, 1)])
}
