//! Owners and their dependents, namespaces and their contents.
use super::*;
use crate::apiserver::{CONFIG_MAPS, DEPLOYMENTS, DeleteOptions, NAMESPACES, PODS, Propagation, REPLICA_SETS};

fn owned(name: &str, owner: &Value, blocks: bool) -> Value {
    let mut value = pod_value(name);
    value["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": blocks}]);
    value
}

fn replica_set(server: &ApiServer, name: &str) -> Arc<Value> {
    let value = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    server.create(&REPLICA_SETS, "default", value).unwrap()
}

fn delete(server: &ApiServer, propagation: Propagation) {
    let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
    server.delete(&REPLICA_SETS, "default", "web", &options).unwrap();
}

#[test]
fn pods_follow_their_owner_and_running_ones_get_their_grace() {
    let server = test_server();
    let owner = replica_set(&server, "web");
    for name in ["a", "b"] {
        server.create(&PODS, "default", owned(name, &owner, true)).unwrap();
    }
    server.bind("default", "b", "n1").unwrap();
    delete(&server, Propagation::Background);
    assert!(server.get(&REPLICA_SETS, "default", "web").is_none());
    assert!(server.get(&PODS, "default", "a").is_none());
    assert!(server.get(&PODS, "default", "b").unwrap()["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn deleted_in_the_foreground_the_owner_waits_for_what_blocks_it() {
    let server = test_server();
    let owner = replica_set(&server, "web");
    server.create(&PODS, "default", owned("a", &owner, true)).unwrap();
    server.bind("default", "a", "n1").unwrap();
    delete(&server, Propagation::Foreground);
    let waiting = server.get(&REPLICA_SETS, "default", "web").unwrap();
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    server.delete(&PODS, "default", "a", &now).unwrap();
    assert!(server.get(&REPLICA_SETS, "default", "web").is_none());
}

#[test]
fn orphans_stay_without_an_owner() {
    let server = test_server();
    let owner = replica_set(&server, "web");
    server.create(&PODS, "default", owned("a", &owner, true)).unwrap();
    delete(&server, Propagation::Orphan);
    assert!(server.get(&REPLICA_SETS, "default", "web").is_none());
    assert!(server.get(&PODS, "default", "a").unwrap()["metadata"]["ownerReferences"].is_null());
}

#[test]
fn an_object_goes_with_its_last_owner_only() {
    let server = test_server();
    let (web, other) = (replica_set(&server, "web"), replica_set(&server, "other"));
    let mut shared = owned("a", &web, false);
    let second = owned("a", &other, false)["metadata"]["ownerReferences"][0].clone();
    shared["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
    server.create(&PODS, "default", shared).unwrap();
    delete(&server, Propagation::Background);
    let kept = server.get(&PODS, "default", "a").unwrap();
    assert_eq!(kept["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    server.delete(&REPLICA_SETS, "default", "other", &DeleteOptions::default()).unwrap();
    assert!(server.get(&PODS, "default", "a").is_none());
}

#[test]
fn object_of_missing_owner_is_collected_but_unknown_kind_stays() {
    let server = test_server();
    let ghost = json!({"metadata": {"name": "ghost", "uid": "0"}});
    server.create(&PODS, "default", owned("a", &ghost, false)).unwrap();
    assert!(server.get(&PODS, "default", "a").is_none());
    let mut strange = owned("b", &ghost, false);
    strange["metadata"]["ownerReferences"][0]["kind"] = json!("Unheard");
    server.create(&PODS, "default", strange).unwrap();
    assert!(server.get(&PODS, "default", "b").is_some());
}

#[test]
fn a_namespace_goes_when_it_is_empty_and_takes_nothing_new() {
    let server = test_server();
    server.create(&NAMESPACES, "", json!({"metadata": {"name": "n"}})).unwrap();
    let mut held = pod_value("a");
    held["metadata"]["finalizers"] = json!(["test/hold"]);
    server.create(&PODS, "n", held).unwrap();
    server.create(&CONFIG_MAPS, "n", json!({"metadata": {"name": "m"}})).unwrap();
    server.delete(&NAMESPACES, "", "n", &DeleteOptions::default()).unwrap();
    assert_eq!(server.get(&NAMESPACES, "", "n").unwrap()["status"]["phase"], "Terminating");
    assert!(server.get(&CONFIG_MAPS, "n", "m").is_none());
    assert_eq!(server.create(&PODS, "n", pod_value("b")).unwrap_err().code(), 403);
    server.patch(&PODS, "n", "a", &json!({"metadata": {"finalizers": null}})).unwrap();
    assert!(server.get(&NAMESPACES, "", "n").is_none());
}

#[test]
fn a_deployment_s_whole_tree_goes_at_once() {
    let server = test_server();
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let top = server.create(&DEPLOYMENTS, "default", json!({"metadata": {"name": "top"}, "spec": spec})).unwrap();
    let mut middle = json!({"metadata": {"name": "web"}, "spec": spec});
    middle["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "top", "uid": top["metadata"]["uid"]}]);
    let middle = server.create(&REPLICA_SETS, "default", middle).unwrap();
    for at in 0..100 {
        server.create(&PODS, "default", owned(&format!("p{at}"), &middle, true)).unwrap();
    }
    server.delete(&DEPLOYMENTS, "default", "top", &DeleteOptions::default()).unwrap();
    assert!(server.list(&PODS).is_empty() && server.list(&REPLICA_SETS).is_empty());
}

#[test]
fn thousands_of_pods_go_with_their_namespace_or_owner() {
    let server = test_server();
    server.create(&NAMESPACES, "", json!({"metadata": {"name": "n"}})).unwrap();
    let owner = replica_set(&server, "web");
    for at in 0..3_000 {
        server.create(&PODS, "n", pod_value(&format!("p{at}"))).unwrap();
        server.create(&PODS, "default", owned(&format!("p{at}"), &owner, true)).unwrap();
    }
    server.delete(&NAMESPACES, "", "n", &DeleteOptions::default()).unwrap();
    assert!(server.get(&NAMESPACES, "", "n").is_none());
    delete(&server, Propagation::Foreground);
    assert!(server.get(&REPLICA_SETS, "default", "web").is_none());
    assert!(server.list(&PODS).is_empty());
}
