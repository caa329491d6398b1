//! Checks of what containers ask for and nodes have: names of resources, amounts, requests against limits.
use crate::apiserver::error::StatusCause;
use dovetail_api::quantity::billionths;
use dovetail_core::admission::valid;
use serde_json::Value;

/// Mistakes in the resources and ports of a pod's containers, and in those of the pod as a whole.
pub fn of_pod(spec: &Value, at: &str) -> Vec<StatusCause> {
    let wrong = valid::pod(spec, at).into_iter();
    wrong.map(|one| StatusCause::new(one.reason, &one.field, one.message)).collect()
}

/// Mistakes in a node's capacity and allocatable.
pub fn of_node(status: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for list in ["capacity", "allocatable"] {
        for (name, amount) in members(status, list) {
            let wrong = valid::amount_of(name, amount).map(|why| format!("Invalid value: {why}"));
            causes.extend(wrong.map(|why| StatusCause::invalid(&format!("status.{list}.{name}"), why)));
        }
    }
    causes
}

fn amount(written: &Value) -> Option<i128> {
    billionths(written.as_str()?)
}

fn members<'a>(owner: &'a Value, list: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    owner[list].as_object().into_iter().flatten().map(|(name, amount)| (name.as_str(), amount))
}

/// A warning of what is taken and makes no sense: memory below a byte.
pub fn warnings(spec: &Value, at: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            for kind in ["limits", "requests"] {
                for name in ["memory", "ephemeral-storage"] {
                    let Some(text) = container["resources"][kind][name].as_str() else { continue };
                    if amount(&Value::from(text)).is_some_and(|amount| amount > 0 && amount % 1_000_000_000 != 0) {
                        let field = format!("{at}.{list}[{index}].resources.{kind}[{name}]");
                        warnings
                            .push(format!("{field}: fractional byte value {text:?} is invalid, must be an integer"));
                    }
                }
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(resources: Value) -> Vec<String> {
        let causes = of_pod(&json!({"containers": [{"resources": resources}]}), "spec");
        causes.iter().map(|cause| cause.field.replace("spec.containers[0].resources", "")).collect()
    }

    #[test]
    fn what_a_container_asks_for_is_held_to_kubernetes_rules() {
        for (resources, fields) in [
            (
                json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}),
                vec![],
            ),
            (json!({"requests": {"cpu": "-1"}}), vec![".requests[cpu]"]),
            (json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}), vec![".requests"]),
            (json!({"requests": {"foo": "1"}}), vec![".requests[foo]"]),
            (json!({"limits": {"nvidia.com/gpu": "500m"}}), vec![".limits[nvidia.com/gpu]"]),
            (json!({"requests": {"nvidia.com/gpu": "1"}}), vec![".limits"]),
            (json!({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}), vec![".requests"]),
            (json!({"limits": {"hugepages-2Mi": "2Mi"}}), vec![""]),
        ] {
            assert_eq!(wrong(resources.clone()), fields, "{resources}");
        }
    }

    #[test]
    fn a_node_has_no_less_than_nothing() {
        let causes =
            of_node(&json!({"capacity": {"memory": "-1", "cpu": "1"}, "allocatable": {"example.com/x": "1500m"}}));
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["status.capacity.memory", "status.allocatable.example.com/x"]);
    }
}
