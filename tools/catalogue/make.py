#!/usr/bin/env python3
"""Makes crates/cloud/data from moto's instance types and offerings, and from price tables.

    python3 -m venv /tmp/moto-venv && /tmp/moto-venv/bin/pip install moto==5.2.5
    /tmp/moto-venv/bin/python tools/catalogue/make.py [--figures DIR]

moto (https://github.com/getmoto/moto, Apache-2.0; see NOTICE) carries the answers of DescribeInstanceTypes and
DescribeInstanceTypeOfferings; supplement.py has the few types that it lacks. Of those we keep what an instance type's labels, capacity and launch depend on.
With --figures the prices, the spot model and the branch interfaces are made anew too (figures.py); without it they stay.
Same input, same bytes.
"""
import argparse
import collections
import gzip
import json
import pathlib
import sys

import moto
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

import supplement

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent.parent / "crates" / "cloud" / "data"
MOTO = pathlib.Path(moto.__file__).parent / "ec2" / "resources"
MOTO_VERSION = "5.2.5"


def read(path):
    with gzip.open(path, "rt") as f:
        return json.load(f)


def write_gz(name, value):
    """Compact JSON, gzip without a time stamp: the same input gives the same file."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=False)
    (DATA / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def slim(value):
    """Without what a reader fills in by itself: false, zero, empty and absent."""
    return {k: v for k, v in value.items() if v not in (None, False, 0, 0.0, "", [], {})}


def memory(device):
    return device.get("MemoryInfo", {}).get("SizeInMiB")


def gpus(t):
    return [slim(dict(name=g.get("Name"), manufacturer=g.get("Manufacturer"), count=g.get("Count"),
                      memory_mib=memory(g), partition=g.get("GpuPartitionSize")))
            for g in t.get("GpuInfo", {}).get("Gpus", [])]


def accelerators(t, info):
    return [slim(dict(name=a.get("Name"), manufacturer=a.get("Manufacturer"), count=a.get("Count"), memory_mib=memory(a)))
            for a in t.get(info, {}).get("Accelerators", [])]


def neuron(t):
    return [slim(dict(name=n["Name"], count=n["Count"], cores=n["CoreInfo"]["Count"],
                      core_version=n["CoreInfo"]["Version"], memory_mib=memory(n)))
            for n in t.get("NeuronInfo", {}).get("NeuronDevices", [])]


def fpgas(t):
    return [slim(dict(name=a.get("Name"), manufacturer=a.get("Manufacturer"), count=a.get("Count"), memory_mib=memory(a)))
            for a in t.get("FpgaInfo", {}).get("Fpgas", [])]


def storage(t):
    s = t.get("InstanceStorageInfo")
    return s and slim(dict(total_gb=s["TotalSizeInGB"], nvme=s["NvmeSupport"], encryption=s.get("EncryptionSupport"),
                           disks=[dict(count=d["Count"], size_gb=d["SizeInGB"], type=d["Type"]) for d in s["Disks"]]))


def ebs(t):
    e, o = t["EbsInfo"], t["EbsInfo"].get("EbsOptimizedInfo", {})
    return slim(dict(optimized=e["EbsOptimizedSupport"], encryption=e["EncryptionSupport"], nvme=e["NvmeSupport"],
                     max_attachments=e.get("MaximumEbsAttachments"), attachment_limit=e.get("AttachmentLimitType"),
                     baseline_mbps=o.get("BaselineBandwidthInMbps"), max_mbps=o.get("MaximumBandwidthInMbps"),
                     baseline_iops=o.get("BaselineIops"), max_iops=o.get("MaximumIops")))


def card(c):
    return slim(dict(index=c["NetworkCardIndex"], performance=c["NetworkPerformance"],
                     max_interfaces=c["MaximumNetworkInterfaces"], baseline_gbps=c.get("BaselineBandwidthInGbps"),
                     peak_gbps=c.get("PeakBandwidthInGbps"), interface_types=c.get("InterfaceTypes")))


def network(t):
    n = t["NetworkInfo"]
    return slim(dict(performance=n["NetworkPerformance"], max_interfaces=n["MaximumNetworkInterfaces"],
                     max_cards=n["MaximumNetworkCards"], default_card=n["DefaultNetworkCardIndex"],
                     ipv4_per_interface=n["Ipv4AddressesPerInterface"], ipv6_per_interface=n["Ipv6AddressesPerInterface"],
                     ipv6=n["Ipv6Supported"], ena=n["EnaSupport"], ena_srd=n.get("EnaSrdSupported"),
                     efa=n["EfaSupported"], efa_max=n.get("EfaInfo", {}).get("MaximumEfaInterfaces"),
                     encryption_in_transit=n["EncryptionInTransitSupported"], cards=[card(c) for c in n["NetworkCards"]]))


def instance_type(t):
    p, v = t["ProcessorInfo"], t["VCpuInfo"]
    return slim(dict(
        name=t["InstanceType"], current_generation=t["CurrentGeneration"], free_tier=t["FreeTierEligible"],
        usage_classes=t["SupportedUsageClasses"], root_devices=t["SupportedRootDeviceTypes"],
        virtualization=t["SupportedVirtualizationTypes"], bare_metal=t["BareMetal"], hypervisor=t.get("Hypervisor"),
        architectures=p["SupportedArchitectures"], cpu_manufacturer=p.get("Manufacturer"),
        cpu_features=p.get("SupportedFeatures"), clock_ghz=p.get("SustainedClockSpeedInGhz"),
        vcpus=v["DefaultVCpus"], cores=v.get("DefaultCores"), threads_per_core=v.get("DefaultThreadsPerCore"),
        memory_mib=t["MemoryInfo"]["SizeInMiB"], storage=storage(t), ebs=ebs(t), network=network(t), gpus=gpus(t),
        fpgas=fpgas(t), inference=accelerators(t, "InferenceAcceleratorInfo"),
        media=accelerators(t, "MediaAcceleratorInfo"), neuron=neuron(t), placement=t["PlacementGroupInfo"]["SupportedStrategies"],
        hibernation=t["HibernationSupported"], burstable=t["BurstablePerformanceSupported"],
        dedicated_hosts=t["DedicatedHostsSupported"], auto_recovery=t["AutoRecoverySupported"],
        boot_modes=t["SupportedBootModes"], nitro_enclaves=t["NitroEnclavesSupport"] == "supported",
        nitro_tpm=t["NitroTpmSupport"] == "supported"))


def offerings():
    """By region: its zones (name, id) and, for each set of zones (letters), the types offered in just those."""
    regions = {}
    for path in sorted((MOTO / "instance_type_offerings" / "availability-zone-id").glob("*.json.gz")):
        region = path.name.removesuffix(".json.gz")
        by_type = collections.defaultdict(set)
        for o in read(path):
            by_type[o["InstanceType"]].add(o["Location"])
        zones = named_zones(region, set().union(*by_type.values()))
        letters = {zone_id: name[-1] for name, zone_id in zones}
        for name in supplement.TYPES:
            if region in supplement.regions_of(name):
                by_type[name].update(zone_id for _, zone_id in zones[:supplement.ZONES])
        by_zones = collections.defaultdict(list)
        for name, ids in sorted(by_type.items()):
            by_zones["".join(sorted(letters[i] for i in ids))].append(name)
        regions[region] = dict(zones=zones, types=dict(sorted(by_zones.items())))
    return regions


def named_zones(region, ids):
    """moto's names of the zones; a zone that moto does not name gets the next free letter.

    Which letter means which zone differs from account to account anyway; the ids do not."""
    named = {z.zone_id: z.name for z in RegionsAndZonesBackend.zones.get(region, []) if z.zone_id in ids}
    free = (region + c for c in "abcdefghij" if region + c not in named.values())
    for zone_id in sorted(ids - set(named)):
        named[zone_id] = next(free)
    return sorted((name, zone_id) for zone_id, name in named.items())


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--figures", type=pathlib.Path, help="folder with the price, spot and interface figures (CSV)")
    args = args.parse_args()
    if moto.__version__ != MOTO_VERSION:
        sys.exit(f"moto is {moto.__version__}; the catalogue is made from {MOTO_VERSION}")
    types = read(MOTO / "instance_types.json.gz") | supplement.TYPES
    DATA.mkdir(exist_ok=True)
    write_gz("instance-types.json.gz", [instance_type(types[name]) for name in sorted(types)])
    write_gz("offerings.json.gz", offerings())
    if args.figures:
        import figures
        figures.make(args.figures, DATA, types, write_gz)


if __name__ == "__main__":
    main()
