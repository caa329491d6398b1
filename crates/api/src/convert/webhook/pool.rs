//! NodePools and NodeClaims between v1beta1 and v1 (aws spec 10.4), field by field. An object may be a part of one: an API
//! server converts the fields that one client owns by themselves. So nothing is made up for what is not there.

use serde_json::{Map, Value, json};

use super::Notes;
use crate::names::{AWS_GROUP, alias, annotations};

/// A NodePool's spec, v1beta1 to v1.
pub(super) fn pool_up(spec: &mut Map<String, Value>, notes: &mut Notes) {
    if let Some(disruption) = spec.get_mut("disruption").and_then(Value::as_object_mut) {
        if disruption.get("consolidationPolicy") == Some(&json!("WhenUnderutilized")) {
            disruption.insert("consolidationPolicy".into(), json!("WhenEmptyOrUnderutilized"));
            // v1 requires it; v1beta1 did not wait either.
            disruption.entry("consolidateAfter").or_insert_with(|| json!("0s"));
        }
        if let Some(age) = disruption.remove("expireAfter") {
            if disruption.is_empty() {
                spec.remove("disruption");
            }
            if let Some(template) = template(spec) {
                template.insert("expireAfter".into(), age);
            }
        }
    }
    if let Some(claim) = spec.get_mut("template").and_then(|one| one.get_mut("spec")).and_then(Value::as_object_mut) {
        claim_up(claim, notes);
    }
}

/// A NodePool's spec, v1 to v1beta1.
pub(super) fn pool_down(spec: &mut Map<String, Value>, notes: &mut Notes) {
    let mut age = None;
    if let Some(template) = spec.get_mut("template").and_then(Value::as_object_mut) {
        if let Some(claim) = template.get_mut("spec").and_then(Value::as_object_mut) {
            age = claim.remove("expireAfter");
            claim_down(claim, notes);
            if claim.is_empty() {
                template.remove("spec");
            }
        }
        if template.is_empty() {
            spec.remove("template");
        }
    }
    if let Some(age) = age
        && let Some(disruption) = object(spec, "disruption")
    {
        disruption.insert("expireAfter".into(), age);
    }
    let Some(disruption) = spec.get_mut("disruption").and_then(Value::as_object_mut) else { return };
    let policy = disruption.get("consolidationPolicy").and_then(Value::as_str);
    if policy.is_some_and(|policy| policy != "WhenEmpty") {
        disruption.insert("consolidationPolicy".into(), json!("WhenUnderutilized"));
        // v1beta1 refuses a duration with that policy.
        if disruption.get("consolidateAfter") != Some(&json!("Never")) {
            disruption.remove("consolidateAfter");
        }
    }
}

/// The spec of a NodeClaim or of a template, v1beta1 to v1.
pub(super) fn claim_up(spec: &mut Map<String, Value>, notes: &mut Notes) {
    if let Some(kubelet) = spec.remove("kubelet") {
        notes.set(annotations::V1BETA1_KUBELET, kubelet.to_string());
    }
    if let Some(Value::Object(reference)) = spec.get_mut("nodeClassRef") {
        notes.set(annotations::V1BETA1_NODE_CLASS_REF, Value::Object(reference.clone()).to_string());
        let version = reference.remove("apiVersion");
        let group = version.as_ref().and_then(Value::as_str).and_then(|one| one.split('/').next());
        let group = group.filter(|group| !group.is_empty()).unwrap_or(AWS_GROUP);
        reference.insert("group".into(), json!(group));
        let unsaid = reference.get("kind").and_then(Value::as_str).is_none_or(str::is_empty);
        if unsaid {
            reference.insert("kind".into(), json!("EC2NodeClass"));
        }
    }
    let requirements = spec.get_mut("requirements").and_then(Value::as_array_mut);
    for key in requirements.into_iter().flatten().filter_map(|one| one.get_mut("key")) {
        if let Some(stable) = key.as_str().map(alias::normalize) {
            *key = json!(stable);
        }
    }
}

/// The spec of a NodeClaim or of a template, v1 to v1beta1.
pub(super) fn claim_down(spec: &mut Map<String, Value>, notes: &mut Notes) {
    if let Some(kubelet) = notes.take_json(annotations::V1BETA1_KUBELET) {
        spec.insert("kubelet".into(), kubelet);
    }
    let noted = notes.take_json(annotations::V1BETA1_NODE_CLASS_REF);
    if let Some(Value::Object(reference)) = spec.get_mut("nodeClassRef") {
        if let Some(noted) = noted.filter(|noted| noted.get("name") == reference.get("name")) {
            spec.insert("nodeClassRef".into(), noted);
        } else if let Some(group) = reference.remove("group").as_ref().and_then(Value::as_str) {
            reference.insert("apiVersion".into(), json!(format!("{group}/v1beta1")));
        }
    }
}

/// The spec of the template, made where it is not there.
fn template(spec: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    object(object(spec, "template")?, "spec")
}

fn object<'a>(of: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    of.entry(name).or_insert_with(|| json!({})).as_object_mut()
}
