//! PodGroups, as far as they are read: pods that kube-scheduler places together or not at all. Kubernetes' own
//! (`scheduling.k8s.io`, from 1.36), and those of the coscheduling plugin (`scheduling.x-k8s.io`). Nothing is ever written to them.

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `kind` of the objects, in both groups.
pub const KIND: &str = "PodGroup";
/// The versions of Kubernetes' own that are read, the preferred one first: that of 1.37, and that of 1.36.
pub const VERSIONS: [&str; 2] = ["scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2"];
/// The version of the coscheduling plugin's that is read.
pub const COSCHEDULING_VERSION: &str = "scheduling.x-k8s.io/v1alpha1";
/// Label of a pod: the PodGroup of the coscheduling plugin, of the pod's namespace, that it is in.
pub const COSCHEDULING_LABEL: &str = "scheduling.x-k8s.io/pod-group";
/// The field of a pod that names its group. The typed Pod of Kubernetes 1.33 does not have it.
pub const GROUP_FIELD: [&str; 3] = ["spec", "schedulingGroup", "podGroupName"];

/// A group of Kubernetes' own.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "scheduling.k8s.io",
    version = "v1beta1",
    kind = "PodGroup",
    plural = "podgroups",
    namespaced,
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// The rule by which its pods are placed.
    #[serde(default)]
    pub scheduling_policy: SchedulingPolicy,
}

/// The rule by which a group's pods are placed: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulingPolicy {
    /// Each pod for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<Value>,
    /// Together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangPolicy>,
}

/// The rule of a gang.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GangPolicy {
    /// Number of pods that have to have a place before any of them gets one.
    #[serde(default)]
    pub min_count: i64,
}

/// A group of Kubernetes 1.36. [`PodGroup`] is made of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "scheduling.k8s.io",
    version = "v1alpha2",
    kind = "PodGroup",
    root = "PodGroupAlpha",
    plural = "podgroups",
    namespaced,
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct PodGroupAlphaSpec {
    /// The fields, which are those of v1beta1.
    #[serde(flatten)]
    pub fields: PodGroupSpec,
}

impl From<PodGroupAlpha> for PodGroup {
    fn from(alpha: PodGroupAlpha) -> Self {
        Self { metadata: alpha.metadata, spec: alpha.spec.fields }
    }
}

/// A group of the coscheduling plugin.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "scheduling.x-k8s.io",
    version = "v1alpha1",
    kind = "PodGroup",
    root = "CoschedulingGroup",
    plural = "podgroups",
    namespaced,
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct CoschedulingGroupSpec {
    /// Number of pods that have to have a place before any of them gets one.
    #[serde(default)]
    pub min_member: i64,
}

/// Name of the group that a pod's field says, if it says one.
#[must_use]
pub fn group_in_field(pod: &Value) -> Option<&str> {
    let named = GROUP_FIELD.iter().try_fold(pod, |value, key| value.get(key))?;
    named.as_str().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn group_of_a_pod_is_read_off_its_field() {
        let pod = json!({"spec": {"schedulingGroup": {"podGroupName": "train"}}});
        assert_eq!(group_in_field(&pod), Some("train"));
        for other in [json!({}), json!({"spec": {"schedulingGroup": {"podGroupName": ""}}}), json!({"spec": null})] {
            assert_eq!(group_in_field(&other), None, "{other}");
        }
    }

    #[test]
    fn group_of_1_36_is_that_of_1_37() {
        let alpha: Result<PodGroupAlpha, _> = serde_json::from_value(json!({
            "apiVersion": VERSIONS[1], "kind": KIND, "metadata": {"name": "train", "namespace": "ml"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "PodGroup"}}));
        let group = alpha.map(PodGroup::from).ok();
        let min_count = group.and_then(|group| group.spec.scheduling_policy.gang).map(|gang| gang.min_count);
        assert_eq!(min_count, Some(4));
    }
}
