//! Reserved capacity: preferred, counted, fallen back from.
#![allow(clippy::unwrap_used)]

use crate::common;

use dovetail_core::pack::{Options, Packing, PlannedClaim, solve};
use dovetail_core::problem::Policy;
use dovetail_core::{Pod, Problem};
use serde_json::{Value, json};

const RESERVATION: &str = "karpenter.k8s.aws/capacity-reservation-id";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// A type that can be bought on demand and as spot in two zones, and of reservations: id, zone, instances left.
fn machine(name: &str, cpu: u32, reservations: &[(&str, &str, Option<u32>)]) -> Value {
    let price = f64::from(cpu) / 10.0;
    let mut offerings: Vec<Value> = ["zone-a", "zone-b"]
        .iter()
        .flat_map(|zone| [(zone, "on-demand", price), (zone, "spot", price / 3.0)])
        .map(|(zone, kind, price)| json!({"zone": zone, "capacityType": kind, "price": price, "available": true}))
        .collect();
    for (id, zone, left) in reservations {
        let mut offering = json!({
            "zone": zone, "capacityType": "reserved", "price": price / 1e7, "available": true,
            "requirements": [{"key": RESERVATION, "operator": "In", "values": [id]}],
        });
        if let Some(left) = left {
            offering["reservationCapacity"] = json!(left);
        }
        offerings.push(offering);
    }
    json!({
        "name": name,
        "capacity": {"cpu": cpu.to_string(), "memory": format!("{}Gi", 4 * cpu), "pods": "100"},
        "requirements": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
        ],
        "offerings": offerings,
    })
}

fn problem(pools: Value, types: &[Value], pods: &[Value]) -> Problem {
    let mut problem: Problem = serde_json::from_value(json!({
        "wellKnownLabels": [RESERVATION], "nodePools": pools, "instanceTypes": types, "pods": pods,
    }))
    .unwrap();
    for (at, pod) in problem.pods.iter_mut().enumerate() {
        pod.uid = format!("uid-{at:04}");
    }
    problem
}

fn pods(count: usize, cpu: &str, more: &Value) -> Vec<Value> {
    let pod = |at: usize| {
        let mut pod =
            json!({"name": format!("p{at:03}"), "labels": {"app": "a"}, "requests": {"cpu": cpu, "memory": "1Gi"}});
        pod.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod
    };
    (0..count).map(pod).collect()
}

fn plain(count: usize, cpu: &str) -> Vec<Value> {
    pods(count, cpu, &json!({}))
}

fn packed(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    assert_eq!(common::violations(problem, &packing), [""; 0]);
    packing
}

fn said(claim: &PlannedClaim, key: &str) -> Vec<String> {
    let said = claim.requirements.iter().find(|said| said.key == key);
    said.map(|said| said.values.clone()).unwrap_or_default()
}

/// Number of claims of each capacity type: reserved, spot, on demand.
fn kinds(packing: &Packing) -> [usize; 3] {
    ["reserved", "spot", "on-demand"]
        .map(|kind| packing.claims.iter().filter(|claim| claim.cheapest_capacity_type == kind).count())
}

#[test]
fn reservation_comes_before_spot_and_its_claim_is_pinned() {
    for policy in [Policy::Cost, Policy::FewestNodes] {
        let types = [machine("m1.small", 2, &[]), machine("m1.large", 8, &[("cr-1", "zone-b", Some(4))])];
        let problem = problem(json!([{"name": "p", "policy": policy}]), &types, &plain(1, "1"));
        let packing = packed(&problem);
        assert_eq!(kinds(&packing), [1, 0, 0], "{policy:?}");
        let claim = &packing.claims[0];
        assert_eq!(said(claim, CAPACITY_TYPE), ["reserved"]);
        assert_eq!(said(claim, RESERVATION), ["cr-1"]);
        assert_eq!(said(claim, "topology.kubernetes.io/zone"), ["zone-b"]);
        assert_eq!(said(claim, "node.kubernetes.io/instance-type"), ["m1.large"]);
    }
}

#[test]
fn reserved_instance_is_never_planned_twice_and_rest_is_bought() {
    for policy in [Policy::Cost, Policy::FewestNodes] {
        let types = [machine("m1.small", 2, &[]), machine("m1.large", 8, &[("cr-1", "zone-a", Some(3))])];
        // Two pools that see the same reservation, and pods for five of its nodes.
        let pools = json!([{"name": "a", "policy": policy, "limits": {"nodes": 2}}, {"name": "b", "policy": policy}]);
        let packing = packed(&problem(pools, &types, &plain(35, "1")));
        assert!(packing.unscheduled.is_empty());
        assert_eq!(kinds(&packing)[0], 3, "{policy:?}");
        let on_reserved = packing.claims.iter().filter(|one| one.cheapest_capacity_type == "reserved");
        assert_eq!(on_reserved.map(|claim| claim.pods.len()).sum::<usize>(), 24, "{policy:?}: the free nodes are full");
        assert_eq!(kinds(&packing)[2], 0, "what is bought is spot");
    }
}

#[test]
fn the_least_that_any_offering_says_is_what_a_reservation_has() {
    let mut types = [machine("m1.large", 8, &[("cr-1", "zone-a", Some(5))]), machine("m1.large", 8, &[])];
    types[1] = machine("m1.large", 8, &[("cr-1", "zone-a", Some(1))]);
    let pools = json!([{"name": "a", "instanceTypes": [0]}, {"name": "b", "weight": 1, "instanceTypes": [1]}]);
    let packing = packed(&problem(pools, &types, &plain(24, "1")));
    assert_eq!(kinds(&packing)[0], 1);
}

#[test]
fn several_reservations_are_used_up_one_after_the_other() {
    let types = [
        machine("m1.small", 2, &[("cr-s", "zone-a", Some(2))]),
        machine("m1.large", 8, &[("cr-l", "zone-b", Some(1)), ("cr-m", "zone-a", Some(1))]),
    ];
    let packing = packed(&problem(json!([{"name": "p"}]), &types, &plain(30, "1")));
    let mut held: Vec<String> = packing.claims.iter().flat_map(|claim| said(claim, RESERVATION)).collect();
    held.sort();
    assert_eq!(held, ["cr-l", "cr-m", "cr-s", "cr-s"]);
}

#[test]
fn reserved_only_pool_leaves_the_rest_over_with_a_reason() {
    let types = [machine("m1.large", 8, &[("cr-1", "zone-a", Some(2))])];
    let pools =
        json!([{"name": "p", "requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}]}]);
    let packing = packed(&problem(pools.clone(), &types, &plain(20, "1")));
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (2, 4));
    let reason = packing.unscheduled[0].1.to_string();
    assert!(reason.contains("nothing is left of capacity reservation cr-1"), "{reason}");
    let none = [machine("m1.large", 8, &[("cr-1", "zone-a", Some(0))])];
    let packing = packed(&problem(pools, &none, &plain(1, "1")));
    let reason = packing.unscheduled[0].1.to_string();
    assert!(reason.contains("nothing is available with karpenter.sh/capacity-type In [reserved]"), "{reason}");
}

#[test]
fn heavier_pool_gives_reserved_nodes_and_next_pool_the_rest() {
    let types = [machine("m1.large", 8, &[("cr-1", "zone-a", Some(1))])];
    let only = |kind: &str| json!([{"key": CAPACITY_TYPE, "operator": "In", "values": [kind]}]);
    let pools = json!([
        {"name": "reserved", "weight": 10, "requirements": only("reserved")}, {"name": "bought", "requirements": only("on-demand")},
    ]);
    let packing = packed(&problem(pools, &types, &plain(12, "1")));
    assert_eq!(kinds(&packing), [1, 0, 1]);
}

#[test]
fn pod_asking_for_reservation_id_gets_that_one_or_none() {
    let types = [machine("m1.large", 8, &[("cr-1", "zone-a", Some(1)), ("cr-2", "zone-b", Some(1))])];
    let asking = |id: &str| pods(1, "1", &json!({"nodeSelector": {RESERVATION: id}}));
    let packing = packed(&problem(json!([{"name": "p"}]), &types, &asking("cr-2")));
    assert_eq!(said(&packing.claims[0], RESERVATION), ["cr-2"]);
    let packing = packed(&problem(json!([{"name": "p"}]), &types, &asking("cr-3")));
    assert_eq!(packing.unscheduled.len(), 1);
}

#[test]
fn on_demand_pod_is_not_put_on_reserved_capacity() {
    let types = [machine("m1.large", 8, &[("cr-1", "zone-a", Some(1))])];
    let mut all = plain(4, "1");
    all.extend(pods(1, "1", &json!({"name": "bought", "nodeSelector": {CAPACITY_TYPE: "on-demand"}})));
    all[4]["name"] = json!("bought");
    let packing = packed(&problem(json!([{"name": "p"}]), &types, &all));
    assert_eq!(kinds(&packing), [1, 0, 1]);
}

#[test]
fn the_urgent_get_what_is_left_of_a_reservation() {
    let types = [machine("m1.large", 8, &[("cr-1", "zone-a", Some(1))])];
    let pools =
        json!([{"name": "p", "requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}]}]);
    let mut all = pods(8, "1", &json!({}));
    all.extend(pods(8, "500m", &json!({"priority": 100})));
    all[8..].iter_mut().enumerate().for_each(|(at, pod)| pod["name"] = json!(format!("urgent-{at}")));
    let problem = problem(pools, &types, &all);
    let packing = packed(&problem);
    let urgent = |pod: &usize| problem.pods[*pod].priority == 100;
    assert!(!packing.unscheduled.is_empty() && packing.unscheduled.iter().all(|(pod, _)| !urgent(pod)));
}

#[test]
fn min_values_keep_all_fitting_reservations_in_one_claim() {
    let types = [
        machine("m1.large", 8, &[("cr-1", "zone-a", Some(2))]),
        machine("m2.large", 8, &[("cr-2", "zone-a", Some(1))]),
    ];
    let pools = json!([{"name": "p", "requirements": [
        {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2}]}]);
    let packing = packed(&problem(pools, &types, &plain(14, "1")));
    // The second node cannot have both any more: cr-1 has one left, cr-2 none.
    assert_eq!(kinds(&packing), [1, 1, 0]);
    let claim = packing.claims.iter().find(|claim| claim.cheapest_capacity_type == "reserved").unwrap();
    assert_eq!(said(claim, RESERVATION), ["cr-1", "cr-2"]);
}

#[test]
fn pods_kept_together_take_a_reservation_that_holds_them_all() {
    let together = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}]}}});
    let types = [machine("m1.small", 2, &[("cr-1", "zone-a", Some(9))]), machine("m1.large", 8, &[])];
    let small = packed(&problem(json!([{"name": "p"}]), &types, &pods(2, "1", &together)));
    assert_eq!(kinds(&small), [1, 0, 0]);
    let large = packed(&problem(json!([{"name": "p"}]), &types, &pods(6, "1", &together)));
    assert_eq!((kinds(&large), large.unscheduled.len()), ([0, 1, 0], 0));
}

#[test]
fn pods_spread_over_zones_use_the_reservations_of_theirs() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}}}]});
    let types = [machine("m1.large", 8, &[("cr-1", "zone-a", Some(5))])];
    let packing = packed(&problem(json!([{"name": "p"}]), &types, &pods(16, "1", &spread)));
    assert_eq!(kinds(&packing), [1, 1, 0]);
}

#[test]
fn a_reservation_without_a_count_has_no_end() {
    let types = [machine("m1.large", 8, &[("cr-1", "zone-a", None)])];
    let packing = packed(&problem(json!([{"name": "p"}]), &types, &plain(80, "1")));
    assert_eq!(kinds(&packing), [10, 0, 0]);
}

#[test]
fn too_many_reservations_do_not_hide_what_can_be_bought() {
    let ids: Vec<String> = (0..300).map(|at| format!("cr-{at:03}")).collect();
    let reservations: Vec<_> = ids.iter().map(|id| (id.as_str(), "zone-a", Some(1))).collect();
    let types = [machine("m1.large", 8, &reservations)];
    let packing = packed(&problem(json!([{"name": "p"}]), &types, &plain(1600, "1")));
    assert!(packing.unscheduled.is_empty());
    assert!(kinds(&packing)[0] > 100 && kinds(&packing)[1] > 0, "{:?}", kinds(&packing));
}

#[test]
fn the_answer_does_not_depend_on_the_order_of_the_pods() {
    let types = [
        machine("m1.small", 2, &[("cr-s", "zone-a", Some(3))]),
        machine("m1.large", 8, &[("cr-l", "zone-b", Some(2))]),
    ];
    let mut all: Vec<Value> = plain(20, "1");
    all.extend((0..13).map(|at| json!({"name": format!("q{at}"), "requests": {"cpu": "1500m", "memory": "2Gi"}})));
    let problem = problem(json!([{"name": "p"}]), &types, &all);
    let mut reversed = problem.clone();
    reversed.pods.reverse();
    let named = |problem: &Problem, packing: &Packing| {
        let name = |pod: &usize| problem.pods[*pod].name.clone();
        let claim = |claim: &PlannedClaim| {
            let mut pods: Vec<String> = claim.pods.iter().map(name).collect();
            pods.sort();
            (pods, claim.requirements.clone())
        };
        packing.claims.iter().map(claim).collect::<Vec<_>>()
    };
    let same: Vec<Pod> = reversed.pods.iter().rev().cloned().collect();
    assert_eq!(same, problem.pods);
    assert_eq!(named(&problem, &packed(&problem)), named(&reversed, &packed(&reversed)));
}
