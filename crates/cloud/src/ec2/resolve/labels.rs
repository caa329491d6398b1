//! The labels that nodes of a type carry, as requirements (karpenter-aws 2). A label that a type does not have is said not
//! to exist, so that a pod asking for it finds no place there.

use std::collections::BTreeSet;

use dovetail_api::names::labels as l;
use dovetail_api::v1::PlacementGroup;
use dovetail_core::{NodeSelectorRequirement, Offering, Operator};

use super::NodeClassView;
use crate::info::InstanceTypeInfo;

pub(super) fn resolve_labels(
    info: &InstanceTypeInfo,
    class: &NodeClassView,
    region: &str,
    offerings: &[Offering],
) -> Vec<NodeSelectorRequirement> {
    let mut all = Labels::default();
    all.set(l::INSTANCE_TYPE, &info.name);
    all.maybe(l::ARCH, info.kube_arch());
    all.set(l::OS, if class.family.is_windows() { "windows" } else { "linux" });
    all.set(l::REGION, region);
    all.any_of(l::ZONE, offerings.iter().map(|o| o.zone.as_str()));
    let zone_ids = offerings.iter().filter_map(|o| class.zone(&o.zone)).map(|z| z.id.as_str());
    all.any_of(l::ZONE_ID, zone_ids.filter(|id| !id.is_empty()));
    all.any_of(l::CAPACITY_TYPE, offerings.iter().map(|o| o.capacity_type.as_str()));
    if let Some(build) = class.family.windows_build() {
        all.set(l::WINDOWS_BUILD, build);
    }
    names(&mut all, info);
    processor(&mut all, info);
    network_and_disks(&mut all, info);
    gpus(&mut all, info);
    accelerators(&mut all, info);
    placement(&mut all, class);
    reservations(&mut all, offerings);
    all.0
}

fn names(all: &mut Labels, info: &InstanceTypeInfo) {
    let (category, generation) = info.category_and_generation().unzip();
    all.maybe(l::INSTANCE_CATEGORY, category);
    all.maybe(l::INSTANCE_GENERATION, generation);
    all.set(l::INSTANCE_FAMILY, info.family());
    all.set(l::INSTANCE_SIZE, info.size());
    all.set(l::INSTANCE_CAPABILITY_FLEX, bool_text(info.family().contains("-flex")));
}

fn processor(all: &mut Labels, info: &InstanceTypeInfo) {
    all.set(l::INSTANCE_CPU, &info.vcpus.to_string());
    all.maybe(l::INSTANCE_CPU_MANUFACTURER, info.cpu_manufacturer.as_deref().map(kebab).as_deref());
    let mhz = info.clock_ghz.map(|ghz| ((ghz * 1000.0).round() as u64).to_string());
    all.maybe(l::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, mhz.as_deref());
    all.set(l::INSTANCE_MEMORY, &info.memory_mib.to_string());
    all.set(l::INSTANCE_HYPERVISOR, info.hypervisor.as_deref().unwrap_or(""));
    all.maybe(l::NITRO_SANDBOX, info.nitro_enclaves.then_some("true"));
    all.any_of(l::INSTANCE_TENANCY, [l::TENANCY_DEFAULT, l::TENANCY_DEDICATED].into_iter());
}

fn placement(all: &mut Labels, class: &NodeClassView) {
    let group = class.placement_group.as_ref();
    all.maybe(l::PLACEMENT_GROUP_ID, group.map(|group| group.id.as_str()));
    let partitions = group.map(PlacementGroup::partition_labels).unwrap_or_default();
    match partitions.is_empty() {
        true => all.maybe(l::PLACEMENT_GROUP_PARTITION, None),
        false => all.any_of(l::PLACEMENT_GROUP_PARTITION, partitions.iter().map(String::as_str)),
    }
}

fn network_and_disks(all: &mut Labels, info: &InstanceTypeInfo) {
    let ebs = (info.ebs.optimized == "default" && info.ebs.max_mbps > 0).then(|| info.ebs.max_mbps.to_string());
    all.maybe(l::INSTANCE_EBS_BANDWIDTH, ebs.as_deref());
    all.maybe(l::INSTANCE_NETWORK_BANDWIDTH, info.network_mbps().map(|m| m.to_string()).as_deref());
    let nvme = info.storage.as_ref().filter(|s| s.nvme != "unsupported").map(|s| s.total_gb.to_string());
    all.maybe(l::INSTANCE_LOCAL_NVME, nvme.as_deref());
    all.set(l::INSTANCE_ENCRYPTION_IN_TRANSIT, bool_text(info.network.encryption_in_transit));
}

fn gpus(all: &mut Labels, info: &InstanceTypeInfo) {
    let only = match info.gpus.as_slice() {
        [gpu] => Some(gpu),
        _ => None,
    };
    all.maybe(l::INSTANCE_GPU_NAME, only.map(|g| kebab(&g.name)).as_deref());
    all.maybe(l::INSTANCE_GPU_MANUFACTURER, only.map(|g| kebab(&g.manufacturer)).as_deref());
    all.maybe(l::INSTANCE_GPU_COUNT, only.map(|g| g.count.to_string()).as_deref());
    all.maybe(l::INSTANCE_GPU_MEMORY, only.map(|g| g.memory_mib.to_string()).as_deref());
}

fn accelerators(all: &mut Labels, info: &InstanceTypeInfo) {
    let only = match (info.neuron.as_slice(), info.inference.as_slice()) {
        ([device], _) => Some((kebab(&device.name), "aws".to_owned(), device.count)),
        ([], [one]) => Some((kebab(&one.name), kebab(&one.manufacturer), one.count)),
        _ => None,
    };
    all.maybe(l::INSTANCE_ACCELERATOR_NAME, only.as_ref().map(|(name, ..)| name.as_str()));
    all.maybe(l::INSTANCE_ACCELERATOR_MANUFACTURER, only.as_ref().map(|(_, maker, _)| maker.as_str()));
    all.maybe(l::INSTANCE_ACCELERATOR_COUNT, only.as_ref().map(|(.., count)| count.to_string()).as_deref());
}

/// On-demand and spot nodes have no reservation.
fn reservations(all: &mut Labels, offerings: &[Offering]) {
    for key in l::OF_RESERVATIONS {
        let own = offerings.iter().flat_map(|one| &one.requirements).filter(|one| one.key == key);
        let values: BTreeSet<&str> = own.flat_map(|one| &one.values).map(String::as_str).collect();
        if values.is_empty() {
            all.maybe(key, None);
        } else {
            all.any_of(key, values.into_iter());
        }
    }
}

fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[derive(Default)]
struct Labels(Vec<NodeSelectorRequirement>);

impl Labels {
    fn set(&mut self, key: &str, value: &str) {
        self.0.push(NodeSelectorRequirement::one_of(key, [value]));
    }

    fn maybe(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.set(key, value),
            None => self.0.push(NodeSelectorRequirement::new(key, Operator::DoesNotExist, Vec::<String>::new())),
        }
    }

    fn any_of<'a>(&mut self, key: &str, values: impl Iterator<Item = &'a str>) {
        let values: BTreeSet<&str> = values.collect();
        if !values.is_empty() {
            self.0.push(NodeSelectorRequirement::one_of(key, values));
        }
    }
}
