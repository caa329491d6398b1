//! PodTopologySpread: the filter for `DoNotSchedule` and the score for `ScheduleAnyway`.

use dovetail_api::names::labels::HOSTNAME;

use super::class::{PodClass, Spread};
use super::filter::FilterReason;
use super::node::NodeInfo;
use super::state::{ClassId, CountedPods, SchedulerState, Slot};

/// The hard constraints of a pod, with the pods of each domain counted.
#[derive(Debug)]
pub(crate) struct SpreadPlan(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    key: usize,
    max_skew: i64,
    /// 1 when the pod itself is one that the selector means.
    own: i64,
    counts: Vec<Option<i64>>,
    least: i64,
}

impl SpreadPlan {
    pub(crate) fn new(state: &mut SchedulerState, id: ClassId, class: &PodClass) -> Self {
        let counted = count(state, id, class, &class.hard_spread, true);
        let rules = class.hard_spread.iter().zip(counted).map(|(spread, (key, counts))| {
            let domains = counts.iter().flatten().count();
            let least =
                if domains < spread.min_domains { 0 } else { counts.iter().flatten().min().copied().unwrap_or(0) };
            let own = i64::from(spread.selector.matches(&class.labels));
            Rule { key, max_skew: spread.max_skew, own, counts, least }
        });
        Self(rules.collect())
    }

    /// The reason for which the node is refused, if it is.
    pub(crate) fn judge(&self, node: &NodeInfo) -> Option<FilterReason> {
        self.0.iter().find_map(|rule| {
            let Some(domain) = node.domains[rule.key] else { return Some(FilterReason::SpreadLabel) };
            let here = rule.counts.get(domain).copied().flatten().unwrap_or(0);
            (here + rule.own - rule.least > rule.max_skew).then_some(FilterReason::Spread)
        })
    }
}

/// For each constraint its key's index and the pods counted by domain; a domain without a node that counts is `None`.
fn count(
    state: &mut SchedulerState,
    id: ClassId,
    class: &PodClass,
    spreads: &[Spread],
    all_keys: bool,
) -> Vec<(usize, Vec<Option<i64>>)> {
    let keys: Vec<usize> = spreads.iter().map(|s| state.topology_key(&s.key)).collect();
    let counters: Vec<usize> =
        spreads.iter().map(|s| state.counter(CountedPods::spread(s, &class.namespace))).collect();
    let mut counts: Vec<Vec<Option<i64>>> = keys.iter().map(|k| vec![None; state.topology.size(*k)]).collect();
    for (slot, node) in state.nodes() {
        if all_keys && keys.iter().any(|k| node.domains[*k].is_none()) {
            continue;
        }
        let Some(verdict) = state.verdict(id, slot) else { continue };
        for (i, spread) in spreads.iter().enumerate() {
            let counts_here =
                (verdict.selected || !spread.honor_affinity) && (verdict.tolerated || !spread.honor_taints);
            if let (true, Some(domain)) = (counts_here, node.domains[keys[i]]) {
                *counts[i][domain].get_or_insert(0) += i64::from(state.counted(counters[i], slot));
            }
        }
    }
    keys.into_iter().zip(counts).collect()
}

/// The scores (0 to 100) of the feasible nodes by the soft constraints; `None` when there are none.
pub(crate) fn score(state: &mut SchedulerState, id: ClassId, class: &PodClass, feasible: &[Slot]) -> Option<Vec<i64>> {
    if class.soft_spread.is_empty() {
        return None;
    }
    let counted = count(state, id, class, &class.soft_spread, !class.default_spread);
    let nodes = || feasible.iter().map(|slot| state.nodes[*slot].as_ref());
    let has_keys =
        |node: &NodeInfo| class.default_spread || counted.iter().all(|(key, _)| node.domains[*key].is_some());
    let valid: Vec<bool> = nodes().map(|n| n.is_some_and(has_keys)).collect();
    let mut raw = vec![0.0; feasible.len()];
    for (spread, (key, counts)) in class.soft_spread.iter().zip(&counted) {
        let mut domains: Vec<usize> =
            nodes().zip(&valid).filter(|(_, v)| **v).filter_map(|(n, _)| n?.domains[*key]).collect();
        let size = if spread.key == HOSTNAME {
            domains.len()
        } else {
            domains.sort_unstable();
            domains.dedup();
            domains.len()
        };
        let weight = ((size + 2) as f64).ln();
        for (score, node) in raw.iter_mut().zip(nodes()) {
            if let Some(domain) = node.and_then(|n| n.domains[*key]) {
                let here = counts.get(domain).copied().flatten().unwrap_or(0);
                *score += here as f64 * weight + (spread.max_skew - 1) as f64;
            }
        }
    }
    Some(normalise(&raw, &valid))
}

/// Fewer pods, more points; a node without the labels has none.
fn normalise(raw: &[f64], valid: &[bool]) -> Vec<i64> {
    let rounded = |score: &f64| score.round() as i64;
    let of_valid = || raw.iter().zip(valid).filter(|(_, v)| **v).map(|(s, _)| rounded(s));
    let (most, least) = (of_valid().max().unwrap_or(0), of_valid().min().unwrap_or(0));
    let score = |(raw, valid): (&f64, &bool)| match (*valid, most) {
        (false, _) => 0,
        (true, 0) => 100,
        (true, _) => 100 * (most + least - rounded(raw)) / most,
    };
    raw.iter().zip(valid).map(score).collect()
}
