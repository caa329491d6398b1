//! Capacity of a machine of a type, and the part of it that its kubelet leaves for pods.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_cloud::resolve::{NodeClassView, ResolveSettings, Threshold, instance_types};
use dovetail_core::resources::{format_amount, parse_amount};
use dovetail_core::{InstanceType, Resources};
use serde_json::{Map, Value};

use super::user_data::NodeConfig;
use crate::region::{Region, RegionInstance};

/// Capacity and allocatable of a node; none for a type that no node can be of.
pub(crate) fn resources(
    region: &Region,
    instance: &RegionInstance,
    config: &NodeConfig,
) -> Option<(Resources, Resources)> {
    let mut machine = machine_of(region, instance, config)?;
    if let Some((name, count)) = config.labels.get(DEVICE).and_then(|text| device(text)) {
        machine.capacity.set(name, count);
    }
    let allocatable = machine.allocatable();
    Some((machine.capacity, allocatable))
}

/// An instance's machine, as an instance type that is on offer where it is.
pub(super) fn machine_of(region: &Region, instance: &RegionInstance, config: &NodeConfig) -> Option<InstanceType> {
    let catalogue = region.catalogue();
    let info = catalogue.instance_type(&instance.instance_type)?;
    // The formulas speak of types that are on offer: one type, on offer where the instance is.
    let one = RegionCatalogue {
        region: catalogue.region.clone(),
        zones: catalogue.zones.clone(),
        types: vec![info.clone()],
        offered: BTreeMap::from([(info.name.clone(), BTreeSet::from([instance.zone.clone()]))]),
        on_demand: BTreeMap::from([(info.name.clone(), 1.0)]),
        spot: BTreeMap::from([((info.name.clone(), instance.zone.clone()), 1.0)]),
    };
    let mut class = NodeClassView::in_zones(config.family, catalogue.zones.clone());
    class.max_pods = config.max_pods;
    class.pods_per_core = config.pods_per_core.filter(|n| *n > 0);
    class.kube_reserved = amounts(&config.kube_reserved);
    class.system_reserved = amounts(&config.system_reserved);
    class.eviction_memory = threshold(config, "memory.available");
    class.eviction_disk = threshold(config, "nodefs.available");
    class.instance_store_raid0 = config.raid0;
    instance_types(&one, &class, &ResolveSettings::default()).pop()
}

/// Label of nodes that have a device plugin: the resource and its amount, as `example.com_fuse_4` for four `example.com/fuse`.
const DEVICE: &str = "sandbox.dovetail.dev/device";

fn device(text: &str) -> Option<(String, i64)> {
    let (name, count) = text.rsplit_once('_')?;
    Some((name.replacen('_', "/", 1), count.parse().ok().filter(|count| *count >= 0)?))
}

fn amounts(written: &BTreeMap<String, String>) -> Resources {
    let mut resources = Resources::new();
    for (name, text) in written {
        if let Ok(amount) = parse_amount(name, text) {
            resources.set(name.clone(), amount);
        }
    }
    resources
}

fn threshold(config: &NodeConfig, signal: &str) -> Option<Threshold> {
    let text = config.eviction_hard.get(signal)?;
    match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(Threshold::Percent),
        None => parse_amount("memory", text).ok().map(Threshold::Bytes),
    }
}

/// Amounts as an object's quantities.
pub(crate) fn quantities(resources: &Resources) -> Value {
    let entry = |(name, amount): (&str, i64)| (name.to_owned(), Value::from(format_amount(name, amount)));
    Value::Object(resources.iter().map(entry).collect::<Map<String, Value>>())
}

/// Number of volumes that the EBS CSI driver says it can attach.
pub(crate) fn volume_limit(region: &Region, instance: &RegionInstance) -> u64 {
    let info = region.catalogue().instance_type(&instance.instance_type);
    info.map_or(26, |info| u64::from(info.ebs_volumes()))
}
