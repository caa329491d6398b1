//! Writes into the event log what becomes of pods and nodes.

use dovetail_core::pod::effective_requests;
use k8s_openapi::api::core::v1::PodSpec;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::cache::{Key, controller};
use super::context::ClusterChange;
use super::kind::Kind;
use super::pod::{Phase, condition, phase};
use crate::log::{Caller, EventLog};

/// Writes what the cluster's controllers do into the event log.
#[derive(Debug)]
pub(crate) struct LifeLog {
    log: EventLog,
    who: Caller,
}

impl LifeLog {
    pub(crate) fn new(log: EventLog) -> Self {
        Self { log, who: Caller::named("cluster") }
    }

    /// Tells what the change means, if it means anything to a reader.
    pub(crate) fn report(&self, change: &ClusterChange) {
        match change.kind {
            Kind::Pod => self.tell_pod(change),
            Kind::Node => self.tell_node(change),
            Kind::VolumeAttachment => self.tell_volume(change),
            _ => {}
        }
    }

    /// A pod ended with its node.
    pub(crate) fn lost(&self, key: &Key, pod: &Value, why: &str) {
        self.pod("lost", key, pod, &[("reason", json!(why))]);
    }

    /// An instance's user data lets it join no cluster, or another one.
    pub(crate) fn never_joins(&self, instance: &str, cluster: Option<&str>) {
        let why = match cluster {
            Some(other) => format!("its user data names the cluster {other:?}"),
            None => "its user data names no cluster".to_owned(),
        };
        tracing::warn!(instance, why, "instance does not join");
        self.log.append(
            "node",
            &self.who,
            [("change", json!("never-joins")), ("instance", json!(instance)), ("reason", json!(why))],
        );
    }

    fn tell_pod(&self, change: &ClusterChange) {
        let (key, old) = (&change.key, change.old.as_deref());
        let Some(pod) = change.new.as_deref() else {
            return self.pod("deleted", key, change.old.as_deref().unwrap_or(&Value::Null), &[]);
        };
        if old.is_none() {
            self.pod("created", key, pod, &[]);
        }
        let before = |of: fn(&Value) -> Option<String>| old.and_then(of);
        if let Some(message) = unschedulable(pod).filter(|m| before(unschedulable).as_ref() != Some(m)) {
            self.pod("unschedulable", key, pod, &[("reason", json!(message))]);
        }
        if node(pod).is_some() && before(node).is_none() {
            self.pod("bound", key, pod, &[]);
        }
        if phase(pod) != old.map_or(Phase::Pending, phase) {
            let event = match phase(pod) {
                Phase::Running => "running",
                Phase::Succeeded => "succeeded",
                Phase::Failed => "failed",
                Phase::Pending | Phase::Unknown => "unknown",
            };
            self.pod(event, key, pod, &[]);
        }
        let (was, is) = (old.is_some_and(ready), ready(pod));
        if was != is {
            self.pod(if is { "ready" } else { "not-ready" }, key, pod, &[]);
        }
        if evicted(pod) && !old.is_some_and(evicted) {
            self.pod("evicted", key, pod, &[]);
        }
        if deleting(pod) && !old.is_some_and(deleting) {
            self.pod("deleting", key, pod, &[]);
        }
    }

    fn tell_node(&self, change: &ClusterChange) {
        let old = change.old.as_deref();
        let Some(node) = change.new.as_deref() else {
            return self.node("deleted", change.old.as_deref().unwrap_or(&Value::Null), &change.key);
        };
        if old.is_none() {
            self.node("joined", node, &change.key);
        }
        if old.is_some_and(|old| old["metadata"]["labels"] != node["metadata"]["labels"]) {
            self.node("labelled", node, &change.key);
        }
        let (was, is) = (old.is_some_and(ready), ready(node));
        if was != is {
            self.node(if is { "ready" } else { "not-ready" }, node, &change.key);
        }
        if cordoned(node) && !old.is_some_and(cordoned) {
            self.node("cordoned", node, &change.key);
        }
        if deleting(node) && !old.is_some_and(deleting) {
            self.node("deleting", node, &change.key);
        }
        // As a restored API server has it.
        if !deleting(node) && old.is_some_and(deleting) {
            self.node("staying", node, &change.key);
        }
    }

    fn tell_volume(&self, change: &ClusterChange) {
        let attached = |one: &Value| one["status"]["attached"] == true;
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let event = match (old, new) {
            (None, Some(_)) => "attaching",
            (Some(old), Some(new)) if attached(new) && !attached(old) => "attached",
            (Some(_), None) => "detached",
            _ => return,
        };
        let spec = &new.or(old).unwrap_or(&Value::Null)["spec"];
        let volume = spec["source"]["persistentVolumeName"].clone();
        let fields = [
            ("change", json!(event)),
            ("name", json!(change.key.name)),
            ("volume", volume),
            ("node", spec["nodeName"].clone()),
        ];
        self.log.append("volume", &self.who, fields);
    }

    fn pod(&self, event: &str, key: &Key, pod: &Value, more: &[(&str, Value)]) {
        let mut fields = vec![
            ("change", json!(event)),
            ("namespace", json!(key.namespace)),
            ("name", json!(key.name)),
            ("uid", pod["metadata"]["uid"].clone()),
        ];
        if let Some(node) = node(pod) {
            fields.push(("node", json!(node)));
        }
        if event == "created" {
            fields.push(("owner", owner(pod)));
            fields.push(("requests", json!([needs(&pod["spec"])])));
        }
        fields.extend(more.iter().cloned());
        self.log.append("pod", &self.who, fields);
    }

    fn node(&self, event: &str, node: &Value, key: &Key) {
        let mut fields = vec![("change", json!(event)), ("name", json!(key.name))];
        if event == "joined" {
            let provider_id = node["spec"]["providerID"].as_str().unwrap_or_default();
            fields.push(("instance", json!(provider_id.rsplit('/').next())));
        }
        if matches!(event, "joined" | "labelled") {
            fields.push(("labels", node["metadata"]["labels"].clone()));
        }
        self.log.append("node", &self.who, fields);
    }
}

/// The top-most controller as `Kind/name`: of a Deployment's pod the Deployment, whose ReplicaSets are named after it.
fn owner(pod: &Value) -> Value {
    let Some(owner) = controller(pod) else { return Value::Null };
    let (kind, name) = (owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default());
    let hash = pod["metadata"]["labels"]["pod-template-hash"].as_str();
    let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
    match deployment {
        Some(deployment) if kind == "ReplicaSet" => json!(format!("Deployment/{deployment}")),
        _ => json!(format!("{kind}/{name}")),
    }
}

/// Nothing new is put on it: it is marked so, or tainted as one that is being disrupted.
fn cordoned(node: &Value) -> bool {
    let disrupted = |taint: &Value| taint["key"] == "karpenter.sh/disrupted" && taint["effect"] == "NoSchedule";
    node["spec"]["unschedulable"] == true
        || node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(disrupted))
}

/// An eviction was granted.
fn evicted(pod: &Value) -> bool {
    condition(pod, "DisruptionTarget").is_some_and(|c| c["status"] == "True" && c["reason"] == "EvictionByEvictionAPI")
}

/// Requests of a pod of this spec on its node, by resource, as kube-scheduler counts them. Nothing where the spec makes no sense.
pub fn needs(spec: &Value) -> Value {
    let spec = PodSpec::deserialize(spec).unwrap_or_default();
    json!(effective_requests(&spec).unwrap_or_default())
}

fn unschedulable(pod: &Value) -> Option<String> {
    let condition = condition(pod, "PodScheduled")?;
    let is = condition["status"] == "False" && condition["reason"] == "Unschedulable";
    is.then(|| condition["message"].as_str().unwrap_or_default().to_owned())
}

fn node(pod: &Value) -> Option<String> {
    pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()).map(str::to_owned)
}

fn ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|c| c["status"] == "True")
}

fn deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}
