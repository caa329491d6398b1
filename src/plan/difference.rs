//! `plan --diff`: two plans side by side, read off what `plan --json` prints.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dovetail_input::{Mistake, read_bytes};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::live::HOURS_OF_A_MONTH;

/// Longest plan that is read, bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Most pods that a line names.
const PODS_NAMED: usize = 5;

/// A plan, as far as it is compared. The rest of the answer is passed over.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenPlan {
    pods: usize,
    scheduled_pods: usize,
    num_node_claims: usize,
    unscheduled: BTreeMap<String, String>,
    node_claims: Vec<WrittenClaim>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenClaim {
    node_pool: String,
    cheapest_type: String,
    cheapest_capacity_type: String,
    price: f64,
}

/// The difference of two plans.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanDifference {
    /// The other plan, in words.
    pub with: String,
    pub nodes: Vec<NodesDiffer>,
    pub hourly_price_before: f64,
    pub hourly_price_after: f64,
    /// Pods that are pending in this plan and not in the other, with the reason.
    pub newly_pending: BTreeMap<String, String>,
    /// Pods that are pending in the other plan and not in this.
    pub no_longer_pending: Vec<String>,
}

/// Nodes of one pool, type and capacity type, whose number differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodesDiffer {
    pub node_pool: String,
    pub instance_type: String,
    pub capacity_type: String,
    pub before: usize,
    pub after: usize,
}

impl WrittenPlan {
    /// Reads a plan that `plan --json` has written.
    ///
    /// # Errors
    /// No such file, or it is not the whole of such a plan.
    pub(super) fn from_file(file: &str) -> Result<Self, Mistake> {
        let text = read_bytes(file, MOST_BYTES)?;
        let plan: Self = serde_json::from_slice(&text).map_err(|error| {
            let full = error.to_string();
            let what = full.split(" at line ").next().unwrap_or(&full).to_owned();
            let place = Mistake { line: error.line(), ..Mistake::of_file(file, what) };
            place.allowing("the whole answer of plan --json")
        })?;
        let fits = plan.num_node_claims == plan.node_claims.len()
            && plan.scheduled_pods.checked_add(plan.unscheduled.len()) == Some(plan.pods);
        if !fits {
            let what = "its numbers of pods and nodes are not those of its lists";
            return Err(Mistake::of_file(file, what).allowing("the whole answer of plan --json"));
        }
        Ok(plan)
    }

    /// The plan of an answer in memory.
    pub(super) fn from_answer(answer: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(answer)
    }

    fn price(&self) -> f64 {
        self.node_claims.iter().map(|claim| claim.price).fold(0.0, |sum, price| sum + price)
    }

    fn counts(&self) -> BTreeMap<[&str; 3], usize> {
        let mut counts = BTreeMap::new();
        for claim in &self.node_claims {
            let key = [&*claim.node_pool, &*claim.cheapest_type, &*claim.cheapest_capacity_type];
            *counts.entry(key).or_default() += 1;
        }
        counts
    }
}

impl PlanDifference {
    pub(super) fn new(with: &str, before: &WrittenPlan, after: &WrittenPlan) -> Self {
        let (had, has) = (before.counts(), after.counts());
        let mut keys: Vec<&[&str; 3]> = had.keys().chain(has.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let count = |counts: &BTreeMap<[&str; 3], usize>, key| counts.get(key).copied().unwrap_or_default();
        let nodes = keys.into_iter().filter(|key| count(&had, *key) != count(&has, *key)).map(|key| {
            let [pool, type_, capacity] = key.map(str::to_owned);
            let (before, after) = (count(&had, key), count(&has, key));
            NodesDiffer { node_pool: pool, instance_type: type_, capacity_type: capacity, before, after }
        });
        let newly = after.unscheduled.iter().filter(|(pod, _)| !before.unscheduled.contains_key(*pod));
        let no_longer = before.unscheduled.keys().filter(|pod| !after.unscheduled.contains_key(*pod));
        Self {
            with: with.to_owned(),
            nodes: nodes.collect(),
            hourly_price_before: before.price(),
            hourly_price_after: after.price(),
            newly_pending: newly.map(|(pod, why)| (pod.clone(), why.clone())).collect(),
            no_longer_pending: no_longer.cloned().collect(),
        }
    }

    /// The difference as lines.
    pub(super) fn lines(&self) -> String {
        let mut text = format!("compared with {}:\n", self.with);
        if self.nodes.is_empty() {
            text.push_str("  the same new nodes\n");
        }
        for one in &self.nodes {
            let NodesDiffer { node_pool, instance_type, capacity_type, before, after } = one;
            let (sign, by) = if after > before { ('+', after - before) } else { ('-', before - after) };
            let _ = writeln!(
                text,
                "  {sign}{by} {instance_type}, {capacity_type}, of nodepool {node_pool}: {before} before, {after} now"
            );
        }
        let (before, after) = (self.hourly_price_before, self.hourly_price_after);
        let more = after - before;
        let word = if more < 0.0 { "less" } else { "more" };
        let month = more.abs() * HOURS_OF_A_MONTH;
        let _ = writeln!(
            text,
            "  ${before:.4} an hour before, ${after:.4} now: ${:.4} an hour {word}, ${month:.0} a month",
            more.abs()
        );
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        self.newly_pending.iter().for_each(|(pod, why)| by_reason.entry(why).or_default().push(pod));
        for (why, pods) in by_reason {
            let _ = writeln!(text, "  now pending: {}: {why}", named(&pods));
        }
        if !self.no_longer_pending.is_empty() {
            let pods: Vec<&str> = self.no_longer_pending.iter().map(String::as_str).collect();
            let _ = writeln!(text, "  not pending any more: {}", named(&pods));
        }
        text
    }
}

/// The first pods of a list, and the number of the others.
pub(super) fn named(pods: &[&str]) -> String {
    let first = pods.iter().take(PODS_NAMED).copied().collect::<Vec<_>>().join(", ");
    match pods.len().saturating_sub(PODS_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn plan(types: &[(&str, f64)], pending: &[&str]) -> WrittenPlan {
        let claims: Vec<Value> = types
            .iter()
            .map(|(name, price)| {
                json!({"nodePool": "p", "cheapestType": name, "cheapestCapacityType": "spot", "price": price})
            })
            .collect();
        let unscheduled: BTreeMap<&str, &str> = pending.iter().map(|pod| (*pod, "too large")).collect();
        WrittenPlan::from_answer(json!({"pods": pending.len(), "scheduledPods": 0, "numNodeClaims": claims.len(),
            "unscheduled": unscheduled, "nodeClaims": claims}))
        .unwrap()
    }

    #[test]
    fn nodes_prices_and_pods_that_differ_are_named() {
        let before = plan(&[("a", 0.1), ("a", 0.1), ("b", 0.3)], &["x"]);
        let after = plan(&[("a", 0.1), ("b", 0.3), ("b", 0.3)], &["y"]);
        let lines = PlanDifference::new("before.json", &before, &after).lines();
        for needle in [
            "compared with before.json:",
            "-1 a, spot, of nodepool p: 2 before, 1 now",
            "+1 b, spot, of nodepool p: 1 before, 2 now",
            "$0.5000 an hour before, $0.7000 now: $0.2000 an hour more, $146 a month",
            "now pending: y: too large",
            "not pending any more: x",
        ] {
            assert!(lines.contains(needle), "{needle}: {lines}");
        }
        assert!(PlanDifference::new("x", &after, &after).lines().contains("the same new nodes"));
    }
}
