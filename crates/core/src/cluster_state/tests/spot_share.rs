//! The split of workloads' replicas between spot and other nodes: marks of a plan, what packing makes of them, and nodes that go as
//! too many replicas are on spot.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::instance_type::InstanceType;
use crate::pack::{Options, solve};
use crate::problem::Problem;

/// A pod of a Deployment's ReplicaSet, created at a second.
fn replica(name: &str, template: &str, node: &str, created: i64, own: &Value) -> KubePod {
    let mut pod = serde_json::to_value(kube_pod(name, node, "1500m")).unwrap();
    let created = Timestamp::from_second(created).unwrap().to_string();
    pod["metadata"]["creationTimestamp"] = json!(created);
    pod["metadata"]["labels"] = json!({"app": "web", "pod-template-hash": template});
    pod["metadata"]["annotations"] = own.clone();
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "name": format!("web-{template}"), "uid": format!("rs-{template}"), "controller": true}]);
    if !node.is_empty() {
        pod["status"] = json!({"phase": "Running", "startTime": created});
    }
    serde_json::from_value(pod).unwrap()
}

fn asks(base: u32, share: &str) -> Value {
    json!({"dovetail.dev/on-demand-base": base.to_string(), "dovetail.dev/spot-share": share})
}

/// Types of two and of four CPUs, spot for a third of the price.
fn types(now: u64) -> PlanningInput {
    let one = |name: &str, cpus: u32| -> Arc<InstanceType> {
        let offering = |kind: &str, price: f64| json!({"zone": "a", "capacityType": kind, "price": price * f64::from(cpus), "available": true});
        let value = json!({"name": name, "capacity": {"cpu": cpus.to_string(), "memory": "16Gi", "pods": "29"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}],
            "offerings": [offering("on-demand", 0.06), offering("spot", 0.02)]});
        Arc::new(serde_json::from_value(value).unwrap())
    };
    let all = Arc::new(vec![one("m5.large", 2), one("m5.xlarge", 4)]);
    PlanningInput { instance_types: [("default".to_owned(), all)].into(), now: at(now), ..PlanningInput::default() }
}

/// A cluster with a pool of both capacity types, and nodes of so many CPUs named by theirs.
struct Spread {
    state: ClusterState,
}

impl Spread {
    fn new(annotations: &Value) -> Self {
        let mut state = ClusterState::new();
        let mut own = serde_json::to_value(pool("default", true)).unwrap();
        own["metadata"]["annotations"] = annotations.clone();
        own["spec"]["limits"] = Value::Null;
        own["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}]);
        state.apply_pool(serde_json::from_value(own).unwrap());
        Self { state }
    }

    fn node(&mut self, name: &str, kind: &str) -> &mut Self {
        let labels = json!({"karpenter.sh/capacity-type": kind, "karpenter.sh/nodepool": "default",
            "topology.kubernetes.io/zone": "a", "node.kubernetes.io/instance-type": "m5.large"});
        let id = format!("aws:///a/i-{name}");
        let mut claim = serde_json::to_value(kube_claim(name, Some(&format!("claim-{name}")), "5")).unwrap();
        claim["metadata"]["labels"] = labels.clone();
        claim["status"] = json!({"providerID": id, "nodeName": name, "conditions": []});
        self.state.apply_claim(Arc::new(serde_json::from_value(claim).unwrap()));
        self.state.apply_node(&kube_node(name, &id, labels));
        self
    }

    fn pod(&mut self, pod: &KubePod) -> &mut Self {
        self.state.apply_pod(pod).unwrap();
        self
    }

    /// The names of the pods of a plan that may be on no spot node.
    fn off_spot(&self, now: u64) -> Vec<String> {
        let planning = self.state.snapshot().planning(&types(now));
        let off = planning.problem.pods.iter().filter(|pod| pod.off_spot);
        let mut names: Vec<String> = off.map(|pod| pod.name.clone()).collect();
        names.sort();
        names
    }

    /// The same of consolidation, which asks about all pods that may move.
    fn stay_off_spot(&self, now: u64) -> Vec<String> {
        let snapshot = self.state.snapshot();
        let all: Vec<_> = snapshot.pods.values().collect();
        let planning = snapshot.planning_for(&types(now), &all);
        planning.problem.pods.iter().filter(|pod| pod.off_spot).map(|pod| pod.name.clone()).collect()
    }

    fn over(&self, now: i64) -> Vec<String> {
        let found = self.state.snapshot().nodes_over_spot_share(Timestamp::from_second(now).unwrap());
        found.into_keys().collect()
    }
}

#[test]
fn oldest_replicas_are_off_spot_first_and_those_there_count() {
    let mut all = Spread::new(&json!({}));
    for at in 0..4 {
        all.pod(&replica(&format!("p{at}"), "1", "", at, &asks(2, "50%")));
    }
    assert_eq!(all.off_spot(9), ["p0", "p1", "p2"]);
    all.node("n1", "on-demand").pod(&replica("q1", "1", "n1", 0, &asks(2, "50%")));
    all.node("n2", "on-demand").pod(&replica("q2", "1", "n2", 0, &asks(2, "50%")));
    assert_eq!(all.off_spot(9), ["p0", "p1"], "of six two may be on spot");
    all.node("n3", "spot").pod(&replica("q3", "1", "n3", 0, &asks(2, "50%")));
    assert_eq!(all.off_spot(9), ["p0", "p1", "p2"], "of seven two may, and one is");
    let planning = all.state.snapshot().planning(&types(9));
    let why = planning.spot_share.off_spot.values().next().unwrap();
    assert!(
        why.contains("of the replicas of Deployment default/web 2 of 7 are on spot and 2 may be")
            && why.contains("spot-share"),
        "{why}"
    );
}

#[test]
fn reserved_nodes_and_unlabelled_ones_count_as_on_demand() {
    let mut all = Spread::new(&json!({}));
    all.node("n1", "reserved").pod(&replica("q1", "1", "n1", 0, &asks(1, "100%")));
    all.pod(&replica("p1", "1", "", 1, &asks(1, "100%")));
    assert!(all.off_spot(9).is_empty());
    let mut bare = Spread::new(&json!({}));
    bare.state.apply_node(&kube_node("m1", "aws:///a/i-m1", json!({})));
    bare.pod(&replica("q1", "1", "m1", 0, &asks(1, "100%"))).pod(&replica("p1", "1", "", 1, &asks(1, "100%")));
    assert!(bare.off_spot(9).is_empty());
}

#[test]
fn rollout_keeps_the_split_of_the_whole_and_of_the_new_template() {
    let mut all = Spread::new(&json!({}));
    for at in 0..4 {
        let node = format!("n{at}");
        all.node(&node, if at < 2 { "spot" } else { "on-demand" });
        all.pod(&replica(&format!("old{at}"), "1", &node, 0, &asks(2, "100%")));
    }
    // A replica of the new template alone has to be off spot, as the base is two.
    all.pod(&replica("new0", "2", "", 50, &asks(2, "100%")));
    assert_eq!(all.off_spot(99), ["new0"]);
    for at in 1..4 {
        all.pod(&replica(&format!("new{at}"), "2", "", 50 + at, &asks(2, "100%")));
    }
    assert_eq!(all.off_spot(99), ["new0", "new1"]);
    // The youngest pod's word counts for all.
    all.pod(&replica("new4", "3", "", 99, &json!({})));
    assert!(all.off_spot(99).is_empty());
}

#[test]
fn pool_s_annotation_holds_for_workloads_without_their_own() {
    let mut all = Spread::new(&asks(0, "50%"));
    let mut tainted = serde_json::to_value(pool("tainted", true)).unwrap();
    tainted["spec"]["weight"] = json!(50);
    tainted["spec"]["template"]["spec"]["taints"] = json!([{"key": "gpu", "effect": "NoSchedule"}]);
    all.state.apply_pool(serde_json::from_value(tainted).unwrap());
    for at in 0..2 {
        all.pod(&replica(&format!("p{at}"), "1", "", at, &json!({})));
    }
    assert_eq!(all.off_spot(9), ["p0"], "the pool of more weight is none that they may be on");
    for at in 0..2 {
        all.pod(&replica(&format!("p{at}"), "1", "", at, &asks(0, "100%")));
    }
    assert!(all.off_spot(9).is_empty(), "their own counts before");
    for at in 0..2 {
        all.pod(&replica(&format!("p{at}"), "1", "", at, &json!({})));
    }
    all.state.apply_pool({
        let mut first = pool("first", true);
        first.spec.weight = Some(90);
        first
    });
    assert!(all.off_spot(9).is_empty(), "the pool that is tried first asks for none");
}

#[test]
fn own_requirements_decide_and_it_is_said() {
    for (kind, why) in [("spot", "they allow spot nodes alone"), ("on-demand", "they allow no spot node")] {
        let mut all = Spread::new(&json!({}));
        for at in 0..2 {
            let mut pod = serde_json::to_value(replica(&format!("p{at}"), "1", "", at, &asks(0, "50%"))).unwrap();
            pod["spec"]["nodeSelector"] = json!({"karpenter.sh/capacity-type": kind});
            all.pod(&serde_json::from_value(pod).unwrap());
        }
        let planning = all.state.snapshot().planning(&types(9));
        let unmet = &planning.spot_share.unmet;
        assert!(planning.problem.pods.iter().all(|pod| !pod.off_spot), "{kind}");
        assert!(unmet[0].message.contains(why) && unmet[0].reason == "SpotShareNotMet", "{unmet:?}");
        assert!(solve(&planning.problem, &Options::default()).unscheduled.is_empty(), "{kind}");
    }
}

#[test]
fn mistaken_annotation_is_said_and_counts_as_nothing() {
    let mut all = Spread::new(&json!({}));
    let wrong = json!({"dovetail.dev/on-demand-base": "two"});
    all.pod(&replica("p0", "1", "", 0, &wrong)).pod(&replica("p1", "1", "", 1, &wrong));
    let planning = all.state.snapshot().planning(&types(9));
    assert!(planning.problem.pods.iter().all(|pod| !pod.off_spot));
    let said = &planning.spot_share.unmet[0];
    assert_eq!((planning.spot_share.unmet.len(), said.reason), (2, "InvalidSpotShare"));
    assert!(said.message.contains("dovetail.dev/on-demand-base") && said.message.contains("allowed: a whole number"));
    assert_eq!(planning.spot_share.sentences().len(), 1, "once for both");
}

#[test]
fn packing_keeps_off_spot_what_is_marked_and_says_why_it_waits() {
    let mut all = Spread::new(&json!({}));
    for at in 0..6 {
        all.pod(&replica(&format!("p{at}"), "1", "", at, &asks(2, "50%")));
    }
    let planning = all.state.snapshot().planning(&types(9));
    let packing = solve(&planning.problem, &Options::default());
    let on = |kind: &str| {
        let claims = packing.claims.iter().filter(|claim| claim.cheapest_capacity_type == kind);
        claims.map(|claim| claim.pods.len()).sum::<usize>()
    };
    assert_eq!((on("spot"), on("on-demand")), (2, 4));
    let mut spot_only = Problem::clone(&planning.problem);
    spot_only.node_pools[0].requirements =
        vec![crate::NodeSelectorRequirement::one_of("karpenter.sh/capacity-type", ["spot"])];
    let packing = solve(&spot_only, &Options::default());
    assert_eq!(packing.unscheduled.len(), 4);
    let (pod, reason) = &packing.unscheduled[0];
    let why = crate::explain::why_not(&spot_only.pods[*pod], reason, &planning);
    assert!(why.contains("capacity-type") && why.contains("may be on no spot node"), "{why}");
}

#[test]
fn one_node_at_a_time_goes_back_to_spot_and_only_when_all_rests() {
    let mut all = Spread::new(&json!({}));
    for at in 0..4 {
        let node = format!("n{at}");
        all.node(&node, "on-demand").pod(&replica(&format!("p{at}"), "1", &node, 0, &asks(1, "100%")));
    }
    assert_eq!(all.stay_off_spot(3599).len(), 4, "the youngest replica is too young");
    let (first, second) = (all.stay_off_spot(4200), all.stay_off_spot(4800));
    assert_eq!((first.len(), second.len()), (3, 3));
    assert_ne!(first, second, "it is another one's turn");
    all.pod(&replica("p9", "1", "", 0, &asks(1, "100%")));
    assert_eq!(all.stay_off_spot(4200).len(), 4, "one waits for a node");
    let mut full = Spread::new(&json!({}));
    full.node("n0", "on-demand").pod(&replica("p0", "1", "n0", 0, &asks(1, "100%")));
    full.node("n1", "spot").pod(&replica("p1", "1", "n1", 0, &asks(1, "100%")));
    assert_eq!(full.stay_off_spot(9000), ["p0"], "no further one may be on spot");
}

#[test]
fn nodes_go_one_by_one_where_too_many_replicas_are_on_spot() {
    let mut all = Spread::new(&json!({}));
    for at in 0..3 {
        let node = format!("n{at}");
        all.node(&node, "spot").pod(&replica(&format!("p{at}"), "1", &node, 0, &asks(2, "100%")));
    }
    assert!(all.over(599).is_empty(), "they have just come");
    let named = all.over(600);
    assert_eq!(named.len(), 1);
    assert_ne!(all.over(1200), named, "the next one, if the first may not go");
    all.state.mark_deleting([named[0].as_str()], true);
    assert_eq!(all.over(1200), named, "one whose replacement has begun is gone on with");
    let mut met = Spread::new(&json!({}));
    met.node("n0", "spot").pod(&replica("p0", "1", "n0", 0, &asks(0, "100%")));
    assert!(met.over(9000).is_empty());
}

#[test]
fn order_and_number_of_plans_change_no_mark() {
    let build = |order: &[i64]| {
        let mut all = Spread::new(&json!({}));
        for at in order {
            all.pod(&replica(&format!("p{at}"), "1", "", at / 2, &asks(1, "40%")));
        }
        all.off_spot(9)
    };
    let forward: Vec<i64> = (0..9).collect();
    let backward: Vec<i64> = (0..9).rev().collect();
    assert_eq!(build(&forward), build(&backward));
    assert_eq!(build(&forward), build(&forward));
}

proptest! {
    #[test]
    fn plan_without_an_annotation_is_the_same_byte_for_byte(
        pods in prop::collection::vec((0_usize..5, 0_i64..9, any::<bool>()), 0..12), now in 0_u64..9000,
    ) {
        let mut all = Spread::new(&json!({"example.com/spot-share": "10%"}));
        for at in 0..4 {
            all.node(&format!("n{at}"), if at % 2 == 0 { "spot" } else { "on-demand" });
        }
        for (at, (node, created, old)) in pods.into_iter().enumerate() {
            let node = if node == 4 { String::new() } else { format!("n{node}") };
            all.pod(&replica(&format!("p{at}"), if old { "1" } else { "2" }, &node, created, &json!({})));
        }
        let snapshot = all.state.snapshot();
        let every: Vec<_> = snapshot.pods.values().collect();
        let planning = snapshot.planning_for(&types(now), &every);
        let written = serde_json::to_string(&*planning.problem).unwrap();
        prop_assert!(!written.contains("offSpot"), "{written}");
        prop_assert_eq!(planning.spot_share, SpotShareNotes::default());
        prop_assert!(snapshot.nodes_over_spot_share(Timestamp::from_second(9000).unwrap()).is_empty());
    }

    #[test]
    fn no_plan_puts_more_on_spot_than_is_asked(
        placed in prop::collection::vec((any::<bool>(), any::<bool>()), 0..6), waiting in 0_i64..8,
        base in 0_u32..5, percent in 0_u8..=100,
    ) {
        let own = asks(base, &format!("{percent}%"));
        let mut all = Spread::new(&json!({}));
        for (at, (spot, old)) in placed.iter().enumerate() {
            let node = format!("n{at}");
            all.node(&node, if *spot { "spot" } else { "on-demand" });
            all.pod(&replica(&format!("q{at}"), if *old { "1" } else { "2" }, &node, 0, &own));
        }
        for at in 0..waiting {
            all.pod(&replica(&format!("p{at}"), "2", "", 9 + at, &own));
        }
        let planning = all.state.snapshot().planning(&types(99));
        let packing = solve(&planning.problem, &Options::default());
        prop_assert!(packing.unscheduled.is_empty());
        let new: usize = packing.claims.iter()
            .filter(|claim| claim.pods.iter().all(|pod| !planning.problem.pods[*pod].off_spot))
            .map(|claim| claim.pods.len()).sum();
        let before = placed.iter().filter(|(spot, _)| *spot).count();
        let replicas = placed.len() + usize::try_from(waiting).unwrap();
        let most = crate::spot_share::SpotShare { base, percent }.most_on_spot(replicas);
        prop_assert!(new == 0 || before + new <= most, "{before} and {new} of {replicas}, at most {most}");
        for claim in packing.claims.iter().filter(|claim| claim.pods.iter().any(|pod| planning.problem.pods[*pod].off_spot)) {
            prop_assert_eq!(&claim.cheapest_capacity_type, "on-demand");
        }
    }
}
