//! The kubelet block of an EC2NodeClass: an open object, of which Dovetail understands some fields (aws spec 1.4).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The block as written; unknown fields go to the node as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kubelet(pub Map<String, Value>);

impl Kubelet {
    /// The fields that are understood.
    ///
    /// # Errors
    /// A field of them has a value of another type.
    pub fn understood(&self) -> Result<KubeletConfiguration, serde_json::Error> {
        serde_json::from_value(Value::Object(self.0.clone()))
    }
}

/// The fields of the kubelet's configuration that capacity and user data are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfiguration {
    /// Addresses of the cluster's DNS.
    #[serde(rename = "clusterDNS", skip_serializing_if = "Vec::is_empty")]
    pub cluster_dns: Vec<String>,
    /// Ceiling on pods, an integer (or an expression, behind a gate).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<Value>,
    /// Ceiling on pods by core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<i64>,
    /// Kept for the system, quantities.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub system_reserved: BTreeMap<String, String>,
    /// Kept for Kubernetes' daemons, quantities.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kube_reserved: BTreeMap<String, String>,
    /// Thresholds at which pods are evicted at once.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_hard: BTreeMap<String, String>,
    /// Thresholds at which pods are evicted after a grace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft: BTreeMap<String, String>,
    /// That grace, Go durations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// Longest grace of a pod that is evicted, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i64>,
    /// Disk use at which images are collected, percent.
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i64>,
    /// Disk use down to which they are collected, percent.
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i64>,
    /// True if CPU limits are enforced.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}
