//! A pod as controllers see it: read once from the object, asked often.

use jiff::Timestamp;
use serde_json::Value;

use super::cache::{Key, controller};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Pending,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

/// The owner that controls a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodOwner {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// The facts about a pod that controllers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodView {
    pub key: Key,
    pub uid: String,
    pub node: Option<String>,
    pub phase: Phase,
    pub ready: bool,
    pub ready_since: Option<Timestamp>,
    /// Its deletion has been asked for.
    pub terminating: bool,
    pub created: Option<Timestamp>,
    pub owner: Option<PodOwner>,
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i32,
}

impl PodView {
    pub(crate) fn from_pod(key: &Key, pod: &Value) -> Self {
        let meta = &pod["metadata"];
        let time = |text: &Value| text.as_str().and_then(|t| t.parse().ok());
        let ready = condition(pod, "Ready").filter(|c| c["status"] == "True");
        Self {
            key: key.clone(),
            uid: string(&meta["uid"]),
            node: pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()).map(str::to_owned),
            phase: phase(pod),
            ready: ready.is_some(),
            ready_since: ready.and_then(|c| time(&c["lastTransitionTime"])),
            terminating: meta["deletionTimestamp"].is_string(),
            created: time(&meta["creationTimestamp"]),
            owner: controller(pod).map(|o| PodOwner {
                kind: string(&o["kind"]),
                name: string(&o["name"]),
                uid: string(&o["uid"]),
            }),
            deletion_cost: meta["annotations"]["controller.kubernetes.io/pod-deletion-cost"]
                .as_str()
                .and_then(|c| c.parse().ok())
                .unwrap_or(0),
        }
    }

    /// It has ended by itself.
    pub(crate) fn finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// It runs or will run.
    pub(crate) fn active(&self) -> bool {
        !self.finished() && !self.terminating
    }
}

/// The phase of a Pod object; one without a phase is pending.
pub(crate) fn phase(pod: &Value) -> Phase {
    match pod["status"]["phase"].as_str() {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Unknown") => Phase::Unknown,
        _ => Phase::Pending,
    }
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

/// Sets a condition of an object; the time of its last transition moves only with its status. Says whether anything
/// changed.
pub(crate) fn set_condition(
    object: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) -> bool {
    let mut new = serde_json::json!({"type": kind, "status": status, "lastTransitionTime": now});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            new[field] = text.into();
        }
    }
    if !object["status"].is_object() {
        object["status"] = serde_json::json!({});
    }
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = serde_json::json!([]);
    }
    let Some(list) = object["status"]["conditions"].as_array_mut() else { return false };
    let Some(old) = list.iter_mut().find(|c| c["type"] == kind) else {
        list.push(new);
        return true;
    };
    if old["status"] == new["status"] {
        new["lastTransitionTime"] = old["lastTransitionTime"].clone();
    }
    let same = ["status", "reason", "message"].iter().all(|f| old[f] == new[f]);
    *old = new;
    !same
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
