//! Fields that the API server fills in, whatever the cluster's policies are.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value, json};

use super::valid::is_extended;
use super::{containers, containers_mut, fill, or, quantities};
use crate::pod::requests_of_containers;
use crate::resources::format_amount;

/// Seconds that a pod stays on a node that is not ready or unreachable (DefaultTolerationSeconds).
const TOLERATED_SECONDS: i64 = 300;

/// On the host's network a container's port is a port of the host (API reference, `ports.hostPort`). It is filled in for pods
/// only, never in templates; therefore a DaemonSet's template does not show it.
pub fn ports_of_the_host(spec: &mut Map<String, Value>) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for container in containers_mut(spec) {
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let number = port["containerPort"].clone();
            let unset = port["hostPort"].is_null() || port["hostPort"] == 0;
            if let Some(port) = port.as_object_mut().filter(|_| unset && number.is_number()) {
                port.insert("hostPort".into(), number);
            }
        }
    }
}

/// Sets a container's request of a resource to its limit, where only the limit is given.
pub fn requests_from_limits(spec: &mut Map<String, Value>) {
    for container in containers_mut(spec) {
        let limits = quantities(&container["resources"]["limits"]);
        fill(container, "requests", &limits);
    }
}

/// Sets the requests of the pod as a whole, if it has limits as a whole (KEP-2837): the sum of its containers' requests, or
/// else the limit.
pub fn requests_of_the_pod(spec: &mut Map<String, Value>) {
    let limits = quantities(&spec.get("resources").map_or(Value::Null, |resources| resources["limits"].clone()));
    if limits.is_empty() {
        return;
    }
    let requested = spec.get("resources").map_or_else(Default::default, |one| quantities(&one["requests"]));
    let Ok(typed) = serde_json::from_value::<PodSpec>(Value::Object(spec.clone())) else { return };
    let Ok(containers) = requests_of_containers(&typed) else { return };
    let whole = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let mut requests = requested;
    for (name, amount) in containers.iter().filter(|(name, _)| matches!(*name, "cpu" | "memory")) {
        requests.entry(name.to_owned()).or_insert_with(|| format_amount(name, amount));
    }
    for (name, limit) in limits.into_iter().filter(|(name, _)| whole(name)) {
        requests.entry(name).or_insert(limit);
    }
    let mut pod = Value::Object(std::mem::take(spec));
    fill(&mut pod, "requests", &requests);
    if let Value::Object(filled) = pod {
        *spec = filled;
    }
}

/// A pod stays five minutes on a node that is lost, unless it says otherwise.
pub fn tolerations(spec: &mut Map<String, Value>) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |one: &Value| {
            let effect = one["effect"].as_str().unwrap_or_default();
            let of = one["key"].as_str().unwrap_or_default();
            (of == key || of.is_empty()) && matches!(effect, "" | "NoExecute")
        };
        let own =
            json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS});
        tolerate(spec, covers, own);
    }
}

/// Adds to a pod that requests a device a toleration of the taint of that name, whatever the value and effect
/// (ExtendedResourceToleration, which EKS has on).
pub fn tolerations_of_devices(spec: &mut Map<String, Value>) {
    let mut devices: Vec<String> = Vec::new();
    for container in containers(spec) {
        devices.extend(quantities(&container["resources"]["requests"]).into_keys().filter(|name| is_extended(name)));
    }
    devices.sort();
    devices.dedup();
    for device in devices {
        let covers = |one: &Value| {
            one["key"] == device.as_str()
                && one["operator"] == "Exists"
                && one["effect"].as_str().unwrap_or_default().is_empty()
        };
        tolerate(spec, covers, json!({"key": device, "operator": "Exists"}));
    }
}

fn tolerate(spec: &mut Map<String, Value>, covers: impl Fn(&Value) -> bool, own: Value) {
    or(spec, "tolerations", json!([]));
    let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else { return };
    if !list.iter().any(covers) {
        list.push(own);
    }
}
