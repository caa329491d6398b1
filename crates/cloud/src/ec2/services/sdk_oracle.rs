//! The SDK's instance type as ours: the reader of answers is held to it.

use aws_sdk_ec2::types as sdk;

use crate::info::{Accelerator, Disk, Ebs, Gpu, InstanceStorage, InstanceTypeInfo, Network, NetworkCard, NeuronDevice};

pub(super) fn info_of(t: &sdk::InstanceTypeInfo) -> InstanceTypeInfo {
    let cpu = t.processor_info();
    let vcpus = t.v_cpu_info();
    InstanceTypeInfo {
        name: t.instance_type().map(|n| n.as_str().to_owned()).unwrap_or_default(),
        current_generation: t.current_generation().unwrap_or_default(),
        free_tier: t.free_tier_eligible().unwrap_or_default(),
        usage_classes: texts(t.supported_usage_classes(), sdk::UsageClassType::as_str),
        root_devices: texts(t.supported_root_device_types(), sdk::RootDeviceType::as_str),
        virtualization: texts(t.supported_virtualization_types(), sdk::VirtualizationType::as_str),
        bare_metal: t.bare_metal().unwrap_or_default(),
        hypervisor: t.hypervisor().map(|h| h.as_str().to_owned()),
        architectures: cpu
            .map(|p| texts(p.supported_architectures(), sdk::ArchitectureType::as_str))
            .unwrap_or_default(),
        cpu_manufacturer: cpu.and_then(|p| p.manufacturer()).map(str::to_owned),
        cpu_features: cpu
            .map(|p| texts(p.supported_features(), sdk::SupportedAdditionalProcessorFeature::as_str))
            .unwrap_or_default(),
        clock_ghz: cpu.and_then(|p| p.sustained_clock_speed_in_ghz()),
        vcpus: number(vcpus.and_then(|v| v.default_v_cpus())),
        cores: number(vcpus.and_then(|v| v.default_cores())),
        threads_per_core: number(vcpus.and_then(|v| v.default_threads_per_core())),
        memory_mib: mib(t.memory_info().and_then(|m| m.size_in_mib())),
        storage: t.instance_storage_info().map(storage),
        ebs: t.ebs_info().map(ebs).unwrap_or_default(),
        network: t.network_info().map(network).unwrap_or_default(),
        gpus: t.gpu_info().map(|g| g.gpus().iter().map(gpu).collect()).unwrap_or_default(),
        fpgas: t.fpga_info().map(|f| f.fpgas().iter().map(fpga).collect()).unwrap_or_default(),
        inference: t
            .inference_accelerator_info()
            .map(|i| i.accelerators().iter().map(inference).collect())
            .unwrap_or_default(),
        media: t.media_accelerator_info().map(|m| m.accelerators().iter().map(media).collect()).unwrap_or_default(),
        neuron: t.neuron_info().map(|n| n.neuron_devices().iter().map(neuron).collect()).unwrap_or_default(),
        placement: t
            .placement_group_info()
            .map(|p| texts(p.supported_strategies(), sdk::PlacementGroupStrategy::as_str))
            .unwrap_or_default(),
        hibernation: t.hibernation_supported().unwrap_or_default(),
        burstable: t.burstable_performance_supported().unwrap_or_default(),
        dedicated_hosts: t.dedicated_hosts_supported().unwrap_or_default(),
        auto_recovery: t.auto_recovery_supported().unwrap_or_default(),
        boot_modes: texts(t.supported_boot_modes(), sdk::BootModeType::as_str),
        nitro_enclaves: t.nitro_enclaves_support() == Some(&sdk::NitroEnclavesSupport::Supported),
        nitro_tpm: t.nitro_tpm_support() == Some(&sdk::NitroTpmSupport::Supported),
    }
}

fn storage(s: &sdk::InstanceStorageInfo) -> InstanceStorage {
    let disk = |d: &sdk::DiskInfo| Disk {
        count: number(d.count()),
        size_gb: mib(d.size_in_gb()),
        kind: d.r#type().map(|t| t.as_str().to_owned()).unwrap_or_default(),
    };
    InstanceStorage {
        total_gb: mib(s.total_size_in_gb()),
        nvme: s.nvme_support().map(|n| n.as_str().to_owned()).unwrap_or_default(),
        encryption: s.encryption_support().map(|e| e.as_str().to_owned()),
        disks: s.disks().iter().map(disk).collect(),
    }
}

fn ebs(e: &sdk::EbsInfo) -> Ebs {
    let optimized = e.ebs_optimized_info();
    Ebs {
        optimized: e.ebs_optimized_support().map(|s| s.as_str().to_owned()).unwrap_or_default(),
        encryption: e.encryption_support().map(|s| s.as_str().to_owned()).unwrap_or_default(),
        nvme: e.nvme_support().map(|s| s.as_str().to_owned()).unwrap_or_default(),
        max_attachments: number(e.maximum_ebs_attachments()),
        attachment_limit: e.attachment_limit_type().map(|l| l.as_str().to_owned()),
        baseline_mbps: number(optimized.and_then(|o| o.baseline_bandwidth_in_mbps())),
        max_mbps: number(optimized.and_then(|o| o.maximum_bandwidth_in_mbps())),
        baseline_iops: number(optimized.and_then(|o| o.baseline_iops())),
        max_iops: number(optimized.and_then(|o| o.maximum_iops())),
    }
}

fn network(n: &sdk::NetworkInfo) -> Network {
    Network {
        performance: n.network_performance().unwrap_or_default().to_owned(),
        max_interfaces: number(n.maximum_network_interfaces()),
        max_cards: number(n.maximum_network_cards()),
        default_card: number(n.default_network_card_index()),
        ipv4_per_interface: number(n.ipv4_addresses_per_interface()),
        ipv6_per_interface: number(n.ipv6_addresses_per_interface()),
        ipv6: n.ipv6_supported().unwrap_or_default(),
        ena: n.ena_support().map(|s| s.as_str().to_owned()).unwrap_or_default(),
        ena_srd: n.ena_srd_supported().unwrap_or_default(),
        efa: n.efa_supported().unwrap_or_default(),
        efa_max: n.efa_info().and_then(|e| e.maximum_efa_interfaces()).map(|m| number(Some(m))),
        encryption_in_transit: n.encryption_in_transit_supported().unwrap_or_default(),
        cards: n.network_cards().iter().map(card).collect(),
    }
}

fn card(c: &sdk::NetworkCardInfo) -> NetworkCard {
    NetworkCard {
        index: number(c.network_card_index()),
        performance: c.network_performance().unwrap_or_default().to_owned(),
        max_interfaces: number(c.maximum_network_interfaces()),
        baseline_gbps: c.baseline_bandwidth_in_gbps(),
        peak_gbps: c.peak_bandwidth_in_gbps(),
        interface_types: texts(c.interface_types(), sdk::NetworkCardInterfaceType::as_str),
    }
}

fn gpu(g: &sdk::GpuDeviceInfo) -> Gpu {
    Gpu {
        name: g.name().unwrap_or_default().to_owned(),
        manufacturer: g.manufacturer().unwrap_or_default().to_owned(),
        count: number(g.count()),
        memory_mib: mib(g.memory_info().and_then(|m| m.size_in_mib()).map(i64::from)),
        partition: g.gpu_partition_size(),
    }
}

fn neuron(d: &sdk::NeuronDeviceInfo) -> NeuronDevice {
    NeuronDevice {
        name: d.name().unwrap_or_default().to_owned(),
        count: number(d.count()),
        cores: number(d.core_info().and_then(|c| c.count())),
        core_version: number(d.core_info().and_then(|c| c.version())),
        memory_mib: mib(d.memory_info().and_then(|m| m.size_in_mib()).map(i64::from)),
    }
}

macro_rules! accelerator {
    ($name:ident, $kind:ty) => {
        fn $name(a: &$kind) -> Accelerator {
            Accelerator {
                name: a.name().unwrap_or_default().to_owned(),
                manufacturer: a.manufacturer().unwrap_or_default().to_owned(),
                count: number(a.count()),
                memory_mib: mib(a.memory_info().and_then(|m| m.size_in_mib()).map(i64::from)),
            }
        }
    };
}
accelerator!(fpga, sdk::FpgaDeviceInfo);
accelerator!(inference, sdk::InferenceDeviceInfo);
accelerator!(media, sdk::MediaDeviceInfo);

fn texts<T>(values: &[T], text: impl Fn(&T) -> &str) -> Vec<String> {
    values.iter().map(|v| text(v).to_owned()).collect()
}

fn number(value: Option<i32>) -> u32 {
    value.and_then(|v| u32::try_from(v).ok()).unwrap_or(0)
}

fn mib(value: Option<i64>) -> u64 {
    value.and_then(|v| u64::try_from(v).ok()).unwrap_or(0)
}
