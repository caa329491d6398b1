//! One shape only: the numbers of nodes of each size that carry exactly all its pods at the least cost.

use super::Answer;
use super::candidates::TypeCandidates;
use super::shapes::Shapes;
use super::variety::Variety;
use crate::pack::model::context::Context;
use crate::pack::model::ids::ShapeId;
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::{count_of, count_of_amount, len_of};

/// Number of pods up to which the answer is exact; beyond, whole nodes of the best size come first.
const EXACT: u32 = 4096;

const ONLY: ShapeId = ShapeId::FIRST;

/// Number of sizes of a node that are tried in one step of work.
const SIZES_A_STEP: usize = 64;

/// The patterns to launch with their numbers of nodes.
pub(super) fn plan(context: &Context<'_>, kind: NodeKind, shapes: &Shapes<'_>, candidates: &TypeCandidates) -> Answer {
    let sizes = sizes(context, kind, shapes, candidates);
    // The table has a row for each pod and a look for each size.
    if !context.work(len_of(shapes.all[ONLY].count.min(EXACT)) * sizes.len() / SIZES_A_STEP) {
        return Answer::new();
    }
    let found = cheapest(&sizes, shapes.all[ONLY].count);
    let nodes: u32 = found.nodes.iter().map(|(_, times)| times).sum();
    // The answer holds the price; what a node costs beside it was only for choosing.
    let price = found.price;
    Answer {
        patterns: found.nodes.into_iter().map(|(held, times)| (vec![(ONLY, held)], times)).collect(),
        price,
        nodes,
    }
}

/// A node for a number of pods.
#[derive(Debug, Clone, Copy)]
struct Size {
    held: u32,
    /// Dollars an hour.
    price: f64,
    /// The price with the cost of a node beside it.
    cost: f64,
}

/// Numbers of pods that a node may hold with their costs, each number once, by its lowest cost.
fn sizes(context: &Context<'_>, kind: NodeKind, shapes: &Shapes<'_>, candidates: &TypeCandidates) -> Vec<Size> {
    let shape = &shapes.all[ONLY];
    let mut variety = Variety::new(context, kind, shapes, candidates.aims);
    let mut sizes: Vec<Size> = Vec::new();
    for candidate in &candidates.all {
        let room = context.room(kind, candidate.at);
        let each = shape.requests.iter().zip(room).filter(|(asked, _)| **asked > 0).map(|(asked, have)| have / asked);
        let mut held = count_of_amount(each.min().unwrap_or(0)).min(shape.count).min(shape.cap);
        // In steps of a sixteenth, and of one where few are held.
        while held > 1 && !variety.enough(&vec![(ONLY, held)]) {
            held -= 1 + held / 16;
        }
        if held > 0 {
            sizes.push(Size { held, price: candidate.price, cost: candidate.cost });
        }
    }
    sizes.sort_by(|a, b| b.held.cmp(&a.held).then(a.cost.total_cmp(&b.cost)));
    // A size that holds less for as much is no use.
    let mut least = f64::INFINITY;
    sizes.retain(|size| {
        let useful = size.cost < least;
        least = least.min(size.cost);
        useful
    });
    sizes
}

struct Found {
    /// Dollars an hour that are paid, without the cost of a node beside its price.
    price: f64,
    nodes: Vec<(u32, u32)>,
}

/// The least cost of carrying `count` pods: exact for small counts, by dynamic programming over the count.
fn cheapest(sizes: &[Size], count: u32) -> Found {
    let each = |size: &Size| size.cost / f64::from(size.held);
    let Some(best) = sizes.iter().min_by(|a, b| each(a).total_cmp(&each(b))) else {
        return Found { price: 0.0, nodes: vec![] };
    };
    // Say 10,000 pods come, and the best size holds 50: 118 such nodes carry 5,900, and the other 4,100 are planned
    // exactly. Near the end the best size may not be the best, far from it it surely is.
    let whole = count.saturating_sub(EXACT) / best.held;
    let rest = len_of(count - whole * best.held);
    let mut cost = vec![0.0; rest + 1];
    let mut by = vec![0; rest + 1];
    for pods in 1..=rest {
        cost[pods] = f64::INFINITY;
        for (at, size) in sizes.iter().enumerate() {
            // A node may stay partly empty: fewer pods than it holds cost as much as a full one.
            let total = cost[pods.saturating_sub(len_of(size.held))] + size.cost;
            if total < cost[pods] {
                (cost[pods], by[pods]) = (total, at);
            }
        }
    }
    let mut nodes: Vec<(u32, u32)> = if whole > 0 { vec![(best.held, whole)] } else { vec![] };
    let mut price = best.price * f64::from(whole);
    let mut left = count_of(rest);
    while left > 0 {
        // Back from the end: the size that was the last one for this number of pods.
        let size = &sizes[by[len_of(left)]];
        let held = size.held.min(left);
        left -= held;
        price += size.price;
        match nodes.iter_mut().find(|(known, _)| *known == held) {
            Some((_, times)) => *times += 1,
            None => nodes.push((held, 1)),
        }
    }
    Found { price, nodes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(all: &[(u32, f64)]) -> Vec<Size> {
        all.iter().map(|(held, cost)| Size { held: *held, price: cost / 2.0, cost: *cost }).collect()
    }

    #[test]
    fn the_cheapest_nodes_carry_exactly_all_pods() {
        let found = cheapest(&sizes(&[(10, 8.0), (4, 4.0), (1, 1.5)]), 25);
        let carried: u32 = found.nodes.iter().map(|(held, times)| held * times).sum();
        assert_eq!(carried, 25);
        // A node costs twice its price here.
        assert!((found.price * 2.0 - 21.5).abs() < 1e-9, "{}", found.price);
    }

    #[test]
    fn large_counts_are_carried_whole() {
        let found = cheapest(&sizes(&[(10, 8.0), (4, 4.0)]), 1_000_003);
        assert_eq!(found.nodes.iter().map(|(held, times)| u64::from(held * times)).sum::<u64>(), 1_000_003);
    }
}
