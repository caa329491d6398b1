//! Merge patches of our own fields of an object, with the resourceVersion that they rest on: fields that a newer API server knows
//! and this release does not are not lost.

use dovetail_api::v1::NodeClaim;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

/// Patch of the labels, annotations, finalizers, owners and taints of a Node, from the one that is `there` to the `wanted` one.
#[must_use]
pub fn node(there: &Node, wanted: &Node) -> Value {
    let (before, meta) = (&there.metadata, &wanted.metadata);
    json!({
        "metadata": {
            "resourceVersion": meta.resource_version,
            "labels": map(before.labels.as_ref(), meta.labels.as_ref()),
            "annotations": map(before.annotations.as_ref(), meta.annotations.as_ref()),
            "finalizers": meta.finalizers,
            "ownerReferences": meta.owner_references,
        },
        "spec": {"taints": wanted.spec.as_ref().and_then(|spec| spec.taints.as_ref())},
    })
}

/// Patch of the labels, annotations and finalizers of a claim, from the one that is `there` to the `wanted` one.
#[must_use]
pub fn claim_metadata(there: &NodeClaim, wanted: &NodeClaim) -> Value {
    let (before, meta) = (&there.metadata, &wanted.metadata);
    json!({"metadata": {
        "resourceVersion": meta.resource_version,
        "labels": map(before.labels.as_ref(), meta.labels.as_ref()),
        "annotations": map(before.annotations.as_ref(), meta.annotations.as_ref()),
        "finalizers": meta.finalizers,
    }})
}

/// A map, or a status, as a merge patch. The patch removes keys that are there and not wanted; leaving them out would keep them.
#[must_use]
pub fn map<S: Serialize>(there: Option<&S>, wanted: Option<&S>) -> Value {
    let (there, mut wanted) = (json!(there), json!(wanted));
    for key in there.as_object().into_iter().flat_map(|there| there.keys()) {
        if wanted.get(key).is_none() {
            wanted[key.as_str()] = Value::Null;
        }
    }
    wanted
}

/// A status as a merge patch that holds for this version of the object.
#[must_use]
pub fn status<S: Serialize>(meta: &ObjectMeta, there: Option<&S>, wanted: Option<&S>) -> Value {
    json!({"metadata": {"resourceVersion": meta.resource_version}, "status": map(there, wanted)})
}

#[must_use]
pub fn claim_status(claim: &NodeClaim) -> Value {
    json!({"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": claim.status})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_status_no_longer_has_is_taken_out() {
        let there = json!({"subnets": [{"id": "a"}], "amis": []});
        assert_eq!(map(Some(&there), Some(&json!({"amis": []}))), json!({"subnets": null, "amis": []}));
        assert_eq!(map(None, Some(&there)), there);
    }

    #[test]
    fn labels_and_annotations_that_are_removed_are_null() {
        let mut there = Node::default();
        there.metadata.labels = Some([("a", "1"), ("b", "2")].map(|(key, value)| (key.into(), value.into())).into());
        there.metadata.annotations = Some([("note".into(), "x".into())].into());
        let mut wanted = there.clone();
        wanted.metadata.labels.as_mut().map(|labels| labels.remove("b"));
        wanted.metadata.annotations = None;
        let patch = node(&there, &wanted);
        assert_eq!(patch["metadata"]["labels"], json!({"a": "1", "b": null}));
        assert_eq!(patch["metadata"]["annotations"], json!({"note": null}));
        assert_eq!(node(&Node::default(), &Node::default())["metadata"]["labels"], Value::Null);
    }
}
