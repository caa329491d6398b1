//! Rules between pods that wait and the pods of DaemonSets on nodes to come: affinity and anti-affinity, whichever states it.
#![allow(clippy::unwrap_used, clippy::panic)]

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, solve};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const ARCH: &str = "kubernetes.io/arch";
const CT: &str = "karpenter.sh/capacity-type";

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn a_type(name: &str, arch: &str, price: f64) -> Value {
    let offering = |zone: &str| json!({"zone": zone, "capacityType": "on-demand", "price": price, "available": true});
    json!({"name": name, "capacity": {"cpu": "4", "memory": "16Gi", "pods": "30"},
        "requirements": [{"key": ARCH, "operator": "In", "values": [arch]}],
        "offerings": [offering("a"), offering("b")]})
}

/// A term of the kind, over a key, that means an app's pods.
fn term(kind: &str, app: &str, key: &str) -> Value {
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}})
}

fn pod(app: &str, name: &str, affinity: &Value) -> Value {
    json!({"name": name, "uid": name, "labels": {"app": app}, "requests": {"cpu": "500m"}, "affinity": affinity})
}

/// Pods and DaemonSets, with arm64 nodes that are cheap and amd64 nodes that are dear, and a tainted pool `quiet`.
fn problem(pods: Vec<Value>, daemons: Vec<Value>) -> Problem {
    let types = [a_type("g.4", "arm64", 0.1), a_type("m.4", "amd64", 0.2)];
    read(json!({"nodePools": [{"name": "default"}], "instanceTypes": types, "pods": pods, "daemonPods": daemons}))
}

fn agent(more: &Value) -> Value {
    let mut one = pod("agent", "agent", &json!(null));
    one["requests"] = json!({"cpu": "100m"});
    one.as_object_mut().unwrap().remove("affinity");
    more.as_object().into_iter().flatten().for_each(|(key, value)| one[key] = value.clone());
    one
}

fn packed(problem: &Problem) -> Packing {
    solve(problem, &Options::default())
}

fn types(problem: &Problem, packing: &Packing) -> Vec<String> {
    let names = packing.claims.iter().flat_map(|claim| &claim.options);
    let mut names: Vec<String> = names.map(|one| problem.instance_types[one.instance_type].name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn on_amd64() -> Value {
    json!({"nodeSelector": {ARCH: "amd64"}})
}

#[test]
fn anti_affinity_to_daemonset_keeps_pod_off_nodes_it_runs_on() {
    for key in [HOST, ZONE, ARCH] {
        let wary = pod("web", "w", &term("podAntiAffinity", "agent", key));
        let everywhere = packed(&problem(vec![wary.clone()], vec![agent(&json!({}))]));
        assert!(everywhere.claims.is_empty(), "{key}");
        let told = everywhere.unscheduled[0].1.to_string();
        assert!(told.contains("anti-affinity keeps it off the pods of DaemonSet agent"), "{key}: {told}");
        let some = problem(vec![wary], vec![agent(&json!({"nodeSelector": {ARCH: "arm64"}}))]);
        assert_eq!(types(&some, &packed(&some)), ["m.4"], "{key}");
    }
}

#[test]
fn anti_affinity_of_daemonset_keeps_pods_off_its_nodes() {
    for key in [HOST, ZONE, ARCH] {
        let own = json!({"affinity": term("podAntiAffinity", "web", key), "nodeSelector": {ARCH: "arm64"}});
        let pods = vec![pod("web", "w", &json!({})), pod("db", "d", &json!({}))];
        let some = problem(pods, vec![agent(&own)]);
        let packing = packed(&some);
        assert!(packing.unscheduled.is_empty(), "{key}");
        let of = |pod: usize| packing.claims.iter().find(|claim| claim.pods.contains(&pod)).unwrap();
        let first = some.instance_types[of(0).options[0].instance_type].name.as_str();
        assert_eq!((first, of(0).options.len()), ("m.4", 1), "{key}");
    }
}

#[test]
fn anti_affinity_by_a_label_that_nodes_lack_keeps_nobody_off() {
    let wary = pod("web", "w", &term("podAntiAffinity", "agent", "rack"));
    let mut problem = problem(vec![wary], vec![agent(&json!({}))]);
    assert_eq!(packed(&problem).claims.len(), 1);
    problem.node_pools[0].labels.insert("rack".to_owned(), "r1".to_owned());
    assert_eq!(packed(&problem).claims.len(), 0);
}

#[test]
fn affinity_to_daemonset_is_met_by_new_nodes_it_runs_on() {
    for key in [HOST, ZONE, ARCH] {
        let follower = |at: usize| pod("web", &format!("w{at}"), &term("podAffinity", "agent", key));
        let all = problem((0..12).map(follower).collect(), vec![agent(&json!({}))]);
        let packing = packed(&all);
        assert!(packing.unscheduled.is_empty(), "{key}: {}", packing.unscheduled[0].1);
        assert_eq!(packing.claims.len(), 2, "{key}: seven take 3.5 of the 3.9 CPU that the agent leaves");
        let some = problem((0..3).map(follower).collect(), vec![agent(&on_amd64())]);
        assert_eq!(types(&some, &packed(&some)), ["m.4"], "{key}: the cheaper nodes have no agent");
    }
}

#[test]
fn affinity_to_daemonset_out_of_reach_is_left_with_a_reason() {
    let mut follower = pod("web", "w", &term("podAffinity", "agent", HOST));
    follower["nodeSelector"] = json!({ARCH: "arm64"});
    let packing = packed(&problem(vec![follower.clone()], vec![agent(&on_amd64())]));
    assert!(packing.unscheduled[0].1.to_string().contains("finds no pod to join"), "{}", packing.unscheduled[0].1);
    // A pod that is no DaemonSet's will do as well.
    let mut other = pod("agent", "o", &json!({}));
    other["nodeSelector"] = json!({ARCH: "arm64"});
    let both = packed(&problem(vec![follower, other], vec![agent(&on_amd64())]));
    assert_eq!((both.unscheduled.len(), both.claims.len()), (0, 1));
}

#[test]
fn affinity_to_daemonset_in_tainted_pool_needs_both_tolerations() {
    let mut follower = pod("web", "w", &term("podAffinity", "agent", HOST));
    let mut all = problem(vec![follower.clone()], vec![agent(&json!({}))]);
    all.node_pools[0].taints = read(json!([{"key": "quiet", "effect": "NoSchedule"}]));
    assert_eq!(packed(&all).claims.len(), 0);
    follower["tolerations"] = json!([{"operator": "Exists"}]);
    all.pods = vec![read(follower)];
    assert_eq!(packed(&all).claims.len(), 0, "the agent does not tolerate the taint");
    all.daemon_pods = vec![read(agent(&json!({"tolerations": [{"operator": "Exists"}]})))];
    assert_eq!(packed(&all).claims.len(), 1);
}

#[test]
fn a_node_on_its_way_on_which_the_daemonset_will_run_is_company() {
    for key in [HOST, ZONE] {
        let follower = pod("web", "w", &term("podAffinity", "agent", key));
        let mut all = problem(vec![follower], vec![agent(&on_amd64())]);
        for (arch, held) in [("amd64", 1), ("arm64", 0)] {
            all.existing_nodes = vec![read(json!({"name": "n", "labels": {ZONE: "a", ARCH: arch},
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}))];
            assert_eq!(packed(&all).on_existing.len(), held, "{key} {arch}");
        }
        // One that is ready has its pods; what is not among them is not there.
        all.existing_nodes[0].labels.insert(ARCH.to_owned(), "amd64".to_owned());
        all.existing_nodes[0].initialized = true;
        assert_eq!(packed(&all).on_existing.len(), 0, "{key}");
    }
}

#[test]
fn daemonset_waiting_for_the_pod_does_not_meet_its_affinity() {
    let follower = pod("web", "w", &term("podAffinity", "agent", HOST));
    let waiting = agent(&json!({"affinity": term("podAffinity", "web", HOST)}));
    assert_eq!(packed(&problem(vec![follower], vec![waiting])).claims.len(), 0);
}

/// An innocent pod, which has to get a node whatever DaemonSets others make.
fn innocent() -> Value {
    json!({"name": "innocent", "uid": "innocent", "namespace": "good", "requests": {"cpu": "1", "memory": "1Gi"}})
}

fn hopeless(more: &Value) -> Value {
    let mut one = agent(more);
    one["name"] = json!("big");
    one["namespace"] = json!("team");
    one
}

#[test]
fn daemonset_that_fits_no_type_counts_nowhere_and_is_named() {
    let avoid = |selector: Value, namespaces: Value| {
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOST, "labelSelector": selector, "namespaceSelector": namespaces}]}}})
    };
    let others = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["big"]}]});
    for (more, why) in [
        (json!({"requests": {"cpu": "1000"}}), "it needs 1000 CPU, the largest of 2 instance types has 4 CPU"),
        (json!({"requests": {"cpu": "100m", "memory": "17Gi"}}), "it needs 17Gi of memory"),
        (json!({"requests": {"nvidia.com/gpu": "8"}}), "it needs 8 nvidia.com/gpu, the largest"),
        (json!({"requests": {"hugepages-2Mi": "64Mi"}}), "hugepages-2Mi"),
        (json!({"requests": {"example.com/thing": "1"}}), "example.com/thing"),
        (json!({"requests": {"ephemeral-storage": "100Ti"}}), "100Ti of ephemeral-storage"),
        (avoid(json!({}), json!({})), "its own anti-affinity is against pods of others, such as good/innocent"),
        (avoid(others.clone(), json!({})), "its own anti-affinity is against pods of others"),
    ] {
        let all = problem(
            vec![innocent(), json!({"name": "huge", "uid": "h", "requests": {"cpu": "5"}})],
            vec![hopeless(&more)],
        );
        let packing = packed(&all);
        assert_eq!(packing.claims.len(), 1, "{more}: {:?}", packing.unscheduled);
        assert_eq!(packing.claims[0].requests.get("cpu"), 1000, "{more}");
        assert_eq!(types(&all, &packing)[0], "g.4", "{more}");
        let [one] = packing.daemons_not_counted.as_slice() else { panic!("{more}: {:?}", packing.daemons_not_counted) };
        let told = one.sentence(&all);
        assert!(told.starts_with("DaemonSet team/big is not counted") && told.contains(why), "{told}");
        let reason = packing.unscheduled[0].1.to_string();
        assert!(reason.contains("needs 5 CPU") && reason.ends_with("DaemonSet team/big is not counted"), "{reason}");
    }
    // In its own namespace as well, where it is against everybody.
    let mut own = innocent();
    own["namespace"] = json!("team");
    assert_eq!(packed(&problem(vec![own], vec![hopeless(&avoid(json!({}), json!(null)))])).claims.len(), 1);
}

#[test]
fn daemonset_takes_nothing_of_types_that_it_does_not_fit_on() {
    let mut all = problem(vec![innocent()], vec![hopeless(&json!({"requests": {"cpu": "6"}}))]);
    all.instance_types.push(read(json!({"name": "m.8", "capacity": {"cpu": "8", "memory": "32Gi", "pods": "60"},
        "requirements": [{"key": ARCH, "operator": "In", "values": ["amd64"]}],
        "offerings": [{"zone": "a", "capacityType": "on-demand", "price": 0.05, "available": true}]})));
    let packing = packed(&all);
    // On the cheap large type its six cores count, and one is left; nothing is taken of the others.
    assert_eq!((packing.claims.len(), packing.claims[0].price), (1, 0.05));
    assert_eq!((packing.claims[0].requests.get("cpu"), packing.daemons_not_counted.len()), (7000, 0));
    all.pods[0].requests.set("cpu", 3000);
    let packing = packed(&all);
    assert_eq!((packing.claims[0].price, packing.claims[0].requests.get("cpu")), (0.1, 3000));
}

#[test]
fn daemonsets_together_leave_room_and_urgent_ones_count_first() {
    let set = |name: &str, cpu: &str, priority: i32| {
        let mut one = agent(&json!({"requests": {"cpu": cpu}, "priority": priority}));
        one["name"] = json!(name);
        one
    };
    let sets = vec![set("a", "1500m", 0), set("b", "1200m", 7), set("c", "1900m", 0)];
    let mut all = problem(vec![innocent()], sets);
    let packing = packed(&all);
    assert_eq!(packing.claims[0].requests.get("cpu"), 3700, "b and a count, which is 2.7 of 4 CPU");
    let told = packing.daemons_not_counted[0].sentence(&all);
    assert_eq!(
        told,
        "DaemonSet default/c is not counted on nodes of pool default: with it DaemonSets would take more than 80 percent"
    );
    all.daemon_share = dovetail_core::daemons::DaemonShare::from_percent(40).unwrap();
    assert_eq!(packed(&all).claims[0].requests.get("cpu"), 2200, "b alone");
    // A pod that fits only without them is told whose the room is.
    all.pods[0].requests.set("cpu", 3000);
    let told = packed(&all).unscheduled[0].1.to_string();
    assert!(told.contains("allows 2.8 CPU beside the 1.2 CPU of DaemonSet default/b"), "{told}");
}

#[test]
fn two_daemonsets_with_one_host_port_count_as_one() {
    let set = |name: &str| {
        let mut one = agent(&json!({"requests": {"cpu": "1"}, "hostPorts": [{"port": 9100}]}));
        one["name"] = json!(name);
        one
    };
    let all = problem(vec![innocent()], vec![set("a"), set("b")]);
    let packing = packed(&all);
    assert_eq!(packing.claims[0].requests.get("cpu"), 2000);
    assert!(packing.daemons_not_counted[0].why.contains("DaemonSet default/a is on every node"));
    // Each in a zone of its own: neither is where the other is.
    let zoned = |name: &str, zone: &str| {
        let mut one = set(name);
        one["nodeSelector"] = json!({ZONE: zone});
        one
    };
    let mut pinned = innocent();
    pinned["nodeSelector"] = json!({ZONE: "b"});
    let packing = packed(&problem(vec![pinned], vec![zoned("a", "a"), zoned("b", "b")]));
    assert_eq!(packing.claims[0].requests.get("cpu"), 2000);
    assert!(packing.daemons_not_counted.is_empty(), "{:?}", packing.daemons_not_counted);
}

#[test]
fn daemonset_of_another_zone_or_label_takes_no_room() {
    let pinned = |name: &str, key: &str, value: &str, cpu: &str| json!({"name": name, "uid": name, "requests": {"cpu": cpu}, "nodeSelector": {key: value}});
    for (key, here, there) in [(ZONE, "a", "b"), ("role", "store", "front"), (CT, "spot", "on-demand")] {
        let heavy = agent(&json!({"requests": {"cpu": "3"}, "nodeSelector": {key: here}}));
        let mut all =
            problem(vec![pinned("free", key, there, "3500m"), pinned("beside", key, here, "900m")], vec![heavy]);
        all.node_pools[0].requirements = read(json!([{"key": "role", "operator": "In", "values": ["store", "front"]}]));
        for one in &mut all.instance_types {
            let spot: Vec<dovetail_core::Offering> = read(json!([
                {"zone": "a", "capacityType": "spot", "price": 0.05, "available": true},
                {"zone": "b", "capacityType": "spot", "price": 0.05, "available": true}]));
            std::sync::Arc::make_mut(one).offerings.extend(spot);
        }
        let packing = packed(&all);
        assert!(packing.unscheduled.is_empty(), "{key}: {}", packing.unscheduled[0].1);
        let of = |pod: usize| packing.claims.iter().find(|claim| claim.pods.contains(&pod)).unwrap();
        assert_eq!((of(0).requests.get("cpu"), of(1).requests.get("cpu")), (3500, 3900), "{key}");
        // One that may be on either finds it there, as far as anybody knows.
        all.pods = vec![read(json!({"name": "any", "requests": {"cpu": "3500m"}}))];
        assert_eq!(packed(&all).unscheduled.len(), 1, "{key}");
        all.pods = vec![read(pinned("not", key, here, "1100m"))];
        assert_eq!(packed(&all).unscheduled.len(), 1, "{key}");
    }
}

#[test]
fn pods_that_may_be_anywhere_share_nodes_with_pinned_ones() {
    let heavy = agent(&json!({"requests": {"cpu": "3"}, "nodeSelector": {ZONE: "a"}}));
    let pod = |name: &str, more: Value| {
        let mut one = json!({"name": name, "uid": name, "requests": {"cpu": "1"}});
        more.as_object().into_iter().flatten().for_each(|(key, value)| one[key] = value.clone());
        one
    };
    let all = problem(vec![pod("pinned", json!({"nodeSelector": {ZONE: "b"}})), pod("any", json!({}))], vec![heavy]);
    let packing = packed(&all);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (1, 0));
    assert_eq!(packing.claims[0].requests.get("cpu"), 2000);
}

#[test]
fn a_node_takes_pods_beside_a_daemonset_that_cannot_come() {
    let mut all =
        problem(vec![innocent()], vec![hopeless(&json!({"requests": {"cpu": "1000"}, "hostPorts": [{"port": 80}]}))]);
    all.pods[0].host_ports = read(json!([{"port": 80}]));
    all.existing_nodes = vec![read(json!({"name": "n", "labels": {ZONE: "a", ARCH: "arm64"}, "initialized": true,
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}))];
    assert_eq!(packed(&all).on_existing.len(), 1);
}
