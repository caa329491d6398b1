//! A mere preference of pods opens no node that kube-scheduler would leave empty, as it binds on the first node that is ready.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common;
use crate::made;

use std::collections::BTreeMap;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, solve};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

fn problem(pods: Vec<Value>) -> Problem {
    let offering =
        |zone: &str, price: f64| json!({"zone": zone, "capacityType": "on-demand", "price": price, "available": true});
    let one = |cpu: &u32| {
        let price = f64::from(*cpu) / 10.0;
        json!({"name": format!("m1.{cpu}"), "capacity": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "100"},
            "requirements": [],
            "offerings": [offering("zone-a", price), offering("zone-b", price), offering("zone-c", price)]})
    };
    let named = |(at, mut pod): (usize, Value)| {
        (pod["name"], pod["uid"]) = (json!(format!("p{at}")), json!(format!("u{at:04}")));
        pod
    };
    let pods: Vec<Value> = pods.into_iter().enumerate().map(named).collect();
    let types: Vec<Value> = [2, 8].iter().map(one).collect();
    serde_json::from_value(json!({"nodePools": [{"name": "p"}], "instanceTypes": types, "pods": pods})).unwrap()
}

fn app(name: &str, cpu: &str, more: &Value) -> Value {
    let mut pod = json!({"labels": {"app": name}, "requests": {"cpu": cpu}});
    more.as_object().into_iter().flatten().for_each(|(key, value)| pod[key] = value.clone());
    pod
}

fn packed(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    assert_eq!(common::violations(problem, &packing), [""; 0]);
    assert!(packing.unscheduled.is_empty());
    packing
}

fn in_zone_a() -> Value {
    json!({"nodeSelector": {ZONE: "zone-a"}})
}

fn would_rather(zone: &str) -> Value {
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50,
        "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}}]}}})
}

fn spread(app: &str, when: &str) -> Value {
    json!({"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}}}]})
}

/// Number of the planned nodes that get pods when they become ready in an order, each bought as its cheapest type, and
/// kube-scheduler binds on each whatever fits by what it requests.
fn used(problem: &Problem, packing: &Packing, order: &[usize]) -> usize {
    let mut waiting: Vec<usize> = packing.claims.iter().flat_map(|claim| claim.pods.clone()).collect();
    waiting.sort_unstable();
    let mut count = 0;
    for node in order {
        let mut room = problem.instance_types[packing.claims[*node].options[0].instance_type].allocatable();
        let before = waiting.len();
        waiting.retain(|pod| {
            let asked = &problem.pods[*pod].requests;
            let fits = room.get("pods") > 0 && asked.iter().all(|(name, amount)| room.get(name) >= amount);
            if fits {
                room.sub(asked);
                room.set("pods", room.get("pods") - 1);
            }
            !fits
        });
        count += usize::from(waiting.len() < before);
    }
    assert!(waiting.is_empty(), "{} pods found no room", waiting.len());
    count
}

#[test]
fn every_node_planned_for_first_readme_workload_stays_used() {
    let mut problem: serde_json::Value = serde_json::from_slice(&made::workload("seeds-400-1")).unwrap();
    let capacity_types = json!({"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]});
    let requirements = problem["nodePools"][0]["requirements"].as_array_mut().unwrap();
    requirements.retain(|one| one["key"] != CAPACITY_TYPE);
    requirements.push(capacity_types);
    for pod in problem["pods"].as_array_mut().unwrap() {
        pod["topologySpreadConstraints"] = json!([{"topologyKey": CAPACITY_TYPE, "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "inflate"}}}]);
    }
    let problem: Problem = serde_json::from_value(problem).unwrap();
    let packing = packed(&problem);
    let nodes = packing.claims.len();
    let sizes: Vec<usize> = packing.claims.iter().map(|claim| claim.pods.len()).collect();
    assert!(nodes >= 2, "one of each capacity type, {sizes:?}");
    for first in 0..nodes {
        let order: Vec<usize> = (0..nodes).map(|at| (first + at) % nodes).collect();
        assert_eq!(used(&problem, &packing, &order), nodes, "{sizes:?}, {first} first");
    }
}

#[test]
fn a_preferred_zone_opens_no_node_where_another_has_room() {
    let mut pods = vec![app("web", "1", &in_zone_a()); 7];
    pods.push(app("db", "1", &would_rather("zone-b")));
    let packing = packed(&problem(pods.clone()));
    assert_eq!(packing.claims.iter().map(|claim| claim.pods.len()).collect::<Vec<_>>(), [8]);
    // Without room it has the node that it would rather have.
    pods.push(app("db", "1", &would_rather("zone-b")));
    let packing = packed(&problem(pods));
    let zones: BTreeMap<&str, usize> =
        packing.claims.iter().map(|claim| (claim.cheapest_zone.as_str(), claim.pods.len())).collect();
    assert_eq!(zones, BTreeMap::from([("zone-a", 7), ("zone-b", 2)]));
}

#[test]
fn soft_spread_opens_a_first_node_in_each_zone() {
    let packing = packed(&problem(vec![app("web", "500m", &spread("web", "ScheduleAnyway")); 6]));
    assert_eq!(packing.claims.iter().map(|claim| claim.pods.len()).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn a_hard_spread_opens_its_nodes_whatever_room_there_is() {
    let mut pods = vec![app("web", "1", &in_zone_a()); 7];
    let mut both = spread("db", "DoNotSchedule");
    both["affinity"] = would_rather("zone-b")["affinity"].clone();
    pods.extend(vec![app("db", "500m", &both); 2]);
    assert_eq!(packed(&problem(pods)).claims.len(), 2);
}

#[test]
fn a_pod_that_another_requires_stays_where_that_one_finds_it() {
    // `web` has to be in the zone of `db`, which would rather be in zone b.
    let pod_affinity = json!({"nodeSelector": {ZONE: "zone-b"}, "affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}]}}});
    let mut pods = vec![app("other", "1", &in_zone_a()); 7];
    pods.push(app("db", "1", &would_rather("zone-b")));
    pods.push(app("web", "1500m", &pod_affinity));
    let packing = packed(&problem(pods));
    let with_web = packing.claims.iter().find(|claim| claim.pods.contains(&8)).unwrap();
    assert_eq!(with_web.cheapest_zone, "zone-b");
    let with_db = packing.claims.iter().find(|claim| claim.pods.contains(&7)).unwrap();
    assert_eq!(with_db.cheapest_zone, "zone-b");
}
