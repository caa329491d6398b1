//! Domains that a topology spread counts: those of nodes that are there, by its policies, and those that its pods could have.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, solve};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const ARCH: &str = "kubernetes.io/arch";

/// Types of two CPUs, each with its architecture, its zones and its further resource.
fn a_type(name: &str, arch: &str, zones: &[&str], more: Value) -> Value {
    let offerings: Vec<Value> = zones
        .iter()
        .flat_map(|zone| ["on-demand", "spot"].map(|buying| (zone, buying)))
        .map(|(zone, buying)| {
            let price = if buying == "spot" { 0.05 } else { 0.1 };
            json!({"zone": zone, "capacityType": buying, "price": price, "available": true})
        })
        .collect();
    let mut capacity = json!({"cpu": "2", "memory": "16Gi", "pods": "100"});
    more.as_object().into_iter().flatten().for_each(|(key, value)| capacity[key] = value.clone());
    json!({"name": name, "capacity": capacity, "offerings": offerings,
        "requirements": [{"key": ARCH, "operator": "In", "values": [arch]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}]})
}

fn requirement(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// `count` pods that are spread over a key with `maxSkew` 1.
fn pods(count: usize, key: &str, constraint: &Value, more: &Value) -> Vec<Value> {
    let one = |at: usize| {
        let mut spread = json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        constraint.as_object().into_iter().flatten().for_each(|(key, value)| spread[key] = value.clone());
        let mut pod = json!({"name": format!("p{at}"), "uid": format!("u{at:04}"), "labels": {"app": "web"},
            "requests": {"cpu": "500m"}, "topologySpreadConstraints": [spread]});
        more.as_object().into_iter().flatten().for_each(|(key, value)| pod[key] = value.clone());
        pod
    };
    (0..count).map(one).collect()
}

fn packed(pools: Value, types: Vec<Value>, pods: Vec<Value>, nodes: Value) -> Packing {
    let problem = json!({"nodePools": pools, "instanceTypes": types, "pods": pods, "existingNodes": nodes});
    solve(&serde_json::from_value::<Problem>(problem).unwrap(), &Options::default())
}

fn plain() -> Vec<Value> {
    vec![a_type("m.x", "amd64", &["zone-a", "zone-b", "zone-c"], json!(null))]
}

/// Number of pods that each value of a key gets.
fn held(packing: &Packing, key: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for claim in &packing.claims {
        let said = claim.requirements.iter().find(|said| said.key == key).unwrap();
        *all.entry(said.values.join("|")).or_insert(0) += claim.pods.len();
    }
    all
}

fn honored() -> Value {
    json!({"nodeTaintsPolicy": "Honor"})
}

fn two_pools() -> Value {
    let taint = json!([{"key": "team", "value": "blue", "effect": "NoSchedule"}]);
    json!([{"name": "reserved", "labels": {"team": "blue"}, "taints": taint,
            "requirements": [requirement("capacity-spread", &["1"])]},
        {"name": "common", "requirements": [requirement("capacity-spread", &["2", "3", "4", "5"])]}])
}

fn blue() -> Value {
    json!({"nodeSelector": {"team": "blue"},
        "tolerations": [{"key": "team", "operator": "Equal", "value": "blue", "effect": "NoSchedule"}]})
}

#[test]
fn values_of_a_pool_that_the_selector_excludes_do_not_count() {
    for policy in [honored(), json!({}), json!({"nodeAffinityPolicy": "Ignore"})] {
        let packing = packed(two_pools(), plain(), pods(4, "capacity-spread", &policy, &blue()), json!([]));
        assert_eq!(packing.unscheduled.len(), 0, "{policy}");
        assert_eq!(held(&packing, "capacity-spread"), BTreeMap::from([("1".to_owned(), 4)]));
    }
}

#[test]
fn values_of_a_pool_whose_taint_is_not_tolerated_do_not_count() {
    for policy in [honored(), json!({})] {
        let packing = packed(two_pools(), plain(), pods(8, "capacity-spread", &policy, &json!({})), json!([]));
        assert_eq!(packing.unscheduled.len(), 0, "{policy}");
        assert_eq!(held(&packing, "capacity-spread").into_values().collect::<Vec<_>>(), [2, 2, 2, 2]);
    }
}

#[test]
fn required_affinity_excludes_a_pool_as_a_selector_does() {
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}]}}},
        "tolerations": [{"operator": "Exists"}]});
    let packing = packed(two_pools(), plain(), pods(8, "capacity-spread", &json!({}), &affinity), json!([]));
    assert_eq!(held(&packing, "capacity-spread").into_values().collect::<Vec<_>>(), [2, 2, 2, 2]);
}

#[test]
fn spread_skips_zone_without_types_of_the_architecture() {
    let types = vec![
        a_type("m.x", "amd64", &["zone-a", "zone-b", "zone-c"], json!(null)),
        a_type("g.x", "arm64", &["zone-a", "zone-b"], json!(null)),
    ];
    let arm = json!({"nodeSelector": {ARCH: "arm64"}});
    for policy in ["DoNotSchedule", "ScheduleAnyway"] {
        let constraint = json!({"whenUnsatisfiable": policy});
        let packing = packed(json!([{"name": "p"}]), types.clone(), pods(8, ZONE, &constraint, &arm), json!([]));
        assert_eq!(packing.unscheduled.len(), 0);
        assert_eq!(held(&packing, ZONE).into_values().collect::<Vec<_>>(), [4, 4]);
    }
}

#[test]
fn spread_skips_zone_whose_instance_types_cannot_hold_the_pod() {
    let types = vec![
        a_type("m.x", "amd64", &["zone-a", "zone-b", "zone-c"], json!(null)),
        a_type("p.x", "amd64", &["zone-a", "zone-b"], json!({"nvidia.com/gpu": "2"})),
    ];
    let gpu = json!({"requests": {"cpu": "500m", "nvidia.com/gpu": "1"}});
    let packing = packed(json!([{"name": "p"}]), types, pods(8, ZONE, &json!({}), &gpu), json!([]));
    assert_eq!(packing.unscheduled.len(), 0);
    assert_eq!(held(&packing, ZONE).into_values().collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn spread_skips_capacity_type_and_architecture_of_tainted_pool() {
    let taint = json!([{"key": "other", "effect": "NoSchedule"}]);
    let types = || {
        let zones = ["zone-a", "zone-b", "zone-c"];
        vec![a_type("m.x", "amd64", &zones, json!(null)), a_type("g.x", "arm64", &zones, json!(null))]
    };
    let pools = |key: &str, own: &str, other: &str| {
        json!([{"name": "own", "requirements": [requirement(key, &[own])]},
            {"name": "other", "taints": taint, "requirements": [requirement(key, &[other])]}])
    };
    for (key, own, other) in [(CAPACITY_TYPE, "spot", "on-demand"), (ARCH, "amd64", "arm64")] {
        let packing = packed(pools(key, own, other), types(), pods(6, key, &honored(), &json!({})), json!([]));
        assert_eq!(packing.unscheduled.len(), 0, "{key}");
        assert_eq!(held(&packing, key), BTreeMap::from([(own.to_owned(), 6)]));
    }
}

/// A node with taint and labels that no pod fits on.
fn full(labels: &Value) -> Value {
    json!([{"name": "n", "initialized": true, "labels": labels, "allocatable": {"pods": "100"},
        "taints": [{"key": "other", "effect": "NoSchedule"}], "pods": []}])
}

#[test]
fn a_node_that_is_there_counts_by_the_policies_of_the_spread() {
    let left = |constraint: Value, more: Value| {
        let pools = json!([{"name": "p", "requirements": [requirement(ZONE, &["zone-a", "zone-b"])]}]);
        let node = full(&json!({ZONE: "zone-c", "disk": "hdd"}));
        packed(pools, plain(), pods(6, ZONE, &constraint, &more), node).unscheduled.len()
    };
    let ssd = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]}]}}}});
    assert_eq!(left(json!({}), json!({})), 4, "taints are ignored unless the spread honours them");
    assert_eq!(left(honored(), json!({})), 0);
    assert_eq!(left(json!({}), ssd.clone()), 0, "node affinity is honoured unless the spread ignores it");
    assert_eq!(left(json!({"nodeAffinityPolicy": "Ignore"}), ssd), 4);
}

#[test]
fn min_domains_counts_the_domains_that_the_pods_could_have() {
    let least = |domains: u32, policy: &Value| {
        let mut constraint = policy.clone();
        constraint["minDomains"] = json!(domains);
        packed(two_pools(), plain(), pods(4, "capacity-spread", &constraint, &blue()), json!([])).unscheduled.len()
    };
    for policy in [honored(), json!({})] {
        assert_eq!(least(1, &policy), 0);
        assert_eq!(least(2, &policy), 3, "with one domain of two the least is none");
    }
}

#[test]
fn spread_counts_zone_open_to_some_pods_if_affinity_is_ignored() {
    // Without a policy on affinity all nodes count, also for the pods that may be on some of them alone.
    let constraint = json!({"nodeAffinityPolicy": "Ignore"});
    let mut all = pods(2, ZONE, &constraint, &json!({"nodeSelector": {ZONE: "zone-a"}}));
    let others = pods(1, ZONE, &constraint, &json!({"nodeSelector": {ZONE: "zone-b"}, "name": "q", "uid": "v"}));
    all.extend(others);
    let packing = packed(json!([{"name": "p"}]), plain(), all, json!([]));
    assert_eq!(held(&packing, ZONE), BTreeMap::from([("zone-a".to_owned(), 2), ("zone-b".to_owned(), 1)]));
}

#[test]
fn spread_counts_domain_of_others_nodes_by_its_taints_policy() {
    // Pods without the toleration can be in two zones; those with it are planned in the third.
    let taint = json!([{"key": "other", "effect": "NoSchedule"}]);
    let pools = json!([{"name": "own", "requirements": [requirement(ZONE, &["zone-a", "zone-b"])]},
        {"name": "third", "taints": taint, "requirements": [requirement(ZONE, &["zone-c"])]}]);
    let left = |policy: Value| {
        let mut all = pods(6, ZONE, &policy, &json!({}));
        all.push(json!({"name": "q", "uid": "v", "labels": {"app": "other"}, "requests": {"cpu": "1"},
            "nodeSelector": {ZONE: "zone-c"}, "tolerations": [{"operator": "Exists"}]}));
        packed(pools.clone(), plain(), all, json!([])).unscheduled.len()
    };
    assert_eq!(left(json!({})), 4, "that node counts: its taint is ignored");
    assert_eq!(left(honored()), 0);
}

#[test]
fn a_zone_that_is_sold_out_for_now_counts_all_the_same() {
    let mut one = a_type("m.x", "amd64", &["zone-a", "zone-b", "zone-c"], json!(null));
    one["requirements"].as_array_mut().unwrap().push(requirement(ZONE, &["zone-a", "zone-b", "zone-c"]));
    for offering in one["offerings"].as_array_mut().unwrap() {
        offering["available"] = json!(offering["zone"] != "zone-a");
    }
    let packing = packed(json!([{"name": "p"}]), vec![one], pods(6, ZONE, &json!({}), &json!({})), json!([]));
    assert_eq!(held(&packing, ZONE), BTreeMap::from([("zone-b".to_owned(), 1), ("zone-c".to_owned(), 1)]));
    assert_eq!(packing.unscheduled.len(), 4, "they wait for the zone");
}
