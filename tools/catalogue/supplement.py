"""Types that moto lacks but a user may ask for: the only AMD GPUs and Gaudi accelerators on EC2.

Written down by hand, in the form of DescribeInstanceTypes, and not yet checked against an answer of AWS's: figures and regions
may be off. The zones within the regions are an assumption: the first three. At run time EC2's own answer counts.
"""

REGIONS = {
    "g4ad": ["ap-northeast-1", "ca-central-1", "eu-central-1", "eu-west-1", "eu-west-2", "us-east-1", "us-east-2", "us-west-2"],
    "dl1": ["us-east-1", "us-west-2"],
}
ZONES = 3


def cards(count, interfaces, performance, baseline, peak, efa=False):
    kinds = ["interface", "efa"] if efa else ["interface"]
    return [{"NetworkCardIndex": i, "NetworkPerformance": performance, "MaximumNetworkInterfaces": interfaces,
             "BaselineBandwidthInGbps": baseline, "PeakBandwidthInGbps": peak, "InterfaceTypes": kinds} for i in range(count)]


def instance_type(name, maker, clock, vcpus, gib, gpu, disks, ebs, network_cards, performance, ipv4, efa=0):
    base, peak, base_iops, peak_iops = ebs
    return {
        "InstanceType": name, "CurrentGeneration": True, "FreeTierEligible": False,
        "SupportedUsageClasses": ["on-demand", "spot"], "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"], "BareMetal": False, "Hypervisor": "nitro",
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"], "SustainedClockSpeedInGhz": clock, "Manufacturer": maker},
        "VCpuInfo": {"DefaultVCpus": vcpus, "DefaultCores": vcpus // 2, "DefaultThreadsPerCore": 2},
        "MemoryInfo": {"SizeInMiB": gib * 1024},
        "InstanceStorageInfo": {"TotalSizeInGB": disks[0] * disks[1], "NvmeSupport": "required", "EncryptionSupport": "required",
                                "Disks": [{"Count": disks[0], "SizeInGB": disks[1], "Type": "ssd"}]},
        "EbsInfo": {"EbsOptimizedSupport": "default", "EncryptionSupport": "supported", "NvmeSupport": "required",
                    "MaximumEbsAttachments": 27, "AttachmentLimitType": "shared",
                    "EbsOptimizedInfo": {"BaselineBandwidthInMbps": base, "MaximumBandwidthInMbps": peak,
                                         "BaselineIops": base_iops, "MaximumIops": peak_iops}},
        "NetworkInfo": {"NetworkPerformance": performance, "DefaultNetworkCardIndex": 0, "MaximumNetworkCards": len(network_cards),
                        "MaximumNetworkInterfaces": sum(c["MaximumNetworkInterfaces"] for c in network_cards),
                        "Ipv4AddressesPerInterface": ipv4, "Ipv6AddressesPerInterface": ipv4, "Ipv6Supported": True,
                        "EnaSupport": "required", "EnaSrdSupported": False, "EfaSupported": bool(efa),
                        "EfaInfo": {"MaximumEfaInterfaces": efa} if efa else {}, "EncryptionInTransitSupported": True,
                        "NetworkCards": network_cards},
        "GpuInfo": {"Gpus": [gpu]}, "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
        "HibernationSupported": False, "BurstablePerformanceSupported": False, "DedicatedHostsSupported": True,
        "AutoRecoverySupported": False, "SupportedBootModes": ["legacy-bios", "uefi"],
        "NitroEnclavesSupport": "unsupported" if maker == "Intel" else "supported", "NitroTpmSupport": "unsupported",
    }


def v520(count):
    return {"Name": "Radeon Pro V520", "Manufacturer": "AMD", "Count": count, "MemoryInfo": {"SizeInMiB": 8192}}


def g4ad(size, vcpus, gib, gpus, disks, ebs, interfaces, ipv4, gbps, peak):
    words = f"{peak} Gigabit" if gbps == peak else f"Up to {peak} Gigabit"
    return instance_type(f"g4ad.{size}", "AMD", 3.0, vcpus, gib, v520(gpus), disks, ebs,
                         cards(1, interfaces, words, gbps, peak), words, ipv4)


GAUDI = {"Name": "Gaudi HL-205", "Manufacturer": "Habana", "Count": 8, "MemoryInfo": {"SizeInMiB": 32768}}

TYPES = {t["InstanceType"]: t for t in [
    g4ad("xlarge", 4, 16, 1, (1, 150), (400, 3170, 1700, 13333), 2, 4, 2.0, 10.0),
    g4ad("2xlarge", 8, 32, 1, (1, 300), (800, 3170, 3400, 13333), 2, 4, 4.167, 10.0),
    g4ad("4xlarge", 16, 64, 1, (1, 600), (1580, 3170, 6700, 13333), 3, 10, 8.333, 10.0),
    g4ad("8xlarge", 32, 128, 2, (1, 1200), (3170, 3170, 13333, 13333), 4, 15, 15.0, 15.0),
    g4ad("16xlarge", 64, 256, 4, (2, 1200), (6300, 6300, 26667, 26667), 8, 30, 25.0, 25.0),
    instance_type("dl1.24xlarge", "Intel", 3.0, 96, 768, GAUDI, (4, 1000), (19000, 19000, 80000, 80000),
                  cards(4, 15, "100 Gigabit", 100.0, 100.0, efa=True), "4x 100 Gigabit", 50, efa=4),
]}


def regions_of(name):
    return REGIONS[name.split(".")[0]]
