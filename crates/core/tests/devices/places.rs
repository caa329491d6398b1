//! Places of pods with claims: existing nodes with free devices, and new nodes whose types will have them.

use std::collections::BTreeSet;

use dovetail_core::dra::{DeviceBook, DeviceGates, DeviceNode, DevicePlan, Misfits, plan_devices};
use dovetail_core::pack::{Options, Packing, solve};
use dovetail_core::{Pod, Problem};
use serde_json::{Value, json};

use crate::{book, claim, class, slice};

const OPEN: DeviceGates = DeviceGates { nvidia: true, efa: false };

fn kind(name: &str, price: f64, gpu: &str, (gpus, memory): (u32, u32)) -> Value {
    let one = |key: &str, value: &str| json!({"key": format!("karpenter.k8s.aws/{key}"), "operator": "In", "values": [value]});
    let mut requirements = vec![
        json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}),
        json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}),
        json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}),
    ];
    if gpus > 0 {
        requirements.extend([
            one("instance-gpu-name", gpu),
            one("instance-gpu-manufacturer", "nvidia"),
            one("instance-gpu-count", &gpus.to_string()),
            one("instance-gpu-memory", &memory.to_string()),
        ]);
    }
    json!({"name": name, "capacity": {"cpu": "32", "memory": "128Gi", "pods": "100"}, "requirements": requirements,
        "offerings": [{"zone": "us-east-1a", "capacityType": "on-demand", "price": price, "available": true}]})
}

fn pod(name: &str, claims: &[&str]) -> Value {
    let devices: Vec<Value> = claims.iter().map(|claim| json!({"name": claim, "claim": claim})).collect();
    json!({"name": name, "uid": name, "requests": {"cpu": "1"}, "devices": devices})
}

fn problem(pods: &[Value], nodes: &[Value]) -> Problem {
    let types = [
        kind("m5.large", 0.1, "", (0, 0)),
        kind("g4dn.xlarge", 0.5, "t4", (1, 16384)),
        kind("g4dn.12xlarge", 3.9, "t4", (4, 16384)),
        kind("p5.48xlarge", 55.0, "h100", (8, 81920)),
    ];
    serde_json::from_value(
        json!({"nodePools": [{"name": "default"}], "instanceTypes": types, "pods": pods, "existingNodes": nodes}),
    )
    .unwrap()
}

fn node(name: &str, kind: &str, pods: &[Value]) -> Value {
    json!({"name": name, "initialized": true, "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "100"}, "pods": pods,
        "labels": {"node.kubernetes.io/instance-type": kind, "karpenter.sh/nodepool": "default", "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": "us-east-1a", "karpenter.sh/capacity-type": "on-demand"}})
}

/// A plan for the problem, with the problem as it is for people afterwards.
fn plan(problem: &Problem, known: &DeviceBook, ready: bool, gates: DeviceGates) -> (Packing, DevicePlan, Problem) {
    let nodes: Vec<DeviceNode> = problem
        .existing_nodes
        .iter()
        .map(|node| DeviceNode { name: ready.then(|| node.name.clone()), initialized: ready })
        .collect();
    let mut misfits = Misfits::default();
    loop {
        let mut guided = problem.clone();
        let devices = plan_devices(&mut guided, (known, &nodes, &[]), &BTreeSet::new(), gates, &misfits);
        let packing = solve(&guided, &Options::default());
        match devices.misfits(packing.unscheduled.iter().map(|(pod, _)| *pod), &misfits) {
            Some(more) => misfits = more,
            None => {
                devices.restore(&mut guided);
                return (packing, devices, guided);
            }
        }
    }
}

fn gpu() -> Value {
    class("gpu", &[r#"device.driver == "gpu.nvidia.com""#])
}

fn wish(count: u32, model: &str) -> Value {
    let text = format!(r#"device.attributes["gpu.nvidia.com"].productName.contains("{model}")"#);
    json!({"deviceClassName": "gpu", "count": count, "selectors": [{"cel": {"expression": text}}]})
}

/// Types of the planned nodes with the number of their pods, cheapest first.
fn nodes_of(packing: &Packing, problem: &Problem) -> Vec<(String, usize)> {
    let each = packing
        .claims
        .iter()
        .map(|claim| (problem.instance_types[claim.cheapest_type().unwrap()].name.clone(), claim.pods.len()));
    let mut all: Vec<_> = each.collect();
    all.sort();
    all
}

fn reason(packing: &Packing, guided: &Problem) -> String {
    let (pod, reason) = &packing.unscheduled[0];
    format!("{reason} {:?}", guided.pods[*pod].blocked)
}

#[test]
fn pods_share_nodes_with_as_many_devices_as_they_claim() {
    let names: Vec<String> = (0..9).map(|at| format!("c{at}")).collect();
    let claims: Vec<Value> = names.iter().map(|name| claim(name, &wish(1, "H100"))).collect();
    let pods: Vec<Value> = names.iter().map(|name| pod(name, &[name])).collect();
    let problem = problem(&pods, &[]);
    let (packing, devices, guided) = plan(&problem, &book(&[], &[gpu()], &claims), true, OPEN);
    assert_eq!(nodes_of(&packing, &problem), [("p5.48xlarge".into(), 1), ("p5.48xlarge".into(), 8)]);
    assert_eq!(guided, problem, "nothing of the rules for packing is left");
    let drivers: Vec<_> = devices.drivers_of(&packing.claims[0].pods).into_iter().collect();
    assert_eq!(drivers, ["gpu.nvidia.com"]);
    let small: Vec<Value> = names.iter().map(|name| claim(name, &wish(1, "T4"))).collect();
    let (packing, ..) = plan(&problem, &book(&[], &[gpu()], &small), true, OPEN);
    assert_eq!(nodes_of(&packing, &problem), vec![("g4dn.xlarge".to_owned(), 1); 9], "cheaper than twelve GPUs");
}

#[test]
fn claims_of_several_devices_choose_the_type() {
    for (count, model, expected) in
        [(1, "", "g4dn.xlarge"), (4, "", "g4dn.12xlarge"), (2, "H100", "p5.48xlarge"), (8, "", "p5.48xlarge")]
    {
        let problem = problem(&[pod("a", &["c"])], &[]);
        let (packing, ..) = plan(&problem, &book(&[], &[gpu()], &[claim("c", &wish(count, model))]), true, OPEN);
        assert_eq!(nodes_of(&packing, &problem), [(expected.to_owned(), 1)], "{count} {model}");
    }
    let problem = problem(&[pod("a", &["c"])], &[]);
    let all = claim("c", &json!({"deviceClassName": "gpu", "allocationMode": "All"}));
    let (packing, ..) = plan(&problem, &book(&[], &[gpu()], &[all]), true, OPEN);
    assert_eq!(nodes_of(&packing, &problem), [("g4dn.xlarge".to_owned(), 1)]);
    let (packing, _, guided) = plan(&problem, &book(&[], &[gpu()], &[claim("c", &wish(9, ""))]), true, OPEN);
    assert!(reason(&packing, &guided).contains("needs 9 devices"), "{}", reason(&packing, &guided));
    let (packing, _, guided) = plan(&problem, &book(&[], &[gpu()], &[claim("c", &wish(1, "A100"))]), true, OPEN);
    assert!(reason(&packing, &guided).contains("needs 1 device: "), "{}", reason(&packing, &guided));
}

#[test]
fn existing_nodes_are_used_while_their_devices_are_free() {
    let mut held = claim("held", &wish(1, "H100"));
    held["status"] = json!({"reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}],
        "allocation": {"devices": {"results": [{"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}]}}});
    let claims = [claim("c0", &wish(1, "H100")), claim("c1", &wish(1, "H100")), held];
    let known = book(&[slice("n1", 2)], &[gpu()], &claims);
    let pods = [pod("a", &["c0"]), pod("b", &["c1"])];
    let problem = problem(&pods, &[node("n1", "p5.48xlarge", &[])]);
    let (packing, _, guided) = plan(&problem, &known, true, DeviceGates::default());
    assert_eq!(packing.on_existing, [(0, vec![0])]);
    // The other one waits for a node as n1 is: its devices are known without a gate.
    assert_eq!(nodes_of(&packing, &problem), [("p5.48xlarge".to_owned(), 1)], "{:?}", packing.unscheduled);
    assert_eq!(guided, problem);
    let without = book(&[], &[gpu()], &claims);
    let (packing, _, guided) = plan(&problem, &without, true, DeviceGates::default());
    assert_eq!(packing.unscheduled.len(), 2);
    assert!(
        reason(&packing, &guided).contains("no instance type is known to have devices"),
        "{}",
        reason(&packing, &guided)
    );
}

#[test]
fn nodes_on_their_way_keep_the_devices_of_pods_expected_there() {
    let names = ["c0", "c1", "c2"];
    let claims: Vec<Value> = names.iter().map(|name| claim(name, &wish(4, "T4"))).collect();
    let expected = pod("first", &["c0"]);
    let problem = problem(&[pod("second", &["c1"])], &[node("coming", "g4dn.12xlarge", &[expected])]);
    let (packing, ..) = plan(&problem, &book(&[], &[gpu()], &claims), false, OPEN);
    assert!(packing.on_existing.is_empty(), "its four GPUs are spoken for");
    assert_eq!(nodes_of(&packing, &problem), [("g4dn.12xlarge".to_owned(), 1)]);
    let small: Vec<Value> = names.iter().map(|name| claim(name, &wish(2, "T4"))).collect();
    let (packing, ..) = plan(&problem, &book(&[], &[gpu()], &small), false, OPEN);
    assert_eq!(packing.on_existing, [(0, vec![0])], "two are left");
}

#[test]
fn pods_with_one_claim_are_on_one_node() {
    let claims = [claim("shared", &wish(1, "T4"))];
    let problem = problem(&[pod("a", &["shared"]), pod("b", &["shared"])], &[]);
    let (packing, ..) = plan(&problem, &book(&[], &[gpu()], &claims), true, OPEN);
    assert_eq!(nodes_of(&packing, &problem), [("g4dn.xlarge".to_owned(), 2)]);
}

#[test]
fn allocated_claims_keep_pods_to_their_nodes() {
    let mut held = claim("c", &wish(1, "H100"));
    held["status"] = json!({"reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}], "allocation": {
        "devices": {"results": [{"request": "r", "driver": "gpu.nvidia.com", "pool": "n2", "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}}});
    let nodes = [node("n1", "p5.48xlarge", &[]), node("n2", "p5.48xlarge", &[])];
    let problem = problem(&[pod("a", &["c"])], &nodes);
    let known = book(&[slice("n1", 8), slice("n2", 8)], &[gpu()], &[held]);
    let (packing, ..) = plan(&problem, &known, true, OPEN);
    assert_eq!(packing.on_existing, [(1, vec![0])]);
}

/// A node that was launched without EFA publishes its other interfaces: they say nothing of what another one gets.
#[test]
fn claims_on_efa_interfaces_get_types_that_have_them() {
    let mut problem = problem(&[pod("a", &["c"])], &[node("n1", "p5.48xlarge", &[])]);
    for kind in problem.instance_types.iter_mut().filter(|kind| kind.name == "p5.48xlarge") {
        std::sync::Arc::make_mut(kind).capacity.set("vpc.amazonaws.com/efa", 32);
    }
    let efa = class("efa", &[r#"device.driver == "dra.net" && device.attributes["dra.net"].rdma == true"#]);
    let wish = json!({"deviceClassName": "efa", "count": 2});
    let plain = json!({"metadata": {"name": "n1"}, "spec": {"driver": "dra.net", "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "pci-0", "attributes": {"dra.net/rdma": {"bool": false}}}]}});
    let known = book(&[plain], &[efa], &[claim("c", &wish)]);
    let open = DeviceGates { efa: true, ..DeviceGates::default() };
    let (packing, devices, guided) = plan(&problem, &known, true, open);
    assert_eq!(nodes_of(&packing, &problem), [("p5.48xlarge".to_owned(), 1)], "{:?}", guided.pods[0].blocked);
    assert_eq!(devices.drivers_of(&[0]).into_iter().collect::<Vec<_>>(), ["dra.net"]);
    let (packing, _, guided) = plan(&problem, &known, true, DeviceGates::default());
    assert!(reason(&packing, &guided).contains("needs 2 devices"), "{}", reason(&packing, &guided));
}

#[test]
fn problems_without_claims_are_left_as_they_are() {
    let before = problem(&[pod("a", &[])], &[node("n1", "m5.large", &[])]);
    let mut guided = before.clone();
    let nodes = [DeviceNode { name: Some("n1".into()), initialized: true }];
    let devices = plan_devices(
        &mut guided,
        (&book(&[slice("n1", 8)], &[gpu()], &[]), &nodes, &[]),
        &BTreeSet::new(),
        OPEN,
        &Misfits::default(),
    );
    assert!(devices.is_empty() && guided == before);
}

#[test]
fn pods_of_a_cluster_have_the_claims_that_are_made_for_them() {
    let read = |made: &Value| {
        let pod = json!({"metadata": {"name": "a", "uid": "a"}, "status": {"resourceClaimStatuses": made}, "spec": {
            "containers": [{"name": "main", "image": "i"}],
            "resourceClaims": [{"name": "own", "resourceClaimName": "shared"}, {"name": "new", "resourceClaimTemplateName": "t"}]}});
        Pod::from_kube(&serde_json::from_value(pod).unwrap()).unwrap()
    };
    let names = |pod: &Pod| -> Vec<_> { pod.devices.iter().map(|one| one.claim.clone()).collect() };
    assert_eq!(names(&read(&json!([]))), [Some("shared".into()), None], "the second has not been made");
    let made = read(&json!([{"name": "new", "resourceClaimName": "a-new-x"}]));
    assert_eq!(names(&made), [Some("shared".into()), Some("a-new-x".into())]);
    assert_eq!(names(&read(&json!([{"name": "new"}]))), [Some("shared".into())], "none is made for it");
    // Without the stage it is left over, whatever its claims are.
    let alone = Problem { pods: vec![made], ..problem(&[], &[]) };
    assert_eq!(solve(&alone, &Options::default()).unscheduled.len(), 1);
    let claims = [claim("shared", &wish(1, "T4")), claim("a-new-x", &wish(3, "T4"))];
    let (packing, _, guided) = plan(&alone, &book(&[], &[gpu()], &claims), true, OPEN);
    assert_eq!(nodes_of(&packing, &guided), [("g4dn.12xlarge".to_owned(), 1)]);
    let late = [claim("shared", &wish(1, "T4"))];
    let (packing, _, guided) = plan(&alone, &book(&[], &[gpu()], &late), true, OPEN);
    assert!(
        reason(&packing, &guided).contains("ResourceClaim default/a-new-x is not there"),
        "{}",
        reason(&packing, &guided)
    );
}

#[test]
fn claims_of_pods_that_leave_are_as_good_as_free() {
    let mut held = claim("c", &wish(1, "H100"));
    held["status"] = json!({"reservedFor": [{"resource": "pods", "name": "a", "uid": "a"}], "allocation": {
        "devices": {"results": [{"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}}});
    let before = problem(&[pod("a", &["c"])], &[node("n1", "p5.48xlarge", &[])]);
    let known = book(&[slice("n1", 1)], &[gpu()], &[held]);
    let nodes = [DeviceNode { name: Some("n1".into()), initialized: true }];
    for (leaving, expected) in [(vec!["a"], 1), (vec![], 0)] {
        let mut guided = before.clone();
        let leaving: BTreeSet<&str> = leaving.into_iter().collect();
        let _ = plan_devices(&mut guided, (&known, &nodes, &[]), &leaving, OPEN, &Misfits::default());
        assert_eq!(solve(&guided, &Options::default()).on_existing.len(), expected);
    }
}

#[test]
fn pod_whose_like_tries_a_new_node_gets_none_meanwhile() {
    let claims = [claim("a", &wish(1, "T4")), claim("b", &wish(1, "T4"))];
    let mut pods = [pod("a", &["a"]), pod("b", &["b"])];
    pods[1]["existingOnly"] = json!(true);
    let problem = problem(&pods, &[node("other", "m5.large", &[])]);
    let (packing, ..) = plan(&problem, &book(&[], &[gpu()], &claims), true, OPEN);
    assert_eq!(nodes_of(&packing, &problem), [("g4dn.xlarge".to_owned(), 1)]);
    assert_eq!(packing.unscheduled[0].0, 1);
    let why = packing.unscheduled[0].1.to_string();
    assert!(why.contains("until another pod like it runs on a new one"), "{why}");
}
