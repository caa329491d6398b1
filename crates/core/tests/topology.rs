//! Rules between pods, one claim a test.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, solve};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn problem(pods: Vec<Value>) -> Problem {
    let offering =
        |zone: &str, price: f64| json!({"zone": zone, "capacityType": "on-demand", "price": price, "available": true});
    let types: Vec<Value> = [2, 8]
        .iter()
        .map(|cpu| {
            let price = f64::from(*cpu) / 10.0;
            json!({
                "name": format!("m1.{cpu}"), "capacity": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "100"},
                "requirements": [],
                "offerings": [offering("zone-a", price), offering("zone-b", price * 1.1), offering("zone-c", price * 1.2)],
            })
        })
        .collect();
    let pods: Vec<Value> = pods
        .into_iter()
        .enumerate()
        .map(|(at, mut pod)| {
            pod["name"] = json!(format!("p{at}"));
            pod["uid"] = json!(format!("u{at:04}"));
            pod
        })
        .collect();
    serde_json::from_value(json!({"nodePools": [{"name": "p"}], "instanceTypes": types, "pods": pods})).unwrap()
}

fn app(name: &str, more: Value) -> Value {
    let mut pod = json!({"labels": {"app": name}, "requests": {"cpu": "500m"}});
    for (key, value) in more.as_object().unwrap() {
        pod[key] = value.clone();
    }
    pod
}

fn spread(name: &str, key: &str, skew: u32) -> Value {
    json!({"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}}}]})
}

fn term(kind: &str, name: &str, key: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}}]}}})
}

fn packed(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    assert_eq!(common::violations(problem, &packing), [""; 0]);
    packing
}

fn by_zone(packing: &Packing) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for claim in &packing.claims {
        *counts.entry(claim.cheapest_zone.clone()).or_insert(0) += claim.pods.len();
    }
    counts
}

fn node(name: &str, zone: &str, pods: Vec<Value>) -> dovetail_core::ExistingNode {
    serde_json::from_value(json!({"name": name, "initialized": true, "labels": {ZONE: zone},
        "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "100"}, "pods": pods}))
    .unwrap()
}

#[test]
fn a_zone_spread_is_even_and_pins_the_zone() {
    let packing = packed(&problem(vec![app("web", spread("web", ZONE, 1)); 30]));
    assert!(packing.unscheduled.is_empty());
    assert_eq!(by_zone(&packing).into_values().collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn a_zone_spread_counts_pods_that_are_there() {
    let mut problem = problem(vec![app("web", spread("web", ZONE, 1)); 3]);
    let mut there = app("web", json!({}));
    there["name"] = json!("old");
    problem.existing_nodes = vec![node("n", "zone-a", vec![there])];
    problem.existing_nodes[0].allocatable.set("cpu", 0);
    assert_eq!(
        by_zone(&packed(&problem)),
        BTreeMap::from([("zone-b".to_owned(), 1), ("zone-c".to_owned(), 1), ("zone-a".to_owned(), 1)])
    );
}

#[test]
fn a_host_spread_caps_what_a_node_holds() {
    let packing = packed(&problem(vec![app("web", spread("web", HOST, 3)); 12]));
    assert!(packing.claims.iter().all(|claim| claim.pods.len() <= 3));
    assert!(packing.unscheduled.is_empty());
}

#[test]
fn anti_affinity_keeps_one_a_host_and_lets_others_in() {
    let mut pods = vec![app("db", term("podAntiAffinity", "db", HOST)); 4];
    pods.extend(vec![app("web", json!({})); 8]);
    let packing = packed(&problem(pods));
    assert!(packing.unscheduled.is_empty());
    assert!((4..=5).contains(&packing.claims.len()), "{}", packing.claims.len());
}

#[test]
fn anti_affinity_binds_the_pods_it_names_too() {
    let pods = vec![app("db", term("podAntiAffinity", "web", HOST)), app("web", json!({})), app("web", json!({}))];
    let packing = packed(&problem(pods));
    assert_eq!(packing.claims.len(), 2);
}

#[test]
fn anti_affinity_of_a_pod_that_is_there_keeps_others_off_its_node() {
    let mut problem = problem(vec![app("web", json!({}))]);
    let mut old = app("db", term("podAntiAffinity", "web", HOST));
    old["name"] = json!("old");
    problem.existing_nodes = vec![node("n", "zone-a", vec![old])];
    let packing = packed(&problem);
    assert!(packing.on_existing.is_empty());
    assert_eq!(packing.claims.len(), 1);
}

#[test]
fn zone_anti_affinity_leaves_the_fourth_of_three_zones_pending_with_a_reason() {
    let packing = packed(&problem(vec![app("db", term("podAntiAffinity", "db", ZONE)); 4]));
    assert_eq!(by_zone(&packing).len(), 3);
    let told = packing.unscheduled[0].1.to_string();
    assert_eq!(told, format!("pool p: no domain is left by required pod anti-affinity by {ZONE}"));
}

#[test]
fn zone_affinity_gathers_in_one_zone_existing_nodes_first() {
    let pods = vec![app("web", term("podAffinity", "web", ZONE)); 8];
    let packing = packed(&problem(pods.clone()));
    assert_eq!(by_zone(&packing).into_iter().collect::<Vec<_>>(), [("zone-a".to_owned(), 8)]);
    let mut problem = problem(pods);
    problem.existing_nodes = vec![node("n", "zone-c", vec![])];
    problem.existing_nodes[0].allocatable.set("cpu", 1000);
    let packing = packed(&problem);
    assert_eq!(packing.on_existing[0].1.len(), 2);
    assert_eq!(by_zone(&packing).into_iter().collect::<Vec<_>>(), [("zone-c".to_owned(), 6)]);
}

#[test]
fn affinity_to_nobody_waits_and_says_so() {
    let packing = packed(&problem(vec![app("web", term("podAffinity", "db", ZONE))]));
    assert!(packing.unscheduled[0].1.to_string().contains("finds no pod to join"));
}

#[test]
fn affinity_follows_pods_that_are_placed_later() {
    let mut follower = app("web", term("podAffinity", "db", ZONE));
    follower["requests"] = json!({"cpu": "1"});
    let packing = packed(&problem(vec![follower, app("db", json!({"nodeSelector": {ZONE: "zone-b"}}))]));
    assert!(packing.unscheduled.is_empty());
    assert_eq!(by_zone(&packing).into_keys().collect::<Vec<_>>(), ["zone-b"]);
}

#[test]
fn host_ports_are_taken_once_a_node() {
    let packing = packed(&problem(vec![app("proxy", json!({"hostPorts": [{"port": 80}]})); 3]));
    assert_eq!(packing.claims.len(), 3);
}

#[test]
fn soft_rules_are_given_up() {
    let soft = json!({"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}], "nodeSelector": {ZONE: "zone-a"}});
    assert!(packed(&problem(vec![app("web", soft); 5])).unscheduled.is_empty());
}

#[test]
fn a_rule_by_an_unknown_key_is_never_broken_silently() {
    let packing = packed(&problem(vec![app("web", spread("web", "rack", 1))]));
    assert!(packing.unscheduled[0].1.to_string().contains("topology key rack is not supported yet"));
}
