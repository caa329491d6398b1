//! Label keys and values that scheduling itself has to know, and the aliases of old keys.

pub use dovetail_api::names::labels::{
    ARCH, CAPACITY_RESERVATION_ID, CAPACITY_TYPE, HOSTNAME, INSTANCE_FAMILY, INSTANCE_GENERATION, INSTANCE_TYPE,
    NODE_POOL, ON_DEMAND, OS, REGION, RESERVED, SPOT, WINDOWS_BUILD, ZONE,
};

/// Key that stands for `matchFields` of a node affinity, a node's own name, among requirements on labels: no label can be
/// named so.
pub const NODE_NAME_FIELD: &str = "field:metadata.name";
/// The platform on which EKS runs a node; `fargate` is no place for anything but the pod that it was made for.
pub const COMPUTE_TYPE: &str = "eks.amazonaws.com/compute-type";

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
