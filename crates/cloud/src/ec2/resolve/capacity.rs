//! Capacity of a machine: processors, memory, disk, pods, devices (karpenter-aws 3.2).

use dovetail_core::Resources;
use dovetail_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

use super::{NodeClassView, ResolveSettings};
use crate::family::{AmiFamily, GIB};
use crate::info::InstanceTypeInfo;
use crate::shipped;

/// Mebibyte, in bytes.
pub(super) const MIB: i64 = 1 << 20;
/// Contiguous memory that arm64 kernels set aside.
const ARM64_CMA_MIB: i64 = 64;
/// Pods on a node whose network does not limit them.
const PODS_WITHOUT_ENI_LIMIT: i64 = 110;

pub(super) fn resolve_capacity(
    info: &InstanceTypeInfo,
    class: &NodeClassView,
    settings: &ResolveSettings,
) -> Resources {
    let mut capacity = Resources::new();
    capacity.set(CPU, i64::from(info.vcpus) * 1000);
    capacity.set(MEMORY, memory(info, settings));
    capacity.set(EPHEMERAL_STORAGE, ephemeral_storage(info, class));
    capacity.set(PODS, pods(info, class, settings));
    for (name, count) in devices(info, class) {
        if count > 0 {
            capacity.set(name, count);
        }
    }
    capacity
}

/// Bytes: what a node once reported, or else all of it less what is lost on the way to the kubelet.
fn memory(info: &InstanceTypeInfo, settings: &ResolveSettings) -> i64 {
    if let Some(bytes) = settings.discovered_memory.get(&info.name) {
        return *bytes;
    }
    let mib = i64::try_from(info.memory_mib).unwrap_or(i64::MAX / MIB);
    // The hypervisor's share is of what is left, as Karpenter has it.
    let left = if info.kube_arch() == Some("arm64") { mib - ARM64_CMA_MIB } else { mib };
    let overhead = (left as f64 * settings.vm_memory_overhead_percent).ceil() as i64;
    (left - overhead).max(0) * MIB
}

fn ephemeral_storage(info: &InstanceTypeInfo, class: &NodeClassView) -> i64 {
    if let (true, Some(storage)) = (class.instance_store_raid0, &info.storage) {
        return i64::try_from(storage.total_gb).unwrap_or(0) * 1_000_000_000;
    }
    if let Some(root) = class.volumes.iter().find(|v| v.root) {
        return root.bytes.unwrap_or(20 * GIB);
    }
    if class.family == AmiFamily::Custom {
        return class.volumes.last().and_then(|v| v.bytes).unwrap_or(20 * GIB);
    }
    let device = class.family.ephemeral_device();
    let mapped = class.volumes.iter().find(|v| Some(v.device.as_str()) == device).and_then(|v| v.bytes);
    mapped.unwrap_or_else(|| {
        let defaults = class.family.default_volumes().iter();
        defaults.filter(|v| Some(v.device) == device).map(|v| v.gib * GIB).next().unwrap_or(20 * GIB)
    })
}

fn pods(info: &InstanceTypeInfo, class: &NodeClassView, settings: &ResolveSettings) -> i64 {
    let count = match class.max_pods {
        Some(max) => max,
        None if class.family.eni_limited_pods() => {
            let efa_only = class.network_interfaces.iter().filter(|n| n.network_card_index == 0);
            let efa_only = efa_only.filter(|n| n.interface_type == "efa-only").count();
            eni_limited_pods(info, settings.reserved_enis.saturating_add(u32::try_from(efa_only).unwrap_or(0)))
        }
        None => PODS_WITHOUT_ENI_LIMIT,
    };
    match class.pods_per_core {
        Some(per_core) if class.family.supports_pods_per_core() => {
            count.min(per_core.saturating_mul(info.vcpus.into()))
        }
        _ => count,
    }
}

/// Pods that the default network card has addresses for: each usable interface keeps one address for itself, and two pods
/// use the host's network. Zero when no interface is usable.
pub fn eni_limited_pods(info: &InstanceTypeInfo, reserved_enis: u32) -> i64 {
    let usable = i64::from(info.default_card_interfaces().saturating_sub(reserved_enis));
    if usable == 0 {
        return 0;
    }
    usable * (i64::from(info.network.ipv4_per_interface) - 1) + 2
}

fn devices(info: &InstanceTypeInfo, class: &NodeClassView) -> [(&'static str, i64); 8] {
    let gpus = |maker: &str| -> i64 {
        info.gpus.iter().filter(|g| g.manufacturer.eq_ignore_ascii_case(maker)).map(|g| i64::from(g.count)).sum()
    };
    let neuron: i64 = info.neuron.iter().map(|d| i64::from(d.count)).sum();
    let cores = info.neuron.first().map_or(0, |d| i64::from(d.count) * i64::from(d.cores));
    let windows = class.family.is_windows();
    let pod_eni = if windows { 0 } else { i64::from(shipped::branch_interfaces(&info.name)) };
    let private_ipv4 = if windows { i64::from(info.network.ipv4_per_interface.saturating_sub(1)) } else { 0 };
    [
        ("nvidia.com/gpu", gpus("NVIDIA")),
        ("amd.com/gpu", gpus("AMD")),
        ("habana.ai/gaudi", gpus("Habana")),
        ("aws.amazon.com/neuron", neuron),
        ("aws.amazon.com/neuroncore", cores),
        ("vpc.amazonaws.com/efa", efa(info, class)),
        ("vpc.amazonaws.com/pod-eni", pod_eni),
        ("vpc.amazonaws.com/PrivateIPv4Address", private_ipv4),
    ]
}

fn efa(info: &InstanceTypeInfo, class: &NodeClassView) -> i64 {
    if class.network_interfaces.is_empty() {
        return i64::from(info.network.efa_max.unwrap_or(0));
    }
    let efa_only = class.network_interfaces.iter().filter(|n| n.interface_type == "efa-only").count();
    i64::try_from(efa_only).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::resolve::BlockDeviceVolume;
    use crate::shipped::instance_type;

    fn capacity(name: &str, class: &NodeClassView) -> Resources {
        resolve_capacity(instance_type(name).unwrap(), class, &ResolveSettings::default())
    }

    #[test]
    fn m5_large_holds_29_pods_and_7577_mib() {
        let has = capacity("m5.large", &NodeClassView::default());
        assert_eq!((has.get(CPU), has.get(PODS)), (2000, 29));
        assert_eq!((has.get(MEMORY), has.get(EPHEMERAL_STORAGE)), (7577 * MIB, 20 * GIB));
        assert_eq!(has.get("vpc.amazonaws.com/pod-eni"), 9);
    }

    #[test]
    fn arm64_loses_64_mib_more() {
        assert_eq!(capacity("m7gd.xlarge", &NodeClassView::default()).get(MEMORY), 15096 * MIB);
    }

    #[test]
    fn memory_that_a_node_reported_replaces_the_estimate() {
        let mut settings = ResolveSettings::default();
        settings.discovered_memory.insert("m5.large".into(), 7_900_000_000);
        let info = instance_type("m5.large").unwrap();
        assert_eq!(resolve_capacity(info, &NodeClassView::default(), &settings).get(MEMORY), 7_900_000_000);
    }

    #[test]
    fn pods_follow_max_pods_then_cores_then_interfaces() {
        let class = NodeClassView { max_pods: Some(50), pods_per_core: Some(10), ..Default::default() };
        assert_eq!(capacity("m5.large", &class).get(PODS), 20);
        let many = NodeClassView { pods_per_core: Some(i64::MAX), ..class.clone() };
        assert_eq!(capacity("m5.large", &many).get(PODS), 50);
        let bottlerocket = NodeClassView { family: AmiFamily::Bottlerocket, ..class };
        assert_eq!(capacity("m5.large", &bottlerocket).get(PODS), 50);
        let windows = NodeClassView { family: AmiFamily::Windows2022, ..Default::default() };
        assert_eq!(capacity("m5.large", &windows).get(PODS), 110);
        assert_eq!(capacity("m5.large", &windows).get("vpc.amazonaws.com/PrivateIPv4Address"), 9);
    }

    #[test]
    fn reserved_interface_takes_its_addresses_and_last_one_all() {
        let info = instance_type("m5.large").unwrap();
        assert_eq!((eni_limited_pods(info, 1), eni_limited_pods(info, 2), eni_limited_pods(info, 3)), (20, 11, 0));
    }

    #[test]
    fn local_storage_is_raid_then_root_volume_then_family_device() {
        let raid = NodeClassView { instance_store_raid0: true, ..Default::default() };
        assert_eq!(capacity("m5d.large", &raid).get(EPHEMERAL_STORAGE), 75_000_000_000);
        assert_eq!(capacity("m5.large", &raid).get(EPHEMERAL_STORAGE), 20 * GIB);
        let volume =
            |device: &str, root, gib: i64| BlockDeviceVolume { device: device.into(), root, bytes: Some(gib * GIB) };
        let rooted = NodeClassView {
            volumes: vec![volume("/dev/xvda", false, 30), volume("/dev/xvdc", true, 100)],
            ..Default::default()
        };
        assert_eq!(capacity("m5.large", &rooted).get(EPHEMERAL_STORAGE), 100 * GIB);
        let mapped = NodeClassView { volumes: vec![volume("/dev/xvda", false, 30)], ..Default::default() };
        assert_eq!(capacity("m5.large", &mapped).get(EPHEMERAL_STORAGE), 30 * GIB);
        let bottlerocket = NodeClassView { family: AmiFamily::Bottlerocket, ..mapped };
        assert_eq!(capacity("m5.large", &bottlerocket).get(EPHEMERAL_STORAGE), 20 * GIB);
    }

    #[test]
    fn devices_are_counted_by_their_maker() {
        let class = NodeClassView::default();
        assert_eq!(capacity("g5.12xlarge", &class).get("nvidia.com/gpu"), 4);
        assert_eq!(capacity("g4ad.16xlarge", &class).get("amd.com/gpu"), 4);
        assert_eq!(capacity("dl1.24xlarge", &class).get("habana.ai/gaudi"), 8);
        assert_eq!(capacity("trn1.32xlarge", &class).get("aws.amazon.com/neuron"), 16);
        assert_eq!(capacity("trn1.32xlarge", &class).get("aws.amazon.com/neuroncore"), 32);
        assert_eq!(capacity("p5.48xlarge", &class).get("vpc.amazonaws.com/efa"), 32);
    }
}
