//! Rules between pods where kube-scheduler's fine print decides: keys that no node has, pods left over, ports of daemons.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, PlannedClaim, solve};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const ARCH: &str = "kubernetes.io/arch";

/// One type of eight cores at one price in three zones, one pool; each pod an app's name and its further fields.
fn problem(pods: Vec<(&str, Value)>) -> Problem {
    let offering = |zone: &str| json!({"zone": zone, "capacityType": "on-demand", "price": 1.0, "available": true});
    let one = json!({"name": "m.8", "capacity": {"cpu": "8", "memory": "32Gi", "pods": "30"},
        "requirements": [{"key": ARCH, "operator": "In", "values": ["amd64"]}],
        "offerings": [offering("a"), offering("b"), offering("c")]});
    let named = |(at, (app, more)): (usize, (&str, Value))| {
        let mut pod = json!({"name": format!("{app}-{at}"), "uid": format!("{at}"), "labels": {"app": app},
            "requests": {"cpu": "100m"}});
        more.as_object().unwrap().iter().for_each(|(key, value)| pod[key] = value.clone());
        pod
    };
    let pods: Vec<Value> = pods.into_iter().enumerate().map(named).collect();
    read(json!({"nodePools": [{"name": "default"}], "instanceTypes": [one], "pods": pods}))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn term(app: &str, key: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn needs(kind: &str, app: &str, key: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}})
}

fn prefers(kind: &str, app: &str, key: &str) -> Value {
    let weighted = json!({"weight": 9, "podAffinityTerm": term(app, key)});
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}})
}

fn spread(app: &str, key: &str, skew: u32, when: &str) -> Value {
    json!({"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}}}]})
}

fn none() -> Value {
    json!({})
}

/// The names of the pods left over.
fn left(problem: &Problem) -> Vec<String> {
    let packing = solve(problem, &Options::default());
    packing.unscheduled.iter().map(|(pod, _)| problem.pods[*pod].name.clone()).collect()
}

fn nodes(problem: &Problem) -> usize {
    let packing = solve(problem, &Options::default());
    assert!(packing.unscheduled.is_empty(), "{}", packing.unscheduled[0].1);
    packing.claims.len()
}

fn claim_of(packing: &Packing, pod: usize) -> &PlannedClaim {
    packing.claims.iter().find(|claim| claim.pods.contains(&pod)).unwrap()
}

#[test]
fn a_preference_over_a_key_that_no_node_has_leaves_nobody() {
    for kind in ["podAffinity", "podAntiAffinity"] {
        assert_eq!(nodes(&problem(vec![("a", prefers(kind, "a", "rack")), ("a", prefers(kind, "a", "rack"))])), 1);
    }
    assert_eq!(nodes(&problem(vec![("a", spread("b", "rack", 2, "ScheduleAnyway"))])), 1);
}

#[test]
fn rule_over_key_no_node_has_leaves_only_pods_that_require_it() {
    assert_eq!(left(&problem(vec![("b", spread("a", "rack", 1, "DoNotSchedule")), ("a", none())])), ["b-0"]);
    assert_eq!(left(&problem(vec![("b", needs("podAffinity", "a", "rack")), ("a", none())])), ["b-0"]);
}

#[test]
fn anti_affinity_over_key_no_node_has_is_satisfied_everywhere() {
    assert_eq!(nodes(&problem(vec![("b", needs("podAntiAffinity", "a", "rack")), ("a", none())])), 1);
}

/// Large pods, which are packed first, each with a topology key of its own.
fn with_keys_of_their_own(keys: impl IntoIterator<Item = String>) -> Vec<(&'static str, Value)> {
    let one = |key: String| {
        let mut pod = spread("odd", &key, 1, "DoNotSchedule");
        pod["requests"] = json!({"cpu": "7"});
        ("odd", pod)
    };
    keys.into_iter().map(one).collect()
}

#[test]
fn keys_that_pods_make_up_take_none_from_others() {
    let mut pods = with_keys_of_their_own((0..100).map(|at| format!("made-up/{at}")));
    pods.extend(vec![("a", spread("a", ZONE, 1, "DoNotSchedule")); 3]);
    pods.push(("c", needs("podAntiAffinity", "a", "made-up/of-c")));
    let problem = problem(pods);
    let packing = solve(&problem, &Options::default());
    let why = |app: &str| {
        let of_app = packing.unscheduled.iter().filter(|(pod, _)| problem.pods[*pod].name.starts_with(app));
        of_app.map(|(_, why)| why.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(why("a"), [""; 0]);
    assert_eq!(why("c"), [""; 0], "no node has the label: it keeps away from nothing");
    let odd = why("odd");
    assert_eq!(odd.len(), 100);
    assert!(odd.iter().any(|why| why == "no node has a label of the topology key made-up/99"), "{odd:?}");
}

#[test]
fn zones_stay_apart_though_a_pod_names_every_node_label() {
    let keys = || (0..100).map(|at| format!("label/{at}"));
    let mut pods = with_keys_of_their_own(keys());
    pods.extend(vec![("a", spread("a", ZONE, 1, "DoNotSchedule")); 3]);
    let mut problem = problem(pods);
    problem.node_pools[0].labels = keys().map(|key| (key, "x".to_owned())).collect();
    let left = left(&problem);
    assert_eq!(left.iter().filter(|name| name.starts_with('a')).count(), 0, "{left:?}");
}

#[test]
fn pod_with_many_type_label_keys_leaves_others_their_nodes() {
    const LABELS: [&str; 3] = ["family", "size", "generation"];
    let mut away = needs("podAntiAffinity", "a", ZONE);
    let terms = &mut away["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    *terms = LABELS.iter().chain(&[ZONE, "node.kubernetes.io/instance-type"]).map(|key| term("a", key)).collect();
    let mut pods = vec![("odd", away)];
    let large = json!({"requests": {"cpu": "7"}});
    pods.extend(vec![("a", large); 3]);
    let mut problem = problem(pods);
    problem.well_known_labels = LABELS.map(str::to_owned).to_vec();
    let offerings = serde_json::to_value(&problem.instance_types[0].offerings).unwrap();
    let types = (0..40).map(|at| {
        let is = |key: &str, value: String| json!({"key": key, "operator": "In", "values": [value]});
        let mut requirements = vec![is("node.kubernetes.io/instance-type", format!("t{at:02}"))];
        requirements.extend(LABELS.map(|key| is(key, format!("{at:02}"))));
        let cpu = if at < 30 { "1" } else { "8" };
        read(json!({"name": format!("t{at:02}"), "capacity": {"cpu": cpu, "memory": "32Gi", "pods": "30"},
            "requirements": requirements, "offerings": offerings}))
    });
    problem.instance_types = types.map(std::sync::Arc::new).collect();
    let left = left(&problem);
    assert!(left.iter().all(|name| name.starts_with("odd")), "{left:?}");
}

/// A heavier pool without the label beside the default one that has it.
fn with_a_pool_without_racks(pods: Vec<(&str, Value)>) -> Problem {
    let mut problem = problem(pods);
    problem.node_pools[0].requirements = read(json!([{"key": "rack", "operator": "In", "values": ["1", "2"]}]));
    problem.node_pools.push(read(json!({"name": "heavy", "weight": 9})));
    problem
}

#[test]
fn a_pod_that_a_spread_counts_may_be_on_a_node_without_its_key() {
    let problem = with_a_pool_without_racks(vec![("b", spread("a", "rack", 1, "DoNotSchedule")), ("a", none())]);
    let packing = solve(&problem, &Options::default());
    assert_eq!([0, 1].map(|pod| claim_of(&packing, pod).pool), [0, 1]);
}

#[test]
fn pods_that_a_key_keeps_apart_share_a_node_that_lacks_it() {
    let problem = with_a_pool_without_racks(vec![("a", needs("podAntiAffinity", "a", "rack")); 4]);
    let packing = solve(&problem, &Options::default());
    assert_eq!(packing.claims.iter().map(|claim| (claim.pool, claim.pods.len())).collect::<Vec<_>>(), [(1, 4)]);
    assert!(packing.claims[0].requirements.iter().all(|said| said.key != "rack" || said.values.is_empty()));
}

#[test]
fn nobody_is_placed_beside_a_pod_that_is_left_over() {
    let follower = ("a", needs("podAffinity", "b", ZONE));
    assert_eq!(left(&problem(vec![follower.clone(), ("b", needs("podAffinity", "c", HOST))])).len(), 2);
    // One of two that wait for nobody is enough.
    let alone = ("b", json!({"requests": {"cpu": "200m"}}));
    assert_eq!(left(&problem(vec![follower, ("b", needs("podAffinity", "c", HOST)), alone])), ["b-1"]);
}

#[test]
fn a_chain_that_hangs_on_a_pod_left_over_is_left_over() {
    let link = |own: &'static str, next: &str| (own, needs("podAffinity", next, ZONE));
    let pods =
        vec![link("a", "b"), link("b", "c"), link("c", "d"), ("d", needs("podAffinity", "e", HOST)), ("f", none())];
    assert_eq!(left(&problem(pods)).len(), 4);
}

#[test]
fn pods_in_an_affinity_ring_are_left_unless_one_can_begin() {
    let ring = vec![("b", needs("podAffinity", "c", ZONE)), ("c", needs("podAffinity", "b", HOST))];
    assert_eq!(left(&problem(ring.clone())), ["b-0", "c-1"]);
    let with_a_beginning = ring.into_iter().chain([("b", none())]).collect();
    assert_eq!(left(&problem(with_a_beginning)), [""; 0]);
}

#[test]
fn self_affine_pod_begins_on_no_node_while_its_peers_can_run() {
    // Company and distance of the same pods: it can only be the first of all.
    let mut first = needs("podAffinity", "a", HOST);
    first["affinity"]["podAntiAffinity"] = needs("podAntiAffinity", "a", HOST)["affinity"]["podAntiAffinity"].clone();
    assert_eq!(left(&problem(vec![("a", first.clone())])), [""; 0]);
    assert_eq!(left(&problem(vec![("a", first.clone()), ("a", none())])), ["a-0"]);
    // One that is never bound is in nobody's way.
    let nowhere = json!({"nodeSelector": {ZONE: "z"}});
    assert_eq!(left(&problem(vec![("a", first), ("a", nowhere)])), ["a-1"]);
}

#[test]
fn a_spread_counts_no_pod_that_a_limit_leaves_without_a_node() {
    let mut pods = vec![("a", spread("a", ZONE, 1, "DoNotSchedule")); 9];
    pods.iter_mut().for_each(|(_, more)| more["requests"] = json!({"cpu": "4"}));
    let mut problem = problem(pods);
    problem.node_pools[0].limits.set("nodes", 3);
    let packing = solve(&problem, &Options::default());
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    packing.claims.iter().for_each(|claim| *zones.entry(&claim.cheapest_zone).or_insert(0) += claim.pods.len());
    let (least, most) = (zones.values().min().unwrap(), zones.values().max().unwrap());
    assert!(zones.len() == 3 && most - least <= 1, "{zones:?}");
}

/// The default pool on another type of machine, with one DaemonSet that takes port 80 as written.
fn with_daemon(pods: Vec<(&str, Value)>, daemon: Value) -> Problem {
    let mut problem = problem(pods);
    let mut one = json!({"name": "agent", "hostPorts": [{"port": 80}]});
    daemon.as_object().unwrap().iter().for_each(|(key, value)| one[key] = value.clone());
    problem.daemon_pods = vec![read(one)];
    problem
}

fn port(ip: &str) -> (&'static str, Value) {
    ("a", json!({"hostPorts": [{"port": 80, "ip": ip}]}))
}

#[test]
fn a_daemon_takes_a_host_port_only_where_it_runs() {
    assert_eq!(nodes(&with_daemon(vec![port("")], json!({"nodeSelector": {ARCH: "arm64"}}))), 1);
    let mut pods = vec![port("")];
    pods[0].1["tolerations"] = json!([{"operator": "Exists"}]);
    let mut tainted = with_daemon(pods, none());
    tainted.node_pools[0].taints = read(json!([{"key": "x", "effect": "NoSchedule"}]));
    assert_eq!(nodes(&tainted), 1);
}

#[test]
fn daemon_host_port_leaves_pods_asking_for_it_with_a_reason() {
    let problem = with_daemon(vec![port(""), ("b", none())], none());
    let packing = solve(&problem, &Options::default());
    assert_eq!(packing.unscheduled[0].1.to_string(), "pool default: host port 80 is taken by DaemonSet agent");
    assert_eq!((packing.unscheduled.len(), packing.claims.len()), (1, 1));
    assert_eq!(packing.claims[0].requests.get("cpu"), 100);
    assert_eq!(packing.claims[0].requests.iter().count(), 2, "{}", packing.claims[0].requests);
}

#[test]
fn daemon_takes_its_host_port_on_existing_nodes_it_runs_on() {
    let there = |arch: &str| -> dovetail_core::ExistingNode {
        read(json!({"name": "n", "labels": {ZONE: "a", ARCH: arch},
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}}))
    };
    for (arch, held) in [("amd64", 0), ("arm64", 1)] {
        let mut problem = with_daemon(vec![port("")], json!({"nodeSelector": {ARCH: "amd64"}}));
        problem.existing_nodes = vec![there(arch)];
        assert_eq!(solve(&problem, &Options::default()).on_existing.len(), held, "{arch}");
    }
}

#[test]
fn host_ports_share_a_node_by_address_but_not_with_wildcard() {
    assert_eq!(nodes(&problem(vec![port("10.0.0.1"), port("10.0.0.2")])), 1);
    assert_eq!(nodes(&problem(vec![port("10.0.0.1"), port("10.0.0.1")])), 2);
    for any in ["0.0.0.0", "", "::"] {
        assert_eq!(nodes(&problem(vec![port("10.0.0.1"), port(any), port("10.0.0.2")])), 2, "{any:?}");
    }
}

#[test]
fn a_port_of_a_pod_that_is_there_is_its_address_only() {
    for (ip, held) in [("10.0.0.1", 0), ("10.0.0.2", 1), ("0.0.0.0", 0)] {
        let mut problem = problem(vec![port(ip)]);
        problem.existing_nodes = vec![read(json!({"name": "n", "labels": {ZONE: "a"},
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"},
            "pods": [{"name": "old", "hostPorts": [{"port": 80, "ip": "10.0.0.1"}]}]}))];
        assert_eq!(solve(&problem, &Options::default()).on_existing.len(), held, "{ip}");
    }
}

#[test]
fn node_lacking_one_spread_key_of_a_pod_is_not_counted() {
    let mut both = spread("a", ZONE, 1, "DoNotSchedule");
    let rack = spread("a", "rack", 5, "DoNotSchedule")["topologySpreadConstraints"][0].clone();
    both["topologySpreadConstraints"].as_array_mut().unwrap().push(rack);
    let old = json!({"name": "old", "labels": {"app": "a"}});
    let zones = |labels: Value, pods: Value| {
        let mut problem = problem(vec![("a", pods.clone()), ("a", pods)]);
        problem.node_pools[0].labels.insert("rack".into(), "1".into());
        let within = json!([{"key": ZONE, "operator": "In", "values": ["a", "b"]}]);
        problem.node_pools[0].requirements = read(within);
        problem.existing_nodes = vec![read(json!({"name": "n", "labels": labels,
            "allocatable": {"cpu": "0", "memory": "8Gi", "pods": "10"}, "pods": [old, old, old]}))];
        let packing = solve(&problem, &Options::default());
        packing.claims.iter().map(|claim| claim.cheapest_zone.clone()).collect::<Vec<_>>()
    };
    assert_eq!(zones(json!({ZONE: "a"}), both.clone()), ["a", "b"]);
    assert_eq!(zones(json!({ZONE: "a", "rack": "2"}), both.clone()), ["b"]);
    // A constraint that may be broken adds no key that a node has to have for one that may not.
    both["topologySpreadConstraints"][1]["whenUnsatisfiable"] = json!("ScheduleAnyway");
    assert_eq!(zones(json!({ZONE: "a"}), both), ["b"]);
}

#[test]
fn self_affine_pods_by_zone_and_by_host_begin_in_one_zone() {
    let mut host = needs("podAffinity", "a", HOST);
    host["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "size", "operator": "In", "values": ["large"]}]}]}});
    let mut problem = problem(vec![("a", needs("podAffinity", "a", ZONE)), ("a", host)]);
    // The type that both can be on is in another zone than the cheapest for the first.
    let mut small = (*problem.instance_types[0]).clone();
    small.name = "s.1".into();
    small.capacity.set("cpu", 1000);
    small.offerings.retain(|offering| offering.zone == "c");
    small.offerings[0].price = 0.1;
    let mut large = (*problem.instance_types[0]).clone();
    large.requirements.push(read(json!({"key": "size", "operator": "In", "values": ["large"]})));
    problem.instance_types = vec![small.into(), large.into()];
    problem.well_known_labels = vec!["size".into()];
    let packing = solve(&problem, &Options::default());
    assert!(packing.unscheduled.is_empty());
    assert_eq!(claim_of(&packing, 0).cheapest_zone, claim_of(&packing, 1).cheapest_zone);
}

/// A heavier pool in zones b and c only.
fn with_a_heavier_pool_in_two_zones(pods: Vec<(&str, Value)>) -> Problem {
    let mut problem = problem(pods);
    let within = json!([{"key": ZONE, "operator": "In", "values": ["b", "c"]}]);
    problem.node_pools.push(read(json!({"name": "heavy", "weight": 9, "requirements": within})));
    problem
}

#[test]
fn a_rule_of_another_pod_keeps_nobody_from_the_heavier_pool() {
    for rule in [needs("podAffinity", "a", ZONE), spread("a", ZONE, 2, "DoNotSchedule")] {
        let problem = with_a_heavier_pool_in_two_zones(vec![("b", rule), ("a", none()), ("a", none())]);
        let packing = solve(&problem, &Options::default());
        assert!(packing.unscheduled.is_empty());
        assert!(packing.claims.iter().all(|claim| claim.pool == 1), "{:?}", packing.claims);
    }
}

#[test]
fn spread_not_counting_the_pod_itself_opens_no_extra_node() {
    let pods = vec![("a", none()), ("b", spread("a", ZONE, 2, "DoNotSchedule"))];
    assert_eq!(nodes(&with_a_heavier_pool_in_two_zones(pods)), 1);
}

#[test]
fn a_place_is_priced_by_what_holds_the_pod() {
    let mut pods = vec![("a", json!({"requests": {"cpu": "3"}})); 2];
    pods.push(("b", needs("podAffinity", "a", ZONE)));
    let mut problem = problem(pods);
    // The cheapest machine is in zone a and too small; what is large enough is cheaper in b.
    let mut small = (*problem.instance_types[0]).clone();
    small.name = "s.1".into();
    small.capacity.set("cpu", 1000);
    small.offerings.iter_mut().zip([0.1, 0.2, 0.2]).for_each(|(offering, price)| offering.price = price);
    let mut large = (*problem.instance_types[0]).clone();
    large.offerings[1].price = 0.5;
    problem.instance_types = vec![small.into(), large.into()];
    let packing = solve(&problem, &Options::default());
    assert_eq!(packing.claims.iter().map(|claim| claim.cheapest_zone.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn pod_on_node_outside_a_spread_is_not_counted_by_it() {
    let mut even = spread("a", ZONE, 1, "DoNotSchedule");
    even["nodeSelector"] = json!({(ARCH): "amd64"});
    let in_b = json!({"nodeSelector": {(ZONE): "b", (ARCH): "amd64"}});
    let mut problem = problem(vec![("a", none()), ("a", none()), ("a", even.clone()), ("a", even), ("a", in_b)]);
    // It takes the first two.
    let there = json!({"name": "there", "labels": {(ZONE): "a", (ARCH): "arm64"},
        "allocatable": {"cpu": "1", "memory": "8Gi", "pods": "2"}});
    problem.existing_nodes.push(read(there));
    let packing = solve(&problem, &Options::default());
    assert!(packing.unscheduled.is_empty() && packing.on_existing.len() == 1);
    let zones: std::collections::BTreeSet<_> =
        [2, 3].iter().map(|pod| &*claim_of(&packing, *pod).cheapest_zone).collect();
    assert_eq!(Vec::from_iter(zones), ["a", "c"]);
}

#[test]
fn spread_over_self_affine_pods_lets_them_begin_in_one_zone() {
    let host = || ("b", needs("podAffinity", "b", HOST));
    let zone = || ("b", needs("podAffinity", "b", ZONE));
    let problem = problem(vec![("c", spread("b", ZONE, 2, "DoNotSchedule")), host(), host(), zone(), zone()]);
    let packing = solve(&problem, &Options::default());
    assert!(packing.unscheduled.is_empty());
    let zones: std::collections::BTreeSet<_> =
        (1..5).map(|pod| claim_of(&packing, pod).cheapest_zone.clone()).collect();
    assert_eq!(zones.len(), 1, "{zones:?}");
}

/// The same with a machine for arm64 at half the price.
fn with_arm(pods: Vec<(&str, Value)>) -> Problem {
    let mut problem = problem(pods);
    let mut arm = (*problem.instance_types[0]).clone();
    arm.name = "g.8".into();
    arm.requirements = vec![read(json!({"key": ARCH, "operator": "In", "values": ["arm64"]}))];
    arm.offerings.iter_mut().for_each(|offering| offering.price = 0.5);
    problem.instance_types.push(arm.into());
    problem
}

fn even_on_amd() -> (&'static str, Value) {
    let mut even = spread("a", ZONE, 1, "DoNotSchedule");
    even["nodeSelector"] = json!({(ARCH): "amd64"});
    ("a", even)
}

#[test]
fn pod_possibly_outside_a_spread_does_not_raise_other_domains() {
    // The two in c count only if their node comes as amd64: a and b may have one each and not two.
    let in_c = || ("a", json!({"nodeSelector": {(ZONE): "c"}, "requests": {"cpu": "3"}}));
    let mut pods = vec![in_c(), in_c()];
    pods.extend(vec![even_on_amd(); 4]);
    let problem = with_arm(pods);
    let packing = solve(&problem, &Options::default());
    let mut of_zone: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in &packing.claims {
        *of_zone.entry(&claim.cheapest_zone).or_default() += claim.pods.iter().filter(|pod| **pod >= 2).count();
    }
    assert_eq!([of_zone["a"], of_zone["b"]], [1, 1]);
    assert_eq!(packing.unscheduled.len(), 2, "{:?}", packing.unscheduled);
}

#[test]
fn a_pod_that_may_count_leaves_its_domain_open_for_one_more() {
    let in_c = ("a", json!({"nodeSelector": {(ZONE): "c"}}));
    let problem = with_arm(vec![in_c, even_on_amd(), even_on_amd(), even_on_amd()]);
    assert!(left(&problem).is_empty(), "{:?}", left(&problem));
}

#[test]
fn pod_surely_outside_a_spread_takes_no_place_in_it() {
    let mut pods = vec![("a", json!({"nodeSelector": {(ARCH): "arm64", (ZONE): "a"}})); 5];
    pods.extend(vec![even_on_amd(); 3]);
    let problem = with_arm(pods);
    let packing = solve(&problem, &Options::default());
    assert!(packing.unscheduled.is_empty());
    let mut zones: Vec<&str> = (5..8).map(|pod| claim_of(&packing, pod).cheapest_zone.as_str()).collect();
    zones.sort_unstable();
    assert_eq!(zones, ["a", "b", "c"]);
}
