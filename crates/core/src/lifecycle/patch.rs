//! Merge patches of what we own of an object, with the resourceVersion that they rest on: fields that a newer API server
//! knows and we don't are not lost.

use dovetail_api::v1::NodeClaim;
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;
use serde_json::{Value, json};

/// Labels, annotations, finalizers, owners and taints of a Node.
#[must_use]
pub fn node(node: &Node) -> Value {
    let meta = &node.metadata;
    json!({
        "metadata": {
            "resourceVersion": meta.resource_version,
            "labels": meta.labels,
            "annotations": meta.annotations,
            "finalizers": meta.finalizers,
            "ownerReferences": meta.owner_references,
        },
        "spec": {"taints": node.spec.as_ref().and_then(|spec| spec.taints.as_ref())},
    })
}

/// Labels, annotations and finalizers of a claim.
#[must_use]
pub fn claim_metadata(claim: &NodeClaim) -> Value {
    let meta = &claim.metadata;
    json!({"metadata": {
        "resourceVersion": meta.resource_version,
        "labels": meta.labels,
        "annotations": meta.annotations,
        "finalizers": meta.finalizers,
    }})
}

/// A status as a merge patch: what is there and not wanted is taken out, which a patch that merely leaves it out does not.
#[must_use]
pub fn status<S: Serialize>(there: Option<&S>, wanted: Option<&S>) -> Value {
    let (there, mut wanted) = (json!(there), json!(wanted));
    for key in there.as_object().into_iter().flat_map(|there| there.keys()) {
        if wanted.get(key).is_none() {
            wanted[key.as_str()] = Value::Null;
        }
    }
    wanted
}

/// Status of a claim.
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
        assert_eq!(status(Some(&there), Some(&json!({"amis": []}))), json!({"subnets": null, "amis": []}));
        assert_eq!(status(None, Some(&there)), there);
    }
}
