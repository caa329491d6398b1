//! Merge patches of what we own of an object, with the resourceVersion that they rest on: fields that a newer API server
//! knows and we don't are not lost.

use dovetail_api::v1::NodeClaim;
use k8s_openapi::api::core::v1::Node;
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

/// Status of a claim.
#[must_use]
pub fn claim_status(claim: &NodeClaim) -> Value {
    json!({"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": claim.status})
}
