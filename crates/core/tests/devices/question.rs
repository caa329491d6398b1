//! The stage as a question, and what a node lacks for a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_core::dra::{DeviceBook, DeviceQuestion, MOST_STEPS, allocate, lacking_devices};
use dovetail_core::{Pod, Problem};
use serde_json::{Value, json};

use crate::{book, claim, class, slice};

fn gpus(selector: &str) -> DeviceBook {
    let wish = json!({"deviceClassName": "gpu", "selectors": [{"cel": {"expression": selector}}]});
    book(&[slice("n1", 2)], &[class("gpu", &[])], &[claim("c", &wish), claim("d", &wish), claim("e", &wish)])
}

fn pod(devices: &[Value], blocked: Option<&str>) -> Pod {
    let pod = json!({"name": "p", "uid": "p", "namespace": "default", "devices": devices, "blocked": blocked});
    serde_json::from_value(pod).unwrap()
}

const NOT_SUPPORTED: &str = "dynamic resource allocation (spec.resourceClaims) is not supported yet";

#[test]
fn pod_whose_claims_ask_for_nothing_is_packed_as_any_other() {
    let problem = Problem { pods: vec![pod(&[], Some(NOT_SUPPORTED))], ..Problem::default() };
    let question = DeviceQuestion { problem: Arc::new(problem), ..DeviceQuestion::default() };
    assert_eq!(question.answer().problem.pods[0].blocked, None);
}

#[test]
fn pods_with_claims_wait_where_there_is_no_answer() {
    let with = pod(&[json!({"name": "gpu", "claim": "c"})], Some(NOT_SUPPORTED));
    let other = Pod { devices: vec![], blocked: None, name: "other".into(), ..with.clone() };
    let problem = Problem { pods: vec![with, other], ..Problem::default() };
    let question = DeviceQuestion { problem: Arc::new(problem), ..DeviceQuestion::default() };
    let answer = question.unanswered("the search failed");
    let blocked: Vec<_> = answer.problem.pods.iter().map(|pod| pod.blocked.as_deref()).collect();
    assert_eq!(blocked, [Some("the search failed"), None]);
    let mut restored = Problem::clone(&answer.problem);
    answer.plan.restore(&mut restored);
    assert_eq!(restored.pods[0].blocked.as_deref(), Some("the search failed"), "the reason stays");
}

#[test]
fn node_that_lacks_the_devices_of_a_pod_is_told_by_the_selector() {
    let selector = r#"device.attributes["gpu.nvidia.com"].productName == "Tesla T4""#;
    let asks = pod(&[json!({"name": "gpu", "claim": "c"})], None);
    let none = BTreeMap::new();
    let why = lacking_devices(&gpus(selector), ("n1", &none), &asks).unwrap();
    assert!(why.contains("Tesla T4") && why.contains("is met by 0 of 2"), "{why}");
    let suits = r#"device.attributes["gpu.nvidia.com"].productName.contains("H100")"#;
    assert_eq!(lacking_devices(&gpus(suits), ("n1", &none), &asks), None);
    let unknown = pod(&[json!({"name": "gpu", "claim": "later"})], None);
    assert_eq!(lacking_devices(&gpus(suits), ("n1", &none), &unknown), None, "nothing is known of its claim");
    assert_eq!(lacking_devices(&gpus(suits), ("n2", &none), &asks).as_deref(), Some("it has no devices"));
}

#[test]
fn allocation_takes_free_devices_and_leaves_allocated_claims() {
    let mut book = gpus("true");
    let none = BTreeMap::new();
    let keys: Vec<String> = ["c", "d"].iter().map(|name| format!("default/{name}")).collect();
    let found = allocate(&book, ("n1", &none), &keys, MOST_STEPS).unwrap();
    let names: Vec<&str> = found.iter().flat_map(|(_, ids)| ids).map(|id| id.device.as_str()).collect();
    assert_eq!(names, ["gpu-0", "gpu-1"]);
    let mut taken = claim("c", &json!({"deviceClassName": "gpu"}));
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
    taken["status"] = json!({"allocation": {
        "devices": {"results": [{"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}});
    book.apply_claim(&serde_json::from_value(taken).unwrap());
    let found = allocate(&book, ("n1", &none), &keys, MOST_STEPS).unwrap();
    assert_eq!((found.len(), found[0].1[0].device.as_str()), (1, "gpu-1"), "one has its device");
    let three = ["c", "d", "e"].map(|name| format!("default/{name}"));
    assert!(allocate(&book, ("n1", &none), &three, MOST_STEPS).is_err());
    let why = allocate(&book, ("n2", &none), &keys[..1], MOST_STEPS).unwrap_err();
    assert_eq!(why, "the devices of ResourceClaim default/c are on another node");
}
