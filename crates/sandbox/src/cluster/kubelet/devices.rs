//! NVIDIA's driver for dynamic resource allocation. It runs where its DeviceClass is there: a node that is ready publishes its GPUs a
//! little later. Annotations of the class have it publish something else.

use std::time::Duration;

use dovetail_core::dra::{AttributeValue, Device, NVIDIA, nvidia_pools};
use serde_json::{Map, Value, json};

use super::machine;
use super::user_data::NodeConfig;
use crate::cluster::cache::Key;
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;
use crate::region::{Region, RegionInstance};

/// From a node's being ready to its slices.
const DELAY: Duration = Duration::from_secs(3);
/// Annotation of the class: the product that nodes publish, whatever they have.
const PRODUCT: &str = "sandbox.dovetail.dev/product-name";
/// Annotation of the class: seconds from a node's being ready to its slices; `never` for none.
const AFTER: &str = "sandbox.dovetail.dev/published-after";

/// Time after which a node that is ready publishes its devices; `None` if no driver runs.
pub(super) fn delay(ctx: &ClusterContext) -> Option<Duration> {
    let class = ctx.cache.named(Kind::DeviceClass, NVIDIA)?;
    match class["metadata"]["annotations"][AFTER].as_str() {
        Some("never") => None,
        Some(seconds) => Some(seconds.parse().map_or(DELAY, Duration::from_secs)),
        None => Some(DELAY),
    }
}

/// Publishes the GPUs of a node, if it has any.
pub(super) fn publish(ctx: &mut ClusterContext, region: &Region, instance: &RegionInstance, node: &str) {
    let Some(object) = ctx.cache.named(Kind::Node, node) else { return };
    let Some(class) = ctx.cache.named(Kind::DeviceClass, NVIDIA) else { return };
    let product = class["metadata"]["annotations"][PRODUCT].as_str();
    let config = NodeConfig::from_user_data(&instance.user_data);
    let Some(machine) = machine::machine_of(region, instance, &config) else { return };
    let Some(pool) = nvidia_pools(&machine).pop() else { return };
    let devices =
        pool.devices.iter().enumerate().map(|(at, device)| published(at, device, (instance.id.as_str(), product)));
    let owner =
        json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": object["metadata"]["uid"], "controller": true});
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("{node}-{NVIDIA}"), "ownerReferences": [owner]},
        "spec": {
            "driver": NVIDIA, "nodeName": node, "devices": devices.collect::<Vec<_>>(),
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    });
    // It may be there already: a kubelet that says again that it is ready publishes nothing new.
    let _ = ctx.kube.create(Kind::ResourceSlice, slice);
}

/// A device as the driver publishes it, with what only this node has.
fn published(at: usize, device: &Device, (instance, product): (&str, Option<&str>)) -> Value {
    let mut attributes = Map::new();
    for ((domain, name), value) in &device.traits.attributes {
        let name = if domain == NVIDIA { name.clone() } else { format!("{domain}/{name}") };
        let value = match value {
            AttributeValue::Bool(truth) => json!({"bool": truth}),
            AttributeValue::Int(number) => json!({"int": number}),
            AttributeValue::Text(_) if name == "productName" && product.is_some() => json!({"string": product}),
            AttributeValue::Text(text) => json!({"string": text}),
            AttributeValue::Version(text) => json!({"version": text}),
            AttributeValue::Bound(root) if name.ends_with("pcieRoot") => {
                json!({"string": format!("pci0000:{root:02x}")})
            }
            AttributeValue::Bound(_) => json!({"version": "580.95.5"}),
        };
        attributes.insert(name, value);
    }
    attributes.insert("uuid".into(), json!({"string": format!("GPU-{instance}-{at}")}));
    let bus = format!("0000:{:02x}:00.0", at + 0x10);
    attributes.insert("resource.kubernetes.io/pciBusID".into(), json!({"string": bus}));
    let capacity = device.traits.capacity.iter().map(|((_, name), value)| (name.clone(), json!({"value": value})));
    json!({"name": device.name, "attributes": attributes, "capacity": capacity.collect::<Map<_, _>>()})
}

/// Takes the slices of a node away that is gone, should the garbage collector not have seen to it.
pub(super) fn withdraw(ctx: &mut ClusterContext, node: &str) {
    let key = Key::new("", &format!("{node}-{NVIDIA}"));
    if ctx.cache.get(Kind::ResourceSlice, &key).is_some() && ctx.kube.get(Kind::ResourceSlice, &key).is_some() {
        ctx.kube.delete(Kind::ResourceSlice, &key, None);
    }
}
