//! Pods of the cluster in the copy, by name. Each is to run as long as its original does, and where the copy decides. One that the
//! copy evicts is made anew at once, as its controller would: the copy has no controllers of workloads.

use std::sync::Arc;

use dovetail_core::shadow::goes_with_its_node;
use dovetail_sandbox::apiserver::{DeleteOptions, Key, NODES, PODS, PRIORITY_CLASSES};
use serde_json::{Value, json};

use super::admit::{CREATED, UID};
use super::kinds::{RUNTIME_CLASSES, text};
use super::mirror::{Mirror, fresh};

/// The uid of a pod's original.
const ORIGINAL: &str = "shadow.dovetail.dev/original";
/// Owners of a kind that nobody serves count as there.
const ELSEWHERE: &str = "shadow.dovetail.dev/v1";

impl Mirror {
    pub(super) fn pod(&mut self, key: &Key, original: &Arc<Value>) {
        // Those of DaemonSets the copy makes itself.
        if goes_with_its_node(original) {
            return;
        }
        let there = self.copy.api.get(&PODS, &key.namespace, &key.name);
        if original["metadata"]["deletionTimestamp"].is_string() {
            self.wanted.remove(key);
            if there.is_some_and(|there| !there["metadata"]["deletionTimestamp"].is_string()) {
                self.end(key, None);
            }
            return;
        }
        let phase = text(original, &["status", "phase"]);
        if matches!(phase, "Succeeded" | "Failed") {
            self.wanted.remove(key);
            if there.is_some_and(|there| text(&there, &["status", "phase"]) != phase) {
                let status = json!({"status": {"phase": phase}});
                let refused = self.copy.api.patch_status(&PODS, &key.namespace, &key.name, &status).err();
                self.said(&PODS, key, refused);
            }
            return;
        }
        self.wanted.insert(key.clone());
        match there {
            None => self.create_pod(key, original, true),
            Some(there) if is_of(&there, original) && gates(&there) == gates(original) => {
                self.relabel(key, &there, original)
            }
            // Another of its name, as a StatefulSet makes them, or one that may be scheduled now. It comes when this is gone.
            Some(_) => self.end(key, Some(0)),
        }
    }

    /// A pod is gone from the copy: if it is still wanted, it is made anew.
    pub fn pod_lost(&mut self, key: &Key) {
        if self.wanted.contains(key)
            && self.copy.api.get(&PODS, &key.namespace, &key.name).is_none()
            && let Some(original) = self.original(&PODS, &key.namespace, &key.name).cloned()
        {
            self.create_pod(key, &original, false);
        }
    }

    /// `first`: it is the original's first copy, and has its uid and age; another is a new pod.
    fn create_pod(&mut self, key: &Key, original: &Value, first: bool) {
        let mut pod = fresh(original);
        let metadata = &mut pod["metadata"];
        metadata["annotations"][ORIGINAL] = original["metadata"]["uid"].clone();
        if !first && let Some(all) = metadata["annotations"].as_object_mut() {
            all.remove(UID);
            all.remove(CREATED);
        }
        for owner in metadata["ownerReferences"].as_array_mut().into_iter().flatten() {
            owner["apiVersion"] = json!(ELSEWHERE);
            if let Some(owner) = owner.as_object_mut() {
                owner.remove("blockOwnerDeletion");
            }
        }
        // A pod stays in the copy on the node where it ran at the beginning; later pods are placed by the copy.
        let node = text(original, &["spec", "nodeName"]).to_owned();
        let stays = !self.begun && self.copy.api.get(&NODES, "", &node).is_some();
        if let Some(spec) = pod["spec"].as_object_mut() {
            if !stays {
                spec.remove("nodeName");
            }
            spec.insert("schedulerName".to_owned(), json!("default-scheduler"));
            // Follows from its class as that is now; so does what it has by its RuntimeClass.
            spec.remove("priority");
            for (field, gvr) in [("priorityClassName", PRIORITY_CLASSES), ("runtimeClassName", RUNTIME_CLASSES)] {
                let class = spec.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
                if self.copy.api.get(&gvr, "", &class).is_none() {
                    spec.remove(field);
                }
            }
            if !spec.contains_key("runtimeClassName") {
                spec.remove("overhead");
            }
        }
        let refused = self.copy.api.create(&PODS, &key.namespace, pod).err();
        self.said(&PODS, key, refused);
    }

    fn relabel(&mut self, key: &Key, there: &Value, original: &Value) {
        let labels = &original["metadata"]["labels"];
        if there["metadata"]["labels"] != *labels && labels.is_object() {
            let mut pod = there.clone();
            pod["metadata"]["labels"] = labels.clone();
            let refused = self.copy.api.update(&PODS, pod).err();
            self.said(&PODS, key, refused);
        }
    }

    fn end(&mut self, key: &Key, grace_period_seconds: Option<i64>) {
        let options = DeleteOptions { grace_period_seconds, ..DeleteOptions::default() };
        let refused = self.copy.api.delete(&PODS, &key.namespace, &key.name, &options).err();
        self.said(&PODS, key, refused);
    }
}

fn is_of(copy: &Value, original: &Value) -> bool {
    copy["metadata"]["annotations"][ORIGINAL] == original["metadata"]["uid"]
}

/// Number of gates that keep a pod from being scheduled.
fn gates(pod: &Value) -> usize {
    pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len)
}
