//! The kubelet block of an EC2NodeClass (aws spec 1.4): what no schema says, as the block is open.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Map, Value};

use super::Wrong;
use crate::quantity::billionths;
use crate::v1::parse_go_duration;

/// The fields that are understood whatever the family.
pub const UNDERSTOOD: [&str; 12] = [
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];
/// Signals by which pods are evicted.
const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
/// Resources that can be kept from pods.
const RESERVED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
/// The kubelet's own thresholds, which hold where the block says nothing.
const GC_DEFAULTS: (i64, i64) = (85, 80);

/// A field of the block with a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The field, and the key in it if any: `evictionHard`, `memory.available`.
    pub path: Vec<String>,
    /// The mistake in it.
    pub wrong: Wrong,
    /// The value makes sense, but images of this family take no such field.
    pub unsupported: bool,
}

/// All that is wrong with the block, for images of that family as `amiFamily` spells it. Images of family Custom are told
/// nothing of it, so that only what capacity is counted by is judged: the fields that are understood.
#[must_use]
pub fn kubelet(block: &Map<String, Value>, family: &str) -> Vec<Unfit> {
    let mut found = Found { block, all: Vec::new() };
    for field in block.keys() {
        found.known(field, family);
    }
    found.addresses(family);
    found.counts(family);
    for field in ["systemReserved", "kubeReserved"] {
        found.reserved(field);
    }
    for field in ["evictionHard", "evictionSoft"] {
        found.thresholds(field);
    }
    found.graces();
    found.image_collection();
    if block.get("cpuCFSQuota").is_some_and(|value| !value.is_boolean()) {
        found.add(&["cpuCFSQuota"], "is no boolean", "true, false");
    }
    found.all
}

struct Found<'b> {
    block: &'b Map<String, Value>,
    all: Vec<Unfit>,
}

impl Found<'_> {
    fn add(&mut self, path: &[&str], what: impl Into<String>, allowed: impl Into<String>) {
        let path = path.iter().map(|&step| step.to_owned()).collect();
        self.all.push(Unfit { path, wrong: Wrong::new(what, allowed), unsupported: false });
    }

    fn unsupported(&mut self, field: &str, what: impl Into<String>, allowed: impl Into<String>) {
        self.all.push(Unfit { path: vec![field.to_owned()], wrong: Wrong::new(what, allowed), unsupported: true });
    }

    /// Reports a field that goes nowhere.
    fn known(&mut self, field: &str, family: &str) {
        if UNDERSTOOD.contains(&field) {
            return;
        }
        if field == "registerWithTaints" {
            let allowed = "taints and startupTaints of the NodePool";
            return self.add(&[field], "the control plane says which taints a node registers with", allowed);
        }
        if let Some(meant) = UNDERSTOOD.iter().find(|known| known.eq_ignore_ascii_case(field)) {
            return self.add(&[field], "is no field of the kubelet's configuration", *meant);
        }
        if !matches!(family, "AL2023" | "Custom") {
            let what = format!("images of family {family} take no such field");
            self.unsupported(field, what, UNDERSTOOD.join(", "));
        }
    }

    fn addresses(&mut self, family: &str) {
        let Some(value) = self.block.get("clusterDNS") else { return };
        let Some(list) = value.as_array() else { return self.add(&["clusterDNS"], "is no list", "IP addresses") };
        if list.len() > 1 && !matches!(family, "AL2023" | "Custom") {
            let what = format!("has {} addresses, and images of family {family} take one", list.len());
            self.unsupported("clusterDNS", what, "one address");
        }
        let is_address = |one: &Value| one.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok());
        if let Some(wrong) = list.iter().find(|one| !is_address(one)) {
            self.add(&["clusterDNS"], format!("{wrong} is no IP address"), "IP addresses");
        }
    }

    /// Integers that are not negative.
    fn counts(&mut self, family: &str) {
        for field in ["maxPods", "podsPerCore", "evictionMaxPodGracePeriod"] {
            let Some(value) = self.block.get(field) else { continue };
            if field == "maxPods" && value.is_string() {
                let what = format!("{value} is an expression: not implemented (gate NodeClassCEL)");
                self.add(&[field], what, "an integer, 0 or more");
            } else if !value.as_i64().is_some_and(|count| (0..=i64::from(i32::MAX)).contains(&count)) {
                self.add(&[field], format!("is {value}"), "an integer, 0 or more");
            }
        }
        if family == "Bottlerocket" && self.block.contains_key("podsPerCore") {
            self.unsupported("podsPerCore", "images of family Bottlerocket take no such field", "maxPods");
        }
    }

    /// The text entries of a map; what is none is said.
    fn texts(&mut self, field: &str, keys: &[&str]) -> BTreeMap<String, String> {
        let Some(value) = self.block.get(field) else { return BTreeMap::new() };
        let Some(map) = value.as_object() else {
            self.add(&[field], "is no map", "a map of text");
            return BTreeMap::new();
        };
        let mut texts = BTreeMap::new();
        for (key, value) in map {
            if !keys.contains(&key.as_str()) {
                self.add(&[field, key], format!("{key} is not known"), keys.join(", "));
            } else if let Some(text) = value.as_str() {
                texts.insert(key.clone(), text.to_owned());
            } else {
                self.add(&[field, key], format!("{value} is no text"), "text");
            }
        }
        texts
    }

    fn reserved(&mut self, field: &str) {
        for (key, text) in self.texts(field, &RESERVED) {
            if billionths(&text).is_none_or(|amount| amount < 0) {
                self.add(&[field, &key], format!("{text:?} is no quantity of 0 or more"), "a quantity, 0 or more");
            }
        }
    }

    fn thresholds(&mut self, field: &str) {
        for (key, text) in self.texts(field, &SIGNALS) {
            let fits = match text.strip_suffix('%') {
                Some(percent) => percent.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
                None => billionths(&text).is_some_and(|amount| amount >= 0),
            };
            if !fits {
                let what = format!("{text:?} is no threshold");
                self.add(&[field, &key], what, "0% to 100%, or a quantity of 0 or more");
            }
        }
    }

    /// A soft threshold and its grace go together.
    fn graces(&mut self) {
        let graces = self.texts("evictionSoftGracePeriod", &SIGNALS);
        for (key, text) in &graces {
            if parse_go_duration(text).is_err() {
                let what = format!("{text:?} is no duration of 0 or more");
                self.add(&["evictionSoftGracePeriod", key], what, "a Go duration, such as 2m");
            }
        }
        let keys = |field: &str| -> BTreeSet<String> {
            self.block.get(field).and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key.clone()).collect()
        };
        let (soft, grace) = (keys("evictionSoft"), keys("evictionSoftGracePeriod"));
        for key in soft.difference(&grace) {
            self.add(&["evictionSoft", key], "has no grace", format!("evictionSoftGracePeriod with {key} too"));
        }
        for key in grace.difference(&soft) {
            let allowed = format!("evictionSoft with {key} too");
            self.add(&["evictionSoftGracePeriod", key], "is the grace of no soft threshold", allowed);
        }
    }

    fn image_collection(&mut self) {
        let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
        for field in [high, low] {
            let Some(value) = self.block.get(field) else { continue };
            if !value.as_i64().is_some_and(|percent| (0..=100).contains(&percent)) {
                return self.add(&[field], format!("is {value}"), "an integer, 0 to 100");
            }
        }
        let written = |field: &str| self.block.get(field).and_then(Value::as_i64);
        let (first, second) = (written(high), written(low));
        if first.is_none() && second.is_none() {
            return;
        }
        let (first, second) = (first.unwrap_or(GC_DEFAULTS.0), second.unwrap_or(GC_DEFAULTS.1));
        if first <= second {
            let field = if self.block.contains_key(high) { high } else { low };
            let what = format!("the high threshold is {first} and the low one {second}");
            self.add(&[field], what, "a high threshold above the low one (85 and 80 where they are not given)");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// Places of mistakes, with a star where the image family does not take the field.
    fn wrong(block: Value, family: &str) -> Vec<String> {
        let Value::Object(block) = block else { unreachable!() };
        let told = |one: Unfit| format!("{}{}", one.path.join("/"), if one.unsupported { "*" } else { "" });
        kubelet(&block, family).into_iter().map(told).collect()
    }

    #[test]
    fn a_block_of_every_field_is_fit_for_every_family_that_takes_it() {
        let all = json!({
            "clusterDNS": ["10.0.1.100"], "maxPods": 20, "podsPerCore": 2,
            "systemReserved": {"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "1Gi", "pid": "100"},
            "kubeReserved": {"cpu": "200m"},
            "evictionHard": {"memory.available": "5%", "nodefs.inodesFree": "10%", "imagefs.available": "1Gi"},
            "evictionSoft": {"memory.available": "500Mi"}, "evictionSoftGracePeriod": {"memory.available": "1m"},
            "evictionMaxPodGracePeriod": 60, "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80,
            "cpuCFSQuota": true,
        });
        for family in ["AL2", "AL2023", "Custom", "Windows2022"] {
            assert_eq!(wrong(all.clone(), family), [""; 0], "{family}");
        }
        assert_eq!(wrong(all, "Bottlerocket"), ["podsPerCore*"]);
        assert_eq!(wrong(json!({"podPidsLimit": 4096, "clusterDNS": ["10.0.0.10", "fd00::a"]}), "AL2023"), [""; 0]);
    }

    #[test]
    fn what_a_kubelet_would_not_start_with_is_named() {
        for (block, told) in [
            (json!({"maxPods": -1}), "maxPods"),
            (json!({"maxPods": "max_pods - 10"}), "maxPods"),
            (json!({"maxPods": 1.5}), "maxPods"),
            (json!({"podsPerCore": -1}), "podsPerCore"),
            (json!({"evictionMaxPodGracePeriod": -1}), "evictionMaxPodGracePeriod"),
            (json!({"systemReserved": {"cpu": "-100m"}}), "systemReserved/cpu"),
            (json!({"kubeReserved": {"gpu": "1"}}), "kubeReserved/gpu"),
            (json!({"kubeReserved": {"cpu": 1}}), "kubeReserved/cpu"),
            (json!({"kubeReserved": {"cpu": "vcpus * 10"}}), "kubeReserved/cpu"),
            (json!({"evictionHard": {"memory.available": "101%"}}), "evictionHard/memory.available"),
            (json!({"evictionHard": {"memory": "5%"}}), "evictionHard/memory"),
            (json!({"evictionSoft": {"memory.available": "5%"}}), "evictionSoft/memory.available"),
            (json!({"evictionSoftGracePeriod": {"pid.available": "1m"}}), "evictionSoftGracePeriod/pid.available"),
            (json!({"imageGCHighThresholdPercent": 101}), "imageGCHighThresholdPercent"),
            (
                json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 60}),
                "imageGCHighThresholdPercent",
            ),
            (json!({"imageGCHighThresholdPercent": 70}), "imageGCHighThresholdPercent"),
            (json!({"imageGCLowThresholdPercent": 90}), "imageGCLowThresholdPercent"),
            (json!({"clusterDNS": ["kube-dns"]}), "clusterDNS"),
            (json!({"clusterDNS": "10.0.0.10"}), "clusterDNS"),
            (json!({"cpuCFSQuota": "true"}), "cpuCFSQuota"),
            (json!({"registerWithTaints": []}), "registerWithTaints"),
            (json!({"maxpods": 10}), "maxpods"),
        ] {
            assert_eq!(wrong(block.clone(), "AL2023"), [told], "{block}");
        }
        let bad =
            json!({"evictionSoft": {"pid.available": "5%"}, "evictionSoftGracePeriod": {"pid.available": "soon"}});
        assert_eq!(wrong(bad, "AL2"), ["evictionSoftGracePeriod/pid.available"]);
    }

    #[test]
    fn what_a_family_does_not_take_is_unsupported_there_alone() {
        for family in ["AL2", "Bottlerocket", "Windows2022"] {
            assert_eq!(wrong(json!({"podPidsLimit": 4096}), family), ["podPidsLimit*"], "{family}");
            assert_eq!(wrong(json!({"clusterDNS": ["10.0.0.1", "10.0.0.2"]}), family), ["clusterDNS*"], "{family}");
        }
        assert_eq!(wrong(json!({"podPidsLimit": 4096}), "Custom"), [""; 0]);
    }
}
