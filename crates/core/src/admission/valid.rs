//! Checks of the API server's validation on a pod after admission, as far as scheduling sees it: requests and limits of
//! containers and of the pod as a whole (Kubernetes API reference, `ResourceRequirements`; KEP-2837), and the ports of the
//! host. The texts are the API server's.

use std::collections::BTreeSet;
use std::fmt;

use dovetail_api::quantity::billionths;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value};

use crate::pod::requests_of_containers;
use crate::resources::{format_amount, parse_amount};

/// A field that the API server does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Path of the field, such as `spec.containers[0].resources.requests`.
    pub field: String,
    /// The cause's reason, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The fault, without the field.
    pub message: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Invalid {
    fn value(field: String, message: String) -> Self {
        Self { field, reason: "FieldValueInvalid", message: format!("Invalid value: {message}") }
    }
}

/// The faults in the spec of a pod, or of a template of pods. `at` is its path.
#[must_use]
pub fn pod(spec: &Value, at: &str) -> Vec<Invalid> {
    let mut all = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in members(spec, list).enumerate() {
            let resources = &container["resources"];
            // Most containers are valid: their paths are not built.
            if !is_right(resources) {
                all.extend(of_resources(resources, &format!("{at}.{list}[{index}].resources")));
            }
        }
    }
    whole(spec, at, &mut all);
    ports(spec, at, &mut all);
    all
}

fn members<'v>(spec: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    spec[list].as_array().into_iter().flatten()
}

fn is_right(resources: &Value) -> bool {
    resources.as_object().is_none_or(Map::is_empty) || of_resources(resources, "").is_empty()
}

fn of_resources(resources: &Value, at: &str) -> Vec<Invalid> {
    let mut all = Vec::new();
    for list in ["limits", "requests"] {
        for (name, amount) in amounts(resources, list) {
            let field = || format!("{at}.{list}[{name}]");
            if !is_named(name) {
                let why = format!("{name:?}: must be a standard resource type or fully qualified");
                all.push(Invalid::value(field(), why));
            }
            all.extend(amount_of(name, amount).map(|why| Invalid::value(field(), why)));
        }
    }
    for (name, request) in amounts(resources, "requests") {
        all.extend(against_limit(name, request, &resources["limits"][name], at));
    }
    let asked = |wanted: &dyn Fn(&str) -> bool| {
        ["limits", "requests"].iter().any(|list| amounts(resources, list).any(|(name, _)| wanted(name)))
    };
    if asked(&is_huge) && !asked(&|name| matches!(name, "cpu" | "memory")) {
        let message = "Forbidden: HugePages require cpu or memory".to_owned();
        all.push(Invalid { field: at.to_owned(), reason: "FieldValueForbidden", message });
    }
    all
}

/// A request is at most its limit; a resource that cannot be shared needs a limit, equal to its request.
fn against_limit(name: &str, request: &Value, limit: &Value, at: &str) -> Option<Invalid> {
    let shared = is_native(name) && !is_huge(name);
    if limit.is_null() {
        let message = "Required value: Limit must be set for non overcommitable resources".to_owned();
        let reason = "FieldValueRequired";
        return (!shared).then(|| Invalid { field: format!("{at}.limits"), reason, message });
    }
    let (own, most) = (exact(request)?, exact(limit)?);
    let (wrong, relation) = if shared { (own > most, "less than or equal to") } else { (own != most, "equal to") };
    wrong.then(|| {
        let why = format!("{}: must be {relation} {name} limit of {}", quoted(request), plain(limit));
        Invalid::value(format!("{at}.requests"), why)
    })
}

/// The fault in an amount.
#[must_use]
pub fn amount_of(name: &str, written: &Value) -> Option<String> {
    const WHOLE: i128 = 1_000_000_000;
    let amount = exact(written)?;
    if amount < 0 {
        return Some(format!("{}: must be greater than or equal to 0", quoted(written)));
    }
    (is_extended(name) && amount % WHOLE != 0).then(|| format!("{}: must be an integer", quoted(written)))
}

/// Checks requests and limits of the pod as a whole: of supported resources, each valid, and no less than its containers'.
fn whole(spec: &Value, at: &str, all: &mut Vec<Invalid>) {
    let resources = &spec["resources"];
    if resources.as_object().is_none_or(Map::is_empty) {
        return;
    }
    let at_own = format!("{at}.resources");
    for list in ["limits", "requests"] {
        for (name, amount) in amounts(resources, list) {
            let field = || format!("{at_own}.{list}[{name}]");
            all.extend(amount_of(name, amount).map(|why| Invalid::value(field(), why)));
            if matches!(name, "cpu" | "memory") || is_huge(name) {
                continue;
            }
            let message = format!("Unsupported value: {name:?}: supported values: \"cpu\", \"hugepages-\", \"memory\"");
            all.push(Invalid { field: field(), reason: "FieldValueNotSupported", message });
        }
    }
    all.extend(
        amounts(resources, "requests")
            .filter_map(|(name, request)| against_limit(name, request, &resources["limits"][name], &at_own)),
    );
    let typed = serde_json::from_value::<PodSpec>(spec.clone()).ok();
    let containers = typed.and_then(|typed| requests_of_containers(&typed).ok()).unwrap_or_default();
    for (name, request) in amounts(resources, "requests") {
        let Ok(own) = parse_amount(name, &plain(request)) else { continue };
        let least = containers.get(name);
        if own < least {
            let least = format_amount(name, least);
            let why = format!(
                "{}: must be greater than or equal to aggregate container requests of {least}",
                quoted(request)
            );
            all.push(Invalid::value(format!("{at_own}.requests[{name}]"), why));
        }
    }
    for list in ["initContainers", "containers"] {
        for (index, container) in members(spec, list).enumerate() {
            for (name, limit) in amounts(&container["resources"], "limits") {
                let most = &resources["limits"][name];
                if let (Some(own), Some(bound)) = (exact(limit), exact(most))
                    && own > bound
                {
                    let why = format!("{}: must be less than or equal to pod limits of {}", quoted(limit), plain(most));
                    all.push(Invalid::value(format!("{at}.{list}[{index}].resources.limits[{name}]"), why));
                }
            }
        }
    }
}

/// Checks ports of the host: in range, each once among containers that run together, and on the host's network equal to the
/// container's port.
fn ports(spec: &Value, at: &str, all: &mut Vec<Invalid>) {
    let on_host = spec["hostNetwork"] == true;
    let mut taken = BTreeSet::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in members(spec, list).enumerate() {
            // Init containers run one after the other: each may take the same ports.
            if list == "initContainers" {
                taken.clear();
            }
            for (number, port) in members(container, "ports").enumerate() {
                let (own, host) = (port["containerPort"].as_i64(), port["hostPort"].as_i64().filter(|host| *host != 0));
                let field = |name: &str| format!("{at}.{list}[{index}].ports[{number}].{name}");
                for (name, value) in [("containerPort", own), ("hostPort", host)] {
                    if let Some(value) = value.filter(|value| !(1..=65535).contains(value)) {
                        all.push(Invalid::value(
                            field(name),
                            format!("{value}: must be between 1 and 65535, inclusive"),
                        ));
                    }
                }
                let Some(host) = host else { continue };
                if on_host && own != Some(host) {
                    let why = format!("{host}: must match `containerPort` when `hostNetwork` is true");
                    all.push(Invalid::value(field("hostPort"), why));
                }
                let text = |name: &str, unless: &'static str| port[name].as_str().unwrap_or(unless).to_owned();
                let whole = format!("{}/{}/{host}", text("protocol", "TCP"), text("hostIP", ""));
                if !taken.insert(whole.clone()) {
                    let (reason, message) = ("FieldValueDuplicate", format!("Duplicate value: {whole:?}"));
                    all.push(Invalid { field: field("hostPort"), reason, message });
                }
            }
        }
        taken.clear();
    }
}

/// A quantity as it is written, without quotes.
fn plain(written: &Value) -> String {
    written.as_str().map_or_else(|| written.to_string(), str::to_owned)
}

fn quoted(written: &Value) -> String {
    format!("{:?}", plain(written))
}

fn exact(written: &Value) -> Option<i128> {
    (written.is_string() || written.is_number()).then(|| billionths(&plain(written))).flatten()
}

fn amounts<'a>(owner: &'a Value, list: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    owner[list].as_object().into_iter().flatten().map(|(name, amount)| (name.as_str(), amount))
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// True if a resource is one of Kubernetes' own (`IsNativeResource` of the API server).
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// True if a resource is an extended one, such as a device: none of Kubernetes' own, and no quota's name for one
/// (`IsExtendedResourceName` of the API server).
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

/// True if a container may request a resource of that name.
fn is_named(name: &str) -> bool {
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge(name);
    standard || name.split_once('/').is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Faults, as field and message, of a pod with one container `{c}` and these fields.
    fn wrong(spec: Value) -> Vec<String> {
        pod(&spec, "spec").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_pod_as_a_whole_is_held_against_its_containers() {
        let of = |resources: Value, container: Value| {
            wrong(json!({"resources": resources, "containers": [{"name": "c", "resources": container}]}))
        };
        let right = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}});
        assert_eq!(of(right, json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}})), [""; 0]);
        for (resources, container, said) in [
            (
                json!({"requests": {"cpu": "1"}}),
                json!({"requests": {"cpu": "2"}}),
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
            ),
            (
                json!({"requests": {"memory": "9Gi"}, "limits": {"memory": "4Gi"}}),
                json!({}),
                "spec.resources.requests: Invalid value: \"9Gi\": must be less than or equal to memory limit of 4Gi",
            ),
            (
                json!({"limits": {"nvidia.com/gpu": 1}}),
                json!({}),
                "spec.resources.limits[nvidia.com/gpu]: Unsupported value: \"nvidia.com/gpu\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
            ),
            (
                json!({"requests": {"cpu": "-1"}}),
                json!({}),
                "spec.resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ),
            (
                json!({"limits": {"cpu": "1"}}),
                json!({"limits": {"cpu": "2"}}),
                "spec.containers[0].resources.limits[cpu]: Invalid value: \"2\": must be less than or equal to pod limits of 1",
            ),
        ] {
            assert_eq!(of(resources, container), [said]);
        }
    }

    #[test]
    fn extended_resource_is_whole_and_its_quota_name_needs_a_limit() {
        let whole = |name: &str| amount_of(name, &json!("1500m")).is_some();
        assert!(whole("nvidia.com/gpu"));
        assert!(!whole("cpu") && !whole("node.kubernetes.io/slots") && !whole("requests.nvidia.com/gpu"));
        let unlimited = |name: &str| {
            !wrong(json!({"containers": [{"name": "c", "resources": {"requests": {name: "1"}}}]})).is_empty()
        };
        assert!(unlimited("nvidia.com/gpu") && unlimited("requests.nvidia.com/gpu"));
        assert!(!unlimited("cpu") && !unlimited("node.kubernetes.io/slots"));
    }

    #[test]
    fn a_port_of_the_host_is_a_port_and_is_there_once() {
        let of = |host_network: bool, ports: Value| {
            wrong(
                json!({"hostNetwork": host_network, "containers": [{"name": "c", "ports": ports}, {"name": "d", "ports": [{"containerPort": 99, "hostPort": 99}]}]}),
            )
        };
        assert_eq!(
            of(
                false,
                json!([{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 8080, "protocol": "UDP"}])
            ),
            [""; 0]
        );
        assert_eq!(
            of(true, json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 0}])),
            [""; 0],
            "a template's"
        );
        let at = "spec.containers[0].ports[0]";
        assert_eq!(
            of(false, json!([{"containerPort": 80, "hostPort": 70000}])),
            [format!("{at}.hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive")]
        );
        assert_eq!(
            of(true, json!([{"containerPort": 80, "hostPort": 81}])),
            [format!("{at}.hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true")]
        );
        assert_eq!(
            of(false, json!([{"containerPort": 80, "hostPort": 99}])),
            ["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//99\""]
        );
        let init = json!([{"name": "i", "ports": [{"containerPort": 99, "hostPort": 99}]}]);
        let spec = json!({"initContainers": init, "containers": [{"name": "d", "ports": [{"containerPort": 99, "hostPort": 99}]}]});
        assert_eq!(wrong(spec), [""; 0]);
    }
}
