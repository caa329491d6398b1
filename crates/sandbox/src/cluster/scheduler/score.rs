//! Scores of the feasible nodes: kube-scheduler's defaults and weights.
//!
//! Every feasible node is scored (kube-scheduler looks at a sample in clusters of 100 nodes and more), and of several
//! best ones the seed chooses.

use super::class::PodClass;
use super::node::NodeInfo;
use super::resources::{CPU, MEMORY};
use super::state::{ClassId, SchedulerState, Slot};
use super::{affinity, spread};

const FIT: i64 = 1;
const BALANCE: i64 = 1;
const TAINTS: i64 = 3;
const NODE_AFFINITY: i64 = 2;
const SPREAD: i64 = 2;
const POD_AFFINITY: i64 = 2;

/// The best of the feasible nodes.
pub(crate) fn best(
    state: &mut SchedulerState,
    id: ClassId,
    feasible: &[Slot],
    rng: &mut fastrand::Rng,
) -> Option<Slot> {
    if let [only] = feasible {
        return Some(*only);
    }
    let class = state.classes[id].class.clone();
    let totals = totals(state, id, &class, feasible);
    let most = totals.iter().max()?;
    let ties: Vec<Slot> = feasible.iter().zip(&totals).filter(|(_, t)| *t == most).map(|(s, _)| *s).collect();
    Some(ties[if ties.len() > 1 { rng.usize(..ties.len()) } else { 0 }])
}

/// The weighted sum of all scores, node by node.
fn totals(state: &mut SchedulerState, id: ClassId, class: &PodClass, feasible: &[Slot]) -> Vec<i64> {
    let by_spread = spread::score(state, id, class, feasible);
    let by_affinity = affinity::score(state, class, feasible);
    let verdicts = || feasible.iter().map(|slot| state.verdict(id, *slot));
    let disliked: Vec<i64> = verdicts().map(|v| v.map_or(0, |v| v.disliked)).collect();
    let preferred: Vec<i64> = verdicts().map(|v| v.map_or(0, |v| v.preferred)).collect();
    let (most_disliked, most_preferred) =
        (disliked.iter().max().copied().unwrap_or(0), preferred.iter().max().copied().unwrap_or(0));
    let share = |score: i64, most: i64| if most > 0 { 100 * score / most } else { 0 };
    let at = |scores: &Option<Vec<i64>>, i: usize| scores.as_ref().map_or(0, |s| s[i]);
    feasible
        .iter()
        .enumerate()
        .map(|(i, slot)| {
            let node = state.nodes[*slot].as_ref();
            FIT * node.map_or(0, |n| least_allocated(class, n))
                + BALANCE * node.map_or(0, |n| balanced(class, n))
                + TAINTS * (100 - share(disliked[i], most_disliked))
                + NODE_AFFINITY * share(preferred[i], most_preferred)
                + SPREAD * at(&by_spread, i)
                + POD_AFFINITY * at(&by_affinity, i)
        })
        .collect()
}

/// The mean share of CPU and memory that is left free.
fn least_allocated(class: &PodClass, node: &NodeInfo) -> i64 {
    let free = |i: usize, column: usize| {
        let (allocatable, used) = (node.allocatable.get(column), node.used_nonzero[i] + class.nonzero[i]);
        (allocatable > 0).then(|| ((allocatable - used).max(0) as i128 * 100 / i128::from(allocatable)) as i64)
    };
    let shares: Vec<i64> = [(0, CPU), (1, MEMORY)].into_iter().filter_map(|(i, column)| free(i, column)).collect();
    if shares.is_empty() { 0 } else { shares.iter().sum::<i64>() / shares.len() as i64 }
}

/// Similarity of the used shares of CPU and memory: their standard deviation taken from 1.
fn balanced(class: &PodClass, node: &NodeInfo) -> i64 {
    let share = |column| {
        let allocatable = node.allocatable.get(column) as f64;
        ((node.used.get(column) + class.requests.get(column)) as f64 / allocatable.max(1.0)).min(1.0)
    };
    let deviation = (share(CPU) - share(MEMORY)).abs() / 2.0;
    ((1.0 - deviation) * 100.0) as i64
}
