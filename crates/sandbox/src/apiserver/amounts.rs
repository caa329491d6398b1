//! Checks of what containers ask for and nodes have: names of resources, amounts, requests against limits.
use super::error::Cause;
use dovetail_api::quantity::billionths;
use serde_json::{Map, Value};

/// What is wrong with the resources of a pod's containers, and with those of the pod as a whole.
pub fn of_pod(spec: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let resources = &container["resources"];
            // Most containers are right, and have no name made for where they stand.
            if !is_right(resources) {
                causes.extend(of_container(resources, &format!("{at}.{list}[{index}].resources")));
            }
        }
    }
    causes
}

/// What is wrong with what a node has.
pub fn of_node(status: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for list in ["capacity", "allocatable"] {
        for (name, amount) in members(status, list) {
            causes.extend(value(name, amount).map(|why| Cause::invalid(&format!("status.{list}.{name}"), why)));
        }
    }
    causes
}

fn is_right(resources: &Value) -> bool {
    resources.as_object().is_none_or(Map::is_empty) || of_container(resources, "").is_empty()
}

fn of_container(resources: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for list in ["limits", "requests"] {
        for (name, amount) in members(resources, list) {
            let field = format!("{at}.{list}[{name}]");
            if !is_named(name) {
                let why = format!("Invalid value: {name:?}: must be a standard resource type or fully qualified");
                causes.push(Cause::invalid(&field, why));
            }
            causes.extend(value(name, amount).map(|why| Cause::invalid(&field, why)));
        }
    }
    for (name, request) in members(resources, "requests") {
        causes.extend(against_limit(name, request, &resources["limits"][name], at));
    }
    let asked = |wanted: &dyn Fn(&str) -> bool| {
        ["limits", "requests"].iter().any(|list| members(resources, list).any(|(name, _)| wanted(name)))
    };
    if asked(&is_huge) && !asked(&|name| matches!(name, "cpu" | "memory")) {
        causes.push(Cause::forbidden(at, "HugePages require cpu or memory"));
    }
    causes
}

/// A request is no more than its limit; what cannot be shared has a limit, and the same.
fn against_limit(name: &str, request: &Value, limit: &Value, at: &str) -> Option<Cause> {
    let shared = !is_extended(name) && !is_huge(name);
    if limit.is_null() {
        let why = "Required value: Limit must be set for non overcommitable resources";
        return (!shared).then(|| Cause::new("FieldValueRequired", &format!("{at}.limits"), why));
    }
    let (own, most) = (amount(request)?, amount(limit)?);
    let (wrong, relation) = if shared { (own > most, "less than or equal to") } else { (own != most, "equal to") };
    let limit = limit.as_str().unwrap_or_default();
    wrong.then(|| {
        let why = format!("Invalid value: {request}: must be {relation} {name} limit of {limit}");
        Cause::invalid(&format!("{at}.requests"), why)
    })
}

/// What is wrong with an amount.
fn value(name: &str, written: &Value) -> Option<String> {
    const WHOLE: i128 = 1_000_000_000;
    let amount = amount(written)?;
    if amount < 0 {
        return Some(format!("Invalid value: {written}: must be greater than or equal to 0"));
    }
    (is_extended(name) && amount % WHOLE != 0).then(|| format!("Invalid value: {written}: must be an integer"))
}

fn amount(written: &Value) -> Option<i128> {
    billionths(written.as_str()?)
}

fn members<'a>(owner: &'a Value, list: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    owner[list].as_object().into_iter().flatten().map(|(name, amount)| (name.as_str(), amount))
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Devices and whatever else others advertise.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

/// Whether a container may ask for it.
fn is_named(name: &str) -> bool {
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge(name);
    standard || name.split_once('/').is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty())
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
