//! Hashes against Karpenter's own, and what is written on pools and classes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use dovetail_api::v1::EC2NodeClassSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Drawn objects with Karpenter 1.15's hashes, made by the program beside the file.
const KARPENTERS: &str = include_str!("../../../../../tests/hashes/karpenter-1.15.jsonl");

fn karpenters() -> impl Iterator<Item = Value> {
    KARPENTERS.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// True if an empty list or map stands in it, which is lost where an object is read: absent fields are left out of a hash.
fn has_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty() || fields.values().any(has_empty),
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty),
        _ => false,
    }
}

#[test]
fn hashes_of_pools_are_karpenters() {
    let mut compared = 0;
    for drawn in karpenters().filter(|drawn| drawn["template"].is_object()) {
        let (mut template, hash) = (drawn["template"].clone(), drawn["hash"].as_str().unwrap());
        assert_eq!(structs::NODE_CLAIM_TEMPLATE.hash(&template).to_string(), hash, "{drawn}");
        assert_eq!(drawn["version"], OF_POOL.current);
        template["spec"]["requirements"] = json!(["left out"]);
        template["spec"]["expireAfter"] = json!(template["spec"]["expireAfter"].as_str().unwrap_or("Never"));
        if !has_empty(&template) {
            template["spec"]["requirements"] = json!([]);
            let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
                "spec": {"template": template}});
            assert_eq!(node_pool(&serde_json::from_value(pool).unwrap()), hash, "{drawn}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn hashes_of_classes_are_karpenters() {
    let mut compared = 0;
    for drawn in karpenters().filter(|drawn| drawn["class"].is_object()) {
        let hash = drawn["hash"].as_str().unwrap();
        assert_eq!(drawn["version"], OF_CLASS.current);
        if !has_empty(&drawn["class"]) {
            let spec: EC2NodeClassSpec = serde_json::from_value(drawn["class"].clone()).unwrap();
            assert_eq!(node_class(&spec, drawn["authority"].as_str().unwrap()), hash, "{drawn}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

type Annotations = BTreeMap<String, String>;

/// The annotations after the leader has written them: what is computed now, and if the object has changed since.
fn settled(own: &Annotations, computed: &str, same_generation: bool) -> Annotations {
    let mut own = own.clone();
    OF_POOL.settle(&mut own, computed, same_generation);
    own
}

fn found(own: &Annotations) -> &str {
    OF_POOL.found(own).unwrap()
}

fn by_karpenter(hash: &str) -> Annotations {
    OF_POOL.stamp(hash).into_iter().collect()
}

#[test]
fn karpenters_hash_of_the_object_as_it_is_stays() {
    let own = settled(&by_karpenter("7"), "9", true);
    assert_eq!(found(&own), "7", "for a field that only Karpenter knows");
    let later = settled(&own, "9", false);
    assert_eq!(found(&later), "7", "limits have changed, and not the template");
    assert_eq!(found(&settled(&later, "10", true)), "7", "another authority");
    assert_eq!(found(&settled(&later, "10", false)), "10", "the template has changed");
    assert_eq!(found(&settled(&by_karpenter("7"), "9", false)), "9", "it has changed while nobody led");
}

#[test]
fn hash_of_another_version_is_computed_anew() {
    for version in ["v2", "dovetail-v2"] {
        let mut own = by_karpenter("7");
        own.insert(OF_POOL.version.into(), version.into());
        assert_eq!(found(&settled(&own, "9", true)), "9", "{version}");
    }
    assert_eq!(found(&settled(&Annotations::new(), "9", true)), "9");
}

#[test]
fn only_what_the_leader_has_written_for_the_template_is_settled() {
    let now = |own: Annotations, computed: &str| {
        let metadata = ObjectMeta { annotations: Some(own), ..ObjectMeta::default() };
        OF_POOL.settled(&metadata, computed).map(ToOwned::to_owned)
    };
    let own = settled(&by_karpenter("7"), "9", true);
    assert_eq!(now(own.clone(), "9").as_deref(), Some("7"));
    assert_eq!(now(own.clone(), "10"), None, "the template is another");
    assert_eq!(now(by_karpenter("7"), "7"), None, "nobody of ours has looked");
    let mut taken_back = own;
    taken_back.extend(by_karpenter("8"));
    assert_eq!(now(taken_back.clone(), "9"), None);
    assert!(OF_POOL.is_foreign(&taken_back), "Karpenter has led in between");
}

proptest! {
    #[test]
    fn settled_is_settled_and_ours(
        hash in "[7-9]", version in prop::sample::select(vec!["", "v2", "v3", "dovetail-v2"]),
        record in prop::sample::select(vec!["", "7", "8 7", "9 8", "x"]), computed in "[7-9]", same: bool,
    ) {
        let pairs = [(OF_POOL.hash, hash.as_str()), (OF_POOL.version, version), ("dovetail.dev/computed-hash", record)];
        let own = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let once = settled(&own, &computed, same);
        prop_assert_eq!(settled(&once, &computed, false), once.clone());
        prop_assert!(!OF_POOL.is_foreign(&once));
        let metadata = ObjectMeta { annotations: Some(once.clone()), ..ObjectMeta::default() };
        prop_assert_eq!(OF_POOL.settled(&metadata, &computed), Some(found(&once)));
    }
}
