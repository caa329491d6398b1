//! Static pools at a small cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::NodeClaim;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;
use crate::cluster_state::{ClusterState, PlanningInput};
use crate::instance_type::InstanceType;
use crate::pack::{Options, Packing, solve};
use crate::resources::Resources;

struct World {
    state: ClusterState,
    memory: StaticMemory,
    version: u64,
}

fn now() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

fn at(seconds: u64) -> Moment {
    Moment { monotonic: Duration::from_secs(seconds), wall: now() }
}

impl World {
    fn new(spec: Value) -> Self {
        let mut world = Self { state: ClusterState::new(), memory: StaticMemory::default(), version: 1 };
        world.pool(spec);
        world
    }

    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn pool(&mut self, more: Value) {
        let mut spec = json!({"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let version = self.next();
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "base", "uid": "p", "resourceVersion": version}, "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": now()}]}});
        self.state.apply_pool(serde_json::from_value(pool).unwrap());
    }

    fn claim(&mut self, name: &str, zone: &str, change: impl FnOnce(&mut Value)) {
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now()});
        let version = self.next();
        let mut claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version,
                "labels": {"karpenter.sh/nodepool": "base", "topology.kubernetes.io/zone": zone}},
            "spec": {"requirements": [], "expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": format!("aws:///a/{name}"), "nodeName": name,
                "conditions": [condition("Initialized"), condition("Launched"), condition("Registered")]}});
        change(&mut claim);
        self.state.apply_claim(Arc::new(serde_json::from_value::<NodeClaim>(claim).unwrap()));
    }

    /// A claim whose node is ready.
    fn node(&mut self, name: &str, zone: &str) {
        self.claim(name, zone, |_| ());
        let version = self.next();
        let node = json!({"metadata": {"name": name, "uid": format!("n-{name}"), "resourceVersion": version,
                "labels": {"karpenter.sh/nodepool": "base", "topology.kubernetes.io/zone": zone}},
            "spec": {"providerID": format!("aws:///a/{name}")},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.state.apply_node(&serde_json::from_value::<Node>(node).unwrap());
    }

    fn pod(&mut self, name: &str, node: &str, annotations: Value) {
        let version = self.next();
        let pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version,
                "annotations": annotations},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"}});
        self.state.apply_pod(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap();
    }

    fn decide(&mut self, seconds: u64) -> StaticDecision {
        decide_replicas(&self.state.snapshot(), &mut self.memory, at(seconds))
    }

    fn wanted(&mut self, seconds: u64) -> usize {
        self.decide(seconds).wanted.get("base").copied().unwrap_or_default()
    }

    fn removed(&mut self, seconds: u64) -> Vec<String> {
        self.decide(seconds).removals.into_values().flatten().map(|one| one.claim).collect()
    }

    fn verdict(&self, lack: Option<&Shortfall>) -> ReplicaVerdict {
        let snapshot = self.state.snapshot();
        judge_replicas(&snapshot, &snapshot.replica_counts(|_| false)["base"], lack)
    }

    fn plan(&self, wanted: usize, types: &[Arc<InstanceType>]) -> (crate::cluster_state::Planning, Packing) {
        let instance_types = [("default".to_owned(), Arc::new(types.to_vec()))].into();
        let input = PlanningInput { instance_types, now: at(0), ..PlanningInput::default() };
        let planning = plan_replicas(&self.state.snapshot(), &input, &[("base".to_owned(), wanted)].into());
        let packing = solve(&planning.problem, &Options::default());
        (planning, packing)
    }
}

fn offering(zone: &str, price: f64) -> Value {
    json!({"zone": zone, "capacityType": "on-demand", "price": price, "available": true, "requirements": []})
}

fn type_with(offerings: &Value) -> Arc<InstanceType> {
    let capacity = json!({"cpu": "2", "memory": "8Gi", "pods": "29"});
    Arc::new(
        serde_json::from_value(
            json!({"name": "m5.large", "capacity": capacity, "requirements": [], "offerings": offerings}),
        )
        .unwrap(),
    )
}

fn deleting(claim: &mut Value) {
    claim["metadata"]["deletionTimestamp"] = json!(now());
}

fn waits(claim: &mut Value) {
    let message = "to be removed once its successor in the static nodepool is initialized: it has drifted";
    let condition = json!({"type": "DisruptionReason", "status": "True", "reason": "Drifted", "message": message,
        "lastTransitionTime": now()});
    claim["status"]["conditions"].as_array_mut().unwrap().push(condition);
}

fn unlaunched(claim: &mut Value) {
    claim["status"] = json!({});
}

#[test]
fn lacking_nodes_are_wanted_below_the_limit_of_all_claims() {
    let mut world = World::new(json!({"replicas": 5, "limits": {"nodes": "6"}}));
    assert_eq!(world.wanted(0), 5);
    world.node("a", "a");
    world.claim("b", "a", unlaunched);
    assert_eq!(world.wanted(1), 3, "one on its way counts");
    ["c", "d", "e"].into_iter().for_each(|name| world.claim(name, "a", deleting));
    assert_eq!(world.wanted(2), 1, "three that go leave room for one");
    world.claim("f", "a", deleting);
    let decision = world.decide(3);
    assert_eq!((decision.wanted.len(), decision.waiting["base"].clone()), (0, Shortfall::AtLimit));
    let said = world.verdict(Some(&Shortfall::AtLimit));
    assert_eq!(said.reason, "NodeLimit");
    assert!(said.message.contains("spec.limits.nodes is 6, and there are 6, 4 of them on their way out"), "{said:?}");
}

#[test]
fn planned_claims_count_before_the_api_server_has_them() {
    let mut world = World::new(json!({"replicas": 2}));
    let planned = serde_json::from_value::<NodeClaim>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "x", "labels": {"karpenter.sh/nodepool": "base"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}));
    world.state.plan_claim(planned.unwrap(), Resources::new());
    assert_eq!(world.wanted(0), 1);
    assert!(world.state.snapshot().is_replica("x"));
}

#[test]
fn claim_that_waits_for_its_successor_makes_room_for_it() {
    let mut world = World::new(json!({"replicas": 2, "limits": {"nodes": "3"}}));
    world.node("a", "a");
    world.node("b", "b");
    assert_eq!(world.wanted(0), 0);
    world.claim("a", "a", waits);
    assert_eq!(world.wanted(1), 1, "all that a later leader needs is on the claim");
    world.claim("c", "a", unlaunched);
    assert_eq!((world.wanted(2), world.removed(2).len()), (0, 0));
    world.claim("a", "a", |_| ());
    assert_eq!(world.removed(3), ["c"], "it stays after all: what has no instance goes");
}

#[test]
fn unlaunched_go_first_then_empty_then_cheap_protected_last() {
    let mut world = World::new(json!({"replicas": 5}));
    for name in ["used", "full", "held", "empty"] {
        world.node(name, "a");
    }
    world.claim("new", "a", unlaunched);
    world.pod("p1", "used", json!({}));
    ["p2", "p3"].into_iter().for_each(|pod| world.pod(pod, "full", json!({})));
    world.pod("p4", "held", json!({"karpenter.sh/do-not-disrupt": "true"}));
    assert_eq!(world.removed(0), [""; 0]);
    world.pool(json!({"replicas": 1}));
    assert_eq!(world.removed(1), ["new", "empty", "used", "full"]);
    assert_eq!(world.removed(2), [""; 0], "it is asked once");
    assert_eq!(world.removed(40).len(), 4, "and again where nothing came of it");
    world.pool(json!({"replicas": 0}));
    assert_eq!(world.removed(80).len(), 5);
}

#[test]
fn fullest_zone_goes_first_among_equals() {
    let mut world = World::new(json!({"replicas": 3}));
    for (name, zone) in [("a1", "a"), ("b1", "b"), ("b2", "b"), ("b3", "b"), ("c1", "c"), ("c2", "c")] {
        world.node(name, zone);
    }
    assert_eq!(world.removed(0), ["b1", "b2", "c1"]);
}

#[test]
fn pool_that_is_observed_or_deleted_loses_nothing() {
    let mut world = World::new(json!({"replicas": 0}));
    world.node("a", "a");
    let mut pool = dovetail_api::v1::NodePool::clone(&world.state.snapshot().pools["base"]);
    pool.metadata.annotations = Some([("dovetail.dev/disruption".to_owned(), "observe".to_owned())].into());
    pool.metadata.resource_version = Some(world.next());
    world.state.apply_pool(pool);
    assert_eq!(world.removed(0), [""; 0]);
    assert_eq!(world.verdict(None).reason, "Overprovisioned");
}

#[test]
fn new_nodes_are_spread_over_zones_each_on_its_own() {
    let mut world = World::new(json!({"replicas": 7}));
    world.node("a1", "a");
    let types = [type_with(&json!([offering("a", 0.1), offering("b", 0.12), offering("c", 0.11)]))];
    let (planning, packing) = world.plan(6, &types);
    let of = |zone: &str| packing.claims.iter().filter(|claim| claim.cheapest_zone == zone).count();
    assert_eq!((of("a"), of("b"), of("c")), (2, 2, 2), "with the one that is there the cheapest zone has one more");
    assert!(packing.claims.iter().all(|claim| claim.pods.len() == 1));
    assert!(unplaced(&planning, &packing, &[("base".to_owned(), 6)].into()).is_empty());
}

#[test]
fn sold_out_zone_is_passed_over_and_nothing_left_is_said() {
    let world = World::new(json!({"replicas": 3}));
    let mut sold_out = offering("b", 0.1);
    sold_out["available"] = json!(false);
    let (_, packing) = world.plan(3, &[type_with(&json!([offering("a", 0.1), sold_out.clone()]))]);
    assert!(packing.claims.len() == 3 && packing.claims.iter().all(|claim| claim.cheapest_zone == "a"));
    let (planning, packing) = world.plan(3, &[type_with(&json!([sold_out]))]);
    let lacks = unplaced(&planning, &packing, &[("base".to_owned(), 3)].into());
    assert!(matches!(&lacks["base"], Shortfall::NothingFits(why) if !why.is_empty()), "{lacks:?}");
    assert_eq!(world.verdict(Some(&lacks["base"])).reason, "NoOffering");
}

#[test]
fn lost_claims_pause_their_pool_until_one_is_launched() {
    let mut world = World::new(json!({"replicas": 1}));
    let (mut seconds, mut pauses) = (0, Vec::new());
    for round in 0..8 {
        assert_eq!(world.wanted(seconds), 1, "round {round}");
        world.memory.note_ordered("base", [format!("x{round}")]);
        let decision = world.decide(seconds);
        let pause = decision.again.unwrap().as_secs();
        assert_eq!(decision.waiting["base"], Shortfall::Lost);
        pauses.push(pause);
        seconds += pause;
    }
    assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
    world.memory.note_ordered("base", ["y".to_owned()]);
    world.claim("y", "a", |_| ());
    world.decide(seconds);
    world.state.delete_claim("y", None);
    assert_eq!(world.wanted(seconds + 60), 1);
}

#[test]
fn million_replicas_are_launched_a_hundred_at_a_time() {
    let mut world = World::new(json!({"replicas": 1_000_000}));
    assert_eq!(world.wanted(0), MOST_AT_ONCE);
    (0..60).for_each(|at| world.claim(&format!("c{at}"), "a", unlaunched));
    assert_eq!(world.wanted(1), 40);
}
