//! Kinds that nobody here knows: somebody else's, which are passed over, or slips.

use crate::schema::{accepted_kinds, is_near};

/// Kinds that decide which nodes come or go. Under an apiVersion that is not theirs they are slips, or of a Kubernetes of old.
const DECIDING: &[&str] = &[
    "AWSNodeTemplate",
    "CSIDriver",
    "CSINode",
    "ClusterConfig",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "EC2NodeClass",
    "Job",
    "LimitRange",
    "Namespace",
    "Node",
    "NodeClaim",
    "NodePool",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PriorityClass",
    "Provisioner",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "RuntimeClass",
    "StatefulSet",
    "StorageClass",
];
/// Groups of which every kind is known, and what else they have.
const WHOLE: &[(&str, &[&str])] = &[
    ("karpenter.sh", &["NodeOverlay"]),
    ("karpenter.k8s.aws", &[]),
    ("eksctl.io", &[]),
    ("", &["Binding", "ComponentStatus"]),
    ("apps", &[]),
    ("batch", &[]),
];

/// True if an unknown kind is somebody else's. Kubernetes' own groups are those without a dot and those that end with `.k8s.io`.
pub fn is_foreign(api_version: &str, kind: &str) -> bool {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    if !is_group(group) || !is_version(version) || !is_kind(kind) {
        return false;
    }
    if let Some((_, more)) = WHOLE.iter().find(|(whole, _)| *whole == group) {
        return more.contains(&kind);
    }
    let kubernetes = !group.contains('.') || group.ends_with(".k8s.io");
    let slip_of_kind = kubernetes
        && (DECIDING.contains(&kind) || accepted_kinds().any(|(known, of)| known == api_version && is_near(of, kind)));
    // Another's group may be as short as Kubernetes' own, and like one: only of the long ones a slip is sure.
    let slip_of_group = WHOLE.iter().any(|(whole, _)| whole.contains('.') && is_near(whole, group))
        || !group.contains('.') && DECIDING.contains(&kind);
    !slip_of_kind && !slip_of_group
}

fn is_group(group: &str) -> bool {
    group.is_empty() || super::names::is_subdomain(group)
}

/// `v1`, `v1beta2`.
fn is_version(version: &str) -> bool {
    let Some(rest) = version.strip_prefix('v') else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    ["alpha", "beta"]
        .iter()
        .find_map(|stage| rest.split_once(stage))
        .map_or_else(|| number(rest), |(major, minor)| number(major) && number(minor))
}

fn is_kind(kind: &str) -> bool {
    kind.starts_with(|first: char| first.is_ascii_uppercase()) && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_others_are_foreign() {
        for (version, kind) in [
            ("monitoring.coreos.com/v1", "ServiceMonitor"),
            ("argoproj.io/v1alpha1", "Rollout"),
            ("serving.knative.dev/v1", "Service"),
            ("batch.volcano.sh/v1alpha1", "Job"),
            ("gateway.networking.k8s.io/v1", "HTTPRoute"),
            ("extensions/v1beta1", "Ingress"),
            ("policy/v1beta1", "PodSecurityPolicy"),
            ("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
            ("storage.k8s.io/v1", "VolumeAttributesClass"),
            ("karpenter.sh/v1alpha1", "NodeOverlay"),
            ("v1", "Binding"),
        ] {
            assert!(is_foreign(version, kind), "{version} {kind}");
        }
    }

    #[test]
    fn slips_and_versions_of_old_that_would_change_the_plan_are_not() {
        for (version, kind) in [
            ("karpenter.sh/v1", "NodePol"),
            ("karpenter.sh/v2", "NodePool"),
            ("karpnter.sh/v1", "NodePool"),
            ("apps/v1", "Deploymnet"),
            ("extensions/v1beta1", "Deployment"),
            ("app/v1", "Deployment"),
            ("batch/v1beta1", "CronJob"),
            ("policy/v1", "PodDisruptionBudgets"),
            ("storage.k8s.io/v1", "StorageClas"),
            ("v1", "Pods"),
            ("v 1", "Thing"),
            ("example.com", "Thing"),
            ("example.com/v1", "a thing"),
        ] {
            assert!(!is_foreign(version, kind), "{version} {kind}");
        }
    }
}
