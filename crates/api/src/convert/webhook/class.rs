//! EC2NodeClasses between v1beta1 and v1 (aws spec 10.4), field by field.

use serde_json::{Map, Value, json};

use super::Notes;
use crate::names::annotations;

/// v1beta1's name of a family, and how an alias of v1 calls it.
const FAMILIES: [(&str, &str); 5] = [
    ("AL2", "al2"),
    ("AL2023", "al2023"),
    ("Bottlerocket", "bottlerocket"),
    ("Windows2019", "windows2019"),
    ("Windows2022", "windows2022"),
];
/// What stands where an image has to be named and cannot be.
const NO_IMAGE: &str = "ami-placeholder";
const LATEST: &str = "latest";

/// A class's spec, v1beta1 to v1: a family without images becomes an alias.
pub(super) fn class_up(spec: &mut Map<String, Value>, notes: &mut Notes) {
    let Some(family) = spec.get("amiFamily").and_then(Value::as_str).map(str::to_owned) else { return };
    if family == "Ubuntu" {
        return ubuntu_up(spec, notes);
    }
    let named = spec.get("amiSelectorTerms").and_then(Value::as_array).is_some_and(|terms| !terms.is_empty());
    let known = FAMILIES.iter().find(|(name, _)| *name == family);
    if let Some((_, alias)) = known.filter(|_| !named) {
        let version = notes.get(annotations::ALIAS_VERSION).unwrap_or(LATEST);
        let term = json!([{"alias": format!("{alias}@{version}")}]);
        spec.insert("amiSelectorTerms".into(), term);
        spec.remove("amiFamily");
    }
}

/// A class's spec, v1 to v1beta1: an alias becomes its family.
pub(super) fn class_down(spec: &mut Map<String, Value>, notes: &mut Notes) {
    if let Some(fields) = notes.take(annotations::V1BETA1_UBUNTU) {
        return ubuntu_down(spec, &fields);
    }
    let alias = spec.get("amiSelectorTerms").and_then(|terms| terms.get(0)).and_then(|term| term.get("alias"));
    let Some((name, version)) = alias.and_then(Value::as_str).and_then(|alias| alias.split_once('@')) else { return };
    let Some((family, _)) = FAMILIES.iter().find(|(_, one)| *one == name.to_ascii_lowercase()) else { return };
    if version != LATEST {
        notes.set(annotations::ALIAS_VERSION, version.to_owned());
    }
    spec.insert("amiFamily".into(), json!(family));
    spec.remove("amiSelectorTerms");
}

/// Ubuntu is no family of v1: AL2's user data on Ubuntu's disk, the images by the user's own terms.
fn ubuntu_up(spec: &mut Map<String, Value>, notes: &mut Notes) {
    let empty =
        |spec: &Map<String, Value>, name: &str| spec.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty);
    let mut fields = vec!["amiFamily"];
    spec.insert("amiFamily".into(), json!("AL2"));
    if empty(spec, "blockDeviceMappings") {
        fields.push("blockDeviceMappings");
        let disk = json!({"encrypted": true, "volumeType": "gp3", "volumeSize": "20Gi"});
        let mapping = json!([{"deviceName": "/dev/sda1", "rootVolume": true, "ebs": disk}]);
        spec.insert("blockDeviceMappings".into(), mapping);
    }
    if empty(spec, "amiSelectorTerms") {
        fields.push("incompatible");
        spec.insert("amiSelectorTerms".into(), json!([{"id": NO_IMAGE}]));
    }
    notes.set(annotations::V1BETA1_UBUNTU, fields.join(","));
}

fn ubuntu_down(spec: &mut Map<String, Value>, fields: &str) {
    for field in fields.split(',') {
        match field {
            "amiFamily" => drop(spec.insert("amiFamily".into(), json!("Ubuntu"))),
            "blockDeviceMappings" => drop(spec.remove("blockDeviceMappings")),
            "incompatible" => drop(spec.remove("amiSelectorTerms")),
            _ => {}
        }
    }
}
