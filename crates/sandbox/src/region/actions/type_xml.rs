//! An instance type as DescribeInstanceTypes writes it.

use dovetail_cloud::info::{
    Accelerator, Ebs, Gpu, InstanceStorage, InstanceTypeInfo, Network, NetworkCard, NeuronDevice,
};

use crate::region::wire::xml::Xml;

/// Writes the members of one `item`.
pub(crate) fn write(info: &InstanceTypeInfo, xml: &mut Xml) {
    xml.text("instanceType", &info.name)
        .text("currentGeneration", info.current_generation)
        .text("freeTierEligible", info.free_tier)
        .values("supportedUsageClasses", &info.usage_classes)
        .values("supportedRootDeviceTypes", &info.root_devices)
        .values("supportedVirtualizationTypes", &info.virtualization)
        .text("bareMetal", info.bare_metal)
        .opt("hypervisor", info.hypervisor.as_ref());
    processor(info, xml);
    xml.node("memoryInfo", |xml| {
        xml.text("sizeInMiB", info.memory_mib);
    });
    xml.text("instanceStorageSupported", info.storage.is_some());
    if let Some(of) = &info.storage {
        xml.node("instanceStorageInfo", |xml| storage(of, xml));
    }
    xml.node("ebsInfo", |xml| ebs(&info.ebs, xml));
    xml.node("networkInfo", |xml| network(&info.network, xml));
    accelerators(info, xml);
    xml.node("placementGroupInfo", |xml| {
        xml.values("supportedStrategies", &info.placement);
    });
    xml.text("hibernationSupported", info.hibernation)
        .text("burstablePerformanceSupported", info.burstable)
        .text("dedicatedHostsSupported", info.dedicated_hosts)
        .text("autoRecoverySupported", info.auto_recovery)
        .values("supportedBootModes", &info.boot_modes)
        .text("nitroEnclavesSupport", supported(info.nitro_enclaves))
        .text("nitroTpmSupport", supported(info.nitro_tpm));
}

fn supported(yes: bool) -> &'static str {
    if yes { "supported" } else { "unsupported" }
}

fn processor(info: &InstanceTypeInfo, xml: &mut Xml) {
    xml.node("processorInfo", |xml| {
        xml.values("supportedArchitectures", &info.architectures)
            .opt("sustainedClockSpeedInGhz", info.clock_ghz)
            .opt("manufacturer", info.cpu_manufacturer.as_ref());
        if !info.cpu_features.is_empty() {
            xml.values("supportedFeatures", &info.cpu_features);
        }
    });
    xml.node("vCpuInfo", |xml| {
        xml.text("defaultVCpus", info.vcpus)
            .text("defaultCores", info.cores)
            .text("defaultThreadsPerCore", info.threads_per_core);
    });
}

fn storage(storage: &InstanceStorage, xml: &mut Xml) {
    xml.text("totalSizeInGB", storage.total_gb);
    xml.list("disks", &storage.disks, |xml, disk| {
        xml.text("sizeInGB", disk.size_gb).text("count", disk.count).text("type", &disk.kind);
    });
    xml.text("nvmeSupport", &storage.nvme).opt("encryptionSupport", storage.encryption.as_ref());
}

fn ebs(ebs: &Ebs, xml: &mut Xml) {
    xml.text("ebsOptimizedSupport", &ebs.optimized).text("encryptionSupport", &ebs.encryption);
    if ebs.max_mbps > 0 {
        xml.node("ebsOptimizedInfo", |xml| {
            xml.text("baselineBandwidthInMbps", ebs.baseline_mbps)
                .text("baselineThroughputInMBps", f64::from(ebs.baseline_mbps) / 8.0)
                .text("baselineIops", ebs.baseline_iops)
                .text("maximumBandwidthInMbps", ebs.max_mbps)
                .text("maximumThroughputInMBps", f64::from(ebs.max_mbps) / 8.0)
                .text("maximumIops", ebs.max_iops);
        });
    }
    xml.text("nvmeSupport", &ebs.nvme);
    if ebs.max_attachments > 0 {
        xml.text("maximumEbsAttachments", ebs.max_attachments);
    }
    xml.opt("attachmentLimitType", ebs.attachment_limit.as_ref());
}

fn network(network: &Network, xml: &mut Xml) {
    xml.text("networkPerformance", &network.performance)
        .text("maximumNetworkInterfaces", network.max_interfaces)
        .text("maximumNetworkCards", network.max_cards)
        .text("defaultNetworkCardIndex", network.default_card);
    xml.list("networkCards", &network.cards, card);
    xml.text("ipv4AddressesPerInterface", network.ipv4_per_interface)
        .text("ipv6AddressesPerInterface", network.ipv6_per_interface)
        .text("ipv6Supported", network.ipv6)
        .text("enaSupport", &network.ena)
        .text("efaSupported", network.efa);
    if let Some(most) = network.efa_max {
        xml.node("efaInfo", |xml| {
            xml.text("maximumEfaInterfaces", most);
        });
    }
    xml.text("encryptionInTransitSupported", network.encryption_in_transit).text("enaSrdSupported", network.ena_srd);
}

fn card(xml: &mut Xml, card: &NetworkCard) {
    xml.text("networkCardIndex", card.index)
        .text("networkPerformance", &card.performance)
        .text("maximumNetworkInterfaces", card.max_interfaces)
        .opt("baselineBandwidthInGbps", card.baseline_gbps)
        .opt("peakBandwidthInGbps", card.peak_gbps);
}

fn accelerators(info: &InstanceTypeInfo, xml: &mut Xml) {
    if !info.gpus.is_empty() {
        xml.node("gpuInfo", |xml| {
            xml.list("gpus", &info.gpus, gpu);
            let total: u64 = info.gpus.iter().map(|gpu| u64::from(gpu.count) * gpu.memory_mib).sum();
            xml.text("totalGpuMemoryInMiB", total);
        });
    }
    let others = [
        ("fpgaInfo", "fpgas", "totalFpgaMemoryInMiB", "item", &info.fpgas),
        ("inferenceAcceleratorInfo", "accelerators", "totalInferenceMemoryInMiB", "member", &info.inference),
        ("mediaAcceleratorInfo", "accelerators", "totalMediaMemoryInMiB", "item", &info.media),
    ];
    for (name, list, total_name, item, accelerators) in others {
        if !accelerators.is_empty() {
            xml.node(name, |xml| {
                xml.list_of(list, item, accelerators, accelerator);
                let total: u64 = accelerators.iter().map(|a| u64::from(a.count) * a.memory_mib).sum();
                xml.text(total_name, total);
            });
        }
    }
    if !info.neuron.is_empty() {
        xml.node("neuronInfo", |xml| {
            xml.list("neuronDevices", &info.neuron, neuron);
            let total: u64 = info.neuron.iter().map(|d| u64::from(d.count) * d.memory_mib).sum();
            xml.text("totalNeuronDeviceMemoryInMiB", total);
        });
    }
}

fn memory(mib: u64, xml: &mut Xml) {
    xml.node("memoryInfo", |xml| {
        xml.text("sizeInMiB", mib);
    });
}

fn gpu(xml: &mut Xml, gpu: &Gpu) {
    xml.text("name", &gpu.name)
        .text("manufacturer", &gpu.manufacturer)
        .text("count", gpu.count)
        .opt("gpuPartitionSize", gpu.partition);
    memory(gpu.memory_mib, xml);
}

fn accelerator(xml: &mut Xml, accelerator: &Accelerator) {
    xml.text("name", &accelerator.name)
        .text("manufacturer", &accelerator.manufacturer)
        .text("count", accelerator.count);
    memory(accelerator.memory_mib, xml);
}

fn neuron(xml: &mut Xml, device: &NeuronDevice) {
    xml.text("name", &device.name).text("count", device.count).node("coreInfo", |xml| {
        xml.text("count", device.cores).text("version", device.core_version);
    });
    memory(device.memory_mib, xml);
}
