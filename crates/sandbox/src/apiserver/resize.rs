//! The resize subresource of pods: requests and limits of CPU and memory change while the pod runs (Kubernetes 1.33). Everything
//! else that is sent stays as it was.
use super::error::{ApiError, Result, StatusCause};
use super::gvr::Key;
use super::http::handler::{Reply, RoutedRequest, stored, written};
use super::kinds::pod_defaults::quality;
use super::store::StoreState;
use super::subresource::there;
use super::writing::patch;
use http::Method;
use serde_json::{Value, json};

/// Name of the subresource.
pub(super) const RESIZE: &str = "resize";
/// Resources that may change.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Answers a request on a pod's resources.
///
/// # Errors
/// 404, 409 for another version than the stored one, 422 for a change that is not allowed.
pub(super) fn handle(state: &mut StoreState, call: &mut RoutedRequest<'_>, method: &Method) -> Result<Reply> {
    let key = call.key()?;
    let old = there(state, call.found, &key)?.clone();
    let wanted = match *method {
        Method::GET => return Ok(Reply::Json(200, call.view.json(&old), Vec::new())),
        Method::PUT => written(call)?,
        Method::PATCH => patch::plain(call, &old.value)?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    let done = state.modify(call.found, &key, &call.options, |old| resized(&key, old, &wanted))?;
    Ok(stored(call, &done))
}

/// The pod with the resources of another one.
///
/// # Errors
/// 422 for a change that is not allowed.
pub(super) fn resized(key: &Key, old: &Value, wanted: &Value) -> Result<Value> {
    let mut new = old.clone();
    for field in ["resourceVersion", "uid"] {
        if let Some(sent) = wanted["metadata"].get(field) {
            new["metadata"][field] = sent.clone();
        }
    }
    let mut causes = Vec::new();
    for list in ["containers", "initContainers"] {
        let (before, after) = (items(old, list), items(wanted, list));
        if before.len() != after.len() || before.iter().zip(after).any(|(old, new)| old["name"] != new["name"]) {
            let why = "containers may not be added or removed on resize";
            causes.push(StatusCause::forbidden(&format!("spec.{list}"), why));
            continue;
        }
        for (at, (before, after)) in before.iter().zip(after).enumerate() {
            let resources = after.get("resources").cloned().unwrap_or_else(|| json!({}));
            let field = format!("spec.{list}[{at}].resources");
            let is_sidecar = list == "containers" || before["restartPolicy"] == "Always";
            if before["resources"] != resources && !is_sidecar {
                causes.push(StatusCause::forbidden(&field, "resources for non-sidecar init containers are immutable"));
                continue;
            }
            causes.extend(faults(&field, before, &resources));
            new["spec"][list][at]["resources"] = resources;
        }
    }
    if causes.is_empty() && quality(&old["spec"]) != quality(&new["spec"]) {
        let why =
            format!("Invalid value: {:?}: Pod QOS Class may not change as a result of resizing", quality(&new["spec"]));
        causes.push(StatusCause::invalid("spec", why));
    }
    if !causes.is_empty() {
        return Err(ApiError::invalid("", "Pod", &key.name, causes));
    }
    if old["spec"] != new["spec"] {
        report_allocated(old, &mut new);
    }
    Ok(new)
}

fn items<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    pod["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Reasons why a container's resources may not become these.
fn faults(field: &str, before: &Value, resources: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for part in ["requests", "limits"] {
        let amounts = |of: &Value| of[part].as_object().cloned().unwrap_or_default();
        let (old, new) = (amounts(&before["resources"]), amounts(resources));
        for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
            let at = format!("{field}.{part}");
            match (old.get(name), new.get(name)) {
                (one, other) if one == other => {}
                _ if !RESIZABLE.contains(&name.as_str()) => {
                    causes.push(StatusCause::forbidden(&at, "only cpu and memory resources are mutable"));
                }
                (_, None) => causes.push(StatusCause::forbidden(&at, &format!("resource {part} cannot be removed"))),
                (Some(old), Some(new)) if part == "limits" && name == "memory" => {
                    let restarts = before["resizePolicy"].as_array().is_some_and(|all| {
                        all.iter()
                            .any(|one| one["resourceName"] == "memory" && one["restartPolicy"] == "RestartContainer")
                    });
                    if amount(name, new) < amount(name, old) && !restarts {
                        let why = "memory limits cannot be decreased unless resizePolicy is RestartContainer";
                        causes.push(StatusCause::forbidden(&at, why));
                    }
                }
                _ => {}
            }
        }
    }
    causes
}

fn amount(name: &str, text: &Value) -> i64 {
    dovetail_core::resources::parse_amount(name, text.as_str().unwrap_or_default()).unwrap_or(0)
}

/// Writes the resources that containers have had so far into their status. A kubelet reports them from a pod's start on; here
/// they are reported from its first resize on.
fn report_allocated(old: &Value, new: &mut Value) {
    for (list, statuses) in [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")] {
        for container in items(old, list) {
            let mut all = new["status"][statuses].as_array_mut().into_iter().flatten();
            let Some(status) = all.find(|status| status["name"] == container["name"]) else { continue };
            if status.get("allocatedResources").is_none() && container["resources"]["requests"].is_object() {
                status["allocatedResources"] = container["resources"]["requests"].clone();
                status["resources"] = container["resources"].clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pod(resources: &Value) -> Value {
        json!({
            "metadata": {"name": "a", "resourceVersion": "7"},
            "spec": {"containers": [{"name": "app", "resources": resources}],
                "initContainers": [{"name": "start", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"containerStatuses": [{"name": "app"}]},
        })
    }

    #[test]
    fn only_cpu_and_memory_change_and_no_pod_changes_its_class() {
        let has =
            json!({"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}, "limits": {"memory": "2Gi"}});
        let old = pod(&has);
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut wanted = old.clone();
            change(&mut wanted);
            let error = resized(&Key::new("default", "a"), &old, &wanted).unwrap_err().to_string();
            error.split_once("is invalid: ").unwrap().1.to_owned()
        };
        let of = |field: &'static str| {
            move |pod: &mut Value, value: Value| pod["spec"]["containers"][0]["resources"][field] = value
        };
        let (requests, limits) = (of("requests"), of("limits"));
        for (change, expected) in [
            (
                &(|pod: &mut Value| requests(pod, json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi"})))
                    as &dyn Fn(&mut Value),
                "spec.containers[0].resources.requests: Forbidden: only cpu and memory resources are mutable",
            ),
            (
                &|pod| requests(pod, json!({"memory": "1Gi", "ephemeral-storage": "1Gi"})),
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
            ),
            (
                &|pod| limits(pod, json!({"memory": "1Gi"})),
                "spec.containers[0].resources.limits: Forbidden: memory limits cannot be decreased unless resizePolicy is RestartContainer",
            ),
            (
                &|pod| pod["spec"]["initContainers"][0]["resources"] = json!({}),
                "spec.initContainers[0].resources: Forbidden: resources for non-sidecar init containers are immutable",
            ),
            (
                &|pod| pod["spec"]["containers"] = json!([]),
                "spec.containers: Forbidden: containers may not be added or removed on resize",
            ),
        ] {
            assert_eq!(refused(change), expected);
        }
        let best_effort = pod(&json!({}));
        let mut none = best_effort.clone();
        none["spec"]["initContainers"] = json!([]);
        let mut wanted = none.clone();
        wanted["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        let error = resized(&Key::new("default", "a"), &none, &wanted).unwrap_err().to_string();
        assert!(error.ends_with("Pod QOS Class may not change as a result of resizing"), "{error}");
    }

    #[test]
    fn resize_changes_resources_alone_and_says_what_is_allocated() {
        let old = pod(&json!({"requests": {"cpu": "4", "memory": "1Gi"}}));
        let mut wanted = old.clone();
        wanted["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
        wanted["spec"]["nodeName"] = json!("elsewhere");
        wanted["metadata"]["labels"] = json!({"a": "b"});
        let new = resized(&Key::new("default", "a"), &old, &wanted).unwrap();
        assert_eq!(new["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
        assert!(new["spec"]["nodeName"].is_null() && new["metadata"]["labels"].is_null(), "{new}");
        let status = &new["status"]["containerStatuses"][0];
        assert_eq!(status["allocatedResources"], json!({"cpu": "4", "memory": "1Gi"}), "the kubelet has not seen it");
        assert_eq!(resized(&Key::new("default", "a"), &old, &old).unwrap(), old);
    }
}
