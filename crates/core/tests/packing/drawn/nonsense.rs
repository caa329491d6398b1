//! Whatever makes no sense is refused or left pending with a reason; packing ends, in bounded memory, and never panics.
#![allow(clippy::unwrap_used)]

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, solve, warnings};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn problem(pods: Vec<Value>) -> Problem {
    let offering = |zone: &str| json!({"zone": zone, "capacityType": "on-demand", "price": 0.1, "available": true});
    let types = json!([{"name": "m", "capacity": {"cpu": "8", "memory": "32Gi", "pods": "58"}, "requirements": [],
        "offerings": [offering("a"), offering("b")]}]);
    let named = |(at, mut pod): (usize, Value)| {
        pod["name"] = json!(format!("p{at}"));
        pod["uid"] = json!(format!("u{at}"));
        pod
    };
    let pods: Vec<Value> = pods.into_iter().enumerate().map(named).collect();
    serde_json::from_value(json!({"nodePools": [{"name": "p"}], "instanceTypes": types, "pods": pods})).unwrap()
}

/// Every pod is answered once, and every one left over has a reason.
fn answered(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    let mut seen = vec![0; problem.pods.len()];
    packing.claims.iter().flat_map(|claim| &claim.pods).for_each(|pod| seen[*pod] += 1);
    packing.on_existing.iter().flat_map(|(_, pods)| pods).for_each(|pod| seen[*pod] += 1);
    for (pod, reason) in &packing.unscheduled {
        seen[*pod] += 1;
        assert!(!reason.to_string().is_empty());
    }
    for (pod, times) in problem.pods.iter().zip(seen) {
        assert_eq!(times, usize::from(!pod.to_come), "{}", pod.name);
    }
    packing
}

fn after(own: usize, other: usize, key: &str) -> Value {
    json!({"labels": {"app": format!("a{own}")}, "requests": {"cpu": "100m"}, "affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": {"matchLabels": {"app": format!("a{other}")}}}]}}})
}

#[test]
fn ring_of_mutually_waiting_pods_is_left_with_a_reason() {
    for key in [ZONE, HOST] {
        let ring: Vec<Value> = (0..300).map(|at| after(at, (at + 1) % 300, key)).collect();
        let packing = answered(&problem(ring));
        assert_eq!(packing.unscheduled.len(), 300);
        assert!(packing.unscheduled[0].1.to_string().contains("finds no pod to join"));
    }
}

#[test]
fn a_chain_is_followed_to_its_end() {
    let mut chain: Vec<Value> = (0..40).map(|at| after(at, at + 1, ZONE)).collect();
    chain.push(json!({"labels": {"app": "a40"}, "requests": {"cpu": "100m"}}));
    assert!(answered(&problem(chain)).unscheduled.is_empty());
}

#[test]
fn pods_that_seek_and_shun_the_same_are_left_with_the_reason() {
    let mut torn = after(0, 0, HOST);
    torn["affinity"]["podAntiAffinity"] = torn["affinity"]["podAffinity"].clone();
    let packing = answered(&problem(vec![torn; 5]));
    assert!(packing.unscheduled.len() >= 4, "{}", packing.unscheduled.len());
}

#[test]
fn a_million_labels_are_read_and_packed_past() {
    let labels: Map<String, Value> = (0..100_000).map(|at| (format!("label-{at}"), json!("x"))).collect();
    let mut heavy = json!({"labels": labels, "requests": {"cpu": "100m"}});
    heavy["topologySpreadConstraints"] = json!([{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"label-7": "x"}}}]);
    assert!(answered(&problem(vec![heavy; 10])).unscheduled.is_empty());
    let selector: Map<String, Value> = (0..100_000).map(|at| (format!("label-{at}"), json!("x"))).collect();
    let packing = answered(&problem(vec![json!({"nodeSelector": selector, "requests": {"cpu": "1"}})]));
    assert!(packing.unscheduled[0].1.to_string().contains("label-0 is not defined"));
}

#[test]
fn spread_keys_of_many_values_do_not_explode_places() {
    let over = |key: &str| {
        json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}}})
    };
    let spread = ["one", "two", "three"].map(over);
    let tied = json!({"labels": {"app": "a"}, "requests": {"cpu": "100m"}, "topologySpreadConstraints": spread});
    let mut pods = vec![tied; 3];
    pods.push(json!({"requests": {"cpu": "1"}}));
    let mut problem = problem(pods);
    let values: Vec<String> = (0..3000).map(|at| format!("v{at}")).collect();
    let keys = ["one", "two", "three"].map(|key| json!({"key": key, "operator": "In", "values": values}));
    problem.node_pools[0].requirements = serde_json::from_value(json!(keys)).unwrap();
    // The places looked at may be too few for all three; whoever is left is told so.
    assert!(!answered(&problem).claims.is_empty());
}

#[test]
fn too_many_topology_keys_leave_pods_unscheduled() {
    let pods: Vec<Value> = (0..50)
        .map(|at| json!({"labels": {"app": "a"}, "topologySpreadConstraints": [{"topologyKey": format!("key-{at}"), "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]}))
        .collect();
    let packing = answered(&problem(pods));
    assert_eq!(packing.unscheduled.len(), 50);
}

#[test]
fn a_group_of_four_billion_nodes_at_least_is_filled_to_a_bound() {
    let mut problem = problem(vec![json!({"requests": {"cpu": "1"}})]);
    problem.node_pools[0].policy = dovetail_core::Policy::NodeGroups;
    problem.node_pools[0].min_nodes = u32::MAX;
    assert!(solve(&problem, &Options::default()).claims.len() <= 1001);
}

fn word() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("")),
        Just(json!("app")),
        Just(json!("a")),
        Just(json!(ZONE)),
        Just(json!(HOST)),
        Just(json!("x/y/z")),
        Just(json!("9223372036854775807")),
        Just(json!("-1")),
        Just(json!("ü")),
    ]
}

fn quantity() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("0")),
        Just(json!("1m")),
        Just(json!("9223372036854775")),
        Just(json!("1")),
        Just(json!("8E")),
        Just(json!("100")),
        Just(json!("9223372036854775807")),
    ]
}

/// A quantity that a resource of a map can hold, else the pod is refused when it is read.
fn amounts() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(
        vec![
            "cpu",
            "memory",
            "pods",
            "ephemeral-storage",
            "nvidia.com/gpu",
            "attachable-volumes-csi-x",
            "hugepages-2Mi",
        ],
        0..5,
    );
    (names, prop::collection::vec(quantity(), 7)).prop_map(|(names, amounts)| {
        Value::Object(names.into_iter().zip(amounts).map(|(name, amount)| (name.to_owned(), amount)).collect())
    })
}

fn expression(operators: &'static [&'static str]) -> impl Strategy<Value = Value> {
    (word(), prop::sample::select(operators), prop::collection::vec(word(), 0..3))
        .prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
}

fn selector() -> impl Strategy<Value = Value> {
    let expressions = prop::collection::vec(expression(&["In", "NotIn", "Exists", "DoesNotExist", "Near", ""]), 0..3);
    prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        Just(json!({"matchLabels": {"app": "a"}})),
        expressions.prop_map(|all| json!({"matchExpressions": all})),
    ]
}

fn term() -> impl Strategy<Value = Value> {
    (word(), selector(), prop::option::of(selector())).prop_map(|(key, selector, namespaces)| {
        json!({"topologyKey": key, "labelSelector": selector, "namespaceSelector": namespaces})
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let skew = prop::sample::select(vec![i32::MIN, -1, 0, 1, 2, 10, i32::MAX]);
    let when = prop::sample::select(vec!["DoNotSchedule", "ScheduleAnyway", "", "Never"]);
    let domains = prop::option::of(prop::sample::select(vec![i32::MIN, 0, 1, 5, i32::MAX]));
    let spread = (skew, when, domains, word(), selector(), prop::option::of(word())).prop_map(|(skew, when, domains, key, selector, keys)| {
        json!({"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "minDomains": domains, "labelSelector": selector,
            "matchLabelKeys": keys.map(|key| vec![key])})
    });
    let terms = || prop::collection::vec(term(), 0..3);
    let weight = prop::sample::select(vec![i32::MIN, 0, 50, i32::MAX]);
    let preferred = (weight, term()).prop_map(|(weight, term)| json!([{"weight": weight, "podAffinityTerm": term}]));
    let node = prop::collection::vec(expression(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]), 0..3);
    let places = prop::collection::vec(prop::collection::vec(expression(&["In", "NotIn", "Exists", "Gt"]), 0..2), 0..3);
    let ports = prop::collection::vec(
        prop::sample::select(vec![i32::MIN, 0, 80, i32::MAX]).prop_map(|port| json!({"port": port})),
        0..2,
    );
    (
        (amounts(), prop::collection::vec(spread, 0..3), terms(), terms(), preferred),
        (node, places, ports, any::<i32>(), any::<bool>(), word()),
    )
        .prop_map(|((requests, spread, near, far, preferred), (node, places, ports, priority, to_come, label))| {
            json!({"requests": requests, "labels": {"app": label}, "topologySpreadConstraints": spread, "priority": priority,
                "volumeTopology": places, "hostPorts": ports, "toCome": to_come,
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": node}]}},
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": far,
                        "preferredDuringSchedulingIgnoredDuringExecution": preferred}}})
        })
}

fn pool() -> impl Strategy<Value = Value> {
    let policy = prop::sample::select(vec!["cost", "fewest-nodes", "node-groups"]);
    let requirements = prop::collection::vec(expression(&["In", "NotIn", "Exists", "DoesNotExist", "Gt"]), 0..2);
    let least = prop::option::of(prop::sample::select(vec![0u32, 1, 50, u32::MAX]));
    (policy, requirements, amounts(), amounts(), least, any::<i32>()).prop_map(
        |(policy, mut requirements, limits, usage, least, weight)| {
            if let (Some(first), Some(least)) = (requirements.first_mut(), least) {
                first["minValues"] = json!(least);
            }
            json!({"policy": policy, "requirements": requirements, "limits": limits, "usage": usage, "weight": weight})
        },
    )
}

fn machine() -> impl Strategy<Value = Value> {
    let price = prop::sample::select(vec![0.0, 1e-300, 0.1, 1e300]);
    (amounts(), amounts(), price, word(), prop::bool::weighted(0.3), amounts()).prop_map(|(mut capacity, reserved, price, zone, large, attachments)| {
        if !large {
            capacity = json!({"cpu": "8", "memory": "32Gi", "pods": "58"});
        }
        json!({"capacity": capacity, "overhead": {"kubeReserved": if large { reserved } else { json!({}) }}, "attachments": attachments,
            "requirements": [], "offerings": [
                {"zone": zone, "capacityType": "spot", "price": price, "available": true},
                {"zone": "a", "capacityType": "on-demand", "price": price, "available": true}]})
    })
}

fn nonsense() -> impl Strategy<Value = Value> {
    let node = (amounts(), amounts(), prop::collection::vec(pod(), 0..2), word());
    (
        prop::collection::vec(pod(), 0..6),
        prop::collection::vec(pool(), 0..3),
        prop::collection::vec(machine(), 0..4),
        prop::collection::vec(node, 0..2),
        any::<(bool, bool)>(),
    )
        .prop_map(|(pods, pools, machines, nodes, (respect, strict))| {
            let named = |prefix: &str, all: Vec<Value>| -> Vec<Value> {
                let name = |(at, mut one): (usize, Value)| {
                    one["name"] = json!(format!("{prefix}{at}"));
                    one
                };
                all.into_iter().enumerate().map(name).collect()
            };
            let nodes = nodes.into_iter().map(|(allocatable, used, pods, zone)| {
                json!({"allocatable": allocatable, "used": used, "pods": named("bound", pods), "labels": {ZONE: zone}})
            });
            json!({"pods": named("p", pods), "nodePools": named("pool", pools), "instanceTypes": named("t", machines),
                "existingNodes": named("n", nodes.collect()), "preferencePolicy": if respect { "Respect" } else { "Ignore" },
                "minValuesPolicy": if strict { "Strict" } else { "BestEffort" }})
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_is_refused_or_answered(written in nonsense()) {
        // A problem that cannot be read at all is refused with its place; all else is packed.
        if let Ok(problem) = serde_json::from_value::<Problem>(written) {
            let _ = dovetail_core::faults::find_faults(&problem);
            let _ = warnings(&problem);
            answered(&problem);
        }
    }
}
