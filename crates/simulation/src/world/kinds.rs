//! Kinds that steps may name.

use dovetail_sandbox::apiserver::Gvr;

/// Kinds that a step may delete, by name; the API version follows from the kind.
pub const DELETABLE: &[&str] = &[
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "Pod",
    "Node",
    "NodeClaim",
    "NodePool",
    "EC2NodeClass",
    "Provisioner",
    "AWSNodeTemplate",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Service",
    "Lease",
    "CapacityBuffer",
    "NodeOverlay",
    "CapacityQuota",
    "ProvisioningRequest",
    "VerticalPodAutoscaler",
    "PodGroup",
];

/// The resource of a kind that steps may name.
pub(super) fn resource(kind: &str) -> Gvr {
    match kind {
        "Deployment" => Gvr::new("apps", "v1", "deployments"),
        "ReplicaSet" => Gvr::new("apps", "v1", "replicasets"),
        "StatefulSet" => Gvr::new("apps", "v1", "statefulsets"),
        "DaemonSet" => Gvr::new("apps", "v1", "daemonsets"),
        "Job" => Gvr::new("batch", "v1", "jobs"),
        "Node" => Gvr::new("", "v1", "nodes"),
        "NodeClaim" => Gvr::new("karpenter.sh", "v1", "nodeclaims"),
        "NodePool" => Gvr::new("karpenter.sh", "v1", "nodepools"),
        "EC2NodeClass" => Gvr::new("karpenter.k8s.aws", "v1", "ec2nodeclasses"),
        "Provisioner" => Gvr::new("karpenter.sh", "v1alpha5", "provisioners"),
        "AWSNodeTemplate" => Gvr::new("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates"),
        "PersistentVolumeClaim" => Gvr::new("", "v1", "persistentvolumeclaims"),
        "PodDisruptionBudget" => Gvr::new("policy", "v1", "poddisruptionbudgets"),
        "Service" => Gvr::new("", "v1", "services"),
        "Lease" => Gvr::new("coordination.k8s.io", "v1", "leases"),
        "NodeOverlay" => Gvr::new("karpenter.sh", "v1alpha1", "nodeoverlays"),
        "CapacityBuffer" => Gvr::new("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers"),
        "ProvisioningRequest" => Gvr::new("autoscaling.x-k8s.io", "v1", "provisioningrequests"),
        "VerticalPodAutoscaler" => Gvr::new("autoscaling.k8s.io", "v1", "verticalpodautoscalers"),
        "PodGroup" => Gvr::new("scheduling.k8s.io", "v1alpha2", "podgroups"),
        "CapacityQuota" => Gvr::new("autoscaling.x-k8s.io", "v1beta1", "capacityquotas"),
        _ => Gvr::new("", "v1", "pods"),
    }
}

/// Kinds that steps name and that live in no namespace.
pub(crate) const CLUSTER_WIDE: &[&str] = &[
    "CapacityQuota",
    "Node",
    "NodeClaim",
    "NodeOverlay",
    "NodePool",
    "EC2NodeClass",
    "Provisioner",
    "AWSNodeTemplate",
];
