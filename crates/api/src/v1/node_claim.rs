//! NodeClaim: one node asked for (core spec 1.2). The spec never changes.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Taint,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{
    DurationOrNever, KubeDuration, NodeClassRef, NodeSelectorRequirementWithMinValues, ResourceList, node_pool::month,
};

/// Requirements of one node.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    status = "NodeClaimStatus",
    derive = "PartialEq",
    schema = "disabled",
    category = "karpenter",
    doc = "NodeClaim asks for one node and follows it from launch to termination",
    printcolumn(name = "Type", type_ = "string", json_path = r".metadata.labels.node\.kubernetes\.io/instance-type"),
    printcolumn(name = "Capacity", type_ = "string", json_path = r".metadata.labels.karpenter\.sh/capacity-type"),
    printcolumn(name = "Zone", type_ = "string", json_path = r".metadata.labels.topology\.kubernetes\.io/zone"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "ImageID", type_ = "string", json_path = ".status.imageID", priority = 1),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.providerID", priority = 1),
    printcolumn(
        name = "NodePool",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/nodepool",
        priority = 1
    ),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.nodeClassRef.name", priority = 1),
    printcolumn(
        name = "Drifted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Drifted\")].status",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Requirements on the node's labels.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// Requests of the pods planned for it together.
    #[serde(default, skip_serializing_if = "NodeClaimResources::is_empty")]
    pub resources: NodeClaimResources,
    /// Taints for the node's whole life.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that something else takes away before the node counts as initialized.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// The class that says how an instance is launched.
    pub node_class_ref: NodeClassRef,
    /// Longest time of draining; then pods are deleted regardless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<KubeDuration>,
    /// Age at which the node is drained.
    #[serde(default = "month")]
    pub expire_after: DurationOrNever,
}

/// Requests of the pods planned for a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeClaimResources {
    /// Sum of the pods' requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: ResourceList,
}

impl NodeClaimResources {
    /// True if nothing is requested.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// Status of a claim: its node and instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the Node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// `aws:///<zone>/<instance id>`, once launched.
    #[serde(default, rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// AMI.
    #[serde(default, rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// Resources of the instance type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: ResourceList,
    /// Resources that pods may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: ResourceList,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Time at which a pod last came or went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}
