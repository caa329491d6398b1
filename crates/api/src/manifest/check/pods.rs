//! Checks of workloads that kube-apiserver makes beyond their schemas, as far as scheduling sees it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Findings, ObjectIdentity, enums, identity, list, names, text, texts, value_at};
use crate::{names::taints, quantity::billionths, schema::FieldPath};

/// Fields of a PersistentVolume's spec that do not say what kind it is.
const OF_VOLUMES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];
const LABEL_OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
const NODE_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// Checks a Pod or a controller of Pods; other kinds have nothing to check here.
pub fn check(object: &Value, identity: &ObjectIdentity, findings: &mut Findings) {
    let template: &[&str] = match identity.kind.as_str() {
        "Pod" => &[],
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            &["spec", "template"]
        }
        "CronJob" => &["spec", "jobTemplate", "spec", "template"],
        "PersistentVolume" => {
            let spec = value_at(object, &["spec"]).unwrap_or(&Value::Null);
            return one_kind_of_volume(
                spec,
                |name| !OF_VOLUMES.contains(&name),
                &FieldPath::from_fields(&["spec"]),
                findings,
            );
        }
        _ => return,
    };
    if !template.is_empty() {
        let metadata: Vec<&str> = template.iter().copied().chain(["metadata"]).collect();
        identity::labels(object, &metadata, findings);
    }
    if matches!(identity.kind.as_str(), "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") {
        selector(object, findings);
    }
    for field in ["replicas", "parallelism", "completions"] {
        if value_at(object, &["spec", field]).and_then(Value::as_i64).is_some_and(|count| count < 0) {
            findings.add(FieldPath::from_fields(&["spec", field]), "is negative", "0 or more");
        }
    }
    let spec: Vec<&str> = template.iter().copied().chain(["spec"]).collect();
    if let Some(pod) = value_at(object, &spec) {
        pod_spec(pod, &FieldPath::from_fields(&spec), findings);
    }
}

/// A controller's selector has to select its own pods, and not all pods.
fn selector(object: &Value, findings: &mut Findings) {
    let label = |key: &str| value_at(object, &["spec", "template", "metadata", "labels"])?.get(key)?.as_str();
    let wanted = value_at(object, &["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    let expressions = list(object, &["spec", "selector", "matchExpressions"]);
    let path = FieldPath::from_fields(&["spec", "selector"]);
    if object["spec"].is_null() {
        findings.add(FieldPath::from_fields(&["spec"]), "is required", "a mapping");
    } else if wanted.is_none_or(serde_json::Map::is_empty) && expressions.is_empty() {
        findings.add(path.clone(), "is empty", "matchLabels that the template's labels have");
    }
    for (index, expression) in expressions.iter().enumerate() {
        let (key, own) = (text(expression, "key"), label(text(expression, "key")));
        let listed = own.is_some_and(|own| list(expression, &["values"]).iter().any(|value| value == own));
        let meets = match text(expression, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => own.is_some(),
            "DoesNotExist" => own.is_none(),
            _ => true,
        };
        if !meets {
            let what = format!("does not select the template's own pods by {key}");
            findings.add(path.key("matchExpressions").index(index), what, "what the template's labels meet");
        }
    }
    // Go reads null as the empty text.
    let mut wanted = wanted.into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default()));
    if let Some((key, value)) = wanted.find(|(key, value)| label(key) != Some(value)) {
        let what = format!("has no {key}: {value}, which the selector asks for");
        let path = FieldPath::from_fields(&["spec", "template", "metadata", "labels"]);
        findings.add(path, what, "the labels of spec.selector");
    }
}

/// Only one of the fields that say a volume's kind may be there.
fn one_kind_of_volume(volume: &Value, kinds: impl Fn(&str) -> bool, path: &FieldPath, findings: &mut Findings) {
    let all = volume.as_object().into_iter().flatten();
    let mut given = all.filter(|(name, value)| !value.is_null() && kinds(name)).map(|(name, _)| name);
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        findings.add(path.key(second), format!("is a second kind of volume, beside {first}"), "one kind");
    }
}

fn pod_spec(pod: &Value, path: &FieldPath, findings: &mut Findings) {
    enums::pod_spec(pod, path, findings);
    for (index, volume) in list(pod, &["volumes"]).iter().enumerate() {
        one_kind_of_volume(volume, |name| name != "name", &path.key("volumes").index(index), findings);
    }
    if value_at(pod, &["containers"]).is_some_and(|containers| containers.as_array().is_some_and(Vec::is_empty)) {
        findings.add(path.key("containers"), "is empty", "one container or more");
    }
    let mut seen = BTreeSet::new();
    for field in ["initContainers", "containers"] {
        for (index, container) in list(pod, &[field]).iter().enumerate() {
            let (name, path) = (text(container, "name"), path.key(field).index(index));
            if container.get("name").is_some_and(|name| name == "") {
                findings.add(path.key("name"), "is empty", "a name, each once");
            } else if !name.is_empty() && !seen.insert(name) {
                findings.add(path.key("name"), format!("a container {name:?} is there already"), "each name once");
            } else if !name.is_empty() && !names::is_label(name) {
                findings.add(
                    path.key("name"),
                    format!("{} is no container's name", names::shown(name)),
                    "lower-case letters, digits and '-'",
                );
            }
            resources(container, &path.key("resources"), findings);
        }
    }
    for (key, value) in texts(pod, &["nodeSelector"]) {
        let path = path.key("nodeSelector").key(key);
        if !names::is_key(key) {
            findings.add(path, format!("{} is no label's key", names::shown(key)), names::KEY);
        } else if !names::is_label_value(value) {
            findings.add(path, format!("{} is no label's value", names::shown(value)), names::LABEL_VALUE);
        }
    }
    for (index, toleration) in list(pod, &["tolerations"]).iter().enumerate() {
        tolerates(toleration, &path.key("tolerations").index(index), findings);
    }
    for (index, spread) in list(pod, &["topologySpreadConstraints"]).iter().enumerate() {
        let path = path.key("topologySpreadConstraints").index(index);
        one_of(spread, "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"], &path, findings);
        if value_at(spread, &["maxSkew"]).and_then(Value::as_i64).is_some_and(|skew| skew < 1) {
            findings.add(path.key("maxSkew"), "is less than 1", "1 or more");
        }
        if let Some(domains) = value_at(spread, &["minDomains"]).and_then(Value::as_i64) {
            if domains < 1 {
                findings.add(path.key("minDomains"), "is less than 1", "1 or more");
            } else if text(spread, "whenUnsatisfiable") == "ScheduleAnyway" {
                let what = "cannot be kept with whenUnsatisfiable: ScheduleAnyway";
                findings.add(path.key("minDomains"), what, "whenUnsatisfiable: DoNotSchedule");
            }
        }
        topology_key(spread, &path, findings);
        selects(spread, &path, findings);
    }
    if let Some(affinity) = pod.get("affinity") {
        node_affinity(affinity, &path.key("affinity").key("nodeAffinity"), findings);
        pod_affinity(affinity, &path.key("affinity"), findings);
    }
}

/// Nothing is negative, and no request is above its limit.
fn resources(container: &Value, path: &FieldPath, findings: &mut Findings) {
    let amount = |kind: &str, resource: &str| {
        let value = value_at(container, &["resources", kind, resource])?;
        billionths(&value.as_str().map_or_else(|| value.to_string(), String::from))
    };
    for kind in ["requests", "limits"] {
        for resource in value_at(container, &["resources", kind])
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            let path = path.key(kind).key(resource);
            let Some(value) = amount(kind, resource) else { continue };
            if value < 0 {
                findings.add(path, "is negative", "0 or more");
            } else if kind == "requests" && amount("limits", resource).is_some_and(|limit| value > limit) {
                findings.add(path, "is above the limit", "at most what resources.limits says");
            }
        }
    }
}

fn tolerates(toleration: &Value, path: &FieldPath, findings: &mut Findings) {
    one_of(toleration, "operator", &["Equal", "Exists"], path, findings);
    one_of(toleration, "effect", &taints::EFFECTS, path, findings);
    let exists = text(toleration, "operator") == "Exists";
    if exists && !text(toleration, "value").is_empty() {
        findings.add(path.key("value"), "operator Exists has a value", "no value");
    } else if !exists && text(toleration, "key").is_empty() {
        findings.add(path.key("operator"), "a toleration without key has to have operator Exists", "Exists");
    }
    if toleration.get("tolerationSeconds").is_some_and(Value::is_i64) && text(toleration, "effect") != "NoExecute" {
        findings.add(path.key("effect"), "has to be NoExecute where there are tolerationSeconds", "NoExecute");
    }
    let (key, value) = (text(toleration, "key"), text(toleration, "value"));
    if !key.is_empty() && !names::is_key(key) {
        findings.add(path.key("key"), format!("{} is no taint's key", names::shown(key)), names::KEY);
    } else if !names::is_label_value(value) {
        findings.add(path.key("value"), format!("{} is no taint's value", names::shown(value)), names::LABEL_VALUE);
    }
}

/// The topology key of a rule between pods has to be a label's key.
fn topology_key(rule: &Value, path: &FieldPath, findings: &mut Findings) {
    let key = text(rule, "topologyKey");
    if rule.get("topologyKey").is_some() && !names::is_key(key) {
        findings.add(path.key("topologyKey"), format!("{} is no label's key", names::shown(key)), names::KEY);
    }
}

/// The weight of a preference has to be from 1 to 100.
fn weight(preferred: &Value, path: &FieldPath, findings: &mut Findings) {
    if value_at(preferred, &["weight"]).and_then(Value::as_i64).is_some_and(|weight| !(1..=100).contains(&weight)) {
        findings.add(path.key("weight"), "is out of range", "1 to 100");
    }
}

/// A field whose value, if given and not empty, is one of a few.
fn one_of(object: &Value, field: &str, allowed: &[&str], path: &FieldPath, findings: &mut Findings) {
    let value = text(object, field);
    if !value.is_empty() && !allowed.contains(&value) {
        findings.add(path.key(field), format!("{value:?} is not supported"), allowed.join(", "));
    }
}

fn node_affinity(affinity: &Value, path: &FieldPath, findings: &mut Findings) {
    let required = path.key("requiredDuringSchedulingIgnoredDuringExecution").key("nodeSelectorTerms");
    let preferred = path.key("preferredDuringSchedulingIgnoredDuringExecution");
    let terms =
        list(affinity, &["nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"]);
    for (index, term) in terms.iter().enumerate() {
        expressions(term, &NODE_OPERATORS, &required.index(index), findings);
    }
    for (index, term) in
        list(affinity, &["nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]).iter().enumerate()
    {
        weight(term, &preferred.index(index), findings);
        let path = preferred.index(index).key("preference");
        expressions(term.get("preference").unwrap_or(&Value::Null), &NODE_OPERATORS, &path, findings);
    }
}

fn pod_affinity(affinity: &Value, path: &FieldPath, findings: &mut Findings) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in list(affinity, &[kind, required]).iter().enumerate() {
            let path = path.key(kind).key(required).index(index);
            topology_key(term, &path, findings);
            selects(term, &path, findings);
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in list(affinity, &[kind, preferred]).iter().enumerate() {
            let path = path.key(kind).key(preferred).index(index);
            weight(term, &path, findings);
            let (path, term) = (path.key("podAffinityTerm"), term.get("podAffinityTerm").unwrap_or(&Value::Null));
            topology_key(term, &path, findings);
            selects(term, &path, findings);
        }
    }
}

fn selects(term: &Value, path: &FieldPath, findings: &mut Findings) {
    if let Some(selector) = term.get("labelSelector") {
        expressions(selector, &LABEL_OPERATORS, &path.key("labelSelector"), findings);
    }
}

fn expressions(term: &Value, operators: &[&str], path: &FieldPath, findings: &mut Findings) {
    for (index, expression) in list(term, &["matchExpressions"]).iter().enumerate() {
        let path = path.key("matchExpressions").index(index);
        let (key, operator) = (text(expression, "key"), text(expression, "operator"));
        let values = list(expression, &["values"]);
        if !names::is_key(key) {
            findings.add(path.key("key"), format!("{} is no label's key", names::shown(key)), names::KEY);
        }
        one_of(expression, "operator", operators, &path, findings);
        let wrong = match operator {
            "In" | "NotIn" if values.is_empty() => Some("one value or more"),
            "Exists" | "DoesNotExist" if !values.is_empty() => Some("no values"),
            "Gt" | "Lt"
                if values.len() != 1 || values[0].as_str().is_none_or(|value| value.parse::<i64>().is_err()) =>
            {
                Some("one integer")
            }
            _ => None,
        };
        if let Some(allowed) = wrong {
            findings.add(path.key("values"), format!("does not fit operator {operator}"), allowed);
        }
    }
}
