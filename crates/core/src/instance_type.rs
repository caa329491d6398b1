//! An instance type as scheduling sees it: its capacity, its labels, and its offerings with their prices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::labels::{CAPACITY_RESERVATION_ID, CAPACITY_TYPE, ZONE};
use crate::requirements::{NodeSelectorRequirement, Operator, Requirement, Requirements};
use crate::resources::{MEMORY, Resources};

/// An instance type, as resolved for a node class or read from a workload file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "InstanceTypeFile")]
pub struct InstanceType {
    /// Its name, such as `m5.large`.
    pub name: String,
    /// Resources of the machine as a whole.
    pub capacity: Resources,
    /// Resources that the node keeps for itself.
    pub overhead: Overhead,
    /// The labels that its nodes have, or may have where a requirement lists several values.
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Zones and capacity types in which it can be bought.
    pub offerings: Vec<Offering>,
    /// Number of volumes that its nodes attach, by the resource of the CSI driver ([`crate::volumes::attachable`]); no bound
    /// for a driver that is not named.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub attachments: Resources,
    /// True if it is of a previous generation, or has hardware that nobody can request: never chosen unless asked for by name
    /// or nothing else fits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncommon: bool,
    /// Resources of its capacity that NodeOverlays have set ([`crate::overlays`]).
    #[serde(skip)]
    pub overlaid_resources: BTreeSet<String>,
}

/// Resources of devices: types that have them are for pods that request them (aws spec 4.1).
const DEVICES: [&str; 5] =
    ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"];

/// Resources that a node keeps for itself, out of its capacity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Overhead {
    /// For the kubelet and the container runtime.
    pub kube_reserved: Resources,
    /// For the operating system.
    pub system_reserved: Resources,
    /// Resources that must stay free, or pods are evicted.
    pub eviction_threshold: Resources,
}

/// One way of buying an instance type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Offering {
    /// Name of the availability zone.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// Price in dollars an hour.
    pub price: f64,
    /// True if it is believed to be available now.
    pub available: bool,
    /// Number of instances that its capacity reservation has left; no bound where it is not given, and for a reservation that is
    /// not available either that nothing can be launched into it, whatever is left. Offerings with the same
    /// `karpenter.k8s.aws/capacity-reservation-id` are of one reservation, which has the least of their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_capacity: Option<u32>,
    /// The reason that it is not available, if the cloud has refused it.
    #[serde(skip)]
    pub refused: Option<&'static str>,
    /// The catalogue's price where NodeOverlays have made another of it, dollars an hour: the one that is paid.
    #[serde(skip)]
    pub list_price: Option<f64>,
    /// Labels of nodes bought this way; zone and capacity type may be repeated here.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
}

impl Offering {
    /// True if a requirement only repeats the zone or the capacity type.
    pub(crate) fn repeats(&self, written: &NodeSelectorRequirement) -> bool {
        let own = match written.key.as_str() {
            ZONE => &self.zone,
            CAPACITY_TYPE => &self.capacity_type,
            _ => return false,
        };
        written.operator == Operator::In && written.values.len() == 1 && written.values[0] == *own
    }

    /// Drops requirements that only repeat others, so that packing need not check them.
    fn forget_repeated(&mut self) {
        let mut all = std::mem::take(&mut self.requirements);
        all.retain(|written| !self.repeats(written));
        self.requirements = all;
    }

    /// True if a node with such requirements may be bought this way, be it available or not.
    pub(crate) fn agrees(&self, wanted: &Requirements) -> bool {
        let allows = |key: &str, value: &str| wanted.get(key).is_none_or(|one| one.has(value));
        let mut extra = self.requirements.iter().filter(|one| !self.repeats(one));
        allows(ZONE, &self.zone)
            && allows(CAPACITY_TYPE, &self.capacity_type)
            && extra.all(|written| match (Requirement::from_written(written), wanted.get(&written.key)) {
                (Ok(own), Some(wanted)) => own.intersects(wanted),
                (Ok(_), None) => true,
                (Err(_), _) => false,
            })
    }

    /// Dollars an hour that are paid for it, whatever NodeOverlays say.
    #[must_use]
    pub fn billed_price(&self) -> f64 {
        self.list_price.unwrap_or(self.price)
    }

    /// The id of the capacity reservation that it is of.
    #[must_use]
    pub fn reservation(&self) -> Option<&str> {
        let id = self.requirements.iter().find(|one| one.key == CAPACITY_RESERVATION_ID);
        id.and_then(|id| id.values.first()).map(String::as_str)
    }
}

impl InstanceType {
    /// The highest price that is paid, in dollars an hour, in the zones and capacity types that are allowed; 0 if there is no such offering.
    /// One that is sold out now counts too, as it may be there at the launch.
    #[must_use]
    pub fn dearest_price(&self, wanted: &Requirements) -> f64 {
        let allows = |key: &str, value: &str| wanted.get(key).is_none_or(|one| one.has(value));
        let allowed = |one: &&Offering| allows(ZONE, &one.zone) && allows(CAPACITY_TYPE, &one.capacity_type);
        self.offerings.iter().filter(allowed).map(Offering::billed_price).fold(0.0, f64::max)
    }

    /// True if it has GPUs or other accelerators that pods can request.
    #[must_use]
    pub fn has_devices(&self) -> bool {
        DEVICES.iter().any(|name| self.capacity.get(name) > 0)
    }

    /// Its first offering of that zone and capacity type.
    #[must_use]
    pub fn offering(&self, zone: &str, capacity_type: &str) -> Option<&Offering> {
        self.offerings.iter().find(|one| one.zone == zone && one.capacity_type == capacity_type)
    }

    /// True if NodeOverlays say anything of it.
    #[must_use]
    pub fn is_overlaid(&self) -> bool {
        !self.overlaid_resources.is_empty() || self.offerings.iter().any(|one| one.list_price.is_some())
    }

    /// True if its size is bare metal, such as `m5.metal` and `c7i.metal-24xl`.
    #[must_use]
    pub fn is_bare_metal(&self) -> bool {
        self.name.split_once('.').is_some_and(|(_, size)| size.contains("metal"))
    }

    /// Resources left for pods, daemons included: capacity less all overhead, memory also less huge pages.
    #[must_use]
    pub fn allocatable(&self) -> Resources {
        let mut left = self.capacity.clone();
        for part in [&self.overhead.kube_reserved, &self.overhead.system_reserved, &self.overhead.eviction_threshold] {
            left.sub(part);
        }
        let huge = self.capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, bytes)| bytes);
        let huge = huge.fold(0, i64::saturating_add);
        if huge > 0 {
            left.set(MEMORY, left.get(MEMORY).saturating_sub(huge));
        }
        left
    }
}

/// Subtracts places that are spoken for, by the id of the capacity reservation, from the instances that are left of each.
pub(crate) fn subtract_reserved(types: &mut [Arc<InstanceType>], taken: &BTreeMap<String, u32>) {
    if taken.is_empty() {
        return;
    }
    let reserved = |one: &Arc<InstanceType>| one.offerings.iter().any(|one| one.reservation_capacity.is_some());
    for one in types.iter_mut().filter(|one| reserved(one)) {
        for offering in &mut Arc::make_mut(one).offerings {
            let Some(count) = offering.reservation().and_then(|id| taken.get(id)) else { continue };
            offering.reservation_capacity = offering.reservation_capacity.map(|left| left.saturating_sub(*count));
        }
    }
}

/// Beginning of the ids by which offerings that stand for a commitment are told from those of capacity reservations.
pub(crate) const COMMITMENT_MARK: &str = "commitment:";

/// True for the id of an offering that stands for a commitment ([`crate::commitments`]).
#[must_use]
pub fn is_marked(id: &str) -> bool {
    id.starts_with(COMMITMENT_MARK)
}

/// An instance type as the workload file has it, which may repeat values that follow from others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InstanceTypeFile {
    name: String,
    capacity: Resources,
    #[serde(default)]
    overhead: Overhead,
    #[serde(default, rename = "allocatable")]
    _allocatable: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    requirements: Vec<NodeSelectorRequirement>,
    offerings: Vec<Offering>,
    #[serde(default)]
    attachments: Resources,
    #[serde(default)]
    uncommon: bool,
}

impl From<InstanceTypeFile> for InstanceType {
    fn from(file: InstanceTypeFile) -> Self {
        let InstanceTypeFile { name, capacity, overhead, requirements, mut offerings, attachments, uncommon, .. } =
            file;
        offerings.iter_mut().for_each(Offering::forget_repeated);
        let overlaid_resources = BTreeSet::new();
        Self { name, capacity, overhead, requirements, offerings, attachments, uncommon, overlaid_resources }
    }
}
