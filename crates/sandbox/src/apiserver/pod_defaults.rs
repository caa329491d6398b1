//! Defaults of pods, and the admission steps that every cluster has on for them.
use super::defaults::or;
use super::error::{ApiError, Result};
use super::gvr::Key;
use super::meta;
use super::store::State;
use serde_json::{Map, Value, json};

/// Seconds that a pod stays on a node that is not ready or unreachable (DefaultTolerationSeconds).
const TOLERATED_SECONDS: i64 = 300;

/// Defaults of a pod's spec; for templates too.
pub fn spec(spec: &mut Map<String, Value>) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
    ] {
        or(spec, field, value);
    }
    for list in ["initContainers", "containers"] {
        for one in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(map) = one.as_object_mut() {
                container(map);
            }
        }
    }
}

fn container(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    let latest = !image.contains('@') && tag.is_none_or(|tag| tag == "latest");
    or(container, "imagePullPolicy", json!(if latest { "Always" } else { "IfNotPresent" }));
    or(container, "terminationMessagePath", json!("/dev/termination-log"));
    or(container, "terminationMessagePolicy", json!("File"));
    or(container, "resources", json!({}));
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            or(port, "protocol", json!("TCP"));
        }
    }
}

/// What admission adds to a new pod: service account, priority, limit ranges, requests from limits, tolerations, status.
///
/// # Errors
/// 403 when the priority class does not exist or the priority contradicts it.
pub fn admit(state: &State, pod: &mut Value) -> Result<()> {
    let space = meta::text(pod, "namespace").to_owned();
    let account = pod["spec"]["serviceAccountName"].as_str().filter(|s| !s.is_empty()).unwrap_or("default").to_owned();
    pod["spec"]["serviceAccountName"] = json!(account);
    pod["spec"]["serviceAccount"] = json!(account);
    or(meta::member(pod, "spec"), "enableServiceLinks", json!(true));
    priority(state, pod)?;
    limit_ranges(state, &space, pod);
    requests_from_limits(pod);
    tolerations(pod);
    let class = quality(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
    Ok(())
}

fn priority(state: &State, pod: &mut Value) -> Result<()> {
    let Some(rid) = state.registry.rid("scheduling.k8s.io", "priorityclasses") else { return Ok(()) };
    let name = pod["spec"]["priorityClassName"].as_str().filter(|s| !s.is_empty());
    let class = match name {
        Some(name) => {
            let refuse = || {
                ApiError::forbidden(
                    "",
                    "pods",
                    meta::text(pod, "name"),
                    &format!("no PriorityClass with name {name} was found"),
                )
            };
            Some(state.get(rid, &Key::new("", name)).ok_or_else(refuse)?)
        }
        None => state.table(rid).objects.values().find(|class| class.value["globalDefault"] == true),
    };
    let value = class.map_or(json!(0), |class| class.value["value"].clone());
    let policy = class.map_or(json!("PreemptLowerPriority"), |class| class.value["preemptionPolicy"].clone());
    let written = &pod["spec"]["priority"];
    if !written.is_null() && *written != value {
        let why = format!(
            "the integer value of priority ({written}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(ApiError::forbidden("", "pods", meta::text(pod, "name"), &why));
    }
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = json!(class.key.name);
    }
    pod["spec"]["priority"] = value;
    or(meta::member(pod, "spec"), "preemptionPolicy", policy);
    Ok(())
}

fn containers(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    let spec = pod["spec"].as_object_mut().into_iter().flatten();
    spec.filter(|(field, _)| matches!(field.as_str(), "containers" | "initContainers"))
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
}

/// The defaults of the namespace's LimitRanges, for containers.
fn limit_ranges(state: &State, space: &str, pod: &mut Value) {
    let Some(rid) = state.registry.rid("", "limitranges") else { return };
    let limits = state
        .table(rid)
        .within(Some(space))
        .flat_map(|range| range.value["spec"]["limits"].as_array().into_iter().flatten());
    for limit in limits.filter(|l| l["type"] == "Container") {
        let limits = or_else(&limit["default"], &limit["max"]);
        let requests = or_else(&limit["defaultRequest"], or_else(limits, &limit["min"]));
        for container in containers(pod) {
            // A limit that the container sets itself is its request too, before the range's default request.
            let own = container["resources"]["limits"].clone();
            fill(container, "requests", &own);
            fill(container, "limits", limits);
            fill(container, "requests", requests);
        }
    }
}

fn or_else<'a>(first: &'a Value, second: &'a Value) -> &'a Value {
    if first.is_object() { first } else { second }
}

fn fill(container: &mut Value, field: &str, from: &Value) {
    let Some(from) = from.as_object().filter(|m| !m.is_empty()) else { return };
    if container["resources"].is_null() {
        container["resources"] = json!({});
    }
    let to = meta::member(&mut container["resources"], field);
    for (name, quantity) in from {
        or(to, name, quantity.clone());
    }
}

fn requests_from_limits(pod: &mut Value) {
    for container in containers(pod) {
        let limits = container["resources"]["limits"].clone();
        fill(container, "requests", &limits);
    }
}

fn tolerations(pod: &mut Value) {
    let spec = meta::member(pod, "spec");
    or(spec, "tolerations", json!([]));
    let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |t: &Value| {
            let effect = t["effect"].as_str().unwrap_or_default();
            let of = t["key"].as_str().unwrap_or_default();
            (of == key || of.is_empty()) && matches!(effect, "" | "NoExecute")
        };
        if !list.iter().any(covers) {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}));
        }
    }
}

/// The quality-of-service class, by cpu and memory of all containers.
fn quality(spec: &Value) -> &'static str {
    let lists = ["containers", "initContainers"].into_iter().filter_map(|f| spec[f].as_array()).flatten();
    let (mut any, mut all) = (false, true);
    for container in lists {
        for resource in ["cpu", "memory"] {
            let (request, limit) =
                (&container["resources"]["requests"][resource], &container["resources"]["limits"][resource]);
            any |= !request.is_null() || !limit.is_null();
            all &= !limit.is_null() && request == limit;
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
