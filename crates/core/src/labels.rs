//! Label keys and values that scheduling itself has to know, and the aliases of old keys.

/// Availability zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Name of a node as a topology domain: every node is its own.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Key that stands for `matchFields` of a node affinity, a node's own name, among requirements on labels: no label can be
/// named so.
pub const NODE_NAME_FIELD: &str = "field:metadata.name";
/// Processor architecture.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system.
pub const OS: &str = "kubernetes.io/os";
/// Instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Instance family on AWS, what the diversity rule for spot counts.
pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// Generation of an instance family on AWS, a number.
pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Capacity type: `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// The NodePool that owns a node.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// The capacity reservation that a node is of, by its id.
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// The platform on which EKS runs a node; `fargate` is no place for anything but the pod that it was made for.
pub const COMPUTE_TYPE: &str = "eks.amazonaws.com/compute-type";
/// Windows build of a node.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Capacity type of interruptible instances.
pub const SPOT: &str = "spot";
/// Capacity type of instances at list price.
pub const ON_DEMAND: &str = "on-demand";
/// Capacity type of instances out of a capacity reservation.
pub const RESERVED: &str = "reserved";

/// Keys a pod may ask for although no NodePool defines them; a provider adds its own.
pub const WELL_KNOWN: [&str; 8] = [NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// The stable spelling of a label key: old `beta` keys mean the same as the keys that followed them.
#[must_use]
pub fn stable(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" | "topology.ebs.csi.aws.com/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => REGION,
        "beta.kubernetes.io/arch" => ARCH,
        "beta.kubernetes.io/os" => OS,
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        other => other,
    }
}
