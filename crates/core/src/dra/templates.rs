//! Devices that a node of an instance type will publish, before there is one: learned from a node of the type that runs, or
//! else from what the catalogue says of its GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels::{
    INSTANCE_GPU_COUNT, INSTANCE_GPU_MANUFACTURER, INSTANCE_GPU_MEMORY, INSTANCE_GPU_NAME,
};
use dovetail_api::resource::DRANET;

use super::device::{AttributeValue, Device, DeviceTraits, full_name};
use super::slice::Pool;
use crate::instance_type::InstanceType;
use crate::resources::EFA;

/// Driver of NVIDIA's GPUs.
pub const NVIDIA: &str = "gpu.nvidia.com";
/// Name of a pool of GPUs that are not there yet.
const POOL: &str = "gpus";
/// Most GPUs of an instance type that is believed.
const MOST_GPUS: u32 = 64;
/// Parts of the table's memory by which a catalogue's may differ: whoever has a share of a GPU has no device that is known here.
const MEMORY_TOLERANCE: u64 = 8;
/// Domain of attributes that Kubernetes defines.
const KUBERNETES: &str = "resource.kubernetes.io";

/// A GPU as NVIDIA's driver publishes it.
struct Gpu {
    /// Name in the label `karpenter.k8s.aws/instance-gpu-name`.
    label: &'static str,
    product: &'static str,
    architecture: &'static str,
    /// CUDA compute capability.
    capability: &'static str,
    /// Memory that the driver sees, MiB: less than the catalogue's where error correction takes of it.
    memory: u64,
}

/// GPUs whose devices are known: product names, architectures and capabilities by NVIDIA's driver, memory as `nvidia-smi` has it.
const GPUS: [Gpu; 12] = [
    Gpu { label: "v100", product: "Tesla V100-SXM2-16GB", architecture: "Volta", capability: "7.0.0", memory: 16384 },
    Gpu { label: "v100", product: "Tesla V100-SXM2-32GB", architecture: "Volta", capability: "7.0.0", memory: 32768 },
    Gpu { label: "t4", product: "Tesla T4", architecture: "Turing", capability: "7.5.0", memory: 15360 },
    Gpu { label: "a10g", product: "NVIDIA A10G", architecture: "Ampere", capability: "8.6.0", memory: 23028 },
    Gpu { label: "a100", product: "NVIDIA A100-SXM4-40GB", architecture: "Ampere", capability: "8.0.0", memory: 40960 },
    Gpu { label: "a100", product: "NVIDIA A100-SXM4-80GB", architecture: "Ampere", capability: "8.0.0", memory: 81920 },
    Gpu { label: "l4", product: "NVIDIA L4", architecture: "Ada Lovelace", capability: "8.9.0", memory: 23034 },
    Gpu { label: "l40s", product: "NVIDIA L40S", architecture: "Ada Lovelace", capability: "8.9.0", memory: 46068 },
    Gpu { label: "h100", product: "NVIDIA H100 80GB HBM3", architecture: "Hopper", capability: "9.0.0", memory: 81559 },
    Gpu { label: "h200", product: "NVIDIA H200", architecture: "Hopper", capability: "9.0.0", memory: 143_771 },
    Gpu { label: "b200", product: "NVIDIA B200", architecture: "Blackwell", capability: "10.0.0", memory: 182_784 },
    Gpu {
        label: "b300",
        product: "NVIDIA B300 SXM6 AC",
        architecture: "Blackwell",
        capability: "10.3.0",
        memory: 275_040,
    },
];

/// Name of a pool of network interfaces that are not there yet.
const NETWORK_POOL: &str = "network";
/// Most EFA interfaces of an instance type that are believed.
const MOST_INTERFACES: i64 = 128;
/// Attribute of a network interface that names its kind of device, and the name of EFA's.
const PCI_DEVICE: (&str, &str) = ("pciDevice", "Elastic Fabric Adapter (EFA)");

/// GPUs at one PCI root, of types whose layout is known.
const GPUS_A_ROOT: [(&str, u32); 2] = [("p4d.24xlarge", 2), ("p5.48xlarge", 1)];

/// Pools that a node of this type will publish for NVIDIA's GPUs; none for a type whose GPUs are not known for sure.
#[must_use]
pub fn nvidia_pools(kind: &InstanceType) -> Vec<Pool> {
    let label = |key: &str| {
        let written = kind.requirements.iter().find(|one| one.key == key)?;
        written.values.first().filter(|_| written.values.len() == 1).map(String::as_str)
    };
    let number = |key: &str| label(key).and_then(|text| text.parse::<u64>().ok());
    let count =
        number(INSTANCE_GPU_COUNT).and_then(|count| u32::try_from(count).ok()).filter(|count| *count <= MOST_GPUS);
    let (Some(name), Some(memory), Some(count), Some("nvidia")) =
        (label(INSTANCE_GPU_NAME), number(INSTANCE_GPU_MEMORY), count, label(INSTANCE_GPU_MANUFACTURER))
    else {
        return Vec::new();
    };
    let alike = |gpu: &&Gpu| gpu.label == name && gpu.memory.abs_diff(memory) <= gpu.memory / MEMORY_TOLERANCE;
    let Some(gpu) = GPUS.iter().find(alike) else { return Vec::new() };
    let a_root = GPUS_A_ROOT.iter().find(|(of, _)| *of == kind.name).map(|(_, gpus)| *gpus);
    let devices = (0..count).map(|at| {
        let traits = gpu.traits_of(a_root.map(|gpus| at / gpus));
        Arc::new(Device { name: format!("gpu-{at}"), traits })
    });
    vec![Pool {
        driver: NVIDIA.to_owned(),
        name: POOL.to_owned(),
        devices: devices.collect(),
        counters: BTreeMap::new(),
        complete: true,
        fault: None,
    }]
}

/// Pools that a node of this type will publish for its EFA interfaces, by dranet's names; none for a type without any.
#[must_use]
pub fn efa_pools(kind: &InstanceType) -> Vec<Pool> {
    let count = kind.capacity.get(EFA);
    if !(1..=MOST_INTERFACES).contains(&count) || kind.overlaid_resources.contains(EFA) {
        return Vec::new();
    }
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let mut traits = DeviceTraits::default();
    for (name, value) in [
        (PCI_DEVICE.0, text(PCI_DEVICE.1)),
        ("pciVendor", text("Amazon.com, Inc.")),
        ("rdma", AttributeValue::Bool(true)),
    ] {
        traits.attributes.insert(full_name(DRANET, name), value);
    }
    let devices = (0..count).map(|at| Arc::new(Device { name: format!("efa-{at}"), traits: traits.clone() }));
    vec![Pool {
        driver: DRANET.to_owned(),
        name: NETWORK_POOL.to_owned(),
        devices: devices.collect(),
        counters: BTreeMap::new(),
        complete: true,
        fault: None,
    }]
}

/// True if a pool has an EFA interface. A node that was launched without any publishes its other interfaces alone.
pub(super) fn has_efa(pool: &Pool) -> bool {
    let named = |device: &Arc<Device>| device.traits.attributes.get(&full_name(DRANET, PCI_DEVICE.0)).cloned();
    let is_efa = |device| named(device).is_some_and(|name| name == AttributeValue::Text(PCI_DEVICE.1.to_owned()));
    pool.driver == DRANET && pool.devices.iter().any(is_efa)
}

impl Gpu {
    fn traits_of(&self, root: Option<u32>) -> DeviceTraits {
        let text = |text: &str| AttributeValue::Text(text.to_owned());
        let mut traits = DeviceTraits::default();
        for (name, value) in [
            ("type", text("gpu")),
            ("productName", text(self.product)),
            ("architecture", text(self.architecture)),
            ("brand", text(if self.product.starts_with("Tesla") { "Tesla" } else { "Nvidia" })),
            ("cudaComputeCapability", AttributeValue::Version(self.capability.to_owned())),
            // All GPUs of a node have one driver, whichever the image brings.
            ("driverVersion", AttributeValue::Bound(0)),
            ("cudaDriverVersion", AttributeValue::Bound(0)),
        ] {
            traits.attributes.insert(full_name(NVIDIA, name), value);
        }
        if let Some(root) = root {
            traits.attributes.insert((KUBERNETES.to_owned(), "pcieRoot".to_owned()), AttributeValue::Bound(root));
        }
        traits.capacity.insert(full_name(NVIDIA, "memory"), format!("{}Mi", self.memory));
        traits
    }
}

/// Parts of names of attributes that are another on every node.
const OF_ONE_NODE: [&str; 8] = ["uuid", "serial", "busid", "mac", "ip", "address", "node", "guid"];

/// The pools of a node that runs, as another node of its type will publish them: values that only this node has are left out, and
/// of the place on the PCI bus it is only kept which devices share it.
#[must_use]
pub fn learned_pools(pools: &[Pool]) -> Vec<Pool> {
    pools.iter().filter(|pool| pool.is_usable()).map(learned_pool).collect()
}

fn learned_pool(pool: &Pool) -> Pool {
    let mut roots: Vec<AttributeValue> = Vec::new();
    let mut learn = |device: &Arc<Device>| {
        let mut traits = device.traits.clone();
        // Another node has it without a taint that came with a fault of this one.
        traits.set_aside = None;
        traits.attributes.retain(|(_, name), _| !is_of_one_node(name));
        for ((_, name), value) in &mut traits.attributes {
            if name != "pcieRoot" {
                continue;
            }
            let at = roots.iter().position(|root| root == value).unwrap_or_else(|| {
                roots.push(value.clone());
                roots.len() - 1
            });
            *value = AttributeValue::Bound(u32::try_from(at).unwrap_or(u32::MAX));
        }
        Arc::new(Device { name: device.name.clone(), traits })
    };
    Pool { name: POOL.to_owned(), devices: pool.devices.iter().map(&mut learn).collect(), ..pool.clone() }
}

fn is_of_one_node(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name != "pcieroot"
        && OF_ONE_NODE.iter().any(|part| match *part {
            // Short ones are whole names: "description" has an "ip" too.
            "ip" | "mac" | "node" => name == *part,
            part => name.contains(part),
        })
}
