//! Facts about a pod that draining needs beyond those of scheduling.

use dovetail_api::names::annotations::{MOVE, MOVE_ROLLOUT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

/// Priority classes whose pods go last.
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// The order, the time and the volumes by which the pod goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainFacts {
    /// True if its priority class is one of the system's.
    pub critical: bool,
    /// Time by which it is to be gone, once it is being deleted.
    pub deletion: Option<Timestamp>,
    /// Names of the PersistentVolumeClaims that it mounts.
    pub volume_claims: Vec<String>,
    /// Name of its ReplicaSet, if it asks to be moved by a rollout.
    pub rollout: Option<String>,
}

impl DrainFacts {
    /// Reads a pod of the API.
    #[must_use]
    pub fn from_kube(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let class = spec.and_then(|spec| spec.priority_class_name.as_deref()).unwrap_or_default();
        Self {
            critical: CRITICAL.contains(&class),
            deletion: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            volume_claims: crate::volumes::claims_of(pod),
            rollout: asks_for_rollout(pod),
        }
    }
}

/// The ReplicaSet of a pod that asks to be moved by a rollout.
fn asks_for_rollout(pod: &Pod) -> Option<String> {
    let asks = pod.metadata.annotations.as_ref()?.get(MOVE).is_some_and(|how| how == MOVE_ROLLOUT);
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let set = owners.iter().find(|owner| owner.controller == Some(true) && owner.kind == "ReplicaSet");
    set.filter(|_| asks).map(|set| set.name.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_for_volumes_are_named_and_made_for_the_pod() {
        let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [], "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "config", "configMap": {"name": "x"}},
        ]}});
        let facts = DrainFacts::from_kube(&serde_json::from_value(pod).unwrap());
        assert_eq!(facts.volume_claims, ["data-web-0", "web-0-scratch"]);
    }
}
