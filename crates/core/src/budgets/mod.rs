//! Disruption budgets: the number of a pool's nodes that may be disrupted at once (core spec 5.3).

mod reason;
mod schedule;

use dovetail_api::v1::{Budget, NodePool};
use jiff::{SignedDuration, Timestamp};

pub use reason::RemovalReason;
pub(crate) use schedule::Schedule;

use crate::clock::later;

/// Time ahead for which a change of what is allowed is looked for.
const LOOKED_AHEAD: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The number of a pool's nodes that may be disrupted for a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The most nodes; `None` is no bound.
    pub nodes: Option<usize>,
    /// Budgets that cannot be read: one of them is enough for nothing to be allowed.
    pub mistakes: Vec<String>,
}

impl Allowed {
    /// The number of further nodes while `disrupting` are being disrupted already.
    #[must_use]
    pub fn after(&self, disrupting: usize) -> usize {
        self.nodes.map_or(usize::MAX, |nodes| nodes.saturating_sub(disrupting))
    }

    /// True if the budgets allow none at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.nodes == Some(0)
    }
}

/// The nodes that a pool's budgets allow now, with `total` nodes in it.
#[must_use]
pub fn allowed(pool: &NodePool, reason: RemovalReason, total: usize, now: Timestamp) -> Allowed {
    let (mut nodes, mut mistakes) = (None, Vec::new());
    for (index, budget) in pool.spec.disruption.budgets.iter().enumerate() {
        match of_one(budget, total, now) {
            Err(what) => mistakes.push(format!("spec.disruption.budgets[{index}]: {what}")),
            Ok(Some(own)) if applies(budget, reason) => nodes = Some(nodes.map_or(own, |least: usize| least.min(own))),
            Ok(_) => {}
        }
    }
    if !mistakes.is_empty() {
        nodes = Some(0);
    }
    Allowed { nodes, mistakes }
}

/// The first time after `now` at which another number is allowed for a reason, within a week.
#[must_use]
pub fn next_change(pool: &NodePool, reason: RemovalReason, total: usize, now: Timestamp) -> Option<Timestamp> {
    let until = later(now, LOOKED_AHEAD);
    let current = allowed(pool, reason, total, now).nodes;
    let mut at = now;
    loop {
        let budgets = pool.spec.disruption.budgets.iter().filter(|budget| applies(budget, reason));
        at = budgets.filter_map(|budget| edge_after(budget, at)).min().filter(|edge| *edge <= until)?;
        if allowed(pool, reason, total, at).nodes != current {
            return Some(at);
        }
    }
}

/// The next time after `at` at which a budget with a schedule begins or ends to hold.
fn edge_after(budget: &Budget, at: Timestamp) -> Option<Timestamp> {
    let (line, duration) = budget.schedule.as_ref().zip(budget.duration.as_ref())?;
    Schedule::parse(line).ok()?.edge_after(duration.get(), at)
}

/// True if a budget is about a reason: it names it, or names none.
pub(crate) fn applies(budget: &Budget, reason: RemovalReason) -> bool {
    budget.reasons.is_empty() || budget.reasons.iter().any(|named| Some(named.as_str()) == reason.budget_key())
}

/// The nodes that one budget allows; `None` while it does not hold.
fn of_one(budget: &Budget, total: usize, now: Timestamp) -> Result<Option<usize>, String> {
    let nodes = scaled(&budget.nodes, total)?;
    match (&budget.schedule, &budget.duration) {
        (None, None) => Ok(Some(nodes)),
        (Some(line), Some(duration)) => {
            let schedule = Schedule::parse(line)?;
            Ok(schedule.holds(duration.get(), now).then_some(nodes))
        }
        (Some(_), None) => Err("schedule without duration".into()),
        (None, Some(_)) => Err("duration without schedule".into()),
    }
}

/// A count, or a percentage of the total, rounded up.
fn scaled(text: &str, total: usize) -> Result<usize, String> {
    let no = || format!("nodes {text:?} is neither a number nor a percentage");
    match text.strip_suffix('%') {
        None => text.parse().map_err(|_| no()),
        Some(percent) => {
            let percent: usize = percent.parse().map_err(|_| no())?;
            if percent > 100 { Err(no()) } else { Ok((total * percent).div_ceil(100)) }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pool(budgets: &Value) -> NodePool {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"disruption": {"budgets": budgets}, "template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        }))
        .unwrap()
    }

    fn empty(budgets: &Value, total: usize) -> Option<usize> {
        allowed(&pool(budgets), RemovalReason::Empty, total, "2026-03-10T09:30:00Z".parse().unwrap()).nodes
    }

    #[test]
    fn percentages_round_up_and_the_least_budget_counts() {
        assert_eq!(empty(&json!([{"nodes": "10%"}]), 0), Some(0));
        assert_eq!(empty(&json!([{"nodes": "10%"}]), 1), Some(1));
        assert_eq!(empty(&json!([{"nodes": "10%"}]), 11), Some(2));
        assert_eq!(empty(&json!([{"nodes": "100%"}, {"nodes": "3"}]), 10), Some(3));
        assert_eq!(empty(&json!([]), 10), None, "an empty list is without limit");
    }

    #[test]
    fn a_pool_that_says_nothing_has_ten_percent() {
        let mut written = serde_json::to_value(pool(&json!([]))).unwrap();
        written["spec"].as_object_mut().unwrap().remove("disruption");
        let pool = serde_json::from_value(written).unwrap();
        assert_eq!(allowed(&pool, RemovalReason::Empty, 25, Timestamp::UNIX_EPOCH).nodes, Some(3));
    }

    #[test]
    fn a_budget_of_other_reasons_does_not_count() {
        let budgets = json!([{"nodes": "0", "reasons": ["Drifted", "Underutilized"]}, {"nodes": "5"}]);
        assert_eq!(empty(&budgets, 10), Some(5));
        assert_eq!(empty(&json!([{"nodes": "0", "reasons": ["Empty"]}, {"nodes": "5"}]), 10), Some(0));
    }

    #[test]
    fn a_budget_outside_its_time_is_without_limit() {
        let of = |hour: u32| json!([{"nodes": "0", "schedule": format!("0 {hour} * * *"), "duration": "1h"}]);
        assert_eq!((empty(&of(9), 10), empty(&of(10), 10)), (Some(0), None));
    }

    #[test]
    fn nonsense_budget_allows_nothing_whatever_its_reasons() {
        for bad in [
            json!({"nodes": "many"}),
            json!({"nodes": "101%"}),
            json!({"nodes": "-1"}),
            json!({"nodes": "5", "schedule": "@sometimes", "duration": "1h"}),
            json!({"nodes": "5", "schedule": "@daily"}),
            json!({"nodes": "5", "duration": "1h", "reasons": ["Drifted"]}),
        ] {
            let pool = pool(&json!([{"nodes": "100%"}, bad]));
            let allowed = allowed(&pool, RemovalReason::Empty, 10, Timestamp::UNIX_EPOCH);
            assert_eq!(allowed.nodes, Some(0), "{bad}");
            assert!(allowed.mistakes[0].starts_with("spec.disruption.budgets[1]: "), "{:?}", allowed.mistakes);
        }
    }

    #[test]
    fn next_change_is_where_a_scheduled_budget_begins_or_ends() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let nightly = pool(&json!([{"nodes": "10%"}, {"nodes": "0", "schedule": "0 22 * * *", "duration": "8h"}]));
        let next = |now| next_change(&nightly, RemovalReason::Empty, 20, at(now));
        assert_eq!(next("2026-03-10T09:30:00Z"), Some(at("2026-03-10T22:00:00Z")), "it begins to hold");
        let over = next("2026-03-10T23:00:00Z").unwrap();
        assert!(over >= at("2026-03-11T06:00:00Z") && over <= at("2026-03-11T06:00:01Z"), "{over}");
        let always = pool(&json!([{"nodes": "10%"}]));
        assert_eq!(next_change(&always, RemovalReason::Empty, 20, at("2026-03-10T09:30:00Z")), None);
        let same = pool(&json!([{"nodes": "2"}, {"nodes": "5", "schedule": "0 * * * *", "duration": "10m"}]));
        assert_eq!(next_change(&same, RemovalReason::Empty, 20, at("2026-03-10T09:30:00Z")), None, "nothing changes");
    }

    proptest! {
        #[test]
        fn a_percentage_is_never_less_than_its_share_nor_a_node_more(percent in 0usize..=100, total in 0usize..10_000) {
            let nodes = empty(&json!([{"nodes": format!("{percent}%")}]), total).unwrap();
            let share = total as f64 * percent as f64 / 100.0;
            prop_assert!(nodes as f64 >= share - 1e-6 && (nodes as f64) < share + 1.0);
        }

        #[test]
        fn more_budgets_never_allow_more(counts in proptest::collection::vec(0usize..50, 1..6), total in 0usize..100) {
            let budgets: Vec<_> = counts.iter().map(|count| json!({"nodes": count.to_string()})).collect();
            let all = empty(&json!(budgets), total).unwrap();
            prop_assert!(all <= empty(&json!(budgets[..1]), total).unwrap());
            prop_assert_eq!(all, *counts.iter().min().unwrap());
        }
    }
}
