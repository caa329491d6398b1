//! Labels: those nodes carry and requirements select, and which of them a user may not write.

/// Name of the node's NodePool.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// `"true"` once the Node is usable.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `"true"` once the Node is matched with its claim.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// The labels that only nodes of capacity reservations have.
pub const OF_RESERVATIONS: [&str; 3] =
    [CAPACITY_RESERVATION_ID, CAPACITY_RESERVATION_TYPE, CAPACITY_RESERVATION_INTERRUPTIBLE];

/// `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `"true"` on a Node: Dovetail does not copy the NodeClaim's taints to it.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Set while a node drains, so that load balancers stop using it.
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Value of [`EXCLUDE_BALANCERS`]: what Karpenter writes.
pub const EXCLUDE_BALANCERS_VALUE: &str = "karpenter";

/// Availability zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Zone id (`use1-az1`), the same in every account.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// `amd64` or `arm64`.
pub const ARCH: &str = "kubernetes.io/arch";
/// `linux` or `windows`.
pub const OS: &str = "kubernetes.io/os";
/// The kubelet's host name; never a requirement of a pool.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Build of Windows that the node runs.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Value of [`CAPACITY_TYPE`].
pub const SPOT: &str = "spot";
/// Value of [`CAPACITY_TYPE`].
pub const ON_DEMAND: &str = "on-demand";
/// Value of [`CAPACITY_TYPE`].
pub const RESERVED: &str = "reserved";
/// Value of [`INSTANCE_TENANCY`]: the hardware is shared with other accounts.
pub const TENANCY_DEFAULT: &str = "default";
/// Value of [`INSTANCE_TENANCY`]: no other account has an instance on the hardware.
pub const TENANCY_DEDICATED: &str = "dedicated";
/// Value of [`CAPACITY_RESERVATION_TYPE`]: EC2 Capacity Blocks, which are bought for a fixed time.
pub const CAPACITY_BLOCK: &str = "capacity-block";
/// The labels that a node gets by how it is launched, whatever its instance type.
pub const OF_LAUNCHES: [&str; 5] = [
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    PLACEMENT_GROUP_PARTITION,
    INSTANCE_TENANCY,
];
/// The values of [`CAPACITY_TYPE`].
pub const CAPACITY_TYPES: [&str; 3] = [SPOT, ON_DEMAND, RESERVED];

macro_rules! aws_labels {
    ($($(#[$doc:meta])* $name:ident = $key:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = concat!("karpenter.k8s.aws/", $key);)*
        /// The labels of `karpenter.k8s.aws` that instance types define.
        pub const AWS_WELL_KNOWN: &[&str] = &[$($name),*];
    };
}

aws_labels! {
    /// Letters before the generation: `c`, `m`, `r`, `g`.
    INSTANCE_CATEGORY = "instance-category";
    /// `c5`, `m6gd`.
    INSTANCE_FAMILY = "instance-family";
    /// `5` of `c5.large`.
    INSTANCE_GENERATION = "instance-generation";
    /// `large`, `metal`.
    INSTANCE_SIZE = "instance-size";
    /// `true` for the flex families.
    INSTANCE_CAPABILITY_FLEX = "instance-capability-flex";
    /// Number of vCPUs.
    INSTANCE_CPU = "instance-cpu";
    /// `aws`, `intel`, `amd`.
    INSTANCE_CPU_MANUFACTURER = "instance-cpu-manufacturer";
    /// Sustained clock speed, MHz.
    INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ = "instance-cpu-sustained-clock-speed-mhz";
    /// Memory, MiB.
    INSTANCE_MEMORY = "instance-memory";
    /// EBS bandwidth, Mbps.
    INSTANCE_EBS_BANDWIDTH = "instance-ebs-bandwidth";
    /// Network base line, Mbps.
    INSTANCE_NETWORK_BANDWIDTH = "instance-network-bandwidth";
    /// GPU model.
    INSTANCE_GPU_NAME = "instance-gpu-name";
    /// GPU maker.
    INSTANCE_GPU_MANUFACTURER = "instance-gpu-manufacturer";
    /// Number of GPUs.
    INSTANCE_GPU_COUNT = "instance-gpu-count";
    /// Memory of one GPU, MiB.
    INSTANCE_GPU_MEMORY = "instance-gpu-memory";
    /// Accelerator model.
    INSTANCE_ACCELERATOR_NAME = "instance-accelerator-name";
    /// Accelerator maker.
    INSTANCE_ACCELERATOR_MANUFACTURER = "instance-accelerator-manufacturer";
    /// Number of accelerators.
    INSTANCE_ACCELERATOR_COUNT = "instance-accelerator-count";
    /// Local NVMe storage, GB.
    INSTANCE_LOCAL_NVME = "instance-local-nvme";
    /// `nitro`, `xen`, or empty on bare metal.
    INSTANCE_HYPERVISOR = "instance-hypervisor";
    /// `true` or `false`.
    INSTANCE_ENCRYPTION_IN_TRANSIT = "instance-encryption-in-transit-supported";
    /// `true` where Nitro Enclaves are supported.
    NITRO_SANDBOX = "nitro-sandbox";
    /// `default` or `dedicated`.
    INSTANCE_TENANCY = "instance-tenancy";
    /// Capacity reservation of a reserved node.
    CAPACITY_RESERVATION_ID = "capacity-reservation-id";
    /// `default` or `capacity-block`.
    CAPACITY_RESERVATION_TYPE = "capacity-reservation-type";
    /// `true` when the reservation's owner may take it back.
    CAPACITY_RESERVATION_INTERRUPTIBLE = "capacity-reservation-interruptible";
    /// Resolved placement group.
    PLACEMENT_GROUP_ID = "placement-group-id";
    /// Partition in the placement group.
    PLACEMENT_GROUP_PARTITION = "placement-group-partition";
}

/// Name of the node's EC2NodeClass (label of the form `<group>/<lowercase kind>`; not well known).
pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// Name of the node's KWOKNodeClass.
pub const KWOK_NODE_CLASS: &str = "karpenter.kwok.sh/kwoknodeclass";

/// Labels that kwok's instance types define.
pub const KWOK_WELL_KNOWN: &[&str] =
    &[KWOK_INSTANCE_TYPE, KWOK_INSTANCE_SIZE, KWOK_INSTANCE_FAMILY, KWOK_INSTANCE_CPU, KWOK_INSTANCE_MEMORY];
/// Name of the instance type.
pub const KWOK_INSTANCE_TYPE: &str = "karpenter.kwok.sh/instance-type";
/// `large` of `m5.large`; the number of CPUs where the name says no size.
pub const KWOK_INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
/// `m5` of `m5.large`, `c` of `c-4x-amd64-linux`.
pub const KWOK_INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
/// Number of CPUs.
pub const KWOK_INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
/// Memory, as the catalogue writes it: `8Gi`.
pub const KWOK_INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";

/// Alpha's name of [`NODE_POOL`].
pub const PROVISIONER_NAME: &str = "karpenter.sh/provisioner-name";
/// A label of alpha that no longer exists.
pub const INSTANCE_PODS: &str = "karpenter.k8s.aws/instance-pods";
/// A label of alpha that no longer exists.
pub const INSTANCE_AMI_ID: &str = "karpenter.k8s.aws/instance-ami-id";

/// The well-known labels of the core: schedulable though no pool defines them.
pub const CORE_WELL_KNOWN: &[&str] = &[NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// All well-known labels of nodes on EC2: the core's, EC2's and the zone id.
pub fn well_known() -> impl Iterator<Item = &'static str> {
    CORE_WELL_KNOWN.iter().copied().chain(std::iter::once(ZONE_ID)).chain(AWS_WELL_KNOWN.iter().copied())
}

/// True if `key` is a well-known label of nodes on EC2 (after alias normalisation by the caller). Another provider's are in
/// [`Provider::well_known_labels`](super::provider::Provider::well_known_labels).
pub fn is_well_known(key: &str) -> bool {
    well_known().any(|known| known == key)
}

/// The reason for which a pool may not set or require `key`, `None` when it may (core spec 2, "Restricted"; aws spec 2).
pub fn restriction(key: &str) -> Option<String> {
    if key == HOSTNAME {
        return Some(format!("the label {HOSTNAME} is restricted: it differs on every node"));
    }
    if key == NODE_POOL {
        return Some(format!("the label {NODE_POOL} is restricted: it is set to the pool's name"));
    }
    if is_well_known(key) {
        return None;
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |of: &str| domain == of || domain.ends_with(&format!(".{of}"));
    [super::GROUP, super::AWS_GROUP]
        .into_iter()
        .find(|of| within(of))
        .map(|of| format!("the label domain {of} is restricted: only its well-known labels can be used"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_labels_may_be_required_but_no_other_of_domains() {
        for free in [CAPACITY_TYPE, ZONE, INSTANCE_CATEGORY, "team", "example.com/team", "notkarpenter.sh/x", ZONE_ID] {
            assert_eq!(restriction(free), None, "{free}");
        }
        for kept in [NODE_POOL, HOSTNAME, REGISTERED, "x.karpenter.sh/y", EC2_NODE_CLASS, PROVISIONER_NAME] {
            assert!(restriction(kept).is_some(), "{kept}");
        }
    }

    #[test]
    fn no_well_known_label_is_listed_twice() {
        let all: Vec<_> = well_known().collect();
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(all.len(), unique.len());
    }
}
