//! An instance type as DescribeInstanceTypes writes it. Members that we do not know are passed over.

use std::str::FromStr;

use aws_smithy_xml::decode::{ScopedDecoder, XmlDecodeError, try_data};

use super::xml::{each_member, items_of, text_of};
use crate::info::{Accelerator, Disk, Ebs, Gpu, InstanceStorage, InstanceTypeInfo, Network, NetworkCard, NeuronDevice};

type Element<'inp, 'a> = ScopedDecoder<'inp, 'a>;
type Read<T = ()> = Result<T, XmlDecodeError>;

/// Reads one item of the list.
pub(super) fn read_instance_type(item: &mut Element<'_, '_>) -> Read<InstanceTypeInfo> {
    let mut info = InstanceTypeInfo::default();
    each_member(item, |name, member| read_member(&mut info, name, member))?;
    Ok(info)
}

fn read_member(info: &mut InstanceTypeInfo, name: &str, member: &mut Element<'_, '_>) -> Read {
    match name {
        "instanceType" => info.name = text_of(member)?,
        "currentGeneration" => info.current_generation = value_of(member)?,
        "freeTierEligible" => info.free_tier = value_of(member)?,
        "supportedUsageClasses" => info.usage_classes = items_of(member, text_of)?,
        "supportedRootDeviceTypes" => info.root_devices = items_of(member, text_of)?,
        "supportedVirtualizationTypes" => info.virtualization = items_of(member, text_of)?,
        "bareMetal" => info.bare_metal = value_of(member)?,
        "hypervisor" => info.hypervisor = Some(text_of(member)?),
        "processorInfo" => each_member(member, |name, part| read_processor(info, name, part))?,
        "vCpuInfo" => each_member(member, |name, part| {
            match name {
                "defaultVCpus" => info.vcpus = count_of(part)?,
                "defaultCores" => info.cores = count_of(part)?,
                "defaultThreadsPerCore" => info.threads_per_core = count_of(part)?,
                _ => {}
            }
            Ok(())
        })?,
        "memoryInfo" => info.memory_mib = mib_of(member)?,
        "instanceStorageInfo" => info.storage = Some(read_storage(member)?),
        "ebsInfo" => each_member(member, |name, part| read_ebs(&mut info.ebs, name, part))?,
        "networkInfo" => each_member(member, |name, part| read_network(&mut info.network, name, part))?,
        "gpuInfo" => info.gpus = list_in(member, "gpus", read_gpu)?,
        "fpgaInfo" => info.fpgas = list_in(member, "fpgas", read_accelerator)?,
        "inferenceAcceleratorInfo" => info.inference = list_in(member, "accelerators", read_accelerator)?,
        "mediaAcceleratorInfo" => info.media = list_in(member, "accelerators", read_accelerator)?,
        "neuronInfo" => info.neuron = list_in(member, "neuronDevices", read_neuron)?,
        "placementGroupInfo" => info.placement = list_in(member, "supportedStrategies", text_of)?,
        "hibernationSupported" => info.hibernation = value_of(member)?,
        "burstablePerformanceSupported" => info.burstable = value_of(member)?,
        "dedicatedHostsSupported" => info.dedicated_hosts = value_of(member)?,
        "autoRecoverySupported" => info.auto_recovery = value_of(member)?,
        "supportedBootModes" => info.boot_modes = items_of(member, text_of)?,
        "nitroEnclavesSupport" => info.nitro_enclaves = try_data(member)? == "supported",
        "nitroTpmSupport" => info.nitro_tpm = try_data(member)? == "supported",
        _ => {}
    }
    Ok(())
}

fn read_processor(info: &mut InstanceTypeInfo, name: &str, part: &mut Element<'_, '_>) -> Read {
    match name {
        "supportedArchitectures" => info.architectures = items_of(part, text_of)?,
        "supportedFeatures" => info.cpu_features = items_of(part, text_of)?,
        "manufacturer" => info.cpu_manufacturer = Some(text_of(part)?),
        "sustainedClockSpeedInGhz" => info.clock_ghz = Some(value_of(part)?),
        _ => {}
    }
    Ok(())
}

fn read_storage(element: &mut Element<'_, '_>) -> Read<InstanceStorage> {
    let mut storage = InstanceStorage::default();
    each_member(element, |name, part| {
        match name {
            "totalSizeInGB" => storage.total_gb = size_of(part)?,
            "nvmeSupport" => storage.nvme = text_of(part)?,
            "encryptionSupport" => storage.encryption = Some(text_of(part)?),
            "disks" => storage.disks = items_of(part, read_disk)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(storage)
}

fn read_disk(item: &mut Element<'_, '_>) -> Read<Disk> {
    let mut disk = Disk::default();
    each_member(item, |name, part| {
        match name {
            "count" => disk.count = count_of(part)?,
            "sizeInGB" => disk.size_gb = size_of(part)?,
            "type" => disk.kind = text_of(part)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(disk)
}

fn read_ebs(ebs: &mut Ebs, name: &str, part: &mut Element<'_, '_>) -> Read {
    match name {
        "ebsOptimizedSupport" => ebs.optimized = text_of(part)?,
        "encryptionSupport" => ebs.encryption = text_of(part)?,
        "nvmeSupport" => ebs.nvme = text_of(part)?,
        "maximumEbsAttachments" => ebs.max_attachments = count_of(part)?,
        "attachmentLimitType" => ebs.attachment_limit = Some(text_of(part)?),
        "ebsOptimizedInfo" => each_member(part, |name, part| {
            match name {
                "baselineBandwidthInMbps" => ebs.baseline_mbps = count_of(part)?,
                "maximumBandwidthInMbps" => ebs.max_mbps = count_of(part)?,
                "baselineIops" => ebs.baseline_iops = count_of(part)?,
                "maximumIops" => ebs.max_iops = count_of(part)?,
                _ => {}
            }
            Ok(())
        })?,
        _ => {}
    }
    Ok(())
}

fn read_network(network: &mut Network, name: &str, part: &mut Element<'_, '_>) -> Read {
    match name {
        "networkPerformance" => network.performance = text_of(part)?,
        "maximumNetworkInterfaces" => network.max_interfaces = count_of(part)?,
        "maximumNetworkCards" => network.max_cards = count_of(part)?,
        "defaultNetworkCardIndex" => network.default_card = count_of(part)?,
        "ipv4AddressesPerInterface" => network.ipv4_per_interface = count_of(part)?,
        "ipv6AddressesPerInterface" => network.ipv6_per_interface = count_of(part)?,
        "ipv6Supported" => network.ipv6 = value_of(part)?,
        "enaSupport" => network.ena = text_of(part)?,
        "enaSrdSupported" => network.ena_srd = value_of(part)?,
        "efaSupported" => network.efa = value_of(part)?,
        "efaInfo" => each_member(part, |name, part| {
            if name == "maximumEfaInterfaces" {
                network.efa_max = Some(count_of(part)?);
            }
            Ok(())
        })?,
        "encryptionInTransitSupported" => network.encryption_in_transit = value_of(part)?,
        "networkCards" => network.cards = items_of(part, read_card)?,
        _ => {}
    }
    Ok(())
}

fn read_card(item: &mut Element<'_, '_>) -> Read<NetworkCard> {
    let mut card = NetworkCard::default();
    each_member(item, |name, part| {
        match name {
            "networkCardIndex" => card.index = count_of(part)?,
            "networkPerformance" => card.performance = text_of(part)?,
            "maximumNetworkInterfaces" => card.max_interfaces = count_of(part)?,
            "baselineBandwidthInGbps" => card.baseline_gbps = Some(value_of(part)?),
            "peakBandwidthInGbps" => card.peak_gbps = Some(value_of(part)?),
            "interfaceTypeSet" => card.interface_types = items_of(part, text_of)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(card)
}

fn read_gpu(item: &mut Element<'_, '_>) -> Read<Gpu> {
    let mut gpu = Gpu::default();
    each_member(item, |name, part| {
        match name {
            "name" => gpu.name = text_of(part)?,
            "manufacturer" => gpu.manufacturer = text_of(part)?,
            "count" => gpu.count = count_of(part)?,
            "memoryInfo" => gpu.memory_mib = mib_of(part)?,
            "gpuPartitionSize" => gpu.partition = Some(value_of(part)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(gpu)
}

fn read_accelerator(item: &mut Element<'_, '_>) -> Read<Accelerator> {
    let mut accelerator = Accelerator::default();
    each_member(item, |name, part| {
        match name {
            "name" => accelerator.name = text_of(part)?,
            "manufacturer" => accelerator.manufacturer = text_of(part)?,
            "count" => accelerator.count = count_of(part)?,
            "memoryInfo" => accelerator.memory_mib = mib_of(part)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(accelerator)
}

fn read_neuron(item: &mut Element<'_, '_>) -> Read<NeuronDevice> {
    let mut device = NeuronDevice::default();
    each_member(item, |name, part| {
        match name {
            "name" => device.name = text_of(part)?,
            "count" => device.count = count_of(part)?,
            "coreInfo" => each_member(part, |name, part| {
                match name {
                    "count" => device.cores = count_of(part)?,
                    "version" => device.core_version = count_of(part)?,
                    _ => {}
                }
                Ok(())
            })?,
            "memoryInfo" => device.memory_mib = mib_of(part)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(device)
}

/// The list of that name in an element.
fn list_in<T>(
    element: &mut Element<'_, '_>,
    list: &str,
    read_item: fn(&mut Element<'_, '_>) -> Read<T>,
) -> Read<Vec<T>> {
    let mut items = Vec::new();
    each_member(element, |name, member| {
        if name == list {
            items = items_of(member, read_item)?;
        }
        Ok(())
    })?;
    Ok(items)
}

/// `sizeInMiB` in an element.
fn mib_of(element: &mut Element<'_, '_>) -> Read<u64> {
    let mut mib = 0;
    each_member(element, |name, part| {
        if name == "sizeInMiB" {
            mib = size_of(part)?;
        }
        Ok(())
    })?;
    Ok(mib)
}

/// A number of things: 0 where EC2 says less.
fn count_of(element: &mut Element<'_, '_>) -> Read<u32> {
    Ok(u32::try_from(value_of::<i32>(element)?).unwrap_or(0))
}

/// A size: 0 where EC2 says less.
fn size_of(element: &mut Element<'_, '_>) -> Read<u64> {
    Ok(u64::try_from(value_of::<i64>(element)?).unwrap_or(0))
}

fn value_of<T: FromStr>(element: &mut Element<'_, '_>) -> Read<T> {
    let text = try_data(element)?;
    text.parse().map_err(|_| XmlDecodeError::custom(format!("{text:?} is no {}", std::any::type_name::<T>())))
}
