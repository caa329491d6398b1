//! Cluster Autoscaler's ProvisioningRequest (`autoscaling.x-k8s.io`): room for all pods of a group, or for none. A cluster that has
//! its CRD keeps it, also one that serves v1beta1 alone, which has the same fields.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::autoscaling::LocalObjectRef;

/// `kind` of the objects.
pub const KIND: &str = "ProvisioningRequest";
/// The versions that are read, the preferred one first.
pub const VERSIONS: [&str; 2] = ["autoscaling.x-k8s.io/v1", "autoscaling.x-k8s.io/v1beta1"];
/// The class that looks for room on nodes that are there, and launches none.
pub const CHECK_CAPACITY: &str = "check-capacity.autoscaling.x-k8s.io";
/// The class that launches nodes for all pods, or none.
pub const ATOMIC_SCALE_UP: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
/// Annotation of a pod: the name of the request of its namespace whose room it takes.
pub const CONSUME: &str = "autoscaling.x-k8s.io/consume-provisioning-request";
/// The same annotation by its earlier name.
pub const CONSUME_EARLIER: &str = "cluster-autoscaler.kubernetes.io/consume-provisioning-request";
/// Parameter: `true` if a request for whose pods there is no room is given up at once.
pub const NO_RETRY: &str = "noRetry";
/// Parameter: seconds from the creation after which a request that has no room is given up.
pub const VALID_UNTIL_SECONDS: &str = "ValidUntilSeconds";
/// Parameter: the Cluster Autoscaler that a request is for, by its name. It is none of ours.
pub const PROCESSOR_INSTANCE: &str = "processorInstance";

/// The pods for which room is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1",
    kind = "ProvisioningRequest",
    plural = "provisioningrequests",
    shortname = "provreq",
    shortname = "provreqs",
    namespaced,
    status = "ProvisioningRequestStatus",
    derive = "PartialEq",
    schema = "disabled",
    doc = "ProvisioningRequest asks for room for all pods of a group, or for none",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestSpec {
    /// Groups of equal pods.
    #[serde(default)]
    pub pod_sets: Vec<PodSet>,
    /// [`CHECK_CAPACITY`] or [`ATOMIC_SCALE_UP`]; others are left to whoever knows them.
    #[serde(default)]
    pub provisioning_class_name: String,
    /// Further settings of the class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// A ProvisioningRequest of v1beta1. [`ProvisioningRequest`] is made of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "ProvisioningRequest",
    root = "ProvisioningRequestBeta",
    plural = "provisioningrequests",
    namespaced,
    status = "ProvisioningRequestStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct ProvisioningRequestBetaSpec {
    /// The fields, which are those of v1.
    #[serde(flatten)]
    pub fields: ProvisioningRequestSpec,
}

impl From<ProvisioningRequestBeta> for ProvisioningRequest {
    fn from(beta: ProvisioningRequestBeta) -> Self {
        Self { metadata: beta.metadata, spec: beta.spec.fields, status: beta.status }
    }
}

/// So many pods of one template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// A PodTemplate of the namespace.
    pub pod_template_ref: LocalObjectRef,
    /// Number of pods.
    pub count: i32,
}

/// Status of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestStatus {
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Numbers that its class tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provisioning_class_details: BTreeMap<String, String>,
    /// Fields of other controllers.
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}
