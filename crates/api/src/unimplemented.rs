//! What a NodePool or an EC2NodeClass may ask for, by its schema, and what nothing is done about yet: said on the object, by
//! the condition [`NOT_IMPLEMENTED`](crate::names::conditions::NOT_IMPLEMENTED), and by `plan` as a warning. The object is
//! used all the same. Who brings the effect takes the entry out of here; tests/effects.rs holds fields and entries together.

use crate::v1::{EC2NodeClass, NodePool};

/// Reasons of budgets for which nothing goes yet.
const REASONS_TO_COME: [&str; 1] = ["Drifted"];

/// What of a pool has no effect, each with what is so instead.
#[must_use]
pub fn of_pool(pool: &NodePool) -> Vec<String> {
    let mut all = Vec::new();
    if pool.spec.replicas.is_some() {
        all.push("spec.replicas (a static pool gets no nodes)".to_owned());
    }
    for (index, budget) in pool.spec.disruption.budgets.iter().enumerate() {
        let to_come = |reason: &String| REASONS_TO_COME.contains(&reason.as_str());
        let named: Vec<&str> = budget.reasons.iter().filter(|reason| to_come(reason)).map(String::as_str).collect();
        if !named.is_empty() {
            let named = named.join(", ");
            all.push(format!("spec.disruption.budgets[{index}].reasons {named} (nothing is removed for that)"));
        }
    }
    all
}

/// What of a class has no effect, each with what is so instead.
#[must_use]
pub fn of_class(class: &EC2NodeClass) -> Vec<String> {
    let mut all = Vec::new();
    if class.spec.placement_group_selector.is_some() {
        all.push("spec.placementGroupSelector (instances are launched outside of the group)".to_owned());
    }
    if class.spec.kubelet.is_some() && class.spec.ami_family.as_deref() == Some("Custom") {
        all.push("spec.kubelet (images of family Custom are told nothing; only capacity is counted by it)".to_owned());
    }
    let own = class.spec.user_data.as_deref().unwrap_or_default();
    if own.contains("node.eks.aws") && own.contains("maxPods") {
        all.push("spec.userData with maxPods in a NodeConfig (the control plane's own comes last and says it: spec.kubelet.maxPods)".to_owned());
    }
    all
}

/// All of them as one sentence; nothing where there are none.
#[must_use]
pub fn sentence(all: &[String]) -> Option<String> {
    (!all.is_empty()).then(|| format!("not implemented: {}", all.join("; ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pool(spec: Value) -> NodePool {
        let mut all = json!({"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"}}}});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": all})).unwrap()
    }

    #[test]
    fn a_pool_that_consolidates_asks_for_nothing_that_is_not_there() {
        for disruption in [
            json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}),
            json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never"}),
            json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"}),
            json!({"consolidationPolicy": "Balanced", "budgets": [{"nodes": "1", "reasons": ["Underutilized"]}]}),
            json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m", "budgets": [{"nodes": "1", "reasons": ["Empty"]}]}),
        ] {
            assert_eq!(of_pool(&pool(json!({"disruption": disruption}))), [""; 0], "{disruption}");
        }
        assert_eq!(sentence(&[]), None);
    }

    #[test]
    fn what_is_not_there_yet_is_named_by_its_field() {
        let budgets = json!([{"nodes": "0", "reasons": ["Empty", "Drifted"]}]);
        let asked = pool(json!({"replicas": 2, "disruption": {"consolidateAfter": "1m", "budgets": budgets}}));
        let told = sentence(&of_pool(&asked)).unwrap();
        assert!(told.starts_with("not implemented: spec.replicas (a static pool gets no nodes); "), "{told}");
        assert!(told.contains("spec.disruption.budgets[0].reasons Drifted (nothing"), "{told}");
    }
}
