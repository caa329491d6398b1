//! Pods from templates, hashes of templates, and the counts that every workload's status has.

use std::rc::Rc;
use std::time::Duration;

use dovetail_api::hash::fnv_32;
use serde_json::{Map, Value, json};

use crate::cluster::cache::Key;
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;
use crate::cluster::pod::PodView;
use crate::cluster::work::Work;

/// The owner reference of the controller of what is made.
pub(crate) fn owner_reference(kind: Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.name(),
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A pod of the owner's template. Give it a `name` or a `generateName`.
pub(crate) fn pod(kind: Kind, owner: &Value) -> Value {
    let template = &owner["spec"]["template"];
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if !template["metadata"][field].is_null() {
            metadata.insert(field.to_owned(), template["metadata"][field].clone());
        }
    }
    metadata.insert("namespace".into(), owner["metadata"]["namespace"].clone());
    metadata.insert("ownerReferences".into(), json!([owner_reference(kind, owner)]));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// A hash of a template in the characters that Kubernetes uses for it (`rand.SafeEncodeString` of an FNV-1a sum).
pub(crate) fn hash(template: &Value) -> String {
    const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let sum = fnv_32(template.to_string().bytes());
    sum.to_string().bytes().map(|digit| char::from(SAFE[usize::from(digit) % SAFE.len()])).collect()
}

/// `spec.replicas`, 1 when it is not written.
pub(crate) fn replicas(owner: &Value) -> i64 {
    owner["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// An absolute number or a percentage of `total`.
pub(crate) fn scaled(value: &Value, total: i64, round_up: bool) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let product = percent * total;
    Some(if round_up { (product + 99).div_euclid(100) } else { product.div_euclid(100) })
}

/// Numbers of pods that are there, ready, and ready for long enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaCounts {
    pub all: i64,
    pub ready: i64,
    pub available: i64,
}

/// Counts pods; has the owner looked at again when the next becomes available (`minReadySeconds`).
pub(crate) fn count(
    ctx: &mut ClusterContext,
    kind: Kind,
    key: &Key,
    owner: &Value,
    pods: &[Rc<PodView>],
) -> ReplicaCounts {
    let least = owner["spec"]["minReadySeconds"].as_i64().unwrap_or(0);
    let now = ctx.wall().as_second();
    let mut counts = ReplicaCounts { all: to_i64(pods.len()), ..ReplicaCounts::default() };
    let mut soonest = None;
    for pod in pods.iter().filter(|p| p.ready) {
        counts.ready += 1;
        let left = pod.ready_since.map_or(0, |since| least - (now - since.as_second()));
        if left <= 0 {
            counts.available += 1;
        } else {
            soonest = Some(soonest.unwrap_or(left).min(left));
        }
    }
    if let Some(left) = soonest {
        ctx.queue.push_after(Duration::from_secs(left.unsigned_abs()), Work::Sync(kind, key.clone()));
    }
    counts
}

/// A length as the API counts.
pub(crate) fn to_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// True if the object is being deleted.
pub(crate) fn deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Writes the fields into the object's status; zeros that were never there are left out, as Go's `omitempty` does.
pub(crate) fn write_status(ctx: &mut ClusterContext, kind: Kind, key: &Key, fields: &[(&str, Value)]) {
    ctx.kube.modify_status(kind, key, |object| {
        if !object["status"].is_object() {
            object["status"] = json!({});
        }
        let status = &mut object["status"];
        let mut changed = false;
        for (field, value) in fields {
            if status[*field] != *value && !(status[*field].is_null() && *value == 0 && *field != "replicas") {
                status[*field] = value.clone();
                changed = true;
            }
        }
        changed
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_up_for_surge_and_down_for_unavailability() {
        assert_eq!(scaled(&json!("25%"), 10, true), Some(3));
        assert_eq!(scaled(&json!("25%"), 10, false), Some(2));
        assert_eq!(scaled(&json!(4), 10, false), Some(4));
        assert_eq!(scaled(&Value::Null, 10, false), None);
    }

    #[test]
    fn template_hash_uses_safe_characters_and_differs_by_template() {
        let (a, b) = (hash(&json!({"a": 1})), hash(&json!({"a": 2})));
        assert_ne!(a, b);
        assert!(a.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{a}");
    }
}
