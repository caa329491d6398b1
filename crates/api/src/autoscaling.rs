//! Cluster Autoscaler's kinds of `autoscaling.x-k8s.io`: CapacityBuffer, room for pods that do not exist yet, and CapacityQuota, a
//! limit on nodes by their labels. A cluster that has their CRDs keeps them, also one that serves v1alpha1 alone, which has the same
//! fields.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::v1::ResourceList;

/// The API group.
pub const GROUP: &str = "autoscaling.x-k8s.io";
/// The versions that are read, the preferred one first.
pub const VERSIONS: [&str; 2] = ["autoscaling.x-k8s.io/v1beta1", "autoscaling.x-k8s.io/v1alpha1"];
/// The strategy of a buffer that names none: the room is there all the time.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

/// The room that is wanted, by the shape of a pod and a number.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    shortname = "cb",
    namespaced,
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    schema = "disabled",
    category = "autoscaling",
    doc = "CapacityBuffer keeps room on nodes for pods that do not exist yet",
    printcolumn(name = "Strategy", type_ = "string", json_path = ".status.provisioningStrategy"),
    printcolumn(name = "PodTemplate", type_ = "string", json_path = ".status.podTemplateRef.name"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "ConditionsType", type_ = "string", json_path = ".status.conditions[*].type"),
    printcolumn(name = "ConditionsStatus", type_ = "string", json_path = ".status.conditions[*].status"),
    printcolumn(name = "ConditionsReason", type_ = "string", json_path = ".status.conditions[*].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferSpec {
    /// The way in which room is held; [`ACTIVE_CAPACITY`] unless given. Others are left to whoever knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// A PodTemplate of the namespace, the shape of one pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// A workload of the namespace, the shape of one pod by its own template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// Number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Number of pods, as a percentage of the workload's, rounded up. The larger of the two counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage: Option<i32>,
    /// Most that the pods request together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
}

/// A CapacityBuffer of v1alpha1. [`CapacityBuffer`] is made of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1alpha1",
    kind = "CapacityBuffer",
    root = "CapacityBufferAlpha",
    plural = "capacitybuffers",
    namespaced,
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct CapacityBufferAlphaSpec {
    /// The fields, which are those of v1beta1.
    #[serde(flatten)]
    pub fields: CapacityBufferSpec,
}

impl From<CapacityBufferAlpha> for CapacityBuffer {
    fn from(alpha: CapacityBufferAlpha) -> Self {
        Self { metadata: alpha.metadata, spec: alpha.spec.fields, status: alpha.status }
    }
}

/// An object of the buffer's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalObjectRef {
    /// `metadata.name`.
    pub name: String,
}

/// A workload of the buffer's namespace that can be scaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// API group; `apps` or nothing for Deployment, ReplicaSet and StatefulSet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Kind, such as Deployment.
    pub kind: String,
    /// `metadata.name`.
    pub name: String,
}

/// Status of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// Number of pods that room is held for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The PodTemplate in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Its generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// The strategy in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields of other controllers.
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

/// A limit on the resources of all nodes with certain labels, whichever NodePool makes them. The kind is Cluster Autoscaler's.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityQuota",
    plural = "capacityquotas",
    shortname = "cq",
    status = "CapacityQuotaStatus",
    derive = "PartialEq",
    schema = "disabled",
    doc = "CapacityQuota limits what nodes with certain labels have together"
)]
#[serde(rename_all = "camelCase")]
pub struct CapacityQuotaSpec {
    /// Nodes that count, by their labels; all if it is empty or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The limits.
    #[serde(default)]
    pub limits: CapacityAmounts,
}

/// A CapacityQuota of v1alpha1. [`CapacityQuota`] is made of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1alpha1",
    kind = "CapacityQuota",
    root = "CapacityQuotaAlpha",
    plural = "capacityquotas",
    status = "CapacityQuotaStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct CapacityQuotaAlphaSpec {
    /// The fields, which are those of v1beta1.
    #[serde(flatten)]
    pub fields: CapacityQuotaSpec,
}

impl From<CapacityQuotaAlpha> for CapacityQuota {
    fn from(alpha: CapacityQuotaAlpha) -> Self {
        Self { metadata: alpha.metadata, spec: alpha.spec.fields, status: alpha.status }
    }
}

/// Amounts by resource: cpu, memory, `nodes` (their number), and any other that nodes have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityAmounts {
    /// The amounts.
    #[serde(default)]
    pub resources: ResourceList,
}

/// Status of a quota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityQuotaStatus {
    /// Capacity of the nodes that are there, of the resources that the quota names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<CapacityAmounts>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation that the rest is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
