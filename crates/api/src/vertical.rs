//! VerticalPodAutoscaler (`autoscaling.k8s.io/v1`) as far as it is read: the workload, the mode, and the recommended requests.
//! Nothing is ever written to it. Fields that are not here are not read.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The version that is read.
pub const API_VERSION: &str = "autoscaling.k8s.io/v1";

/// Requests that pods of a workload get when they are created.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.k8s.io",
    version = "v1",
    kind = "VerticalPodAutoscaler",
    plural = "verticalpodautoscalers",
    namespaced,
    status = "VerticalPodAutoscalerStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct VerticalPodAutoscalerSpec {
    /// The workload, of the object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<AutoscalerTarget>,
    /// Times at which pods get what is recommended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<PodUpdatePolicy>,
}

/// A workload whose pods an autoscaler is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerTarget {
    /// API version, such as `apps/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind, such as Deployment.
    #[serde(default)]
    pub kind: String,
    /// `metadata.name`.
    #[serde(default)]
    pub name: String,
}

/// Times at which pods get what is recommended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUpdatePolicy {
    /// `Off` for never; all other modes, and none, do so at least when a pod is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_mode: Option<String>,
}

/// Status of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerticalPodAutoscalerStatus {
    /// Recommended requests; none until there is enough history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<PodRecommendation>,
}

/// Recommended requests of a workload's pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecommendation {
    /// The containers that get them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_recommendations: Vec<ContainerRecommendation>,
}

/// Recommended requests of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecommendation {
    /// Name of the container.
    #[serde(default)]
    pub container_name: String,
    /// Requests by resource; those that are not named stay as the pod's template has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub target: BTreeMap<String, Quantity>,
}
