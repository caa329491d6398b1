//! Devices of nodes that are not there yet: by the catalogue, and by nodes of the same type.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::labels::{
    INSTANCE_GPU_COUNT, INSTANCE_GPU_MANUFACTURER, INSTANCE_GPU_MEMORY, INSTANCE_GPU_NAME,
};
use dovetail_api::resource::DRANET;
use dovetail_core::dra::{
    AttributeValue, Device, DeviceTraits, NVIDIA, Pool, efa_pools, full_name, learned_pools, nvidia_pools,
};
use dovetail_core::{InstanceType, NodeSelectorRequirement, Resources};

fn kind(name: &str, gpu: &str, count: &str, memory: &str) -> InstanceType {
    let one = |key: &str, value: &str| NodeSelectorRequirement::one_of(key, [value]);
    InstanceType {
        name: name.into(),
        capacity: Resources::new(),
        overhead: dovetail_core::Overhead::default(),
        requirements: vec![
            one(INSTANCE_GPU_NAME, gpu),
            one(INSTANCE_GPU_MANUFACTURER, "nvidia"),
            one(INSTANCE_GPU_COUNT, count),
            one(INSTANCE_GPU_MEMORY, memory),
        ],
        offerings: vec![],
        attachments: Resources::new(),
        uncommon: false,
        overlaid_resources: BTreeSet::new(),
    }
}

#[test]
fn types_have_the_gpus_that_the_catalogue_names() {
    let pools = nvidia_pools(&kind("p5.48xlarge", "h100", "8", "81920"));
    let traits = &pools[0].devices[7].traits;
    assert_eq!((pools.len(), pools[0].devices.len()), (1, 8));
    assert_eq!(traits.capacity[&full_name(NVIDIA, "memory")], "81559Mi");
    assert_eq!(
        traits.attributes[&full_name(NVIDIA, "productName")],
        AttributeValue::Text("NVIDIA H100 80GB HBM3".into())
    );
    assert_eq!(traits.attributes[&("resource.kubernetes.io".into(), "pcieRoot".into())], AttributeValue::Bound(7));
    let old = &nvidia_pools(&kind("p4d.24xlarge", "a100", "8", "40960"))[0].devices;
    assert_eq!(old[3].traits, old[2].traits);
    assert_ne!(old[3].traits, old[4].traits, "at another PCI root");
    let more = &nvidia_pools(&kind("p4de.24xlarge", "a100", "8", "81920"))[0].devices[0].traits;
    assert_eq!(more.capacity[&full_name(NVIDIA, "memory")], "81920Mi");
}

#[test]
fn gpus_that_are_not_known_for_sure_have_no_template() {
    for (gpu, count, memory) in [("l4", "1", "2861"), ("x9000", "8", "81920"), ("h100", "5000000000", "81920")] {
        assert!(nvidia_pools(&kind("g6f.large", gpu, count, memory)).is_empty(), "{gpu} {memory}");
    }
    let mut plain = kind("m5.large", "h100", "8", "81920");
    plain.requirements.clear();
    assert!(nvidia_pools(&plain).is_empty());
}

#[test]
fn types_have_as_many_efa_interfaces_as_the_catalogue_says() {
    let with = |count: &str| InstanceType {
        capacity: Resources::parse([("vpc.amazonaws.com/efa", count)]).unwrap(),
        ..kind("p5.48xlarge", "h100", "8", "81920")
    };
    let pools = efa_pools(&with("32"));
    assert_eq!((pools.len(), pools[0].driver.as_str(), pools[0].devices.len()), (1, DRANET, 32));
    let traits = &pools[0].devices[31].traits;
    let text = |text: &str| AttributeValue::Text(text.into());
    for (name, value) in [
        ("pciDevice", text("Elastic Fabric Adapter (EFA)")),
        ("pciVendor", text("Amazon.com, Inc.")),
        ("rdma", AttributeValue::Bool(true)),
    ] {
        assert_eq!(traits.attributes[&full_name(DRANET, name)], value, "{name}");
    }
    assert_eq!(traits.attributes.len(), 3, "neither addresses nor the layout are known");
    for none in [
        with("0"),
        with("100000"),
        InstanceType { overlaid_resources: ["vpc.amazonaws.com/efa".into()].into(), ..with("4") },
    ] {
        assert!(efa_pools(&none).is_empty());
    }
}

#[test]
fn nodes_teach_what_every_node_of_their_type_has() {
    let own = |name: &str, uuid: &str, root: &str| {
        let text = |text: &str| AttributeValue::Text(text.into());
        let mut traits = DeviceTraits { set_aside: Some("taints"), ..DeviceTraits::default() };
        traits.attributes.insert(full_name("neuron.aws.com", "uuid"), text(uuid));
        traits.attributes.insert(full_name("neuron.aws.com", "instanceType"), text("trn1.32xlarge"));
        traits.attributes.insert(("resource.kubernetes.io".into(), "pcieRoot".into()), text(root));
        Arc::new(Device { name: name.into(), traits })
    };
    let devices = vec![own("a", "1", "pci0"), own("b", "2", "pci1"), own("c", "3", "pci0")];
    let pool =
        Pool { driver: "neuron.aws.com".into(), name: "node-1".into(), devices, complete: true, ..Pool::default() };
    let learned = learned_pools(&[pool.clone(), Pool { complete: false, ..pool }]);
    assert_eq!(learned.len(), 1, "pools that are not complete teach nothing");
    let traits: Vec<_> = learned[0].devices.iter().map(|device| &device.traits).collect();
    assert_eq!((traits[0], traits[0].set_aside), (traits[2], None));
    assert_ne!(traits[0], traits[1]);
    assert_eq!(traits[0].attributes.len(), 2, "not the uuid");
}
