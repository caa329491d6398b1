//! v1alpha5 as it is read: a Provisioner becomes a NodePool ([`crate::convert`]).

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Taint,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::{
    v1::{Kubelet, NodeClaimResources, NodeClaimStatus, NodeSelectorRequirementWithMinValues, ResourceList},
    v1alpha1::Aws,
    v1beta1::NodeClassRef,
};

/// A Provisioner's rules for nodes: their requirements, limits and lifetime.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(group = "karpenter.sh", version = "v1alpha5", kind = "Provisioner", plural = "provisioners")]
#[kube(
    printcolumn(name = "Template", type_ = "string", json_path = ".spec.providerRef.name"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[kube(status = "ProvisionerStatus", derive = "PartialEq", schema = "disabled", category = "karpenter")]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisionerSpec {
    /// Annotations of the nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints for the node's whole life.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that something else takes away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// Requirements on the nodes' labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// The kubelet's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_configuration: Option<Kubelet>,
    /// Settings by which instances are launched, inline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Aws>,
    /// Settings by which instances are launched, by reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<NodeClassRef>,
    /// An empty node goes after exactly so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_empty: Option<u64>,
    /// A node goes at that age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_until_expired: Option<u64>,
    /// Replacement of under-used nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<Consolidation>,
    /// Ceilings on what the nodes have together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// 1 to 100, higher is tried first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// Replacement of under-used nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consolidation {
    /// False is as good as unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Ceilings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// By resource.
    #[serde(default)]
    pub resources: ResourceList,
}

/// Status of a Provisioner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisionerStatus {
    /// Resources of its nodes together.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub resources: ResourceList,
    /// Time at which a node was last made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Requirements of one node; a Machine becomes a NodeClaim ([`crate::convert`]).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(group = "karpenter.sh", version = "v1alpha5", kind = "Machine", plural = "machines")]
#[kube(status = "NodeClaimStatus", derive = "PartialEq", schema = "disabled", category = "karpenter")]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// Requirements on the node's labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// Requests of the pods planned for it together.
    #[serde(skip_serializing_if = "NodeClaimResources::is_empty")]
    pub resources: NodeClaimResources,
    /// Taints for the node's whole life.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that something else takes away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// The kubelet's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<Kubelet>,
    /// The AWSNodeTemplate that says how an instance is launched; none is that of the Provisioner's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_template_ref: Option<NodeClassRef>,
}
