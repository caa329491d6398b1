//! Checks of the built-in kinds: fields that have to be there, and fields that may not change.
use crate::apiserver::error::StatusCause;
use crate::apiserver::registry::ResourceDef;
use crate::apiserver::viewing::select::ListSelector;
use crate::apiserver::{kinds::amounts, kinds::budgets, meta};
use dovetail_api::validation::MOST_ANNOTATIONS;
use dovetail_core::admission::PriorityClass;
use serde_json::{Value, json};

/// All that is wrong with an object that is about to be stored.
pub fn object(def: &ResourceDef, new: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = metadata(def, new, old);
    if def.custom {
        return causes;
    }
    match def.kind.as_str() {
        "Pod" => {
            causes.extend(pod_spec(&new["spec"], "spec"));
        }
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => causes.extend(workload(new, old)),
        "Job" => causes.extend(pod_spec(&new["spec"]["template"]["spec"], "spec.template.spec")),
        "Lease" if new["spec"]["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) => {
            causes.push(StatusCause::invalid("spec.leaseDurationSeconds", "Invalid value: must be greater than 0"))
        }
        "PodDisruptionBudget" => causes.extend(budgets::causes(&new["spec"])),
        "Event"
            if old.is_none()
                && new["involvedObject"]["namespace"].as_str().unwrap_or_default() != meta::text(new, "namespace")
                && !(new["involvedObject"]["namespace"].as_str().unwrap_or_default().is_empty()
                    && meta::text(new, "namespace") == "default") =>
        {
            causes
                .push(StatusCause::invalid("involvedObject.namespace", "Invalid value: does not match event.namespace"))
        }
        "Node" => {
            causes.extend(old.and_then(|old| provider_id(old, new)));
            causes.extend(taints(&new["spec"]["taints"]));
            causes.extend(amounts::of_node(&new["status"]));
        }
        "PriorityClass" if !new["value"].is_i64() => causes.push(StatusCause::required("value")),
        "PriorityClass" if old.is_none() => causes.extend(priority_class(new)),
        "StorageClass" if new["provisioner"].as_str().is_none_or(str::is_empty) => {
            causes.push(StatusCause::required("provisioner"))
        }
        _ => {}
    }
    causes
}

/// A new class has a name and a value that users may give.
fn priority_class(new: &Value) -> Option<StatusCause> {
    let name = meta::text(new, "name");
    let why = PriorityClass::from_json(new).refusal(name, None)?;
    Some(StatusCause::forbidden(if name.starts_with("system-") { "metadata.name" } else { "value" }, &why))
}

fn metadata(def: &ResourceDef, new: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let name = meta::text(new, "name");
    if old.is_none() && !name_is_good(def, name) {
        let message = format!(
            "Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
        );
        causes.push(StatusCause::invalid("metadata.name", message));
    }
    for (key, value) in new["metadata"]["labels"].as_object().into_iter().flatten() {
        let text = value.as_str();
        if !label_key_is_good(key) {
            causes.push(StatusCause::invalid("metadata.labels", format!("Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character")));
        } else if !text.is_some_and(label_value_is_good) {
            causes.push(StatusCause::invalid("metadata.labels", format!("Invalid value: {value}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character")));
        }
    }
    let annotations = new["metadata"]["annotations"].as_object().into_iter().flatten();
    if annotations.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum::<usize>() > MOST_ANNOTATIONS
    {
        let message = format!("Too long: may not be more than {MOST_ANNOTATIONS} bytes");
        causes.push(StatusCause::new("FieldValueTooLong", "metadata.annotations", message));
    }
    let standard = ["kubernetes", "orphan", "foregroundDeletion"];
    for odd in meta::finalizers(new).into_iter().filter(|name| !name.contains('/') && !standard.contains(name)) {
        if !def.custom {
            let message =
                format!("Invalid value: {odd:?}: name is neither a standard finalizer name nor is it fully qualified");
            causes.push(StatusCause::invalid("metadata.finalizers", message));
        }
    }
    if let Some(old) = old.filter(|old| meta::deleting(old)) {
        let before = meta::finalizers(old);
        let added: Vec<&str> = meta::finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            causes.push(StatusCause::forbidden("metadata.finalizers", &why));
        }
    }
    causes
}

fn name_is_good(def: &ResourceDef, name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if def.group == "rbac.authorization.k8s.io" {
        return !name.is_empty() && !name.contains(['/', '%']);
    }
    name.len() <= 253
        && name
            .split('.')
            .all(|part| part.starts_with(edge) && part.ends_with(edge) && part.chars().all(|c| edge(c) || c == '-'))
}

/// True if a label may have this key.
pub(in crate::apiserver) fn label_key_is_good(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    !name.is_empty()
        && label_value_is_good(name)
        && prefix.is_none_or(|p| !p.is_empty() && p.len() <= 253 && !p.contains('/'))
}

/// True if a label may have this value.
pub(in crate::apiserver) fn label_value_is_good(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| edge(c) || matches!(c, '-' | '_' | '.');
    text.is_empty() || (text.len() <= 63 && text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner))
}

fn pod_spec(spec: &Value, at: &str) -> Vec<StatusCause> {
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        return vec![StatusCause::required(&format!("{at}.containers"))];
    }
    let mut causes = Vec::new();
    let mut names = Vec::new();
    for (list, index, container) in ["initContainers", "containers"].into_iter().flat_map(|list| {
        spec[list].as_array().into_iter().flatten().enumerate().map(move |(index, c)| (list, index, c))
    }) {
        let name = container["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            causes.push(StatusCause::required(&format!("{at}.{list}[{index}].name")));
        } else if names.contains(&name) {
            causes.push(StatusCause::new(
                "FieldValueDuplicate",
                &format!("{at}.{list}[{index}].name"),
                format!("Duplicate value: {name:?}"),
            ));
        }
        names.push(name);
        if container["image"].as_str().is_none_or(str::is_empty) {
            causes.push(StatusCause::required(&format!("{at}.{list}[{index}].image")));
        }
    }
    causes.extend(amounts::of_pod(spec, at));
    causes
}

/// A pod's spec may change in few places only.
pub fn pod_change(old: &Value, new: &Value) -> Option<StatusCause> {
    let gated = |spec: &Value| spec["schedulingGates"].as_array().is_some_and(|g| !g.is_empty());
    let blank = |spec: &Value| {
        let mut spec = spec.clone();
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                container["image"] = Value::Null;
                container["imagePullPolicy"] = Value::Null;
            }
        }
        let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"];
        if gated(old) {
            free.extend(["nodeSelector", "affinity"]);
        }
        for field in free {
            spec[field] = Value::Null;
        }
        spec
    };
    let tolerations = |spec: &Value| spec["tolerations"].as_array().cloned().unwrap_or_default();
    let kept = tolerations(old).iter().all(|t| tolerations(new).contains(t));
    let gates = |spec: &Value| spec["schedulingGates"].as_array().cloned().unwrap_or_default();
    let only_fewer_gates = gates(new).iter().all(|g| gates(old).contains(g));
    let same = old == new || (blank(old) == blank(new) && kept && only_fewer_gates);
    (!same).then(|| {
        StatusCause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )
    })
}

fn workload(new: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let selector = &new["spec"]["selector"];
    let mut causes = pod_spec(&new["spec"]["template"]["spec"], "spec.template.spec");
    if !selector.is_object() {
        causes.push(StatusCause::required("spec.selector"));
    } else if !ListSelector::of_labels(selector).matches(&new["spec"]["template"]) {
        let labels = &new["spec"]["template"]["metadata"]["labels"];
        let message = format!("Invalid value: {labels}: `selector` does not match template `labels`");
        causes.push(StatusCause::invalid("spec.template.metadata.labels", message));
    }
    if new["spec"]["replicas"].as_i64().is_some_and(|n| n < 0) {
        causes.push(StatusCause::invalid(
            "spec.replicas",
            format!("Invalid value: {}: must be greater than or equal to 0", new["spec"]["replicas"]),
        ));
    }
    if old.is_some_and(|old| old["spec"]["selector"] != *selector) {
        causes.push(StatusCause::invalid("spec.selector", format!("Invalid value: {selector}: field is immutable")));
    }
    causes
}

fn provider_id(old: &Value, new: &Value) -> Option<StatusCause> {
    let before = old["spec"]["providerID"].as_str().unwrap_or_default();
    let changed = !before.is_empty() && new["spec"]["providerID"] != json!(before);
    changed.then(|| {
        StatusCause::forbidden("spec.providerID", "node updates may not change providerID except from \"\" to valid")
    })
}

/// Named as kube-apiserver names them, where nodes had their taints once.
fn taints(taints: &Value) -> Vec<StatusCause> {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let odd = |taint: &Value| taint["effect"].as_str().is_none_or(|effect| !effects.contains(&effect));
    let all = taints.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
    all.filter(|(_, taint)| odd(taint))
        .map(|(index, taint)| {
            let message = format!(
                "Unsupported value: {}: supported values: \"NoExecute\", \"NoSchedule\", \"PreferNoSchedule\"",
                taint["effect"]
            );
            StatusCause::new("FieldValueNotSupported", &format!("metadata.taints[{index}].effect"), message)
        })
        .collect()
}
