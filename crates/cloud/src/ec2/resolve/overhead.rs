//! Resources that a node keeps for itself (karpenter-aws 3.3).

use dovetail_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use dovetail_core::{Overhead, Resources};

use super::capacity::{MIB, eni_limited_pods};
use super::{NodeClassView, Threshold};
use crate::family::GIB;
use crate::info::InstanceTypeInfo;

/// By range of cores (in millicores, from and to) the share kept, in ten-thousandths.
const CPU_BANDS: [(i64, i64, i64); 4] = [(0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, i64::MAX, 25)];

pub(super) fn resolve_overhead(info: &InstanceTypeInfo, class: &NodeClassView, capacity: &Resources) -> Overhead {
    Overhead {
        kube_reserved: kube_reserved(info, class, capacity),
        system_reserved: class.system_reserved.clone(),
        eviction_threshold: eviction_threshold(class, capacity),
    }
}

fn kube_reserved(info: &InstanceTypeInfo, class: &NodeClassView, capacity: &Resources) -> Resources {
    let pods = if class.family.eni_limited_memory() { eni_limited_pods(info, 0) } else { capacity.get(PODS) };
    let mut reserved = Resources::new();
    reserved.set(CPU, reserved_millicores(i64::from(info.vcpus) * 1000));
    reserved.set(MEMORY, (11 * pods + 255) * MIB);
    reserved.set(EPHEMERAL_STORAGE, GIB);
    for (name, amount) in class.kube_reserved.iter() {
        reserved.set(name, amount);
    }
    reserved
}

fn reserved_millicores(millicores: i64) -> i64 {
    CPU_BANDS.iter().map(|(from, to, share)| (millicores.min(*to) - from).max(0) * share / 10_000).sum()
}

fn eviction_threshold(class: &NodeClassView, capacity: &Resources) -> Resources {
    let memory = class.eviction_memory.unwrap_or(Threshold::Bytes(100 * MIB));
    let disk = class.eviction_disk.unwrap_or(Threshold::Percent(10.0));
    let mut threshold = Resources::new();
    threshold.set(MEMORY, memory.bytes_of(capacity.get(MEMORY)));
    threshold.set(EPHEMERAL_STORAGE, disk.bytes_of(capacity.get(EPHEMERAL_STORAGE)));
    threshold
}

impl Threshold {
    /// Bytes of a capacity, rounded up; `100%` switches the limit off.
    fn bytes_of(self, capacity: i64) -> i64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) if percent >= 100.0 => 0,
            Self::Percent(percent) => (capacity as f64 / 100.0 * percent).ceil() as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::family::AmiFamily;
    use crate::resolve::{ResolveSettings, capacity};
    use crate::shipped::instance_type;

    fn overhead(name: &str, class: &NodeClassView) -> Overhead {
        let info = instance_type(name).unwrap();
        resolve_overhead(info, class, &capacity::resolve_capacity(info, class, &ResolveSettings::default()))
    }

    #[test]
    fn cpu_is_kept_by_bands_each_cut_to_whole_millicores() {
        let of = |cores: i64| reserved_millicores(cores * 1000);
        assert_eq!((of(1), of(2), of(4), of(7), of(8), of(96)), (60, 70, 80, 87, 90, 310));
    }

    #[test]
    fn m5_large_keeps_70m_574_mib_and_evicts_at_100_mib_2_gib() {
        let kept = overhead("m5.large", &NodeClassView::default());
        assert_eq!((kept.kube_reserved.get(CPU), kept.kube_reserved.get(MEMORY)), (70, 574 * MIB));
        assert_eq!(kept.kube_reserved.get(EPHEMERAL_STORAGE), GIB);
        assert_eq!(kept.eviction_threshold.get(MEMORY), 100 * MIB);
        assert_eq!(kept.eviction_threshold.get(EPHEMERAL_STORAGE), 2 * GIB);
        assert!(kept.system_reserved.is_empty());
    }

    #[test]
    fn amazon_linux_memory_follows_interfaces_bottlerocket_pods() {
        let few = NodeClassView { max_pods: Some(5), ..Default::default() };
        assert_eq!(overhead("m5.large", &few).kube_reserved.get(MEMORY), 574 * MIB);
        let bottlerocket = NodeClassView { family: AmiFamily::Bottlerocket, ..few };
        assert_eq!(overhead("m5.large", &bottlerocket).kube_reserved.get(MEMORY), (55 + 255) * MIB);
    }

    #[test]
    fn the_users_own_figures_win_resource_by_resource() {
        let class = NodeClassView {
            kube_reserved: Resources::parse([("cpu", "200m")]).unwrap(),
            system_reserved: Resources::parse([("memory", "100Mi")]).unwrap(),
            eviction_memory: Some(Threshold::Percent(5.0)),
            eviction_disk: Some(Threshold::Percent(100.0)),
            ..Default::default()
        };
        let kept = overhead("m5.large", &class);
        assert_eq!((kept.kube_reserved.get(CPU), kept.kube_reserved.get(MEMORY)), (200, 574 * MIB));
        assert_eq!(kept.system_reserved.get(MEMORY), 100 * MIB);
        assert_eq!(kept.eviction_threshold.get(MEMORY), 397_253_018);
        assert_eq!(kept.eviction_threshold.get(EPHEMERAL_STORAGE), 0);
    }
}
