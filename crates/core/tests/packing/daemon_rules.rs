//! Rules between pods that wait and the pods of DaemonSets on nodes to come: affinity and anti-affinity, whichever states it.
#![allow(clippy::unwrap_used)]

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, solve};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const ARCH: &str = "kubernetes.io/arch";

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
