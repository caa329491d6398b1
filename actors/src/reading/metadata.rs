//! Readable parts of an object that cannot be read as a whole, each read by itself.

use std::collections::BTreeMap;

use dovetail_core::cluster_state::{Facts, Unreadable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{mend, text};

/// An object of that kind of which only this much is known.
pub fn unreadable<K: Resource<DynamicType = ()>>(text: &str, why: String) -> Unreadable {
    let string = |path: &[&str]| part::<String>(text, path).unwrap_or_default();
    let of_either = |a: &[&str], b: &[&str]| Some(string(a)).filter(|one| !one.is_empty()).unwrap_or_else(|| string(b));
    let facts = Facts {
        node_name: string(&["spec", "nodeName"]),
        phase: string(&["status", "phase"]),
        provider_id: of_either(&["status", "providerID"], &["spec", "providerID"]),
        node_class: string(&["spec", "nodeClassRef", "name"]),
        selector: part(text, &["spec", "selector"]),
    };
    Unreadable {
        kind: K::kind(&()).into_owned(),
        api_version: K::api_version(&()).into_owned(),
        metadata: metadata(text::member_at(text, &["metadata"]).unwrap_or_default()),
        why,
        facts,
    }
}

/// Each field by itself; what cannot be read of it is left out.
fn metadata(text: &str) -> ObjectMeta {
    let time = |key: &str| {
        let written: String = part(text, &[key])?;
        mend::saturated(&written).unwrap_or(written).parse().ok().map(Time)
    };
    ObjectMeta {
        name: part(text, &["name"]),
        namespace: part(text, &["namespace"]),
        uid: part(text, &["uid"]),
        resource_version: part(text, &["resourceVersion"]),
        generation: part(text, &["generation"]),
        creation_timestamp: time("creationTimestamp"),
        // One that is there and cannot be read says that the object is being deleted all the same.
        deletion_timestamp: time("deletionTimestamp").or_else(|| {
            let there = text::member_at(text, &["deletionTimestamp"]).is_some_and(|value| value != "null");
            there.then_some(Time(jiff::Timestamp::UNIX_EPOCH))
        }),
        deletion_grace_period_seconds: part(text, &["deletionGracePeriodSeconds"]),
        labels: strings(text, "labels"),
        annotations: strings(text, "annotations"),
        finalizers: part(text, &["finalizers"]),
        owner_references: owners(text),
        ..ObjectMeta::default()
    }
}

fn part<T: DeserializeOwned>(text: &str, path: &[&str]) -> Option<T> {
    serde_json::from_str(text::member_at(text, path)?).ok()
}

/// The entries that are text.
fn strings(text: &str, key: &str) -> Option<BTreeMap<String, String>> {
    let within = text::member_at(text, &[key])?;
    let entry = |member: text::JsonMember<'_>| {
        let name = serde_json::from_str(&format!("\"{}\"", member.key)).ok()?;
        Some((name, serde_json::from_str(within.get(member.value)?).ok()?))
    };
    Some(text::members(within).filter_map(entry).collect())
}

fn owners(text: &str) -> Option<Vec<OwnerReference>> {
    let all: Vec<Value> = part(text, &["ownerReferences"])?;
    Some(all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}
