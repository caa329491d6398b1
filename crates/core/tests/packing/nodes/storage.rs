//! Volumes, namespaces and StatefulSets of the cluster state in the packing problem that it makes.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use dovetail_core::cluster_state::{ClusterState, Planning, PlanningInput, WatchedKind};
use dovetail_core::pack::{Options, solve};
use dovetail_core::{InstanceType, Pod};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const EBS: &str = "attachable-volumes-csi-ebs.csi.aws.com";

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, node: &str, claims: &[&str]) -> k8s_openapi::api::core::v1::Pod {
    let volumes: Vec<Value> =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})).collect();
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}], "volumes": volumes},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({"phase": "Running"});
    }
    read(pod)
}

fn stateful(name: &str, claims: &[&str]) -> k8s_openapi::api::core::v1::Pod {
    let mut pod = pod(name, "", claims);
    let set = name.rsplit_once('-').unwrap().0;
    pod.metadata.owner_references =
        Some(vec![read(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": "s"}))]);
    pod
}

fn node(name: &str) -> Node {
    let amounts = json!({"cpu": "8", "memory": "16Gi", "pods": "58"});
    read(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {ZONE: "zone-a"}},
        "spec": {"providerID": format!("aws:///zone-a/i-{name}")},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

/// A claim bound to a volume in a zone.
fn bound(state: &mut ClusterState, name: &str, zone: &str) {
    state.apply(&read::<PersistentVolumeClaim>(json!({
        "metadata": {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": format!("pv-{name}"), "storageClassName": "gp3"}})));
    state.apply(&read::<PersistentVolume>(json!({
        "metadata": {"name": format!("pv-{name}")},
        "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [zone]}]}]}}}})));
}

fn unbound(state: &mut ClusterState, name: &str) {
    state.apply(&read::<PersistentVolumeClaim>(json!({
        "metadata": {"name": name, "namespace": "default"}, "spec": {"storageClassName": "gp3"}})));
}

fn state() -> ClusterState {
    let mut state = ClusterState::new();
    let class = json!({"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"});
    state.apply(&read::<StorageClass>(class));
    state.apply_pool(read(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })));
    state
}

fn planning(state: &ClusterState) -> Planning {
    let types: Vec<Arc<InstanceType>> = [2, 4, 8, 16]
        .iter()
        .map(|cpu| {
            let offering = |zone: &str| json!({"zone": zone, "capacityType": "on-demand", "price": f64::from(*cpu) * 0.05, "available": true});
            Arc::new(read(json!({
                "name": format!("m.{cpu}"), "capacity": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "58"},
                "requirements": [], "offerings": [offering("zone-a"), offering("zone-b")]})))
        })
        .collect();
    let instance_types = [("default".to_owned(), Arc::new(types))].into();
    state.snapshot().planning(&PlanningInput { instance_types, ..PlanningInput::default() })
}

fn planned(planning: &Planning, name: &str) -> Pod {
    planning.problem.pods.iter().find(|pod| pod.name == name).unwrap().clone()
}

#[test]
fn waiting_pod_brings_zone_and_attachment_of_its_volumes() {
    let mut state = state();
    bound(&mut state, "data", "zone-b");
    unbound(&mut state, "scratch");
    state.apply_pod(&pod("db", "", &["data", "scratch"])).unwrap();
    let planning = planning(&state);
    let db = planned(&planning, "db");
    assert_eq!(db.requests.get(EBS), 2);
    assert_eq!(db.volume_topology.len(), 1);
    assert_eq!(solve(&planning.problem, &Options::default()).claims[0].cheapest_zone, "zone-b");
}

#[test]
fn a_pod_waits_with_the_reason_until_its_claim_is_there() {
    let mut state = state();
    state.apply_pod(&pod("db", "", &["data"])).unwrap();
    let told = |state: &ClusterState| planned(&planning(state), "db").blocked;
    assert_eq!(told(&state).unwrap(), "PersistentVolumeClaim default/data is not there");
    unbound(&mut state, "data");
    assert_eq!(told(&state), None);
    state.list_begins(WatchedKind::PersistentVolumeClaim);
    state.list_ends(WatchedKind::PersistentVolumeClaim);
    assert!(told(&state).is_some(), "a list that does not have the claim forgets it");
}

#[test]
fn nodes_count_each_volume_once_against_what_their_driver_says() {
    let mut state = state();
    state.apply_node(&node("n"));
    state.apply(&read::<CSINode>(json!({"metadata": {"name": "n"}, "spec": {"drivers": [
        {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 3}}]}})));
    for name in ["shared", "own"] {
        bound(&mut state, name, "zone-a");
    }
    state.apply_pod(&pod("a", "n", &["shared", "own"])).unwrap();
    state.apply_pod(&pod("b", "n", &["shared"])).unwrap();
    for name in ["x", "y"] {
        unbound(&mut state, name);
        state.apply_pod(&pod(name, "", &[name])).unwrap();
    }
    state.apply_pod(&pod("c", "", &["shared"])).unwrap();
    let planning = planning(&state);
    let there = &planning.problem.existing_nodes[0];
    assert_eq!((there.allocatable.get(EBS), there.used.get(EBS)), (3, 2));
    assert_eq!(planned(&planning, "c").requests.find(EBS), None, "its volume is attached already");
    let packing = solve(&planning.problem, &Options::default());
    assert_eq!(packing.on_existing[0].1.len(), 2, "one of x and y, and c");
    assert_eq!(packing.claims.len(), 1);
}

#[test]
fn volume_shared_by_waiting_pods_counts_once_on_their_node() {
    let mut state = state();
    state.apply_node(&node("n"));
    state.apply(&read::<CSINode>(json!({"metadata": {"name": "n"}, "spec": {"drivers": [
        {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 2}}]}})));
    bound(&mut state, "shared", "zone-a");
    for name in ["a", "b", "c"] {
        bound(&mut state, name, "zone-a");
        state.apply_pod(&pod(name, "", &["shared", name])).unwrap();
    }
    let planning = planning(&state);
    let one = planned(&planning, "a");
    assert_eq!((one.requests.get(EBS), one.shared_volumes.get("pv-shared").map(String::as_str)), (1, Some(EBS)));
    let packing = solve(&planning.problem, &Options::default());
    assert_eq!(packing.on_existing[0].1.len(), 1, "the shared volume takes one of the two");
}

#[test]
fn namespaces_are_known_with_their_labels() {
    let mut state = state();
    let namespace: Namespace = read(json!({"metadata": {"name": "store", "labels": {"team": "data"}}}));
    assert!(state.apply(&namespace));
    assert!(!state.apply(&namespace), "what is known already is no news");
    let known = &planning(&state).problem.namespaces;
    assert_eq!((known[0].name.as_str(), known[0].labels["team"].as_str()), ("store", "data"));
    assert!(state.delete(&namespace));
    assert!(planning(&state).problem.namespaces.is_empty());
}

fn set(policy: &str, replicas: u32) -> StatefulSet {
    read(
        json!({"metadata": {"name": "db", "namespace": "default"}, "spec": {"replicas": replicas, "podManagementPolicy": policy,
        "selector": {}, "serviceName": "db", "template": {}}}),
    )
}

#[test]
fn ordinals_to_come_of_an_ordered_set_get_room_but_no_answer() {
    let mut state = state();
    unbound(&mut state, "data-db-1");
    state.apply_pod(&stateful("db-1", &["data-db-1"])).unwrap();
    let alone = solve(&planning(&state).problem, &Options::default());
    state.apply(&set("OrderedReady", 9));
    let planning_now = planning(&state);
    assert_eq!(planning_now.problem.pods.len(), 8, "db-1, and db-2 to db-8");
    let next = planned(&planning_now, "db-2");
    assert!(next.to_come && next.requests.get(EBS) == 1);
    let packing = solve(&planning_now.problem, &Options::default());
    assert_eq!(packing.claims.len(), 1);
    assert_eq!(packing.claims[0].pods, [0], "only the pod that waits");
    assert!(packing.claims[0].requests.get("cpu") > alone.claims[0].requests.get("cpu"), "room for those to come");
    state.apply(&set("Parallel", 9));
    assert_eq!(planning(&state).problem.pods.len(), 1, "all pods of a parallel set are there at once");
}

#[test]
fn what_is_to_come_takes_nothing_from_what_waits() {
    let mut state = state();
    state.apply_node(&node("n"));
    state.apply(&set("OrderedReady", 30));
    state.apply_pod(&stateful("db-0", &[])).unwrap();
    for at in 0..15 {
        state.apply_pod(&pod(&format!("web-{at}"), "", &[])).unwrap();
    }
    let planning = planning(&state);
    assert_eq!(planning.problem.pods.len(), 16 + 20, "no more than twenty to come are thought of");
    let packing = solve(&planning.problem, &Options::default());
    assert_eq!(packing.on_existing[0].1.len(), 16, "all that wait fit on the node that is there");
    assert!(packing.claims.is_empty() && packing.unscheduled.is_empty());
}

/// Seed 25564: two pods of a set of 21 waited after their nodes had gone, and each was followed by the same eighteen.
#[test]
fn what_is_to_come_counts_once_though_several_of_its_set_wait() {
    let mut state = state();
    state.apply(&set("OrderedReady", 9));
    for name in ["db-1", "db-4", "db-5"] {
        state.apply_pod(&stateful(name, &[])).unwrap();
    }
    let planning = planning(&state);
    let mut names: Vec<&str> = planning.problem.pods.iter().map(|pod| pod.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["db-1", "db-2", "db-3", "db-4", "db-5", "db-6", "db-7", "db-8"]);
}

#[test]
fn state_is_synced_only_after_each_kind_has_been_listed() {
    let mut state = ClusterState::new();
    for kind in WatchedKind::ALL {
        assert!(!state.synced(), "{kind:?}");
        state.list_begins(kind);
        state.list_ends(kind);
    }
    assert!(state.synced());
}
