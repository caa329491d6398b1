//! Drains of a node on a small cluster, at chosen times.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::drain::{Latecomers, drain};
use super::super::held::{HoldReason, held};
use super::*;
use crate::cluster_state::ClusterState;

fn wall(seconds: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn at(seconds: i64) -> Moment {
    Moment { monotonic: Duration::from_secs(seconds.unsigned_abs()), wall: wall(seconds) }
}

/// A node `old` that leaves from second 0 on, and a node `new` of four CPUs that is ready.
struct World {
    state: ClusterState,
    patience: Patience,
    ends: Option<i64>,
}

impl World {
    fn new(ends: Option<i64>) -> Self {
        let mut state = ClusterState::new();
        let node = |name: &str, deleted: Option<Timestamp>| {
            let room = json!({"cpu": "4", "memory": "4Gi", "pods": "29"});
            json!({"metadata": {"name": name, "uid": name, "deletionTimestamp": deleted}, "spec": {"providerID": name},
                "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}})
        };
        for node in [node("old", Some(wall(0))), node("new", None)] {
            state.apply_node(&serde_json::from_value(node).unwrap());
        }
        let mut claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c", "uid": "c", "deletionTimestamp": wall(0), "annotations": {}},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []},
            "status": {"providerID": "old", "nodeName": "old"}});
        if let Some(ends) = ends {
            claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"] = json!(wall(ends));
        }
        state.apply_claim(Arc::new(serde_json::from_value(claim).unwrap()));
        Self { state, patience: Patience::default(), ends }
    }

    fn pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "annotations": {}, "labels": {"app": name}},
            "spec": {"nodeName": "old", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        change(&mut pod);
        self.state.apply_pod(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap();
    }

    fn place(&mut self, pod: &str, target: NominationTarget) {
        self.state.nominate([pod], &target, Duration::from_secs(20));
    }

    /// A claim that never comes.
    fn on_its_way(&mut self, pod: &str) {
        let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "late"},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []}});
        self.state.plan_claim(serde_json::from_value(claim).unwrap(), crate::Resources::new());
        self.place(pod, NominationTarget::Claim("late".into()));
    }

    fn look(&mut self, seconds: i64) -> (Drain, PlaceWait) {
        let snapshot = self.state.snapshot();
        let pods = snapshot.loads["old"].pods.values().cloned();
        let ends = self.ends.map(wall);
        let mut drain = drain(pods, &Latecomers::default(), ends, wall(seconds));
        let waited = self.patience.wait(&mut drain, &snapshot, ends, at(seconds));
        (drain, waited)
    }

    fn evicted(&mut self, seconds: i64) -> Vec<String> {
        self.look(seconds).0.evict.iter().map(|pod| pod.pod.name.clone()).collect()
    }

    fn why(&mut self, seconds: i64) -> Vec<(HoldReason, String)> {
        let (drain, waited) = self.look(seconds);
        let ends = self.ends.map(wall);
        let all = held(&drain, &waited.awaiting, &self.state.snapshot(), ends, wall(seconds));
        all.into_iter().map(|one| (one.rule.clone(), one.to_string())).collect()
    }
}

fn left_alone(pod: &mut Value) {
    pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
}

#[test]
fn pod_is_evicted_when_its_place_is_ready_and_others_wait() {
    let mut world = World::new(None);
    ["a", "b"].iter().for_each(|name| world.pod(name, |_| ()));
    world.place("a", NominationTarget::Node("new".into()));
    world.on_its_way("b");
    let (drain, waited) = world.look(1);
    assert_eq!((drain.evict.len(), drain.waiting.len()), (1, 2), "the drain waits for both");
    assert_eq!(drain.evict[0].pod.name, "a");
    assert_eq!(
        (&*waited.awaiting[0].pod.pod.name, &waited.awaiting[0].place),
        ("b", &SuccessorPlace::Coming(NominationTarget::Claim("late".into())))
    );
}

#[test]
fn missing_replacement_node_delays_eviction_ten_minutes_at_most() {
    let mut world = World::new(None);
    world.pod("a", |_| ());
    world.on_its_way("a");
    assert!(world.evicted(1).is_empty() && world.evicted(600).is_empty());
    let (drain, waited) = world.look(601);
    assert_eq!((drain.evict.len(), waited.given_up.len()), (1, 1));
    assert!(world.look(602).1.given_up.is_empty(), "it is told once");
}

#[test]
fn a_pod_that_fits_nowhere_is_waited_for_half_a_minute() {
    let mut world = World::new(None);
    world.pod("a", |_| ());
    assert!(world.evicted(5).is_empty() && world.evicted(34).is_empty());
    assert_eq!(world.evicted(35), ["a"]);
}

#[test]
fn while_launches_are_refused_there_is_hope_of_a_place() {
    let mut world = World::new(None);
    world.pod("a", |_| ());
    world.on_its_way("a");
    assert!(world.evicted(0).is_empty());
    world.state.sold_out("late", Duration::from_secs(10));
    world.state.delete_claim("late", None);
    assert_eq!(world.look(40).1.awaiting[0].place, SuccessorPlace::Later);
    assert!(world.evicted(599).is_empty());
    assert_eq!(world.evicted(600), ["a"]);
}

#[test]
fn ending_node_evicts_pods_in_time_for_their_grace_period() {
    let mut world = World::new(Some(100));
    world.pod("a", |_| ());
    world.on_its_way("a");
    assert!(world.evicted(1).is_empty() && world.evicted(59).is_empty());
    assert_eq!(world.evicted(60), ["a"], "30 s are its own, and 10 s for the way");
    assert_eq!(world.look(71).0.delete.len(), 1);
}

#[test]
fn unready_pod_and_daemon_pod_go_without_waiting_for_a_place() {
    let mut world = World::new(None);
    world.pod("not-ready", |pod| pod["status"]["conditions"][0]["status"] = json!("False"));
    world.pod("daemon", |pod| {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]);
    });
    assert_eq!(world.evicted(1), ["not-ready"]);
    world.state.delete_pod("not-ready");
    assert_eq!(world.evicted(2), ["daemon"]);
}

#[test]
fn what_holds_a_drain_up_is_said_by_pod_and_rule() {
    let mut world = World::new(None);
    world.pod("alone", left_alone);
    world.pod("kept", |_| ());
    world.pod("waits", |_| ());
    world.pod("z", |pod| pod["metadata"]["deletionTimestamp"] = json!(wall(20)));
    let budget = json!({"metadata": {"name": "all", "namespace": "default"}, "spec": {"maxUnavailable": 0,
        "selector": {"matchLabels": {"app": "kept"}}}, "status": {"disruptionsAllowed": 0, "expectedPods": 1,
        "desiredHealthy": 1, "currentHealthy": 1}});
    world.state.apply_budget(serde_json::from_value(budget).unwrap());
    world.on_its_way("waits");
    let why = world.why(10);
    let lines: Vec<_> = why.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "pod default/alone has the annotation karpenter.sh/do-not-disrupt, and nothing ends that",
            "pod default/kept is kept by pdb default/all",
            "pod default/waits waits for its place on nodeclaim late, until 2026-01-01T00:10:10Z at the latest",
            "pod default/z is ending, and is to be gone by 2026-01-01T00:00:20Z",
        ]
    );
    assert_eq!(why.iter().filter(|(rule, _)| rule.holds()).count(), 2);
    let mut world = World::new(Some(700));
    world.pod("alone", left_alone);
    assert!(
        world.why(10)[0].1.ends_with("and is deleted at 2026-01-01T00:11:10Z at the latest"),
        "{:?}",
        world.why(10)
    );
}

proptest! {
    /// Whatever becomes of places, nobody is waited for for longer than ten minutes, and who is waited for stays in the drain.
    #[test]
    fn nobody_is_waited_for_without_end(changes in prop::collection::vec(0..4_u8, 1..40), ends in prop::option::of(20..900_i64)) {
        let mut world = World::new(ends);
        world.pod("a", |_| ());
        for (number, change) in changes.iter().cycle().take(130).enumerate() {
            match change {
                0 => world.on_its_way("a"),
                1 => world.state.delete_claim("late", None),
                2 => world.state.sold_out("late", Duration::from_secs(number as u64 * 5)),
                _ => {}
            }
            let now = number as i64 * 5;
            let (drain, waited) = world.look(now);
            prop_assert_eq!(drain.waiting.len(), 1);
            prop_assert!(drain.evict.len() + drain.delete.len() + waited.awaiting.len() >= 1);
            prop_assert!(waited.awaiting.iter().all(|one| one.until > wall(now)));
            let due = ends.map_or(600, |ends| (ends - 40).min(600));
            prop_assert!(now < due || waited.awaiting.is_empty(), "at {} s", now);
        }
    }
}

#[test]
fn the_annotation_that_holds_a_pod_is_named_as_it_is_written() {
    let mut world = World::new(None);
    world.pod("old", |pod| pod["metadata"]["annotations"]["karpenter.sh/do-not-evict"] = json!("true"));
    let (_, told) = world.why(1).remove(0);
    assert_eq!(told, "pod default/old has the annotation karpenter.sh/do-not-evict, and nothing ends that");
}

impl World {
    /// A node for the pod that has registered and is not ready yet.
    fn registered(&mut self, pod: &str) {
        let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "coming", "uid": "coming"},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []},
            "status": {"providerID": "coming", "conditions": [
                {"type": "Launched", "status": "True", "lastTransitionTime": wall(0), "reason": "", "message": ""},
                {"type": "Registered", "status": "True", "lastTransitionTime": wall(0), "reason": "", "message": ""}]}});
        self.state.apply_claim(Arc::new(serde_json::from_value(claim).unwrap()));
        self.place(pod, NominationTarget::Claim("coming".into()));
    }
}

fn with_volume(pod: &mut Value) {
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
}

#[test]
fn volume_pod_leaves_ending_node_once_its_place_has_registered() {
    let evicted = |ends, change: fn(&mut Value)| {
        let mut world = World::new(ends);
        world.pod("a", change);
        world.registered("a");
        world.evicted(1)
    };
    assert_eq!(evicted(Some(120), with_volume), ["a"]);
    assert_eq!(evicted(Some(120), |_| ()), [""; 0], "it runs until its place is ready");
    assert_eq!(evicted(None, with_volume), [""; 0], "there is time");
    let mut world = World::new(Some(120));
    for pod in ["a", "b"] {
        world.pod(pod, |pod| {
            with_volume(pod);
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "s", "controller": true}]);
        });
    }
    world.registered("a");
    assert_eq!(world.evicted(1), [""; 0], "others of its workload serve");
}

fn asks_for_a_rollout(pod: &mut Value) {
    pod["metadata"]["annotations"] = json!({"dovetail.dev/move": "rollout"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "s", "controller": true}]);
}

#[test]
fn budget_held_pod_gets_a_place_where_rollout_may_restart_it() {
    let budget = json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 0, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1}});
    let moves = |allowed: bool, change: fn(&mut Value)| {
        let mut world = World::new(None);
        world.state.allow_rollouts(allowed);
        world.state.apply_budget(serde_json::from_value(budget.clone()).unwrap());
        world.pod("a", change);
        let snapshot = world.state.snapshot();
        let pod = &snapshot.pods["a"];
        (snapshot.moves_by_rollout(pod), snapshot.must_move(pod, wall(1)))
    };
    assert_eq!(moves(true, asks_for_a_rollout), (true, true));
    assert_eq!(moves(false, asks_for_a_rollout), (false, false), "nobody may restart it");
    assert_eq!(moves(true, |_| ()), (false, false), "it does not ask for it");
}
