//! Default spread constraints: whom they are given to, and by what selector.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use dovetail_core::cluster_state::{ClusterState, PlanningInput, WatchedKind};
use dovetail_core::pack::{Options, solve};
use dovetail_core::{InstanceType, Problem};
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController, Service, TopologySpreadConstraint};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, owner: Option<(&str, &str, &str)>, constraints: Value) -> Pod {
    let owners: Vec<Value> = owner
        .iter()
        .map(|(version, kind, name)| json!({"apiVersion": version, "kind": kind, "name": name, "uid": "o", "controller": true}))
        .collect();
    read(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": "web", "tier": "front"},
            "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}], "topologySpreadConstraints": constraints},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }))
}

fn service(name: &str, namespace: &str, selector: Value) -> Service {
    read(json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}))
}

fn replica_set(name: &str) -> ReplicaSet {
    read(
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "Exists"}]}}}),
    )
}

const OF_SET: Option<(&str, &str, &str)> = Some(("apps/v1", "ReplicaSet", "web"));

fn state() -> ClusterState {
    let mut state = ClusterState::new();
    state.apply_pool(read(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}}}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})));
    state
}

/// The problem under defaults that spread over zones.
fn problem(state: &ClusterState, when: &str) -> Problem {
    let offerings: Vec<Value> = ["a", "b", "c"]
        .iter()
        .map(|zone| json!({"zone": zone, "capacityType": "on-demand", "price": 0.4, "available": true}))
        .collect();
    let one: InstanceType = read(json!({"name": "m1.4", "capacity": {"cpu": "4", "memory": "8Gi", "pods": "100"},
        "requirements": [], "offerings": offerings}));
    let default_spread: Vec<TopologySpreadConstraint> =
        read(json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when}]));
    let instance_types = [("c".to_owned(), Arc::new(vec![Arc::new(one)]))].into();
    let input = PlanningInput { instance_types, default_spread, ..PlanningInput::default() };
    Problem::clone(&state.snapshot().planning(&input).problem)
}

/// The selector of the first pod's only constraint, as JSON.
fn selector(state: &ClusterState) -> Option<Value> {
    let problem = problem(state, "DoNotSchedule");
    let [constraint] = problem.pods[0].topology_spread_constraints.as_slice() else { return None };
    Some(serde_json::to_value(&constraint.label_selector).unwrap())
}

#[test]
fn default_selector_joins_services_and_replica_set_of_the_pod() {
    let mut state = state();
    state.apply_pod(&pod("a", OF_SET, json!([]))).unwrap();
    assert_eq!(selector(&state), None, "nothing is known of it");
    state.apply(&service("web", "default", json!({"app": "web"})));
    state.apply(&service("front", "default", json!({"tier": "front"})));
    state.apply(&service("other", "default", json!({"app": "web", "tier": "back"})));
    state.apply(&service("elsewhere", "store", json!({"app": "web", "x": "y"})));
    state.apply(&service("none", "default", json!({})));
    assert_eq!(selector(&state).unwrap(), json!({"matchLabels": {"app": "web", "tier": "front"}}));
    state.apply(&replica_set("web"));
    let both = json!([{"key": "app", "operator": "In", "values": ["web"]}, {"key": "tier", "operator": "Exists"}]);
    assert_eq!(
        selector(&state).unwrap(),
        json!({"matchLabels": {"app": "web", "tier": "front"}, "matchExpressions": both})
    );
    for name in ["web", "front"] {
        state.delete(&service(name, "default", json!({})));
    }
    assert_eq!(selector(&state).unwrap(), json!({"matchExpressions": both}));
    state.list_begins(WatchedKind::ReplicaSet);
    state.list_ends(WatchedKind::ReplicaSet);
    assert_eq!(selector(&state), None, "a list without the ReplicaSet forgets it");
}

#[test]
fn stateful_sets_and_replication_controllers_select_jobs_do_not() {
    let select = |owner: (&str, &str, &str)| {
        let mut state = state();
        state.apply_pod(&pod("a-0", Some(owner), json!([]))).unwrap();
        state.apply(&read::<StatefulSet>(json!({"metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "serviceName": "web", "template": {}}})));
        state.apply(&read::<ReplicationController>(json!({"metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"tier": "front"}}})));
        selector(&state)
    };
    let of_set = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]});
    assert_eq!(select(("apps/v1", "StatefulSet", "web")).unwrap(), of_set);
    assert_eq!(select(("v1", "ReplicationController", "web")).unwrap(), json!({"matchLabels": {"tier": "front"}}));
    assert_eq!(select(("batch/v1", "Job", "web")), None);
}

#[test]
fn a_pod_with_constraints_of_its_own_keeps_them_alone() {
    let mut state = state();
    state.apply(&replica_set("web"));
    let own = json!([{"maxSkew": 9, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]);
    state.apply_pod(&pod("a", OF_SET, own)).unwrap();
    let problem = problem(&state, "DoNotSchedule");
    assert_eq!(problem.pods[0].topology_spread_constraints.len(), 1);
    assert_eq!(problem.pods[0].topology_spread_constraints[0].max_skew, 9);
}

#[test]
fn replica_set_pods_spread_over_zones_only_where_defaults_say() {
    let mut state = state();
    state.apply(&replica_set("web"));
    for at in 0..6 {
        state.apply_pod(&pod(&format!("p{at}"), OF_SET, json!([]))).unwrap();
    }
    for when in ["DoNotSchedule", "ScheduleAnyway"] {
        let packing = solve(&problem(&state, when), &Options::default());
        let mut zones: Vec<&str> = packing.claims.iter().map(|claim| claim.cheapest_zone.as_str()).collect();
        zones.sort_unstable();
        assert_eq!(zones, ["a", "b", "c"], "{when}");
    }
    let mut plain = problem(&state, "DoNotSchedule");
    plain.pods.iter_mut().for_each(|pod| pod.topology_spread_constraints.clear());
    assert_eq!(solve(&plain, &Options::default()).claims.len(), 1, "six of them fit on one node");
}
