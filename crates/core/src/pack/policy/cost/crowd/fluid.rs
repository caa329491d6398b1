//! The best mix of nodes if bundles could be cut at will: numbers of nodes of each type, with the parts of bundles on them.

use rustc_hash::FxHashMap;

use super::super::Pattern;
use super::super::candidates::TypeCandidates;
use super::super::lp::Master;
use super::bundles::{Bundle, Bundles};
use super::knapsack::{self, Choices};
use crate::pack::model::classes::{Amounts, UNBOUNDED};
use crate::pack::model::context::Context;
use crate::pack::model::ids::{BundleId, IndexVec, ShapeId};
use crate::pack::model::numbers::{float, rounded_down};

/// Number of parts in which a bundle is counted for each node that it would need alone.
const PARTS_A_NODE: f64 = 1e4;

/// Largest number of rounds that generate patterns, and the smallest worth of a pattern beside its cost.
const ROUNDS: usize = 60;
const WORTH_A_ROUND: f64 = 1.001;

/// Number of candidates that are asked in every round, and the turns in which the others are.
const ASKED_FIRST: usize = 24;
const TURNS: usize = 6;

/// Largest number of patterns that enter in a round.
const MOST_ENTERING: usize = 64;

/// Number of bundles that are compared in one step of work.
const BUNDLES_A_STEP: usize = 2;
/// Number of pairs of bundles for which a step of the program takes one step of work.
const PAIRS_A_STEP: usize = 64;

/// Nodes of one candidate.
#[derive(Debug)]
pub(super) struct Mix {
    pub candidate: usize,
    pub nodes: f64,
    /// Part of each bundle that goes there.
    pub quota: IndexVec<BundleId, f64>,
}

#[derive(Debug, Default)]
pub(super) struct Flow {
    pub mixes: Vec<Mix>,
    /// Worth of each bundle, in dollars an hour.
    pub values: IndexVec<BundleId, f64>,
}

/// The bundles that have a place, with the parts in which they are counted.
struct Rows {
    /// Bundle of each row: to the program a row is a shape.
    bundle: IndexVec<ShapeId, BundleId>,
    /// Row of each bundle.
    row: IndexVec<BundleId, Option<ShapeId>>,
    /// Number of parts in which a row is counted.
    parts: IndexVec<ShapeId, u32>,
    /// Number of parts that a row's best candidate holds, with its price.
    singles: IndexVec<ShapeId, (u32, f64)>,
    best: IndexVec<ShapeId, usize>,
}

/// Bundles, candidates and rows for which patterns are generated.
#[derive(Clone, Copy)]
struct Asked<'f> {
    bundles: &'f Bundles<'f>,
    candidates: &'f TypeCandidates,
    /// Amounts up to which each candidate may be filled.
    rooms: &'f [Amounts],
    rows: &'f Rows,
}

/// The best mix of nodes.
pub(super) fn best(
    context: &Context<'_>,
    bundles: &Bundles<'_>,
    candidates: &TypeCandidates,
    rooms: &[Amounts],
) -> Flow {
    let rows = rows(bundles, candidates, rooms);
    let mut flow = Flow { mixes: vec![], values: IndexVec::from_elem(0.0, bundles.all.len()) };
    if rows.bundle.is_empty() {
        return flow;
    }
    let mut master = Master::new(rows.parts.as_slice(), rows.singles.as_slice(), candidates.aims.node_price);
    let mut of: FxHashMap<Pattern, usize> = FxHashMap::default();
    for (row, (held, _)) in rows.singles.enumerate() {
        of.insert(vec![(row, *held)], rows.best[row]);
    }
    generate(context, &mut master, &mut of, &Asked { bundles, candidates, rooms, rows: &rows });
    for (row, dual) in master.duals().enumerate() {
        flow.values[rows.bundle[row]] = dual.max(0.0) * f64::from(rows.parts[row]);
    }
    // Several patterns of one candidate become one kind of nodes: they differ only in what is meant for each.
    let mut mixes: Vec<Option<Mix>> = candidates.all.iter().map(|_| None).collect();
    for (pattern, _, level) in master.solution() {
        let Some(candidate) = of.get(pattern).copied() else { continue };
        let mix = mixes[candidate].get_or_insert_with(|| Mix {
            candidate,
            nodes: 0.0,
            quota: IndexVec::from_elem(0.0, bundles.all.len()),
        });
        mix.nodes += level;
        for (row, held) in pattern {
            mix.quota[rows.bundle[*row]] += level * f64::from(*held) / f64::from(rows.parts[*row]);
        }
    }
    flow.mixes = mixes.into_iter().flatten().collect();
    flow
}

/// The part of a bundle that a node holds.
fn held(bundle: &Bundle, room: &Amounts) -> f64 {
    let parts = bundle.total.iter().zip(room).filter(|(asked, _)| **asked > 0.0);
    parts.map(|(asked, have)| float(*have) / asked).fold(bundle.most.unwrap_or(f64::INFINITY), f64::min)
}

fn rows(bundles: &Bundles<'_>, candidates: &TypeCandidates, rooms: &[Amounts]) -> Rows {
    let mut best: IndexVec<BundleId, Option<(f64, f64, usize)>> = IndexVec::from_elem(None, bundles.all.len());
    for (at, (candidate, room)) in candidates.all.iter().zip(rooms).enumerate() {
        for bundle in candidate.shapes.iter().map(|shape| BundleId::of_shape(*shape)) {
            let held = held(&bundles.all[bundle], room);
            let cost = candidate.cost / held;
            let slot = &mut best[bundle];
            if held > 0.0 && held.is_finite() && slot.is_none_or(|(least, _, _)| cost < least) {
                *slot = Some((cost, held, at));
            }
        }
    }
    let mut rows = Rows {
        bundle: IndexVec::new(),
        row: IndexVec::from_elem(None, best.len()),
        parts: IndexVec::new(),
        singles: IndexVec::new(),
        best: IndexVec::new(),
    };
    for (bundle, found) in best.enumerate() {
        let Some((_, held, at)) = *found else { continue };
        rows.row[bundle] = Some(rows.bundle.push(bundle));
        // Say a node holds a fiftieth of a bundle: the bundle is counted in 500,000 parts, of which the node holds
        // 10,000. Counts of whole pods would be too coarse where a node holds few.
        let parts = rounded_down((PARTS_A_NODE / held).round()).max(1);
        rows.parts.push(parts);
        rows.singles.push((rounded_down(held * f64::from(parts)).max(1), candidates.all[at].price));
        // The program begins with the candidate that carries the bundle at the least cost alone.
        rows.best.push(at);
    }
    rows
}

/// Generates patterns as long as they pay.
fn generate(context: &Context<'_>, master: &mut Master, of: &mut FxHashMap<Pattern, usize>, asked: &Asked<'_>) {
    let Asked { candidates, rows, .. } = *asked;
    let mut known = vec![f64::INFINITY; candidates.all.len()];
    // Choices do not change with the prices: they are computed when a candidate is first asked.
    let mut held: Vec<Option<Choices<ShapeId>>> = candidates.all.iter().map(|_| None).collect();
    let mut value = Vec::new();
    let mut order: Vec<usize> = (0..known.len()).collect();
    let pairs = rows.bundle.len() * rows.bundle.len();
    for round in 0..ROUNDS {
        master.price();
        let duals = master.duals().clone();
        order.sort_by(|a, b| known[*b].total_cmp(&known[*a]).then(a.cmp(b)));
        let mut found: Vec<(f64, Pattern, usize)> = Vec::new();
        for (rank, at) in order.iter().copied().enumerate() {
            // Those that paid least are asked every sixth round only, unless nobody else had anything.
            if rank >= ASKED_FIRST && !found.is_empty() && (at + round) % TURNS != 0 {
                continue;
            }
            let candidate = &candidates.all[at];
            if !context.work(1 + candidate.shapes.len() / BUNDLES_A_STEP) {
                return;
            }
            let held = held[at].get_or_insert_with(|| choices(asked, at));
            let (worth, pattern) = filling(held, &duals, &mut value);
            known[at] = worth / candidate.cost;
            if known[at] > WORTH_A_ROUND {
                found.push((known[at], pattern, at));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut entered = false;
        for (_, pattern, at) in found.into_iter().take(MOST_ENTERING) {
            if !context.work(pairs / PAIRS_A_STEP) {
                return;
            }
            if master.enter(pattern.clone(), candidates.all[at].price) {
                of.insert(pattern, at);
                entered = true;
            }
        }
        if !entered {
            return;
        }
    }
}

/// Contents that a candidate may have, by the rows of the program.
fn choices(asked: &Asked<'_>, candidate: usize) -> Choices<ShapeId> {
    let Asked { bundles, candidates, rooms, rows } = *asked;
    let (candidate, room) = (&candidates.all[candidate], &rooms[candidate]);
    // A resource of which there is no end bounds nothing, and would only make the tableau larger.
    let bounded: Vec<usize> = (0..room.len()).filter(|at| room[*at] < UNBOUNDED / 2).collect();
    let mut choices = Choices::new(bounded.len());
    for bundle in candidate.shapes.iter().map(|shape| BundleId::of_shape(*shape)) {
        let Some(row) = rows.row[bundle] else { continue };
        let parts = f64::from(rows.parts[row]);
        let Bundle { total, most, .. } = &bundles.all[bundle];
        let taken = bounded
            .iter()
            .map(|at| if total[*at] > 0.0 { total[*at] / parts / float(room[*at]).max(1e-3) } else { 0.0 });
        // A crowded bundle: the rules of its pods let no more of it on one node.
        choices.push(row, taken, most.map_or(f64::INFINITY, |most| most * parts));
    }
    choices
}

/// The most valuable contents of a candidate by the worth of a part of each row.
fn filling(choices: &Choices<ShapeId>, duals: &IndexVec<ShapeId, f64>, value: &mut Vec<f64>) -> (f64, Pattern) {
    value.clear();
    value.extend(choices.names.iter().map(|row| duals[*row]));
    let held = knapsack::best(choices, value);
    let mut pattern: Pattern = held.into_iter().map(|(row, level)| (row, rounded_down(level))).collect();
    // Rounded down to parts, of which there are thousands on a node: what is lost is nothing.
    pattern.retain(|(_, count)| *count > 0);
    pattern.sort_unstable();
    let worth = pattern.iter().map(|(row, count)| duals[*row] * f64::from(*count)).sum();
    (worth, pattern)
}
