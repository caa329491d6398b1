//! An instance type as DescribeInstanceTypes describes it, as plain data.
//!
//! The shipped catalogue, the EC2 client and the sandbox's region all speak of instance types in these words; labels,
//! capacity and offerings are derived from them in [`crate::resolve`].

use serde::{Deserialize, Serialize};

/// One instance type. Fields that EC2 leaves out are empty, zero or `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceTypeInfo {
    /// `m5.large`.
    pub name: String,
    /// True if AWS counts it among its current generations.
    pub current_generation: bool,
    /// Part of the free tier.
    pub free_tier: bool,
    /// `on-demand`, `spot`, `capacity-block`.
    pub usage_classes: Vec<String>,
    /// `ebs`, `instance-store`.
    pub root_devices: Vec<String>,
    /// `hvm`, `paravirtual`.
    pub virtualization: Vec<String>,
    /// Without a hypervisor.
    pub bare_metal: bool,
    /// `nitro` or `xen`; `None` for bare metal.
    pub hypervisor: Option<String>,
    /// `x86_64`, `arm64`, `i386`, `arm64_mac`, `x86_64_mac`.
    pub architectures: Vec<String>,
    /// `Intel`, `AMD`, `AWS`.
    pub cpu_manufacturer: Option<String>,
    /// `amd-sev-snp`, `nested-virtualization`.
    pub cpu_features: Vec<String>,
    /// Sustained clock speed in GHz.
    pub clock_ghz: Option<f64>,
    /// Default number of vCPUs.
    pub vcpus: u32,
    /// Default number of cores.
    pub cores: u32,
    /// Default number of threads a core.
    pub threads_per_core: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Disks of the host, if any.
    pub storage: Option<InstanceStorage>,
    /// Abilities with EBS.
    pub ebs: Ebs,
    /// Network cards and addresses.
    pub network: Network,
    /// GPUs, one entry a model.
    pub gpus: Vec<Gpu>,
    /// FPGAs, one entry a model.
    pub fpgas: Vec<Accelerator>,
    /// Inference accelerators, one entry a model.
    pub inference: Vec<Accelerator>,
    /// Media accelerators, one entry a model.
    pub media: Vec<Accelerator>,
    /// Neuron devices (Inferentia, Trainium), one entry a model.
    pub neuron: Vec<NeuronDevice>,
    /// Placement group strategies: `cluster`, `partition`, `spread`.
    pub placement: Vec<String>,
    /// Can hibernate.
    pub hibernation: bool,
    /// Earns and spends CPU credits.
    pub burstable: bool,
    /// Can run on dedicated hosts.
    pub dedicated_hosts: bool,
    /// Recovers by itself.
    pub auto_recovery: bool,
    /// `legacy-bios`, `uefi`.
    pub boot_modes: Vec<String>,
    /// Can carry Nitro enclaves.
    pub nitro_enclaves: bool,
    /// Has a NitroTPM.
    pub nitro_tpm: bool,
}

/// Disks that belong to the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceStorage {
    /// All disks together, in GB (10^9 bytes).
    pub total_gb: u64,
    /// `required`, `supported` or `unsupported`.
    pub nvme: String,
    /// `required` or `unsupported`.
    pub encryption: Option<String>,
    /// The disks, one entry a size.
    pub disks: Vec<Disk>,
}

/// Equal disks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Disks of this size and kind.
    pub count: u32,
    /// Size of each, in GB.
    pub size_gb: u64,
    /// `ssd` or `hdd`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// EBS bandwidth and limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ebs {
    /// `default`, `supported` or `unsupported`.
    pub optimized: String,
    /// `supported` or `unsupported`.
    pub encryption: String,
    /// `required`, `supported` or `unsupported`.
    pub nvme: String,
    /// Volumes that can be attached.
    pub max_attachments: u32,
    /// `shared` (with network interfaces) or `dedicated`.
    pub attachment_limit: Option<String>,
    /// Baseline in Mbps.
    pub baseline_mbps: u32,
    /// Maximum in Mbps.
    pub max_mbps: u32,
    /// Baseline operations a second.
    pub baseline_iops: u32,
    /// Maximum operations a second.
    pub max_iops: u32,
}

/// Network interfaces and addresses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// In AWS's words: `Up to 10 Gigabit`.
    pub performance: String,
    /// Interfaces over all cards.
    pub max_interfaces: u32,
    /// Number of cards.
    pub max_cards: u32,
    /// Index of the card that carries the primary interface.
    pub default_card: u32,
    /// IPv4 addresses of each interface.
    pub ipv4_per_interface: u32,
    /// IPv6 addresses of each interface.
    pub ipv6_per_interface: u32,
    /// Speaks IPv6.
    pub ipv6: bool,
    /// `required`, `supported` or `unsupported`.
    pub ena: String,
    /// ENA Express.
    pub ena_srd: bool,
    /// Elastic Fabric Adapter.
    pub efa: bool,
    /// EFA interfaces at most.
    pub efa_max: Option<u32>,
    /// Encrypts traffic between instances.
    pub encryption_in_transit: bool,
    /// Network cards, by their index.
    pub cards: Vec<NetworkCard>,
}

/// One network card.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkCard {
    /// Index, from 0.
    pub index: u32,
    /// In AWS's words.
    pub performance: String,
    /// Interfaces that it can carry.
    pub max_interfaces: u32,
    /// Baseline bandwidth in Gbps.
    pub baseline_gbps: Option<f64>,
    /// Peak bandwidth in Gbps.
    pub peak_gbps: Option<f64>,
    /// `interface`, `efa`, `efa-only`.
    pub interface_types: Vec<String>,
}

/// GPUs of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// `A10G`.
    pub name: String,
    /// `NVIDIA`, `AMD`, `Habana`.
    pub manufacturer: String,
    /// GPUs of this model in an instance.
    pub count: u32,
    /// Memory of each, in MiB.
    pub memory_mib: u64,
    /// The share of a whole GPU that one of them is (0.125 for an eighth).
    pub partition: Option<f64>,
}

/// Accelerators of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accelerator {
    /// `Inferentia`.
    pub name: String,
    /// `AWS`.
    pub manufacturer: String,
    /// Accelerators of this model in an instance.
    pub count: u32,
    /// Memory of each, in MiB.
    pub memory_mib: u64,
}

/// Neuron devices of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NeuronDevice {
    /// `Trainium`.
    pub name: String,
    /// Number of devices.
    pub count: u32,
    /// Cores of each device.
    pub cores: u32,
    /// Version of the cores.
    pub core_version: u32,
    /// Memory of each device, in MiB.
    pub memory_mib: u64,
}

impl InstanceTypeInfo {
    /// The part before the dot: `m5`.
    pub fn family(&self) -> &str {
        self.name.split_once('.').map_or(self.name.as_str(), |(family, _)| family)
    }

    /// The part behind the dot: `large`.
    pub fn size(&self) -> &str {
        self.name.split_once('.').map_or("", |(_, size)| size)
    }

    /// `g5.xlarge` is category g, generation 5; `u-6tb1.metal` u and 1; `mac-m4.metal` has neither.
    pub fn category_and_generation(&self) -> Option<(&str, &str)> {
        let (family, _) = self.name.rsplit_once('.')?;
        let category = category(family);
        let rest = &family[category.len()..];
        let rest = without_terabytes(rest).unwrap_or(rest);
        let generation = digits(rest);
        (!category.is_empty() && !generation.is_empty()).then_some((category, generation))
    }

    /// Kubernetes' name of the first architecture that a node can have; `None` for macOS and 32 bit.
    pub fn kube_arch(&self) -> Option<&'static str> {
        self.architectures.iter().find_map(|a| match a.as_str() {
            "x86_64" => Some("amd64"),
            "arm64" => Some("arm64"),
            _ => None,
        })
    }

    /// True if discovery asks EC2 for it: hvm, and x86_64 or arm64 (karpenter-aws 3.1).
    pub fn can_be_a_node(&self) -> bool {
        self.virtualization.iter().any(|v| v == "hvm") && self.kube_arch().is_some()
    }

    /// Number of volumes that the EBS CSI driver attaches: of the shared slots of a Nitro instance the root volume, one network
    /// interface and the local disks are taken (EBS CSI driver, volume attachment limits).
    pub fn ebs_volumes(&self) -> u32 {
        let most = self.ebs.max_attachments;
        let disks: u32 = self.storage.iter().flat_map(|s| &s.disks).map(|d| d.count).sum();
        match (self.hypervisor.as_deref(), self.ebs.attachment_limit.as_deref()) {
            (Some("xen"), _) => 39,
            (_, Some("dedicated")) if most > 0 => most - 1,
            _ => 28u32.saturating_sub(disks.saturating_add(2)).max(1),
        }
    }

    /// Interfaces that the default network card can carry.
    pub fn default_card_interfaces(&self) -> u32 {
        self.network
            .cards
            .iter()
            .find(|c| c.index == self.network.default_card)
            .map_or(self.network.max_interfaces, |c| c.max_interfaces)
    }

    /// Network bandwidth in Mbps: as AWS says it of the whole (`200 Gigabit`, `4x 100 Gigabit`), else the baseline of all cards;
    /// `None` where AWS only says "moderate". What it says of a card is the whole's where cards share it.
    pub fn network_mbps(&self) -> Option<u64> {
        let words = self.network.performance.as_str();
        if let Some(gbps) = words.strip_suffix(" Gigabit").and_then(times) {
            return (gbps > 0.0).then(|| (gbps * 1000.0).round() as u64);
        }
        if !words.is_empty() && !words.contains("Gigabit") {
            return None;
        }
        if let Some(gbps) = self.constant_gbps() {
            return (gbps > 0.0).then(|| (gbps * 1000.0).round() as u64);
        }
        let cards: Option<Vec<f64>> = self.network.cards.iter().map(|c| c.baseline_gbps).collect();
        let gbps: f64 = cards?.iter().sum();
        (gbps > 0.0).then(|| (gbps * 1000.0).round() as u64)
    }

    /// Gbps of the only card in AWS's words, where its baseline is its peak (`Up to 28.12 Gigabit` for 28.125): Karpenter's label
    /// has them so.
    fn constant_gbps(&self) -> Option<f64> {
        let [card] = self.network.cards.as_slice() else { return None };
        let constant = card.baseline_gbps.is_some() && card.baseline_gbps == card.peak_gbps;
        let said = card.performance.strip_prefix("Up to ")?.strip_suffix(" Gigabit")?;
        said.parse().ok().filter(|_| constant)
    }

    /// Is of a previous generation, or has FPGAs or media accelerators, which pods cannot request: never chosen unless asked
    /// for by name or nothing else fits. EC2 flags some sizes of the fifth generation and above as well; these are what most
    /// clusters are made of, and count as current.
    pub fn is_uncommon(&self) -> bool {
        let generation = self.category_and_generation().and_then(|(_, generation)| generation.parse().ok());
        let previous = !self.current_generation && generation.is_some_and(|generation: u32| generation < 5);
        previous || !self.fpgas.is_empty() || !self.media.is_empty()
    }

    /// Has a GPU, a neuron device or another accelerator, or is bare metal: never launched unless nothing else fits
    /// (karpenter-aws 4.1, filter 5).
    pub fn is_exotic(&self) -> bool {
        !self.gpus.is_empty() || !self.neuron.is_empty() || !self.inference.is_empty() || self.size().contains("metal")
    }
}

/// `200`, or `4x 100`.
fn times(text: &str) -> Option<f64> {
    let (count, each) = text.split_once("x ").unwrap_or(("1", text));
    Some(count.parse::<u32>().ok().map(f64::from)? * each.parse::<f64>().ok()?)
}

/// The letters that a type's or a family's name begins with: `im` of `im4gn.large`.
pub(crate) fn category(name: &str) -> &str {
    &name[..name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(name.len())]
}

fn without_terabytes(text: &str) -> Option<&str> {
    let behind = text.strip_prefix('-')?;
    let terabytes = digits(behind);
    (!terabytes.is_empty()).then(|| behind[terabytes.len()..].strip_prefix("tb"))?
}

fn digits(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::InstanceTypeInfo;

    fn named(name: &str, current_generation: bool) -> InstanceTypeInfo {
        InstanceTypeInfo { name: name.to_owned(), current_generation, ..InstanceTypeInfo::default() }
    }

    #[test]
    fn category_and_generation_are_read_off_the_name() {
        for (name, both) in [
            ("g5.xlarge", Some(("g", "5"))),
            ("m7i-flex.large", Some(("m", "7"))),
            ("u-6tb1.metal", Some(("u", "1"))),
            ("u7i-12tb.224xlarge", Some(("u", "7"))),
            ("c8gn.metal-24xl", Some(("c", "8"))),
            ("mac-m4.metal", None),
        ] {
            assert_eq!(named(name, true).category_and_generation(), both, "{name}");
        }
    }

    #[test]
    fn type_before_fifth_generation_not_current_is_uncommon() {
        for (name, uncommon) in
            [("m4.large", true), ("m5.large", false), ("u-6tb1.metal", true), ("u7i-12tb.224xlarge", false)]
        {
            assert_eq!(named(name, false).is_uncommon(), uncommon, "{name}");
            assert!(!named(name, true).is_uncommon(), "{name}");
        }
    }
}
