//! Hashes against Karpenter's own, and what is written on pools and classes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use dovetail_api::v1::{EC2NodeClass, EC2NodeClassSpec};
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
        template["spec"]["requirements"] = json!([{"key": "left-out", "operator": "Exists"}]);
        template["spec"]["expireAfter"] = json!(template["spec"]["expireAfter"].as_str().unwrap_or("Never"));
        if !has_empty(&template) {
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

/// The hashes that a release computes for an object.
fn computed(hash: &str) -> Computed {
    Computed { same: hash.into(), fresh: hash.into(), of: "f".into() }
}

/// An object at a generation, whose status is of the generation that was judged.
fn at(now: i64, judged: i64) -> Generations {
    Generations { now: Some(now), judged: Some(judged) }
}

/// The annotations after the leader has written them.
fn settled(own: &Annotations, hash: &str, at: Generations) -> Annotations {
    let mut own = own.clone();
    OF_POOL.settle(&mut own, &computed(hash), at);
    own
}

fn found(own: &Annotations) -> &str {
    OF_POOL.found(own).unwrap()
}

fn by_karpenter(hash: &str) -> Annotations {
    OF_POOL.stamp(hash).into_iter().collect()
}

fn with(own: &Annotations, other: Annotations) -> Annotations {
    own.clone().into_iter().chain(other).collect()
}

fn standing(own: &Annotations, hash: &str) -> Option<Standing> {
    let metadata = ObjectMeta { annotations: Some(own.clone()), ..ObjectMeta::default() };
    OF_POOL.settled(&metadata, &computed(hash))
}

/// A claim's hash held against what stands on its pool, for which a hash is computed.
fn claim(own: &Annotations, hash: &str, of_claim: &str) -> Agreement {
    standing(own, hash).unwrap().agrees(of_claim)
}

/// Annotations of a pool of ours with this hash, at generation 3 and after an edit.
fn ours(hash: &str) -> Annotations {
    settled(&settled(&Annotations::new(), "1", at(2, 1)), hash, at(3, 2))
}

#[test]
fn karpenters_hash_of_the_object_as_it_is_stays() {
    let own = settled(&by_karpenter("7"), "9", at(1, 1));
    assert_eq!(found(&own), "7", "for a field that only Karpenter knows");
    let later = settled(&own, "9", at(2, 1));
    assert_eq!(found(&later), "7", "limits have changed, and not the template");
    let edited = settled(&later, "10", at(3, 2));
    assert_eq!((found(&edited), claim(&edited, "10", "7")), ("10", Agreement::Differs), "the template has changed");
    let back = settled(&edited, "9", at(4, 3));
    assert_eq!((found(&back), claim(&back, "9", "10")), ("7", Agreement::Differs), "it is changed back");
}

#[test]
fn annotations_of_an_old_manifest_make_no_claim_drift() {
    let own = ours("10");
    let restored = settled(&with(&own, by_karpenter("7")), "10", at(3, 3));
    assert_eq!((found(&restored), claim(&restored, "10", "10")), ("10", Agreement::Same));
    // The one before is known: claims with it have drifted, and go on.
    let former = settled(&with(&own, by_karpenter("1")), "10", at(3, 3));
    assert_eq!((found(&former), claim(&former, "10", "1")), ("10", Agreement::Differs));
    let mut elsewhere = ours("9");
    OF_POOL.settle(&mut elsewhere, &Computed { fresh: "7".into(), ..computed("10") }, at(20, 3));
    for dump in [by_karpenter("7"), ours("7"), settled(&by_karpenter("7"), "9", at(1, 1)), elsewhere] {
        // It is applied, or the object is replaced by it; limits may change with it.
        for (base, generations) in [(&own, at(9, 9)), (&Annotations::new(), at(9, 9)), (&Annotations::new(), at(9, 8))]
        {
            let own = settled(&with(base, dump.clone()), "10", generations);
            assert_ne!(claim(&own, "10", "10"), Agreement::Differs, "{dump:?} {generations:?}: {own:?}");
        }
    }
}

#[test]
fn hash_or_version_taken_off_comes_back_from_the_record() {
    let own = settled(&settled(&by_karpenter("7"), "9", at(1, 1)), "9", at(2, 1));
    for gone in [vec![OF_POOL.hash], vec![OF_POOL.version], vec![OF_POOL.hash, OF_POOL.version]] {
        let mut own = own.clone();
        gone.iter().for_each(|key| drop(own.remove(*key)));
        assert_eq!(found(&settled(&own, "9", at(2, 2))), "7", "{gone:?}");
    }
    let before = with(&own, [(OF_POOL.hash.into(), "3".into()), (OF_POOL.version.into(), "dovetail-v2".into())].into());
    assert_eq!(found(&settled(&before, "9", at(2, 2))), "7", "a release of before has led in between");
    let bare = settled(&Annotations::new(), "9", at(2, 2));
    assert_eq!((found(&bare), claim(&bare, "9", "7")), ("9", Agreement::Unsure), "nothing says what claims carry");
    let edited = settled(&bare, "10", at(3, 2));
    assert_eq!(claim(&edited, "10", "9"), Agreement::Differs, "the next edit counts");
    assert_eq!(claim(&settled(&edited, "9", at(4, 3)), "9", "10"), Agreement::Differs, "and so does going back");
}

#[test]
fn karpenter_that_led_in_between_makes_no_claim_drift() {
    let own = ours("10");
    // It finds the object as it was and hashes it otherwise, or somebody changes the template while it leads.
    for (hash, generations) in [("10", at(3, 3)), ("11", at(5, 5)), ("11", at(6, 5)), ("10", at(6, 5))] {
        let own = settled(&with(&own, by_karpenter("8")), hash, generations);
        for of_claim in ["8", "10"] {
            assert_ne!(claim(&own, hash, of_claim), Agreement::Differs, "{hash} {generations:?} {of_claim}: {own:?}");
        }
    }
}

#[test]
fn release_that_hashes_other_fields_makes_no_claim_drift() {
    for generations in [at(3, 3), at(4, 3)] {
        let mut own = ours("10");
        OF_POOL.settle(&mut own, &Computed { of: "g".into(), ..computed("11") }, generations);
        let metadata = ObjectMeta { annotations: Some(own.clone()), ..ObjectMeta::default() };
        assert_eq!(OF_POOL.settled(&metadata, &computed("11")), None, "its predecessor looks for itself");
        let standing = OF_POOL.settled(&metadata, &Computed { of: "g".into(), ..computed("11") }).unwrap();
        assert_ne!(standing.agrees("10"), Agreement::Differs, "{generations:?}: {own:?}");
    }
}

#[test]
fn another_authority_alone_changes_no_hash() {
    let class: EC2NodeClass = serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "generation": 2},
        "spec": {"role": "r", "subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
    }))
    .unwrap();
    let settled = |class: &EC2NodeClass, authority: &str| {
        let mut class = class.clone();
        let (computed, at) = (of_class(&class, authority), Generations::of_class(&class));
        OF_CLASS.settle(class.metadata.annotations.get_or_insert_default(), &computed, at);
        class
    };
    let first = settled(&class, "one");
    let hash = OF_CLASS.found(first.metadata.annotations.as_ref().unwrap()).cloned();
    assert_eq!(hash, Some(node_class(&class.spec, "one")));
    let mut later = first.clone();
    later.metadata.generation = Some(3);
    let later = settled(&later, "two");
    assert_eq!(OF_CLASS.found(later.metadata.annotations.as_ref().unwrap()).cloned(), hash);
    let standing = OF_CLASS.settled(&later.metadata, &of_class(&later, "three")).unwrap();
    for authority in ["two", "three"] {
        let stamped = crate::lifecycle::claim::class_stamps(&later, authority);
        assert_eq!(standing.agrees(&stamped[OF_CLASS.hash]), Agreement::Same, "a launch stamps it so");
    }
}

#[test]
fn claims_are_stamped_with_the_hash_that_will_be_settled() {
    for (own, hash, generations) in [
        (by_karpenter("7"), "9", at(1, 1)),
        (by_karpenter("7"), "9", at(2, 1)),
        (with(&ours("10"), by_karpenter("7")), "10", at(3, 3)),
        (ours("10"), "11", at(4, 3)),
        (Annotations::new(), "9", at(1, 1)),
    ] {
        let metadata = ObjectMeta { annotations: Some(own.clone()), ..ObjectMeta::default() };
        let stamped = OF_POOL.for_claims(&metadata, &computed(hash), generations);
        assert_eq!(claim(&settled(&own, hash, generations), hash, &stamped), Agreement::Same, "{own:?} {hash}");
    }
}

#[test]
fn class_without_subnets_is_judged_when_it_is_ready() {
    let class = |conditions: &[(&str, i64)]| -> EC2NodeClass {
        let all = conditions.iter().map(|(type_, seen)| {
            json!({"type": type_, "status": "True", "reason": "", "message": "", "observedGeneration": seen,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        let all: Vec<_> = all.collect();
        serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "generation": 4},
            "spec": {"subnetSelectorTerms": [], "securityGroupSelectorTerms": []}, "status": {"conditions": all},
        }))
        .unwrap()
    };
    for (conditions, judged) in
        [(vec![], None), (vec![("Ready", 4)], Some(4)), (vec![("Ready", 4), ("SubnetsReady", 3)], Some(3))]
    {
        let generations = Generations::of_class(&class(&conditions));
        assert_eq!(generations, Generations { now: Some(4), judged }, "{conditions:?}");
    }
}

#[test]
fn hash_of_another_version_is_computed_anew() {
    for version in ["v2", "dovetail-v2"] {
        let mut own = by_karpenter("7");
        own.insert(OF_POOL.version.into(), version.into());
        assert_eq!(found(&settled(&own, "9", at(1, 1))), "9", "{version}");
    }
}

#[test]
fn only_what_the_leader_has_written_for_the_template_is_settled() {
    let now = |own: &Annotations, hash: &str| standing(own, hash).map(|standing| standing.hash);
    let own = settled(&by_karpenter("7"), "9", at(1, 1));
    assert_eq!(now(&own, "9").as_deref(), Some("7"));
    assert_eq!(now(&own, "10"), None, "the template is another");
    assert_eq!(now(&by_karpenter("7"), "7"), None, "nobody of ours has looked");
    let taken_back = with(&own, by_karpenter("8"));
    assert_eq!(now(&taken_back, "9"), None);
    assert!(OF_POOL.is_foreign(&taken_back), "Karpenter has led in between");
}

proptest! {
    #[test]
    fn settled_is_settled_and_ours(
        hash in "[7-9]", version in prop::sample::select(vec!["", "v2", "v3", "dovetail-v2"]),
        record in prop::sample::select(vec!["", "7", "8 7", "of:f generation:1 9:8,7 8", "of:f 9:8,*", "x,:", ":"]),
        computed in "[7-9]", now in 1..3_i64, judged in 1..3_i64,
    ) {
        let pairs = [(OF_POOL.hash, hash.as_str()), (OF_POOL.version, version), ("dovetail.dev/computed-hash", record)];
        let own = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let once = settled(&own, &computed, at(now, judged));
        for judged in [judged, now] {
            prop_assert_eq!(settled(&once, &computed, at(now, judged.min(now))), once.clone());
        }
        prop_assert!(!OF_POOL.is_foreign(&once));
        let standing = standing(&once, &computed).map(|standing| standing.hash);
        prop_assert_eq!(standing.as_deref(), Some(found(&once)));
    }
}
