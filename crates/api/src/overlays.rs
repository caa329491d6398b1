//! NodeOverlay of `karpenter.sh`, v1alpha1: prices and extended resources that instance types have for scheduling, other than the
//! catalogue's.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::v1::{NodeSelectorRequirementWithMinValues, ResourceList};

/// `apiVersion` of the kind.
pub const API_VERSION: &str = "karpenter.sh/v1alpha1";
/// The kind.
pub const KIND: &str = "NodeOverlay";
/// Resources that no overlay may set: the instance type decides them.
pub const RESTRICTED_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// Prices and resources for the instance types that satisfy the requirements.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    shortname = "overlays",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    schema = "disabled",
    category = "karpenter",
    doc = "NodeOverlay changes the prices and adds to the resources that instance types have for scheduling",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// Instance types and offerings that it applies to; all of them if empty.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// Price of each offering, dollars an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Signed change of each price: dollars an hour such as `+0.5`, or a percentage such as `-15%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Extended resources of each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// Rank among overlays that say something of the same, 1 to 10,000; the higher wins. Unset counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// Status of an overlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// `ValidationSucceeded` and its root `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
