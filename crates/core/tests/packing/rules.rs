//! The rules of packing, one claim a test.
#![allow(clippy::unwrap_used)]

use crate::common;

use dovetail_core::pack::{Options, Packing, PlannedClaim, solve, warnings};
use dovetail_core::{InstanceType, Pod, Problem};
use serde_json::{Value, json};

/// A type of a made-up catalogue: 1 $/h for 10 cores on demand, a third of that as spot.
fn machine(name: &str, cpu: u32, gib: u32) -> Value {
    let offering = |zone: &str, kind: &str, price: f64| json!({"zone": zone, "capacityType": kind, "price": price, "available": true});
    let price = f64::from(cpu) / 10.0;
    let offerings: Vec<Value> = ["zone-a", "zone-b"]
        .iter()
        .flat_map(|zone| [offering(zone, "on-demand", price), offering(zone, "spot", price / 3.0)])
        .collect();
    let arch = if name.starts_with('g') { "arm64" } else { "amd64" };
    json!({
        "name": name,
        "capacity": {"cpu": cpu.to_string(), "memory": format!("{gib}Gi"), "pods": "100"},
        "requirements": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": [arch]},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux", "windows"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": [cpu.to_string()]},
        ],
        "offerings": offerings,
    })
}

fn problem(pools: Value, pods: Value) -> Problem {
    let types: Vec<Value> = vec![
        machine("m1.small", 2, 8),
        machine("m1.large", 8, 32),
        machine("g1.small", 2, 8),
        machine("g1.large", 8, 32),
    ];
    let mut problem: Problem = serde_json::from_value(json!({
        "wellKnownLabels": ["karpenter.k8s.aws/instance-cpu"],
        "nodePools": pools, "instanceTypes": types, "pods": pods,
    }))
    .unwrap();
    for (at, pod) in problem.pods.iter_mut().enumerate() {
        pod.uid = format!("uid-{at:04}");
    }
    problem
}

fn pool(name: &str) -> Value {
    json!({"name": name})
}

fn with(mut base: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"name": name, "requests": {"cpu": cpu, "memory": "1Gi"}})
}

fn packed(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    assert_eq!(common::violations(problem, &packing), [""; 0]);
    packing
}

fn reason(packing: &Packing) -> String {
    assert!(!packing.unscheduled.is_empty(), "nothing was left over");
    packing.unscheduled[0].1.to_string()
}

fn said(claim: &PlannedClaim, key: &str) -> Vec<String> {
    let said = claim.requirements.iter().find(|said| said.key == key);
    said.map(|said| said.values.clone()).unwrap_or_default()
}

const CT: &str = "karpenter.sh/capacity-type";
const ZONE: &str = "topology.kubernetes.io/zone";

fn requires(key: &str, values: &[&str]) -> Value {
    json!([{"key": key, "operator": "In", "values": values}])
}

fn terms(terms: &[Value]) -> Value {
    let terms: Vec<Value> = terms.iter().map(|list| json!({"matchExpressions": list})).collect();
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

#[test]
fn no_pool_is_said_so() {
    assert_eq!(reason(&packed(&problem(json!([]), json!([pod("a", "1")])))), "no NodePool exists");
}

#[test]
fn what_packing_does_not_know_yet_is_a_reason_of_its_own() {
    let blocked = with(pod("a", "1"), json!({"blocked": "dynamic resource allocation is not supported yet"}));
    let packing = packed(&problem(json!([pool("p")]), json!([blocked])));
    let rule = "dynamic resource allocation".to_owned();
    assert_eq!(*packing.unscheduled[0].1, dovetail_core::pack::Reason::Unsupported { rule });
    assert_eq!(reason(&packing), "dynamic resource allocation is not supported yet");
}

#[test]
fn a_claim_says_all_that_its_node_has_to_be() {
    let pools = json!([with(pool("p"), json!({"labels": {"team": "x"}, "requirements": requires(CT, &["spot"])}))]);
    let pods = json!([with(pod("a", "1"), json!({"nodeSelector": {"kubernetes.io/arch": "amd64", ZONE: "zone-b"}}))]);
    let packing = packed(&problem(pools, pods));
    let claim = &packing.claims[0];
    assert_eq!(said(claim, CT), ["spot"]);
    assert_eq!(said(claim, ZONE), ["zone-b"]);
    assert_eq!(said(claim, "team"), ["x"]);
    assert_eq!(said(claim, "karpenter.sh/nodepool"), ["p"]);
    assert_eq!(said(claim, "kubernetes.io/arch"), ["amd64"]);
    assert_eq!(said(claim, "node.kubernetes.io/instance-type"), ["m1.small"], "the large one costs four times as much");
    assert_eq!((claim.cheapest_zone.as_str(), claim.cheapest_capacity_type.as_str()), ("zone-b", "spot"));
}

#[test]
fn a_selector_against_the_pool_names_both_sides() {
    let pools = json!([with(pool("on-demand-only"), json!({"requirements": requires(CT, &["on-demand"])}))]);
    let pods = json!([with(pod("a", "1"), json!({"nodeSelector": {CT: "spot"}}))]);
    assert_eq!(
        reason(&packed(&problem(pools, pods))),
        "pool on-demand-only: node selector karpenter.sh/capacity-type In [spot] conflicts with the pool's In [on-demand]"
    );
}

#[test]
fn a_misspelt_label_gets_a_hint() {
    let pods = json!([with(pod("a", "1"), json!({"nodeSelector": {"topology.kubernetes.io/zoen": "zone-a"}}))]);
    let told = reason(&packed(&problem(json!([pool("p")]), pods)));
    assert!(told.contains("zoen is not defined (did you mean topology.kubernetes.io/zone?)"), "{told}");
}

#[test]
fn a_pod_larger_than_all_types_is_told_how_large_they_are() {
    let told = reason(&packed(&problem(json!([pool("p")]), json!([pod("a", "400")]))));
    assert_eq!(told, "pool p: needs 400 CPU, the largest of 4 instance types allows 8 CPU");
}

#[test]
fn affinity_terms_are_tried_in_order() {
    let nowhere = requires(ZONE, &["zone-z"]);
    let pods = json!([with(pod("a", "1"), terms(&[nowhere, requires(ZONE, &["zone-b"])]))]);
    let packing = packed(&problem(json!([pool("p")]), pods));
    assert_eq!(said(&packing.claims[0], ZONE), ["zone-b"]);
}

#[test]
fn a_preference_is_kept_where_it_can_be_and_given_up_where_not() {
    let prefer = |zone: &str| {
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": requires(ZONE, &[zone])}}]}}})
    };
    let pods = json!([with(pod("a", "1"), prefer("zone-b")), with(pod("b", "1"), prefer("zone-z"))]);
    let mut problem = problem(json!([pool("p")]), pods);
    let packing = packed(&problem);
    let claim = packing.claims.iter().find(|claim| claim.pods.contains(&0)).unwrap();
    assert_eq!(said(claim, ZONE), ["zone-b"]);
    assert!(packing.unscheduled.is_empty());
    problem.preference_policy = dovetail_core::PreferencePolicy::Ignore;
    assert!(packed(&problem).claims.iter().all(|claim| said(claim, ZONE).is_empty()));
}

#[test]
fn taints_repel_intolerant_pods_and_startup_taints_do_not() {
    let taint = |effect: &str| json!([{"key": "dedicated", "value": "db", "effect": effect}]);
    let tolerant = with(pod("b", "1"), json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}));
    for effect in ["NoSchedule", "NoExecute"] {
        let pools = json!([with(pool("p"), json!({"taints": taint(effect), "startupTaints": taint("NoSchedule")}))]);
        let packing = packed(&problem(pools, json!([pod("a", "1"), tolerant])));
        assert_eq!(packing.claims.len(), 1);
        assert_eq!(reason(&packing), format!("pool p: taint dedicated=db:{effect} not tolerated"));
    }
    let pools = json!([with(pool("p"), json!({"startupTaints": taint("NoSchedule")}))]);
    assert!(packed(&problem(pools, json!([pod("a", "1")]))).unscheduled.is_empty());
}

#[test]
fn a_preferring_taint_is_avoided_while_there_is_another_way() {
    let taint = json!([{"key": "slow", "effect": "PreferNoSchedule"}]);
    let slow = with(pool("slow"), json!({"taints": taint, "weight": 10}));
    let packing = packed(&problem(json!([slow, pool("fast")]), json!([pod("a", "1")])));
    assert_eq!(packing.claims[0].pool, 1);
    let packing = packed(&problem(json!([slow]), json!([pod("a", "1")])));
    assert_eq!(packing.claims.len(), 1);
}

#[test]
fn heavier_pool_comes_first_and_the_next_takes_what_is_left() {
    let heavy = with(pool("heavy"), json!({"weight": 10, "limits": {"cpu": "8"}}));
    let pods: Vec<Value> = (0..10).map(|at| pod(&format!("p{at}"), "2")).collect();
    let packing = packed(&problem(json!([pool("light"), heavy]), json!(pods)));
    assert!(packing.unscheduled.is_empty());
    let of = |pool: usize| packing.claims.iter().filter(move |claim| claim.pool == pool).map(|claim| claim.pods.len());
    assert!((1..=4).contains(&of(1).sum::<usize>()), "{:?}", of(1).collect::<Vec<_>>());
    assert_eq!(of(0).sum::<usize>() + of(1).sum::<usize>(), 10);
}

#[test]
fn limits_stop_growth_with_a_reason() {
    let pools = json!([with(pool("p"), json!({"limits": {"cpu": "9"}, "usage": {"cpu": "8"}}))]);
    let told = reason(&packed(&problem(pools, json!([pod("a", "1")]))));
    assert_eq!(told, "pool p: limit of 9 cpu reached: 1 left, the smallest instance type that would do has 2");
    let pools = json!([with(pool("p"), json!({"limits": {"nodes": 1}}))]);
    let packing = packed(&problem(pools, json!([pod("a", "8"), pod("b", "8")])));
    assert_eq!(packing.claims.len(), 1);
    assert_eq!(reason(&packing), "pool p: limit of 1 nodes reached (of 4 instance types: 2 by resources, 2 by limits)");
}

#[test]
fn where_limits_bind_higher_priority_is_served_first() {
    let pools = json!([with(pool("p"), json!({"limits": {"cpu": "8"}}))]);
    let urgent = with(pod("urgent", "6"), json!({"priority": 100}));
    let packing = packed(&problem(pools, json!([pod("a", "7"), urgent])));
    assert_eq!(packing.claims[0].pods, [1]);
    assert_eq!(packing.unscheduled[0].0, 0);
}

#[test]
fn two_exclusive_pools_leave_the_pod_that_asks_for_both_pending() {
    let pools = json!([
        with(
            pool("spot"),
            json!({"requirements": requires(CT, &["spot"]), "taints": [{"key": "spot", "effect": "NoSchedule"}]})
        ),
        with(pool("demand"), json!({"requirements": requires(CT, &["on-demand"])})),
    ]);
    let tolerant = json!({"tolerations": [{"key": "spot", "operator": "Exists"}], "nodeSelector": {CT: "spot"}});
    let pods = json!([
        with(pod("a", "1"), tolerant),
        pod("b", "1"),
        with(pod("c", "1"), json!({"nodeSelector": {CT: "spot"}}))
    ]);
    let packing = packed(&problem(pools, pods));
    assert_eq!(packing.claims.len(), 2);
    let told = reason(&packing);
    assert!(told.contains("pool spot: taint spot:NoSchedule not tolerated"), "{told}");
    assert!(told.contains("pool demand: node selector karpenter.sh/capacity-type In [spot] conflicts"), "{told}");
    assert_eq!(packing.unscheduled[0].0, 2);
}

#[test]
fn an_on_demand_pod_does_not_drag_spot_pods_with_it() {
    let mut pods: Vec<Value> = (0..40).map(|at| pod(&format!("p{at}"), "1")).collect();
    pods.push(with(pod("fixed", "1"), json!({"nodeSelector": {CT: "on-demand"}})));
    let packing = packed(&problem(json!([pool("p")]), json!(pods)));
    for claim in &packing.claims {
        assert!(said(claim, CT) != ["on-demand"] || claim.pods.len() <= 2, "{:?}", claim.pods);
    }
}

#[test]
fn daemons_take_their_part_of_every_new_node() {
    let mut problem = problem(json!([pool("p")]), json!([pod("a", "2"), pod("b", "8")]));
    problem.daemon_pods = vec![serde_json::from_value(pod("agent", "500m")).unwrap()];
    let packing = packed(&problem);
    assert_eq!(packing.claims.len(), 1);
    assert_eq!(packing.claims[0].requests.to_string(), "cpu: 2500m, memory: 2Gi, pods: 2");
    assert!(reason(&packing).contains("allows 7.5 CPU"), "{}", reason(&packing));
    problem.daemon_pods[0].node_selector.insert("kubernetes.io/arch".into(), "arm64".into());
    assert!(packed(&problem).unscheduled.is_empty());
}

#[test]
fn existing_nodes_come_first_the_initialized_before_the_others() {
    let mut problem = problem(json!([pool("p")]), json!([pod("a", "1"), pod("b", "1"), pod("c", "1")]));
    let node = |name: &str, initialized: bool| {
        serde_json::from_value(json!({"name": name, "initialized": initialized, "labels": {ZONE: "zone-a"},
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}, "used": {"cpu": "1", "pods": "1"}}))
        .unwrap()
    };
    problem.existing_nodes = vec![node("a-young", false), node("z-old", true)];
    let packing = packed(&problem);
    assert_eq!(packing.on_existing, [(0, vec![1]), (1, vec![0])]);
    assert_eq!(packing.claims.len(), 1);
    for pod in &mut problem.pods {
        pod.node_selector.insert("kubernetes.io/arch".into(), "amd64".into());
    }
    assert!(packed(&problem).on_existing.is_empty(), "a key that a node does not have is not tolerated");
    problem.existing_nodes[0].labels.insert("beta.kubernetes.io/arch".into(), "amd64".into());
    assert_eq!(packed(&problem).on_existing.len(), 1);
}

/// Seed 35131: by name, the large pod took the room of small ones, and eleven pods of fourteen were launched for again.
#[test]
fn pods_planned_by_earlier_leader_fit_its_claims_again() {
    let claim = |name: &str, cpu: &str, memory: &str, pods: &str| {
        serde_json::from_value(json!({"name": name, "labels": {ZONE: "zone-a"},
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods}}))
        .unwrap()
    };
    let large = with(pod("large", "4"), json!({}));
    let small = (0..12).map(|at| pod(&format!("small-{at}"), "500m"));
    let pods: Vec<Value> = std::iter::once(large).chain(small).collect();
    let mut problem = problem(json!([pool("p")]), json!(pods));
    problem.existing_nodes =
        vec![claim("a-for-the-small", "6", "24Gi", "12"), claim("b-for-the-large", "4", "8Gi", "1")];
    let packing = packed(&problem);
    assert!(packing.claims.is_empty(), "{:?}", packing.claims.len());
    assert_eq!(packing.on_existing.iter().map(|(_, pods)| pods.len()).sum::<usize>(), 13);
}

/// The pod without a rule was asked first, and took by name what was launched for the one with a rule, which fits nowhere else.
#[test]
fn node_launched_for_spread_pod_is_not_taken_by_plain_pod() {
    let node = |name: &str, memory: &str, initialized: bool| {
        serde_json::from_value(json!({"name": name, "allocatable": {"cpu": "8", "memory": memory, "pods": "50"},
            "labels": {ZONE: "zone-a", "node.kubernetes.io/instance-type": "large"}, "initialized": initialized}))
        .unwrap()
    };
    let asks = |name: &str, memory: &str| with(pod(name, "5"), json!({"requests": {"cpu": "5", "memory": memory}}));
    let spread = json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "wide"}}}]);
    let wide = with(asks("wide", "24Gi"), json!({"labels": {"app": "wide"}, "topologySpreadConstraints": spread}));
    let mut problem = problem(json!([pool("p")]), json!([asks("plain", "4Gi"), wide]));
    problem.existing_nodes = vec![node("a", "30Gi", false), node("b", "14Gi", false)];
    let packing = packed(&problem);
    assert!(packing.claims.is_empty(), "{:?}", packing.claims.len());
    assert_eq!(packing.on_existing.len(), 2);
    // Nodes that are there are filled first all the same.
    problem.existing_nodes = vec![node("a", "30Gi", false), node("c", "14Gi", true)];
    problem.pods.truncate(1);
    assert_eq!(packed(&problem).on_existing[0].0, 1);
}

#[test]
fn pods_wanting_different_label_values_do_not_share_a_node() {
    let pools = json!([with(pool("p"), json!({"requirements": requires("team", &["a", "b"])}))]);
    let of = |name: &str, team: &str| with(pod(name, "500m"), json!({"nodeSelector": {"team": team}}));
    let packing = packed(&problem(pools, json!([of("x", "a"), of("y", "b"), of("z", "a"), pod("w", "500m")])));
    assert!(packing.unscheduled.is_empty());
    assert_eq!(packing.claims.len(), 2);
    let os = |name: &str, os: &str| with(pod(name, "500m"), json!({"nodeSelector": {"kubernetes.io/os": os}}));
    let packing = packed(&problem(json!([pool("p")]), json!([os("x", "linux"), os("y", "windows"), os("z", "linux")])));
    assert_eq!(packing.claims.len(), 2);
}

#[test]
fn min_values_are_kept_or_the_pod_waits() {
    let demand =
        |least: u32| json!([{"key": "karpenter.k8s.aws/instance-cpu", "operator": "Exists", "minValues": least}]);
    let pools = |least: u32| json!([with(pool("p"), json!({"requirements": demand(least)}))]);
    let mut one = problem(pools(2), json!([pod("a", "1")]));
    let types = |packing: &Packing| said(&packing.claims[0], "node.kubernetes.io/instance-type");
    assert!(types(&packed(&one)).iter().any(|name| name.ends_with("large")));
    let narrow = Options { spot_types: 1, spot_families: 1, ..Options::default() };
    assert!(types(&solve(&one, &narrow)).iter().any(|name| name.ends_with("large")), "even where fewer would do");
    one.pods.push(serde_json::from_value::<Pod>(pod("b", "5")).unwrap());
    let told = reason(&packed(&one));
    assert_eq!(
        told,
        "pool p: the 2 instance types left do not offer minValues 2 of karpenter.k8s.aws/instance-cpu \
         (of 4 instance types: 2 by resources)"
    );
}

#[test]
fn fewest_nodes_fills_a_node_while_any_type_holds_it() {
    let pools = json!([with(pool("p"), json!({"policy": "fewest-nodes"}))]);
    let pods: Vec<Value> = (0..12).map(|at| pod(&format!("p{at}"), "1")).collect();
    let packing = packed(&problem(pools, json!(pods)));
    let mut held: Vec<usize> = packing.claims.iter().map(|claim| claim.pods.len()).collect();
    held.sort_unstable();
    assert_eq!(held, [4, 8]);
}

#[test]
fn what_makes_no_sense_is_left_with_its_reason() {
    let bad = json!([{"key": "a", "operator": "Near", "values": ["b"]}]);
    let told = reason(&packed(&problem(json!([pool("p")]), json!([with(pod("a", "1"), terms(&[bad]))]))));
    assert!(told.contains("unknown operator \"Near\" (allowed: In,"), "{told}");
    let pools = json!([with(pool("p"), json!({"requirements": [{"key": "a", "operator": "In", "values": []}]}))]);
    let told = reason(&packed(&problem(pools, json!([pod("a", "1")]))));
    assert_eq!(told, "pool p: requirement on a: operator In needs at least one value");
}

#[test]
fn overlapping_pools_without_weights_are_warned_of() {
    let told = warnings(&problem(json!([pool("a"), pool("b")]), json!([])));
    assert!(told.len() == 1 && told[0].contains("go where they cost less"), "{told:?}");
    let weighted = json!([pool("a"), with(pool("b"), json!({"weight": 1}))]);
    assert!(warnings(&problem(weighted, json!([]))).is_empty());
    let apart = json!([
        with(pool("a"), json!({"requirements": requires(CT, &["spot"])})),
        with(pool("b"), json!({"requirements": requires(CT, &["on-demand"])}))
    ]);
    assert!(warnings(&problem(apart, json!([]))).is_empty());
}

#[test]
fn a_type_without_an_available_offering_is_no_option() {
    let mut problem = problem(json!([pool("p")]), json!([pod("a", "1")]));
    for one in &mut problem.instance_types {
        let mut own = InstanceType::clone(one);
        own.offerings.iter_mut().for_each(|offering| offering.available = false);
        *one = own.into();
    }
    let told = reason(&packed(&problem));
    assert_eq!(told, "pool p: nothing is available anywhere");
}

#[test]
fn node_group_grows_to_its_limit_and_says_what_does_not_fit() {
    let group = json!({"policy": "node-groups", "limits": {"nodes": 3}, "requirements": requires(CT, &["spot"])});
    let pods: Vec<Value> = (0..7).map(|at| pod(&format!("p{at}"), "1")).collect();
    let mut problem = problem(json!([with(pool("ng"), group)]), json!(pods));
    let packing = packed(&problem);
    assert_eq!(packing.claims.iter().map(|claim| claim.pods.len()).collect::<Vec<_>>(), [2, 2, 2]);
    for claim in &packing.claims {
        assert_eq!(claim.options.len(), 4, "a node may become any of the group's types");
    }
    assert_eq!(reason(&packing), "pool ng: limit of 3 nodes reached");
    problem.pods.truncate(1);
    problem.pods[0].requests.set("cpu", 3000);
    let told = reason(&packed(&problem));
    assert_eq!(told, "pool ng: needs 3 CPU, a node of the group has 2 CPU for certain");
    problem.pods[0].requests.set("cpu", 500);
    problem.node_pools[0].min_nodes = 2;
    let packing = solve(&problem, &Options::default());
    assert_eq!(packing.claims.iter().map(|claim| claim.pods.len()).collect::<Vec<_>>(), [1, 0], "its least is there");
}

#[test]
fn best_effort_lowers_unmet_min_values_and_the_claim_says_so() {
    let demand = json!([{"key": "karpenter.k8s.aws/instance-cpu", "operator": "Exists", "minValues": 2}]);
    let mut problem =
        problem(json!([with(pool("p"), json!({"requirements": demand}))]), json!([pod("a", "5"), pod("b", "1")]));
    let strict = packed(&problem);
    assert_eq!(strict.unscheduled.iter().map(|(pod, _)| *pod).collect::<Vec<_>>(), [0]);
    assert!(strict.claims.iter().all(|claim| !claim.min_values_relaxed));
    problem.min_values_policy = dovetail_core::MinValuesPolicy::BestEffort;
    let packing = packed(&problem);
    assert!(packing.unscheduled.is_empty());
    let least = |pod: usize| {
        let claim = packing.claims.iter().find(|claim| claim.pods.contains(&pod)).unwrap();
        let said = claim.requirements.iter().find(|said| said.key == "karpenter.k8s.aws/instance-cpu").unwrap();
        (said.min_values, claim.min_values_relaxed)
    };
    assert_eq!(least(0), (Some(1), true), "only types of eight cores hold it");
    problem.pods.remove(0);
    let packing = packed(&problem);
    let said = packing.claims[0].requirements.iter().find(|said| said.key == "karpenter.k8s.aws/instance-cpu").unwrap();
    assert_eq!((said.min_values, packing.claims[0].min_values_relaxed), (Some(2), false), "kept where it can be");
}

#[test]
fn of_pools_of_one_weight_the_cheaper_takes_the_pods() {
    for names in [["a", "b"], ["b", "a"]] {
        let dear = with(pool(names[0]), json!({"requirements": requires(CT, &["on-demand"])}));
        let cheap = with(pool(names[1]), json!({"requirements": requires(CT, &["spot"])}));
        let pods = json!([pod("x", "1"), pod("y", "1")]);
        let packing = packed(&problem(json!([dear, cheap]), pods.clone()));
        assert!(packing.claims.iter().all(|claim| claim.pool == 1), "{names:?}");
        // A weight is a wish, and a limit a bound.
        let packing = packed(&problem(json!([with(dear.clone(), json!({"weight": 1})), cheap]), pods.clone()));
        assert!(packing.claims.iter().all(|claim| claim.pool == 0), "{names:?}");
        let packing = packed(&problem(json!([dear, with(cheap, json!({"limits": {"cpu": "1"}}))]), pods));
        assert!(packing.claims.iter().all(|claim| claim.pool == 0) && packing.unscheduled.is_empty(), "{names:?}");
    }
}

#[test]
fn a_reason_begins_with_the_pool_that_is_nearest() {
    let named = |name: &str, more: Value| with(pool(name), more);
    let pools = json!([
        named(
            "z-tainted",
            json!({"weight": 9, "taints": [{"key": "t", "effect": "NoSchedule"}],
            "requirements": requires("kubernetes.io/arch", &["arm64"])})
        ),
        named("y-arm", json!({"weight": 8, "requirements": requires("kubernetes.io/arch", &["arm64"])})),
        named("x-ours-but-tainted", json!({"weight": 7, "taints": [{"key": "t", "effect": "NoSchedule"}]})),
        named("a-too-small", json!({})),
    ]);
    let wanted = with(pod("big", "50"), json!({"nodeSelector": {"kubernetes.io/arch": "amd64"}}));
    let told = reason(&packed(&problem(pools, json!([wanted]))));
    let order: Vec<&str> = told.split("pool ").skip(1).map(|part| part.split(':').next().unwrap()).collect();
    assert_eq!(order, ["a-too-small", "x-ours-but-tainted", "y-arm", "z-tainted"], "{told}");
}
