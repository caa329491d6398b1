//! The cases that the posts tell of, as packing problems.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::collections::BTreeMap;

use dovetail_core::pack::{Options, Packing, solve};
use dovetail_core::{ExistingNode, Problem};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const ZONES: [&str; 2] = ["eu-west-1a", "eu-west-1b"];

/// A type of the m5 or c5 family with what its kubelet keeps, on demand and as spot in both zones.
fn machine(name: &str, cpu: u32, gib: u32, pods: u32, price: f64) -> Value {
    let offering = |zone: &str, kind: &str, price: f64| json!({"zone": zone, "capacityType": kind, "price": price, "available": true});
    let offerings: Vec<Value> = ZONES
        .iter()
        .flat_map(|zone| [offering(zone, "on-demand", price), offering(zone, "spot", price / 3.0)])
        .collect();
    json!({"name": name, "capacity": {"cpu": cpu.to_string(), "memory": format!("{gib}Gi"), "pods": pods.to_string()},
        "overhead": {"kubeReserved": {"cpu": if cpu == 2 { "70m" } else { "90m" }, "memory": "893Mi"}},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}], "offerings": offerings})
}

fn problem(pods: Vec<Value>) -> Problem {
    let types = [
        machine("m5.large", 2, 8, 29, 0.107),
        machine("m5.xlarge", 4, 16, 58, 0.214),
        machine("m5.2xlarge", 8, 32, 58, 0.428),
        machine("c5.xlarge", 4, 8, 58, 0.192),
    ];
    let named = |(at, mut pod): (usize, Value)| {
        pod["name"] = json!(format!("inflate-{at}"));
        pod["uid"] = json!(format!("u{at:04}"));
        pod["labels"] = json!({"app": "inflate"});
        pod
    };
    let pods: Vec<Value> = pods.into_iter().enumerate().map(named).collect();
    serde_json::from_value(json!({"nodePools": [{"name": "default"}], "instanceTypes": types, "pods": pods})).unwrap()
}

/// The six nodes beforehand, three in each zone, with room for so many thousandths of a core.
fn six_nodes(problem: &mut Problem, cpu: i64) {
    let node = |at: usize| -> ExistingNode {
        serde_json::from_value(
            json!({"name": format!("node-{at}"), "initialized": true, "labels": {ZONE: ZONES[at % 2]},
            "allocatable": {"cpu": format!("{cpu}m"), "memory": "7Gi", "pods": "29"}}),
        )
        .unwrap()
    };
    problem.existing_nodes = (0..6).map(node).collect();
}

fn packed(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    assert_eq!(common::violations(problem, &packing), [""; 0]);
    packing
}

/// Number of pods that each zone gets, on nodes there and new ones.
fn by_zone(problem: &Problem, packing: &Packing) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for claim in &packing.claims {
        *counts.entry(claim.cheapest_zone.clone()).or_insert(0) += claim.pods.len();
    }
    for (node, pods) in &packing.on_existing {
        *counts.entry(problem.existing_nodes[*node].labels[ZONE].clone()).or_insert(0) += pods.len();
    }
    counts
}

fn inflate(key: &str, strength: &str) -> Value {
    let term = json!({"topologyKey": ZONE, "labelSelector": {"matchExpressions": [
        {"key": "app", "operator": "In", "values": ["inflate"]}]}});
    let term = if strength.starts_with("preferred") { json!({"weight": 50, "podAffinityTerm": term}) } else { term };
    json!({"requests": {"cpu": "1"}, "affinity": {key: {strength: [term]}}})
}

/// 001: eight pods that have to be in one zone, six nodes.
#[test]
fn required_zone_affinity_gathers_pods_on_existing_nodes_first() {
    let mut problem = problem(vec![inflate("podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"); 8]);
    six_nodes(&mut problem, 1100);
    // The naive check of the test folder knows match labels only.
    let packing = solve(&problem, &Options::default());
    assert!(packing.unscheduled.is_empty());
    assert_eq!(by_zone(&problem, &packing).into_values().collect::<Vec<_>>(), [8], "all in one zone");
    assert_eq!(packing.on_existing.len(), 3, "the three nodes of that zone take one each");
    assert_eq!(
        packing.claims.iter().map(|claim| claim.pods.len()).collect::<Vec<_>>(),
        [5],
        "the rest on one new node"
    );
}

/// 001: eight pods that would rather be apart, six nodes.
#[test]
fn preferred_zone_anti_affinity_opens_at_most_one_node() {
    let mut problem = problem(vec![inflate("podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"); 8]);
    six_nodes(&mut problem, 1100);
    let packing = solve(&problem, &Options::default());
    assert!(packing.unscheduled.is_empty());
    assert_eq!(packing.on_existing.len(), 6, "each node there takes one");
    assert!(packing.claims.len() <= 1, "{}", packing.claims.len());
}

/// The same once kube-scheduler has put six of them on the nodes there: where a zone without any is not the cheapest.
#[test]
fn two_that_would_rather_be_apart_share_the_one_new_node() {
    let mut problem = problem(vec![inflate("podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"); 8]);
    for one in problem.instance_types.iter_mut().map(std::sync::Arc::make_mut) {
        for mut offering in one.offerings.clone().into_iter().filter(|offering| offering.zone == ZONES[0]) {
            (offering.zone, offering.price) = ("eu-west-1c".into(), offering.price * 1.1);
            one.offerings.push(offering);
        }
    }
    six_nodes(&mut problem, 1100);
    for (node, pod) in problem.existing_nodes.iter_mut().zip(problem.pods.split_off(2)) {
        node.used = pod.requests.clone();
        node.pods.push(pod.into());
    }
    let packing = solve(&problem, &Options::default());
    assert!(packing.unscheduled.is_empty() && packing.on_existing.is_empty());
    assert_eq!(by_zone(&problem, &packing), BTreeMap::from([("eu-west-1c".to_owned(), 2)]));
    assert_eq!(packing.claims.len(), 1);
}

/// 001: the StatefulSet of twenty, bound to a zone by its node affinity, with volumes there.
#[test]
fn the_stateful_set_stays_in_its_zone_with_its_volumes() {
    let within = |zone: &str| json!([{"key": ZONE, "operator": "In", "values": [zone]}]);
    let pod = json!({"requests": {"cpu": "500m", "memory": "512Mi", "attachable-volumes-csi-ebs.csi.aws.com": "1"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": within("eu-west-1a")}]}}},
        "volumeTopology": [within("eu-west-1a")]});
    let mut problem = problem(vec![pod; 20]);
    six_nodes(&mut problem, 600);
    let packing = packed(&problem);
    assert!(packing.unscheduled.is_empty());
    assert_eq!(by_zone(&problem, &packing), BTreeMap::from([("eu-west-1a".to_owned(), 20)]));
    assert_eq!(packing.on_existing.len(), 3);
}

fn inflate_400(when: &str) -> Problem {
    let spread = json!({"topologyKey": HOST, "maxSkew": 30, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "inflate"}}});
    let pod = json!({"requests": {"cpu": "250m", "memory": "256Mi"}, "topologySpreadConstraints": [spread]});
    let mut problem = problem(vec![pod; 400]);
    let types =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.2xlarge"]}]);
    problem.node_pools[0].requirements = serde_json::from_value(types).unwrap();
    problem
}

/// 003: the answer to one huge node, m5.large and m5.2xlarge with a spread over hosts.
#[test]
fn max_skew_of_thirty_gives_about_fifteen_nodes_for_400_pods() {
    for when in ["ScheduleAnyway", "DoNotSchedule"] {
        let packing = packed(&inflate_400(when));
        assert!(packing.unscheduled.is_empty());
        assert!((13..=17).contains(&packing.claims.len()), "{when}: {}", packing.claims.len());
        assert!(packing.claims.iter().all(|claim| claim.pods.len() <= 30), "{when}");
    }
}

#[test]
fn soft_spread_gives_way_where_limits_leave_too_few_nodes() {
    let mut soft = inflate_400("ScheduleAnyway");
    soft.pods.truncate(31);
    soft.node_pools[0].limits.set("nodes", 1);
    let packing = packed(&soft);
    assert!(packing.unscheduled.is_empty(), "{}", packing.unscheduled[0].1);
    let mut hard = inflate_400("DoNotSchedule");
    hard.pods.truncate(31);
    hard.node_pools[0].limits.set("nodes", 1);
    assert_eq!(packed(&hard).unscheduled.len(), 1);
}

/// 001's Provisioner has limits: growth stops at them, and the pods left over are told so.
#[test]
fn limits_stop_growth_with_a_reason() {
    let mut problem = problem(vec![json!({"requests": {"cpu": "1"}}); 30]);
    problem.node_pools[0].limits.set("cpu", 16_000);
    let packing = packed(&problem);
    assert!(!packing.unscheduled.is_empty() && !packing.claims.is_empty());
    let told = packing.unscheduled[0].1.to_string();
    assert!(told.starts_with("pool default: limit of 16 cpu reached: "), "{told}");
}
