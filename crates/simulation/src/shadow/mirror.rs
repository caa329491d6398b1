//! The cluster's objects on their way into the copy: each as it is, but for what only the cluster can give it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::annotations;
use dovetail_sandbox::apiserver::{
    ApiError, DeleteOptions, EC2_NODE_CLASSES, Gvr, Key, NAMESPACES, NODE_CLAIMS, NODE_POOLS, NODES,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS,
};
use serde_json::{Value, json};

use super::admit::{CREATED, UID};
use super::class::{self, Copied};
use super::copy::Copy;
use super::kinds::text;

/// Annotations that say what the provisioner of the cluster has done, and nothing of what is wanted; those of the sandbox.
const NOT_COPIED: [&str; 17] = [
    annotations::TERM,
    annotations::LEASE,
    annotations::LAUNCH_TOKEN,
    annotations::LAUNCH_PLACE,
    annotations::TRACEPARENT,
    annotations::END_TRACEPARENT,
    annotations::END_REASON,
    annotations::INTERRUPTION,
    annotations::LAUNCHED_FOR,
    annotations::LAUNCHED_FOR_ROOM,
    annotations::LAUNCHED_FOR_REQUEST,
    annotations::UNUSED_LAUNCHES,
    annotations::ENDED_FIRST,
    annotations::REPAIR_PACE,
    annotations::INTERRUPTIONS,
    "kubectl.kubernetes.io/last-applied-configuration",
    "sandbox.dovetail.dev/runs-for",
];

/// Written by a provisioner on NodePools and classes.
const HASHES: [&str; 5] = [
    annotations::NODE_POOL_HASH,
    annotations::NODE_POOL_HASH_VERSION,
    annotations::NODE_CLASS_HASH,
    annotations::NODE_CLASS_HASH_VERSION,
    annotations::COMPUTED_HASH,
];

/// Copies the cluster's objects, and remembers their originals.
pub struct Mirror {
    pub(super) copy: Copy,
    /// The originals of whatever is in the copy, or was refused by it.
    pub(super) originals: BTreeMap<Gvr, BTreeMap<Key, Arc<Value>>>,
    /// Pods that are to run somewhere.
    pub(super) wanted: BTreeSet<Key>,
    /// NodeClaims that were there at the beginning: their nodes are the copy's as well.
    pub(super) before: BTreeSet<String>,
    /// True once everything is in the copy that was there at the beginning.
    pub(super) begun: bool,
    pub(super) notes: Vec<String>,
}

impl Mirror {
    /// Nothing is copied yet.
    pub fn new(copy: Copy) -> Self {
        Self {
            copy,
            originals: BTreeMap::new(),
            wanted: BTreeSet::new(),
            before: BTreeSet::new(),
            begun: false,
            notes: Vec::new(),
        }
    }

    /// Everything is in the copy that was there at the beginning: from now on it has nodes of its own.
    pub fn begun(&mut self) {
        self.begun = true;
    }

    /// The cluster that the shadow acts on in place of the real one.
    pub fn copy(&self) -> &Copy {
        &self.copy
    }

    /// Notes made since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// True if a NodeClaim of the copy was there at the beginning.
    pub fn is_from_before(&self, claim: &str) -> bool {
        self.before.contains(claim)
    }

    /// Originals of a kind that are no longer there, where these are all that there are.
    pub fn missed(&self, gvr: &Gvr, there: &BTreeSet<(String, String)>) -> Vec<(String, String)> {
        let known = self.originals.get(gvr).into_iter().flat_map(BTreeMap::keys);
        let known = known.map(|key| (key.namespace.clone(), key.name.clone()));
        known.filter(|key| !there.contains(key)).collect()
    }

    /// An object is there in the cluster, or has changed.
    pub fn apply(&mut self, gvr: &Gvr, object: &Arc<Value>) {
        let key = Key::new(text(object, &["metadata", "namespace"]), text(object, &["metadata", "name"]));
        if key.name.is_empty() {
            return;
        }
        self.originals.entry(gvr.clone()).or_default().insert(key.clone(), object.clone());
        self.namespace(&key.namespace);
        if *gvr == PODS {
            return self.pod(&key, object);
        }
        if *gvr == NODES {
            return self.node(&key, object);
        }
        if *gvr == NODE_CLAIMS {
            return self.claim(&key, object);
        }
        if object["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        if *gvr == EC2_NODE_CLASSES {
            return match class::copied(object, &self.copy.region, &mut self.notes) {
                Copied::Class(class) => self.put(gvr, &key, &without_hash(&class)),
                Copied::NotResolved => {}
                Copied::Unusable(why) => self.notes.push(why),
            };
        }
        if *gvr == NODE_POOLS {
            return self.put(gvr, &key, &without_hash(object));
        }
        if *gvr == POD_DISRUPTION_BUDGETS {
            return self.put(gvr, &key, &budget(object));
        }
        let volume = *gvr == PERSISTENT_VOLUMES || *gvr == PERSISTENT_VOLUME_CLAIMS;
        if volume && self.copy.api.get(gvr, &key.namespace, &key.name).is_some() {
            // The copy decides what the volume is bound to there.
            return;
        }
        self.put(gvr, &key, object);
        if volume && text(object, &["status", "phase"]) == "Bound" {
            let status = json!({"status": object["status"]});
            self.said(gvr, &key, self.copy.api.patch_status(gvr, &key.namespace, &key.name, &status).err());
        }
    }

    /// A namespace is there once something is in it, whether namespaces can be listed or not.
    fn namespace(&self, name: &str) {
        if !name.is_empty() && self.copy.api.get(&NAMESPACES, "", name).is_none() {
            // One that is refused is reported with its content.
            let _ = self.copy.api.create(&NAMESPACES, "", json!({"metadata": {"name": name}}));
        }
    }

    /// An object is gone from the cluster.
    pub fn remove(&mut self, gvr: &Gvr, namespace: &str, name: &str) {
        let key = Key::new(namespace, name);
        let known = self.originals.get_mut(gvr).and_then(|all| all.remove(&key));
        let Some(known) = known else { return };
        if *gvr == NODE_CLAIMS || (*gvr == NODES && is_of_a_pool(&known)) {
            // The copy decides whether it goes there.
            return;
        }
        let grace_period_seconds = (*gvr == PODS).then_some(0);
        if *gvr == PODS {
            self.wanted.remove(&key);
        }
        if self.copy.api.get(gvr, namespace, name).is_some() {
            let options = DeleteOptions { grace_period_seconds, ..DeleteOptions::default() };
            self.said(gvr, &key, self.copy.api.delete(gvr, namespace, name, &options).err());
        }
    }

    /// Creates an object, or gives it what its original says by now.
    pub(super) fn put(&mut self, gvr: &Gvr, key: &Key, original: &Value) {
        let there = self.copy.api.get(gvr, &key.namespace, &key.name);
        let refused = match there {
            None => self.copy.api.create(gvr, &key.namespace, fresh(original)).err(),
            Some(there) => {
                let changed = changed(&there, original);
                if changed == *there { None } else { self.copy.api.update(gvr, changed).err() }
            }
        };
        self.said(gvr, key, refused);
    }

    /// Notes what the copy refuses: the report is not whole without it.
    pub(super) fn said(&mut self, gvr: &Gvr, key: &Key, refused: Option<ApiError>) {
        if let Some(why) = refused {
            let name =
                if key.namespace.is_empty() { key.name.clone() } else { format!("{}/{}", key.namespace, key.name) };
            self.notes.push(format!("{} {name} is not in the copy as it is in the cluster: {why}", gvr.resource));
        }
    }

    pub(super) fn original(&self, gvr: &Gvr, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.originals.get(gvr)?.get(&Key::new(namespace, name))
    }
}

/// An object to be created: without its status, versions and finalizers, to be given its original's uid and age.
pub(super) fn fresh(original: &Value) -> Value {
    let mut object = original.clone();
    let metadata = &original["metadata"];
    let mut own = serde_json::Map::new();
    for field in ["name", "namespace", "labels", "ownerReferences"] {
        if !metadata[field].is_null() {
            own.insert(field.to_owned(), metadata[field].clone());
        }
    }
    let mut given = annotations_of(original);
    for (annotation, field) in [(UID, "uid"), (CREATED, "creationTimestamp")] {
        if let Some(value) = metadata[field].as_str() {
            given.insert(annotation.to_owned(), json!(value));
        }
    }
    own.insert("annotations".to_owned(), Value::Object(given));
    object["metadata"] = Value::Object(own);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// The copy's object with the fields of its original as they are now. Fields added in the copy stay.
fn changed(there: &Value, original: &Value) -> Value {
    let mut object = there.clone();
    for (field, value) in original.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "metadata" | "status" | "apiVersion" | "kind") {
            object[field] = value.clone();
        }
    }
    if let Some(labels) = original["metadata"]["labels"].as_object() {
        object["metadata"]["labels"] = Value::Object(labels.clone());
    }
    let mut all = there["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    all.extend(annotations_of(original));
    if !all.is_empty() {
        object["metadata"]["annotations"] = Value::Object(all);
    }
    object
}

fn annotations_of(original: &Value) -> serde_json::Map<String, Value> {
    let mut all = original["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    all.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
    all
}

/// A PodDisruptionBudget of the copy. What its pods' controllers are to have is not in the copy: the number that the budget comes
/// to in the cluster is.
fn budget(original: &Value) -> Value {
    let mut budget = original.clone();
    if let (Some(desired), Some(spec)) = (original["status"]["desiredHealthy"].as_i64(), budget["spec"].as_object_mut())
    {
        spec.remove("maxUnavailable");
        spec.insert("minAvailable".to_owned(), json!(desired));
    }
    budget
}

/// A NodePool or class without the hash that the provisioner of the cluster has written: the copy's replica writes its own.
fn without_hash(original: &Value) -> Value {
    let mut object = original.clone();
    if let Some(own) = object["metadata"]["annotations"].as_object_mut() {
        own.retain(|key, _| !HASHES.contains(&key.as_str()));
    }
    object
}

/// True if a Node belongs to a NodePool.
pub(super) fn is_of_a_pool(node: &Value) -> bool {
    node["metadata"]["labels"][dovetail_api::names::labels::NODE_POOL].is_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_holds_what_is_wanted_not_what_a_provisioner_wrote() {
        let original = json!({
            "metadata": {
                "name": "x", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7",
                "finalizers": ["karpenter.sh/termination"], "labels": {"a": "b"},
                "annotations": {annotations::LAUNCH_TOKEN: "t", "karpenter.sh/do-not-disrupt": "true"},
            },
            "spec": {"weight": 3}, "status": {"nodes": 1},
        });
        let copy = fresh(&original);
        let expected = json!({
            "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {
                "karpenter.sh/do-not-disrupt": "true", UID: "u", CREATED: "2026-01-01T00:00:00Z",
            }},
            "spec": {"weight": 3},
        });
        assert_eq!(copy, expected);
    }

    #[test]
    fn cluster_changes_reach_the_copy_and_its_own_writes_stay() {
        let there = json!({
            "metadata": {"name": "x", "uid": "u", "labels": {"old": "1"}, "annotations": {"own": "kept"}},
            "spec": {"weight": 3}, "status": {"own": true},
        });
        let original = json!({
            "metadata": {"name": "x", "labels": {"new": "1"}, "annotations": {"theirs": "too"}},
            "spec": {"weight": 4}, "status": {"nodes": 9},
        });
        let expected = json!({
            "metadata": {"name": "x", "uid": "u", "labels": {"new": "1"}, "annotations": {"own": "kept", "theirs": "too"}},
            "spec": {"weight": 4}, "status": {"own": true},
        });
        assert_eq!(changed(&there, &original), expected);
        assert_eq!(changed(&expected, &original), expected, "a second time changes nothing");
    }

    #[test]
    fn pdb_in_the_copy_asks_for_as_many_pods_as_in_the_cluster() {
        let original = json!({"spec": {"maxUnavailable": "20%", "selector": {}}, "status": {"desiredHealthy": 8}});
        assert_eq!(budget(&original)["spec"], json!({"minAvailable": 8, "selector": {}}));
        let new = json!({"spec": {"maxUnavailable": 1}});
        assert_eq!(budget(&new), new);
    }
}
