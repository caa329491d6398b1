//! Volumes: where they are binds their pods' nodes, and how many a node attaches.
#![allow(clippy::unwrap_used)]

use crate::common;

use dovetail_core::pack::{Options, Packing, solve};
use dovetail_core::{ExistingNode, Problem};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const EBS: &str = "attachable-volumes-csi-ebs.csi.aws.com";

fn problem(pods: Vec<Value>) -> Problem {
    let offering =
        |zone: &str, price: f64| json!({"zone": zone, "capacityType": "on-demand", "price": price, "available": true});
    let types: Vec<Value> = [(2, 4), (8, 6)]
        .iter()
        .map(|(cpu, volumes)| {
            let price = f64::from(*cpu) / 10.0;
            json!({"name": format!("m1.{cpu}"), "capacity": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "100"},
                "requirements": [{"key": "topology.kubernetes.io/region", "operator": "In", "values": ["here"]}],
                "offerings": [offering("zone-a", price), offering("zone-b", price * 1.1)],
                "attachments": {EBS: volumes}})
        })
        .collect();
    let pods: Vec<Value> = pods.into_iter().enumerate().map(|(at, pod)| named(pod, at)).collect();
    serde_json::from_value(json!({"nodePools": [{"name": "p"}], "instanceTypes": types, "pods": pods})).unwrap()
}

fn named(mut pod: Value, at: usize) -> Value {
    pod["name"] = json!(format!("p{at}"));
    pod["uid"] = json!(format!("u{at:04}"));
    pod
}

fn within(key: &str, zone: &str) -> Value {
    json!({"key": key, "operator": "In", "values": [zone]})
}

fn pod(volumes: u32, places: &[Value]) -> Value {
    let places: Vec<Value> = places.iter().map(|place| json!([place])).collect();
    json!({"requests": {"cpu": "100m", EBS: volumes}, "volumeTopology": places})
}

fn node(name: &str, zone: &str) -> ExistingNode {
    serde_json::from_value(json!({"name": name, "initialized": true, "labels": {ZONE: zone},
        "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "100"}}))
    .unwrap()
}

fn packed(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    assert_eq!(common::violations(problem, &packing), [""; 0]);
    packing
}

fn zones(packing: &Packing) -> Vec<&str> {
    packing.claims.iter().map(|claim| claim.cheapest_zone.as_str()).collect()
}

#[test]
fn a_pod_goes_where_its_volume_is_whichever_key_says_it() {
    for key in [ZONE, "topology.ebs.csi.aws.com/zone", "failure-domain.beta.kubernetes.io/zone"] {
        let packing = packed(&problem(vec![pod(1, &[within(key, "zone-b")])]));
        assert_eq!(zones(&packing), ["zone-b"], "{key}");
        let said = packing.claims[0].requirements.iter().find(|said| said.key == ZONE).unwrap();
        assert_eq!(said.values, ["zone-b"], "the claim is held to it");
    }
}

#[test]
fn the_places_of_a_volume_are_tried_one_after_the_other() {
    let packing = packed(&problem(vec![pod(1, &[within(ZONE, "zone-x"), within(ZONE, "zone-b")])]));
    assert_eq!(zones(&packing), ["zone-b"]);
}

#[test]
fn existing_nodes_are_used_only_in_the_volumes_zone() {
    let mut problem = problem(vec![pod(1, &[within(ZONE, "zone-b")])]);
    problem.existing_nodes = vec![node("a", "zone-a"), node("b", "zone-b")];
    assert_eq!(packed(&problem).on_existing, [(1, vec![0])]);
    problem.existing_nodes.pop();
    assert_eq!(zones(&packed(&problem)), ["zone-b"]);
}

#[test]
fn unreachable_volume_leaves_pod_pending_and_names_its_zone() {
    let packing = packed(&problem(vec![pod(1, &[within(ZONE, "zone-x")])]));
    assert_eq!(
        packing.unscheduled[0].1.to_string(),
        format!("pool p: its volumes can only be where {ZONE} In [zone-x]")
    );
    let mut torn = pod(1, &[within(ZONE, "zone-a")]);
    torn["nodeSelector"] = json!({ZONE: "zone-b"});
    let packing = packed(&problem(vec![torn]));
    assert!(packing.unscheduled[0].1.to_string().contains("its volumes can only be where"));
}

#[test]
fn a_pod_whose_claim_cannot_be_served_is_left_with_that_reason() {
    let mut blocked = pod(0, &[]);
    blocked["blocked"] = json!("PersistentVolumeClaim default/data is not there");
    let packing = packed(&problem(vec![blocked, pod(0, &[])]));
    assert_eq!(packing.unscheduled.len(), 1);
    assert_eq!(packing.unscheduled[0].1.to_string(), "PersistentVolumeClaim default/data is not there");
}

#[test]
fn a_planned_node_attaches_no_more_than_its_type_says() {
    let packing = packed(&problem(vec![pod(1, &[]); 12]));
    assert!(packing.unscheduled.is_empty());
    for claim in &packing.claims {
        assert!(claim.pods.len() <= 6, "{}", claim.pods.len());
        let small = claim.options.iter().any(|option| option.instance_type == 0);
        assert!(!small || claim.pods.len() <= 4);
        assert_eq!(claim.requests.find(EBS), None, "attachments are no resource of a node");
    }
    let told = packed(&problem(vec![pod(7, &[])])).unscheduled[0].1.to_string();
    assert_eq!(told, format!("pool p: needs 7 {EBS}, the largest of 2 instance types allows 6 {EBS}"));
}

#[test]
fn existing_node_attaches_up_to_its_driver_limit_if_it_has_one() {
    let mut problem = problem(vec![pod(1, &[]); 5]);
    problem.existing_nodes = vec![node("n", "zone-a")];
    problem.existing_nodes[0].allocatable.set(EBS, 3);
    problem.existing_nodes[0].used.set(EBS, 1);
    let packing = packed(&problem);
    assert_eq!(packing.on_existing[0].1.len(), 2);
    assert_eq!(packing.claims.iter().map(|claim| claim.pods.len()).sum::<usize>(), 3);
    problem.existing_nodes[0].allocatable.remove(EBS);
    assert_eq!(solve(&problem, &Options::default()).on_existing[0].1.len(), 5);
}

#[test]
fn volumes_bind_the_node_and_not_the_domains_of_a_spread() {
    // kube-scheduler counts every zone that the pod's own node affinity allows, and a volume is none.
    let constraint = json!([{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}}}]);
    let mut tied = pod(1, &[within(ZONE, "zone-a")]);
    tied["labels"] = json!({"app": "db"});
    tied["topologySpreadConstraints"] = constraint;
    let packing = packed(&problem(vec![tied; 3]));
    assert_eq!(zones(&packing), ["zone-a"]);
    assert_eq!(packing.unscheduled.len(), 2, "a second in zone-a is one too many while zone-b has none");
}

#[test]
fn nothing_is_packed_on_a_fargate_node_though_its_pods_count() {
    let mut web = pod(0, &[]);
    web["labels"] = json!({"app": "web"});
    let near = |key: &str| {
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}]}})
    };
    let mut follower = pod(0, &[]);
    follower["affinity"] = near(ZONE);
    let mut problem = problem(vec![follower, pod(0, &[])]);
    let mut fargate = node("fargate-ip-10-0-0-1", "zone-b");
    fargate.labels.insert("eks.amazonaws.com/compute-type".into(), "fargate".into());
    fargate.pods = vec![serde_json::from_value(named(web, 9)).unwrap()];
    problem.existing_nodes = vec![fargate];
    let packing = packed(&problem);
    assert!(packing.on_existing.is_empty() && packing.unscheduled.is_empty());
    assert!(zones(&packing).contains(&"zone-b"), "the pod there draws its follower to its zone");
}

/// A pod that uses a volume of others, beside so many of its own.
fn sharing(own: u32, volume: &str) -> Value {
    json!({"requests": {"cpu": "100m", EBS: own}, "sharedVolumes": {volume: EBS}})
}

fn counts(packing: &Packing) -> Vec<usize> {
    let mut counts: Vec<usize> = packing.claims.iter().map(|claim| claim.pods.len()).collect();
    counts.sort_unstable();
    counts
}

#[test]
fn a_volume_that_pods_share_counts_once_on_a_node() {
    for policy in ["cost", "fewest-nodes"] {
        let with = |pods: Vec<Value>| {
            let mut problem = problem(pods);
            problem.node_pools[0].policy = dovetail_core::Policy::named(policy).unwrap();
            packed(&problem)
        };
        // Thirty pods of one volume: what they need of nodes is cpu alone, two small ones or one large one.
        let nodes = with((0..30).map(|_| sharing(0, "v")).collect()).claims.len();
        assert_eq!(nodes, if policy == "cost" { 2 } else { 1 }, "{policy}");
        // With one of its own each, six less the shared one are left.
        let packing = with((0..10).map(|_| sharing(1, "v")).collect());
        assert!(packing.unscheduled.is_empty());
        assert!(counts(&packing).iter().all(|count| *count <= 5), "{policy}: {:?}", counts(&packing));
    }
}

#[test]
fn volumes_shared_by_different_pods_count_each() {
    // Seven shared volumes, two pods each, on nodes that attach six.
    let problem = problem((0..14).map(|at| sharing(0, &format!("v{}", at / 2))).collect());
    let packing = packed(&problem);
    assert!(packing.unscheduled.is_empty());
    assert!(packing.claims.len() >= 2, "no node attaches seven");
}

#[test]
fn shared_volume_already_attached_takes_no_more_attachments() {
    let mut problem = problem((0..4).map(|at| sharing(0, if at < 3 { "there" } else { "new" })).collect());
    let mut full = node("n", "zone-a");
    full.allocatable.set(EBS, 2);
    full.used.set(EBS, 2);
    full.volumes = ["there".to_owned()].into();
    problem.existing_nodes.push(full);
    let packing = packed(&problem);
    assert_eq!(packing.on_existing, [(0, vec![0, 1, 2])]);
    assert_eq!(packing.claims.len(), 1, "the other volume has no place there");
}

#[test]
fn pod_with_too_many_shared_volumes_is_left_with_a_reason() {
    let volumes: serde_json::Map<String, Value> = (0..7).map(|at| (format!("v{at}"), json!(EBS))).collect();
    let pods = (0..2).map(|_| json!({"requests": {"cpu": "100m"}, "sharedVolumes": volumes})).collect();
    let packing = packed(&problem(pods));
    assert_eq!(packing.unscheduled.len(), 2);
    assert!(
        packing.unscheduled[0].1.to_string().contains("needs 7 attachable-volumes-csi"),
        "{}",
        packing.unscheduled[0].1
    );
}
