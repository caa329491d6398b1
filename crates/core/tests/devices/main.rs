//! Devices by dynamic resource allocation: selectors, the search, and the places of pods with claims.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

mod bounds;
mod oracle;
mod places;
mod question;
mod selectors;
mod templates;

use dovetail_core::dra::DeviceBook;
use serde_json::{Value, json};

/// A book with these objects.
fn book(slices: &[Value], classes: &[Value], claims: &[Value]) -> DeviceBook {
    let mut book = DeviceBook::default();
    for one in slices {
        book.apply_slice(&serde_json::from_value(one.clone()).unwrap());
    }
    for one in classes {
        book.apply_class(&serde_json::from_value(one.clone()).unwrap());
    }
    for one in claims {
        book.apply_claim(&serde_json::from_value(one.clone()).unwrap());
    }
    book
}

fn class(name: &str, selectors: &[&str]) -> Value {
    let selectors: Vec<Value> = selectors.iter().map(|text| json!({"cel": {"expression": text}})).collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}})
}

/// A claim with one request `r` for exactly this.
fn claim(name: &str, exactly: &Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
}

/// A slice of a node with so many devices of the driver `gpu.nvidia.com`, all alike.
fn slice(node: &str, devices: usize) -> Value {
    let devices: Vec<Value> = (0..devices)
        .map(|at| json!({"name": format!("gpu-{at}"), "attributes": {"productName": {"string": "NVIDIA H100 80GB HBM3"}}}))
        .collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-gpus")},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
}
