//! Places of pods that are spread over zones, on nodes that all leave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::Problem;
use crate::cluster_state::ClusterState;
use crate::requirements::{NodeSelectorRequirement, Operator};

const ZONE: &str = "topology.kubernetes.io/zone";

/// A cluster with a node in each of two zones, and these pods on them: name, zone, `whenUnsatisfiable`.
fn cluster(pods: &[(&str, &str, &str)]) -> Snapshot {
    let mut state = ClusterState::new();
    for zone in ["a", "b"] {
        let node =
            json!({"metadata": {"name": zone, "uid": zone, "labels": {ZONE: zone}}, "spec": {"providerID": zone}});
        state.apply_node(&serde_json::from_value(node).unwrap());
    }
    for (name, zone, unless) in pods {
        let spread = json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": unless, "labelSelector": {"matchLabels": {"app": "web"}}}]);
        let pod: Value = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web", ZONE: zone}},
            "spec": {"nodeName": zone, "containers": [{"name": "c"}], "topologySpreadConstraints": spread},
            "status": {"phase": "Running"}});
        state.apply_pod(&serde_json::from_value(pod).unwrap()).unwrap();
    }
    state.snapshot()
}

fn claim(zone: &str, pods: &[usize]) -> PlannedClaim {
    let zone = NodeSelectorRequirement {
        key: ZONE.into(),
        operator: Operator::In,
        values: vec![zone.into()],
        min_values: None,
    };
    PlannedClaim {
        pool: 0,
        pods: pods.to_vec(),
        requests: crate::Resources::new(),
        requirements: vec![zone],
        min_values_relaxed: false,
        options: Vec::new(),
        too_dear: 0,
        cheapest_zone: String::new(),
        cheapest_capacity_type: String::new(),
        price: 0.0,
    }
}

/// The places of the pods after the exchange: for each planned node, its pods in the order of their names.
fn planned(pods: &[(&str, &str, &str)], claims: &[(&str, &[usize])]) -> Vec<Vec<String>> {
    let snapshot = cluster(pods);
    let all = pods.iter().map(|(name, ..)| Pod::clone(&snapshot.pods[*name].pod)).collect();
    let problem = Arc::new(Problem { pods: all, ..Problem::default() });
    let planning = Planning { problem, ..Planning::default() };
    let mut packing =
        Packing { claims: claims.iter().map(|(zone, pods)| claim(zone, pods)).collect(), ..Packing::default() };
    stay(&snapshot, &planning, &mut packing);
    let names = |claim: &PlannedClaim| {
        let mut names: Vec<String> = claim.pods.iter().map(|pod| pods[*pod].0.to_owned()).collect();
        names.sort_unstable();
        names
    };
    packing.claims.iter().map(names).collect()
}

const HARD: &str = "DoNotSchedule";

#[test]
fn pods_that_are_alike_have_their_places_in_their_own_zones() {
    let pods = [("a1", "a", HARD), ("a2", "a", HARD), ("b1", "b", HARD), ("b2", "b", HARD)];
    assert_eq!(planned(&pods, &[("a", &[2, 3]), ("b", &[0, 1])]), [["a1", "a2"], ["b1", "b2"]]);
    assert_eq!(planned(&pods, &[("b", &[0, 3]), ("a", &[1, 2])]), [["b1", "b2"], ["a1", "a2"]]);
}

#[test]
fn each_place_is_given_once_where_a_zone_has_too_few_places() {
    let pods = [("a1", "a", HARD), ("a2", "a", HARD), ("b1", "b", HARD)];
    let planned = planned(&pods, &[("b", &[0, 1]), ("c", &[2])]);
    assert_eq!(planned.iter().map(|names| names.join(" ")).collect::<Vec<_>>(), ["a1 b1", "a2"]);
}

#[test]
fn pods_that_nothing_binds_to_a_zone_keep_their_places() {
    let soft = [("a1", "a", "ScheduleAnyway"), ("b1", "b", "ScheduleAnyway")];
    assert_eq!(planned(&soft, &[("b", &[0]), ("a", &[1])]), [["a1"], ["b1"]]);
}
