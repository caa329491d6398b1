//! EC2NodeClasses between v1beta1 and v1 (aws spec 10.4), field by field.

use serde_json::{Map, Value, json};

use super::Notes;
use crate::convert::family::{LATEST, NO_IMAGE, alias, ubuntu_disk};
use crate::names::annotations;

/// v1beta1's families that v1 knows as an alias.
const FAMILIES: [&str; 5] = ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022"];

/// A class's spec, v1beta1 to v1: a family without images becomes an alias.
pub(super) fn class_up(spec: &mut Map<String, Value>, notes: &mut Notes) {
    let Some(family) = spec.get("amiFamily").and_then(Value::as_str).map(str::to_owned) else { return };
    if family == "Ubuntu" {
        return ubuntu_up(spec, notes);
    }
    let named = spec.get("amiSelectorTerms").and_then(Value::as_array).is_some_and(|terms| !terms.is_empty());
    if !named && FAMILIES.contains(&family.as_str()) {
        let term = json!([{"alias": alias(&family, notes.get(annotations::ALIAS_VERSION))}]);
        spec.insert("amiSelectorTerms".into(), term);
        spec.remove("amiFamily");
    }
}

/// A class's spec, v1 to v1beta1: an alias becomes its family.
pub(super) fn class_down(spec: &mut Map<String, Value>, notes: &mut Notes) {
    if let Some(fields) = notes.take_annotation(annotations::V1BETA1_UBUNTU) {
        return ubuntu_down(spec, &fields);
    }
    let alias = spec.get("amiSelectorTerms").and_then(|terms| terms.get(0)).and_then(|term| term.get("alias"));
    let Some((name, version)) = alias.and_then(Value::as_str).and_then(|alias| alias.split_once('@')) else { return };
    let Some(family) = FAMILIES.iter().find(|one| one.eq_ignore_ascii_case(name)) else { return };
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
        spec.insert("blockDeviceMappings".into(), json!([ubuntu_disk()]));
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
