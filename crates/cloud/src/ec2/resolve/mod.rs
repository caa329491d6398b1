//! Instance types that packing chooses from, made of EC2's offers and a node class. Pure.

mod capacity;
mod labels;
mod offerings;
mod overhead;
mod refusals;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use dovetail_core::volumes::{EBS, attachable};
use dovetail_core::{InstanceType, Resources};

use crate::catalogue::RegionCatalogue;
use crate::info::InstanceTypeInfo;

pub use capacity::eni_limited_pods;
pub use refusals::ResolvedClass;
pub use view::{
    BlockDeviceVolume, NodeClassError, NodeClassView, ReservationView, SubnetView, Threshold, family_of,
    subnet_views_of,
};

/// Settings of the control plane that shape an instance type.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolveSettings {
    /// `VM_MEMORY_OVERHEAD_PERCENT`: the share of memory that the hypervisor and the kernel keep, as a fraction.
    pub vm_memory_overhead_percent: f64,
    /// `RESERVED_ENIS`: interfaces that pods cannot use.
    pub reserved_enis: u32,
    /// Memory in bytes as nodes of a type once reported it: better than the estimate.
    pub discovered_memory: BTreeMap<String, i64>,
}

impl Default for ResolveSettings {
    fn default() -> Self {
        Self { vm_memory_overhead_percent: 0.075, reserved_enis: 0, discovered_memory: BTreeMap::new() }
    }
}

/// The types that nodes of this class can be, by name, with all their offerings available ([`ResolvedClass`] knows of refusals).
///
/// A type without any offering in the class's zones is left out, as is a zone without a price.
pub fn instance_types(
    catalogue: &RegionCatalogue,
    class: &NodeClassView,
    settings: &ResolveSettings,
) -> Vec<InstanceType> {
    catalogue
        .types
        .iter()
        .filter(|info| info.can_be_a_node() && (!class.family.is_windows() || info.kube_arch() == Some("amd64")))
        .filter_map(|info| instance_type(catalogue, info, class, settings))
        .collect()
}

fn instance_type(
    catalogue: &RegionCatalogue,
    info: &InstanceTypeInfo,
    class: &NodeClassView,
    settings: &ResolveSettings,
) -> Option<InstanceType> {
    let offerings = offerings::resolve_offerings(catalogue, info, class);
    if offerings.is_empty() {
        return None;
    }
    let capacity = capacity::resolve_capacity(info, class, settings);
    let overhead = overhead::resolve_overhead(info, class, &capacity);
    let requirements = labels::resolve_labels(info, class, &catalogue.region, &offerings);
    let mut attachments = Resources::new();
    attachments.set(attachable(EBS), i64::from(info.ebs_volumes()));
    let uncommon = info.is_uncommon();
    let (name, overlaid_resources) = (info.name.clone(), BTreeSet::new());
    Some(InstanceType { name, capacity, overhead, requirements, offerings, attachments, uncommon, overlaid_resources })
}
