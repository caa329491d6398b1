//! Budgets that are valid and probably not meant so: one with a schedule holds within it, and outside of it nothing does.

use std::collections::BTreeMap;

use dovetail_api::v1::{Budget, NodePool};

use crate::budgets::{RemovalReason, applies};

/// Sentences on budgets that let some nodes go at their times, where no budget bounds the number of nodes that go at all
/// others.
#[must_use]
pub fn open_outside(pool: &NodePool) -> Vec<String> {
    let budgets = &pool.spec.disruption.budgets;
    let mut open: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for reason in RemovalReason::OF_BUDGETS {
        let of_reason = || budgets.iter().enumerate().filter(|(_, budget)| applies(budget, reason));
        if of_reason().any(|(_, budget)| budget.schedule.is_none()) {
            continue;
        }
        let lets_go = |budget: &Budget| !matches!(budget.nodes.as_str(), "0" | "0%");
        for (index, _) in of_reason().filter(|(_, budget)| lets_go(budget)) {
            open.entry(index).or_default().extend(reason.budget_key());
        }
    }
    let sentence = |(index, reasons): (usize, Vec<&str>)| {
        format!(
            "spec.disruption.budgets[{index}] holds within its schedule only: at all other times nothing bounds disruptions for {}; to let nodes go within it alone, write a budget of 0 nodes for all other hours",
            reasons.join(", ")
        )
    };
    open.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn told(budgets: &Value) -> Vec<String> {
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"disruption": {"budgets": budgets}, "template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}}});
        open_outside(&serde_json::from_value(pool).unwrap())
    }

    #[test]
    fn window_outside_which_nothing_holds_is_told_with_reasons() {
        let window = json!({"nodes": "35%", "schedule": "0 1 * * mon", "duration": "4h"});
        let told_of = told(&json!([window, {"nodes": "35%", "reasons": ["Empty"]}]));
        assert_eq!(told_of.len(), 1);
        assert!(
            told_of[0].starts_with("spec.disruption.budgets[0] holds")
                && told_of[0].contains("for Underutilized, Drifted, Unhealthy;"),
            "{told_of:?}"
        );
    }

    #[test]
    fn window_beside_a_constant_bound_or_closing_is_meant_so() {
        for budgets in [
            json!([{"nodes": "10%"}]),
            json!([]),
            json!([{"nodes": "50%"}, {"nodes": "0", "reasons": ["Drifted"], "schedule": "0 5 * * *", "duration": "20h"}]),
            json!([{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]),
            json!([{"nodes": "20%", "schedule": "0 9 * * *", "duration": "8h"}, {"nodes": "1"}]),
        ] {
            assert_eq!(told(&budgets), [""; 0], "{budgets}");
        }
    }
}
