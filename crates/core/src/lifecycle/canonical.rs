//! A NodePool's template and an EC2NodeClass's spec in one form, however they are written: what means the same is the same, so
//! that a change that changes nothing about nodes makes no node drift (core spec 5.6, aws spec 1.1 column H).
//!
//! - Keys have no order, and no list has one but the kubelet's `clusterDNS`: what is listed twice counts once.
//! - Durations, volume sizes and reserved amounts count by their value: `720h` is `43200m`, `100Gi` is `102400Mi`.
//! - What is not given, or given as its own default, is left out: a field that comes to the API later changes no hash.
//! - Left out of the template are the requirements: running nodes are held against them. Left out of the class are the four
//!   selectors (subnets, security groups, images, capacity reservations): running nodes are held against what they resolve to.
//!   `ipPrefixCount` is left out as Karpenter leaves it out.

use dovetail_api::v1::{EC2NodeClassSpec, NodeClaimTemplate};
use k8s_openapi::api::core::v1::Taint;
use serde_json::{Value, json};

use crate::resources::{EPHEMERAL_STORAGE, parse_amount};

/// Fields of a class that no hash covers.
const RESOLVED: [&str; 5] = [
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "capacityReservationSelectorTerms",
    "amiSelectorTerms",
    "ipPrefixCount",
];
/// The kubelet's list whose order has a meaning: resolvers are asked in it.
const ORDERED: &str = "clusterDNS";
/// Maps of the kubelet whose values are quantities by resource.
const RESERVED: [&str; 2] = ["systemReserved", "kubeReserved"];

/// The canonical form of a pool's template.
pub(super) fn template(template: &NodeClaimTemplate) -> Value {
    let spec = &template.spec;
    let grace = spec.termination_grace_period.as_ref().map(|grace| grace.get().as_secs());
    let expires = spec.expire_after.get().map_or(json!("Never"), |after| json!(after.as_secs()));
    settled(json!({
        "labels": template.metadata.labels,
        "annotations": template.metadata.annotations,
        "taints": taints(&spec.taints),
        "startupTaints": taints(&spec.startup_taints),
        "nodeClassRef": spec.node_class_ref,
        "terminationGracePeriod": grace,
        "expireAfter": expires,
    }))
}

/// A taint without a value is one with an empty value.
fn taints(taints: &[Taint]) -> Value {
    let one = |taint: &Taint| {
        let value = taint.value.as_deref().filter(|value| !value.is_empty());
        json!({"key": taint.key, "effect": taint.effect, "value": value})
    };
    taints.iter().map(one).collect()
}

pub(super) fn class(spec: &EC2NodeClassSpec) -> Value {
    let mut all = json!(spec);
    let Some(fields) = all.as_object_mut() else { return all };
    RESOLVED.iter().for_each(|field| drop(fields.remove(*field)));
    fields.insert("amiFamily".into(), json!(family(spec)));
    if let Some(kubelet) = fields.get_mut("kubelet").and_then(Value::as_object_mut) {
        for field in RESERVED {
            let reserved = kubelet.get_mut(field).and_then(Value::as_object_mut);
            reserved.into_iter().flatten().for_each(|(name, value)| amount(name, value));
        }
    }
    for mapping in fields.get_mut("blockDeviceMappings").and_then(Value::as_array_mut).into_iter().flatten() {
        forget_false(mapping, "rootVolume");
        if let Some(size) = mapping.get_mut("ebs").and_then(|ebs| ebs.get_mut("volumeSize")) {
            amount(EPHEMERAL_STORAGE, size);
        }
    }
    forget_false(&mut all, "detailedMonitoring");
    if let Some(enclaves) = all.get_mut("enclaveOptions") {
        forget_false(enclaves, "enabled");
    }
    settled(all)
}

/// The effective AMI family: `amiFamily`, or else the family of the alias (aws spec 1.1).
fn family(spec: &EC2NodeClassSpec) -> String {
    let alias = || spec.ami_selector_terms.iter().find_map(|term| term.alias.as_deref());
    let named = spec.ami_family.as_deref().or_else(alias).unwrap_or("custom");
    named.split('@').next().unwrap_or(named).to_ascii_lowercase()
}

/// Replaces a quantity by a number; one that makes no sense stays as it is.
fn amount(name: &str, value: &mut Value) {
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    if let Ok(amount) = parse_amount(name, &text) {
        *value = json!(amount);
    }
}

fn forget_false(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut().filter(|fields| fields.get(field) == Some(&Value::Bool(false))) {
        fields.remove(field);
    }
}

/// Leaves out fields that are null or empty, sorts lists and drops repeats in them; `clusterDNS` stays as it is.
fn settled(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let settle = |(key, value): (String, Value)| match value {
                Value::Array(items) if key == ORDERED => (key, Value::Array(items)),
                value => (key, settled(value)),
            };
            Value::Object(fields.into_iter().map(settle).filter(|(_, value)| is_given(value)).collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(settled).collect();
            items.sort_by_cached_key(text);
            items.dedup();
            Value::Array(items)
        }
        leaf => leaf,
    }
}

fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// A value as text that does not depend on the order in which its keys were read.
fn text(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut all: Vec<_> = fields.iter().map(|(key, value)| format!("{key:?}:{}", text(value))).collect();
            all.sort_unstable();
            format!("{{{}}}", all.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        leaf => leaf.to_string(),
    }
}

#[cfg(test)]
mod tests;
