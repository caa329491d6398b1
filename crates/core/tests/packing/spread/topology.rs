//! Rules between pods, one claim a test.
#![allow(clippy::unwrap_used)]

use crate::common;

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
fn anti_affinity_of_existing_pod_keeps_others_off_its_node() {
    let mut problem = problem(vec![app("web", json!({}))]);
    let mut old = app("db", term("podAntiAffinity", "web", HOST));
    old["name"] = json!("old");
    problem.existing_nodes = vec![node("n", "zone-a", vec![old])];
    let packing = packed(&problem);
    assert!(packing.on_existing.is_empty());
    assert_eq!(packing.claims.len(), 1);
}

#[test]
fn zone_anti_affinity_leaves_fourth_pod_of_three_zones_pending() {
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
fn a_rule_by_a_key_that_no_node_has_is_never_broken_silently() {
    let packing = packed(&problem(vec![app("web", spread("web", "rack", 1))]));
    assert!(packing.unscheduled[0].1.to_string().contains("no domain is left by topology spread over rack"));
}

fn prefer(kind: &str, name: &str, key: &str) -> Value {
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm":
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}}}]}}})
}

fn said<'p>(claim: &'p dovetail_core::pack::PlannedClaim, key: &str) -> Vec<&'p str> {
    let said = claim.requirements.iter().filter(|said| said.key == key);
    said.flat_map(|said| &said.values).map(String::as_str).collect()
}

#[test]
fn a_soft_spread_is_kept_where_it_can_be() {
    let soft = |skew: u32| {
        let mut soft = spread("web", ZONE, skew);
        soft["topologySpreadConstraints"][0]["whenUnsatisfiable"] = json!("ScheduleAnyway");
        soft
    };
    let packing = packed(&problem(vec![app("web", soft(1)); 12]));
    assert_eq!(by_zone(&packing).into_values().collect::<Vec<_>>(), [4, 4, 4]);
    let mut ignored = problem(vec![app("web", soft(1)); 12]);
    ignored.preference_policy = dovetail_core::PreferencePolicy::Ignore;
    assert_eq!(by_zone(&packed(&ignored)).len(), 1);
}

#[test]
fn relaxed_pod_drops_its_preferences_and_its_peers_keep_theirs() {
    let mut soft = spread("web", ZONE, 1);
    soft["topologySpreadConstraints"][0]["whenUnsatisfiable"] = json!("ScheduleAnyway");
    let mut relaxed = soft.clone();
    relaxed["relaxed"] = json!(true);
    let zones = |packing: &Packing| by_zone(packing).into_keys().collect::<Vec<_>>();
    assert_eq!(zones(&packed(&problem(vec![app("web", soft.clone()); 6]))), ["zone-a", "zone-b", "zone-c"]);
    assert_eq!(zones(&packed(&problem(vec![app("web", relaxed.clone()); 6]))), ["zone-a"], "the cheapest");
    let mixed = packed(&problem([vec![app("web", soft); 3], vec![app("web", relaxed); 3]].concat()));
    let soft_ones = mixed.claims.iter().filter(|claim| claim.pods.iter().any(|pod| *pod < 3));
    let zones: std::collections::BTreeSet<_> = soft_ones.map(|claim| claim.cheapest_zone.clone()).collect();
    assert_eq!((zones.len(), mixed.unscheduled.len()), (3, 0));
}

#[test]
fn a_relaxed_pod_keeps_its_hard_rules() {
    let mut hard = spread("web", ZONE, 1);
    hard["relaxed"] = json!(true);
    let packing = packed(&problem(vec![app("web", hard); 12]));
    assert_eq!(by_zone(&packing).into_values().collect::<Vec<_>>(), [4, 4, 4]);
}

#[test]
fn preferred_affinity_draws_pods_to_a_zone_unless_barred() {
    let mut pods = vec![app("db", json!({"nodeSelector": {ZONE: "zone-c"}, "requests": {"cpu": "1"}}))];
    pods.extend(vec![app("web", prefer("podAffinity", "db", ZONE)); 3]);
    assert_eq!(by_zone(&packed(&problem(pods.clone()))), BTreeMap::from([("zone-c".to_owned(), 4)]));
    for pod in &mut pods[1..] {
        pod["nodeSelector"] = json!({ZONE: "zone-b"});
    }
    let packing = packed(&problem(pods));
    assert!(packing.unscheduled.is_empty());
    assert_eq!(by_zone(&packing)["zone-b"], 3);
}

#[test]
fn preferred_distance_spreads_over_zones_and_then_gives_up() {
    let packing = packed(&problem(vec![app("web", prefer("podAntiAffinity", "web", ZONE)); 5]));
    assert!(packing.unscheduled.is_empty());
    assert_eq!(by_zone(&packing).len(), 3);
}

#[test]
fn preferred_host_anti_affinity_fills_six_nodes_and_opens_one() {
    let mut problem = problem(vec![app("web", prefer("podAntiAffinity", "web", HOST)); 8]);
    problem.existing_nodes = (0..6).map(|at| node(&format!("n{at}"), "zone-a", vec![])).collect();
    problem.existing_nodes.iter_mut().for_each(|node| node.allocatable.set("cpu", 600));
    let packing = packed(&problem);
    assert_eq!(packing.on_existing.len(), 6);
    assert!(packing.unscheduled.is_empty() && packing.claims.len() == 1);
    assert_eq!(packing.claims[0].pods.len(), 2);
}

#[test]
fn a_preference_binds_no_other_pod() {
    let pods = vec![app("web", prefer("podAntiAffinity", "db", HOST)), app("db", json!({}))];
    let mut problem = problem(pods);
    problem.existing_nodes = vec![node("n", "zone-a", vec![])];
    assert_eq!(packed(&problem).on_existing, [(0, vec![0, 1])]);
}

#[test]
fn company_by_host_is_one_node_and_what_it_cannot_hold_waits() {
    let together = app("web", term("podAffinity", "web", HOST));
    let packing = packed(&problem(vec![together.clone(); 5]));
    assert_eq!((packing.claims.len(), packing.claims[0].pods.len()), (1, 5));
    let packing = packed(&problem(vec![together; 20]));
    assert_eq!((packing.claims.len(), packing.claims[0].pods.len(), packing.unscheduled.len()), (1, 16, 4));
    assert!(packing.unscheduled[0].1.to_string().contains(HOST), "{}", packing.unscheduled[0].1);
}

#[test]
fn company_by_host_joins_the_pods_that_are_there() {
    let mut problem = problem(vec![app("web", term("podAffinity", "db", HOST)); 2]);
    let mut old = app("db", json!({}));
    old["name"] = json!("old");
    problem.existing_nodes = vec![node("a", "zone-a", vec![]), node("b", "zone-b", vec![old])];
    assert_eq!(packed(&problem).on_existing, [(1, vec![0, 1])]);
}

#[test]
fn followers_share_new_nodes_with_those_they_follow() {
    let mut caches = app("cache", term("podAntiAffinity", "cache", HOST));
    caches["requests"] = json!({"cpu": "1"});
    let mut pods = vec![caches; 3];
    let mut web = app("web", term("podAffinity", "cache", HOST));
    web["affinity"]["podAntiAffinity"] = term("podAntiAffinity", "web", HOST)["affinity"]["podAntiAffinity"].clone();
    pods.extend(vec![web; 3]);
    let packing = packed(&problem(pods));
    assert!(packing.unscheduled.is_empty(), "{}", packing.unscheduled[0].1);
    assert_eq!(packing.claims.iter().map(|claim| claim.pods.len()).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn two_that_wait_for_each_other_wait_and_say_so() {
    let pods = vec![app("a", term("podAffinity", "b", HOST)), app("b", term("podAffinity", "a", HOST))];
    let packing = packed(&problem(pods));
    assert_eq!(packing.unscheduled.len(), 2);
    assert!(packing.unscheduled[0].1.to_string().contains("finds no pod to join"));
}

#[test]
fn company_of_several_terms_is_one_pod_that_suits_them_all() {
    let mut follower = app("web", term("podAffinity", "db", ZONE));
    let terms = &mut follower["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let tier = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "first"}}});
    terms.as_array_mut().unwrap().push(tier);
    let mut first = app("other", json!({"nodeSelector": {ZONE: "zone-a"}}));
    first["labels"]["tier"] = json!("first");
    let mut both = app("db", json!({"nodeSelector": {ZONE: "zone-b"}}));
    both["labels"]["tier"] = json!("first");
    let db = app("db", json!({"nodeSelector": {ZONE: "zone-c"}}));
    let packing = solve(&problem(vec![follower.clone(), first.clone(), db.clone()]), &Options::default());
    assert_eq!(packing.unscheduled.iter().map(|(pod, _)| *pod).collect::<Vec<_>>(), [0]);
    let packing = packed(&problem(vec![follower, first, db, both]));
    assert!(packing.unscheduled.is_empty());
    assert_eq!(by_zone(&packing)["zone-b"], 2);
}

#[test]
fn any_label_that_a_pool_leaves_open_is_a_domain() {
    let mut problem = problem(vec![app("web", spread("web", "rack", 1)); 9]);
    let racks = json!([{"key": "rack", "operator": "In", "values": ["r1", "r2", "r3"]}]);
    problem.node_pools[0].requirements = serde_json::from_value(racks).unwrap();
    let packing = solve(&problem, &Options::default());
    let mut racks: Vec<(Vec<&str>, usize)> =
        packing.claims.iter().map(|claim| (said(claim, "rack"), claim.pods.len())).collect();
    racks.sort();
    assert_eq!(racks, [(vec!["r1"], 3), (vec!["r2"], 3), (vec!["r3"], 3)]);
}

#[test]
fn pools_are_domains_of_their_own_labels() {
    let mut problem = problem(vec![app("web", spread("web", "team", 1)); 4]);
    for team in ["red", "blue"] {
        let mut pool = problem.node_pools[0].clone();
        pool.name = team.to_owned();
        pool.labels.insert("team".to_owned(), team.to_owned());
        problem.node_pools.push(pool);
    }
    let packing = solve(&problem, &Options::default());
    let mut held: Vec<(usize, usize)> = packing.claims.iter().map(|claim| (claim.pool, claim.pods.len())).collect();
    held.sort_unstable();
    assert_eq!(held, [(1, 2), (2, 2)]);
}

#[test]
fn namespaces_are_chosen_by_their_labels_where_these_are_known() {
    let mut follower = app("web", term("podAffinity", "db", ZONE));
    let required = &mut follower["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    required["namespaceSelector"] = json!({"matchLabels": {"team": "data"}});
    let of = |namespace: &str, zone: &str| app("db", json!({"namespace": namespace, "nodeSelector": {ZONE: zone}}));
    let mut problem = problem(vec![follower, of("default", "zone-a"), of("store", "zone-b")]);
    let packing = solve(&problem, &Options::default());
    assert!(packing.unscheduled[0].1.to_string().contains("namespaceSelector"), "{}", packing.unscheduled[0].1);
    problem.namespaces =
        serde_json::from_value(json!([{"name": "default"}, {"name": "store", "labels": {"team": "data"}}])).unwrap();
    let packing = solve(&problem, &Options::default());
    assert_eq!(by_zone(&packing)["zone-b"], 2);
}

#[test]
fn a_namespace_is_known_by_its_name_without_being_listed() {
    let mut follower = app("web", term("podAffinity", "db", ZONE));
    let required = &mut follower["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    required["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "store"}});
    let db = app("db", json!({"namespace": "store", "nodeSelector": {ZONE: "zone-b"}}));
    let packing = solve(&problem(vec![follower, db]), &Options::default());
    assert_eq!(by_zone(&packing)["zone-b"], 2);
}

#[test]
fn taints_count_for_a_spread_that_honours_them() {
    let mut constraint = spread("web", ZONE, 1);
    let mut old = app("web", json!({}));
    old["name"] = json!("old");
    let mut problem = |policy: &str| {
        constraint["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = json!(policy);
        let mut problem = problem(vec![app("web", constraint.clone())]);
        problem.existing_nodes = vec![node("n", "zone-a", vec![old.clone()])];
        let taint = json!([{"key": "reserved", "effect": "NoSchedule"}]);
        problem.existing_nodes[0].taints = serde_json::from_value(taint).unwrap();
        problem
    };
    let zone = |problem: &Problem| solve(problem, &Options::default()).claims[0].cheapest_zone.clone();
    assert_eq!(zone(&problem("Ignore")), "zone-b");
    assert_eq!(zone(&problem("Honor")), "zone-a");
}

/// A term that means pods of either app.
fn with_either(apps: [&str; 2]) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE,
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]}}]}}})
}

#[test]
fn pods_that_go_together_go_where_all_of_them_can_be() {
    let in_c = |mut pod: Value| {
        pod["volumeTopology"] = json!([[{"key": ZONE, "operator": "In", "values": ["zone-c"]}]]);
        pod["requests"] = json!({"cpu": "100m"});
        pod
    };
    let either = || with_either(["api", "ledger"]);
    let api = || app("api", either());
    let zones = |pods: Vec<Value>, nodes: Vec<dovetail_core::ExistingNode>| {
        let mut problem = problem(pods);
        problem.existing_nodes = nodes;
        let packing = solve(&problem, &Options::default());
        assert!(packing.unscheduled.is_empty(), "{}", packing.unscheduled[0].1);
        (by_zone(&packing), packing.on_existing.len())
    };
    let all = |count: usize| (BTreeMap::from([("zone-c".to_owned(), count)]), 0);
    // The one with the volume follows the rule, is plain, or only waits for the others.
    assert_eq!(zones(vec![api(), api(), app("cache", either()), in_c(app("ledger", either()))], vec![]), all(4));
    assert_eq!(zones(vec![api(), api(), app("cache", either()), in_c(app("ledger", json!({})))], vec![]), all(4));
    assert_eq!(zones(vec![api(), api(), in_c(app("cache", either()))], vec![]), all(3));
    // A chain: the last of it says where all are.
    let chain = vec![api(), app("b", term("podAffinity", "api", ZONE)), in_c(app("c", term("podAffinity", "b", ZONE)))];
    assert_eq!(zones(chain, vec![]), all(3));
    // A node that is there in another zone takes none of them.
    let there = vec![node("n", "zone-a", vec![])];
    assert_eq!(zones(vec![api(), in_c(app("ledger", either()))], there), all(2));
}
