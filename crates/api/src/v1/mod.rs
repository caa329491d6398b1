//! The stored version: NodePool, NodeClaim, EC2NodeClass.

mod condition;
mod duration;
mod ec2_node_class;
mod kubelet;
mod node_claim;
mod node_pool;
mod requirement;
mod status;

pub use condition::{NewCondition, condition, condition_status, is_true, set_condition};
pub use duration::{DurationError, DurationOrNever, KubeDuration, LONGEST, parse_go_duration};
pub use ec2_node_class::{
    AmiSelectorTerm, BlockDevice, BlockDeviceMapping, CapacityReservationSelectorTerm, ConnectionTracking, CpuOptions,
    EC2NodeClass, EC2NodeClassSpec, EnclaveOptions, MetadataOptions, NetworkInterface, PlacementGroupSelector,
    SecurityGroupSelectorTerm, SubnetSelectorTerm,
};
pub use kubelet::{Kubelet, KubeletConfiguration};
pub use node_claim::{NodeClaim, NodeClaimResources, NodeClaimSpec, NodeClaimStatus};
pub use node_pool::{
    Budget, ConsolidationPolicy, Disruption, NodeClaimTemplate, NodeClaimTemplateSpec, NodePool, NodePoolSpec,
    NodePoolStatus, TemplateMetadata,
};
pub use requirement::{NodeClassRef, NodeSelectorOperator, NodeSelectorRequirementWithMinValues};
pub use status::{Ami, CapacityReservation, EC2NodeClassStatus, PlacementGroup, SecurityGroup, Subnet};

/// Kubernetes' map of resource names to quantities.
pub type ResourceList = std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;
