//! Requests at a small cluster whose nodes have 4 CPUs: what is asked for, all or none, held for a time, given back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::provisioning::{ProvisioningRequest, ProvisioningRequestStatus};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::buffers::tests::World;
use crate::cluster_state::{HeldRoom, Moment, NominationTarget};
use crate::pack::{Options, Packing, solve};

const ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
const CHECK: &str = "check-capacity.autoscaling.x-k8s.io";

fn start() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

fn at(seconds: i64) -> Moment {
    let monotonic = Duration::from_secs(u64::try_from(seconds).unwrap());
    Moment { monotonic, wall: start().checked_add(SignedDuration::from_secs(seconds)).unwrap() }
}

fn request(class: &str, sets: &[(&str, i64)], parameters: Value) -> ProvisioningRequest {
    let sets: Vec<Value> =
        sets.iter().map(|(name, count)| json!({"podTemplateRef": {"name": name}, "count": count})).collect();
    serde_json::from_value(json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {"name": "train", "namespace": "default", "uid": "r", "creationTimestamp": start()},
        "spec": {"provisioningClassName": class, "podSets": sets, "parameters": parameters}}))
    .unwrap()
}

/// Templates of a pod of one CPU, of one that makes no sense, and of none.
fn templates() -> Templates {
    let of = |cpu: &str| {
        let requests = json!({"cpu": cpu});
        let spec = json!({"containers": [{"name": "main", "resources": {"requests": requests}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], "nodeName": "n"});
        Ok(serde_json::from_value(json!({"metadata": {"labels": {"app": "train"}}, "spec": spec})).unwrap())
    };
    let none = Ok(serde_json::from_value(json!({})).unwrap());
    [("one", of("1")), ("two", of("2")), ("odd", of("much")), ("empty", none), ("gone", Err(TemplateFault::Missing))]
        .map(|(name, template)| (name.to_owned(), template))
        .into()
}

fn gang(class: &str, sets: &[(&str, i64)]) -> Arc<Gang> {
    Arc::new(read_request(&request(class, sets, json!({})), &templates()).unwrap())
}

/// A request and what is remembered of it.
struct Play {
    world: World,
    gang: Arc<Gang>,
    memory: GangMemory,
    plan: GangPlan,
    packing: Packing,
}

impl Play {
    fn new(limits: Value, class: &str, sets: &[(&str, i64)]) -> Self {
        let mut world = World::new(limits);
        world.state.follow_bookings(true);
        let (memory, plan, packing) = (GangMemory::default(), GangPlan::default(), Packing::default());
        Self { world, gang: gang(class, sets), memory, plan, packing }
    }

    /// A look at the request in that phase.
    fn look(&mut self, phase: GangPhase, now: i64) -> GangOutcome {
        let (snapshot, key) = (self.world.snapshot(), self.gang.key());
        self.memory.look_back(&snapshot, &BTreeSet::from([key.clone()]));
        let wanted = Consumers::of_snapshot(&snapshot).leave(&self.gang);
        let left = wanted.iter().sum();
        let sought = phase == GangPhase::Waiting;
        let held = HeldGang { gang: self.gang.clone(), wanted, sought };
        let paused = sought && self.memory.is_paused(&key, at(now).monotonic);
        let gangs = if paused { vec![] } else { vec![held] };
        let asked = plan_gangs(&snapshot, &World::input(at(now)), &gangs, self.memory.places());
        self.packing = solve(&asked.planning.problem, &Options::default());
        self.plan = GangPlan::from_packing(&asked, &self.packing);
        let tried = self.plan.tried.is_some();
        let pods = self.plan.gangs.get(&key);
        let outcome = decide_gang(&self.gang, phase, left, (pods, tried), &mut self.memory, at(now));
        let places = pods.filter(|_| outcome.keeps_room()).map(|pods| pods.places.clone()).unwrap_or_default();
        self.memory.note_places(&key, places);
        outcome
    }

    fn wait(&mut self, now: i64) -> GangOutcome {
        self.look(GangPhase::Waiting, now)
    }
}

fn not_found(outcome: &GangOutcome) -> &str {
    match outcome {
        GangOutcome::NotFound(why, _) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_and_others_wait() {
    let read = |sets: &[(&str, i64)], parameters| read_request(&request(ATOMIC, sets, parameters), &templates());
    for (sets, parameters, word) in [
        (vec![("one", 1_000_000)], json!({}), "asks for 1000000 pods: no request has room for more than 5000"),
        (vec![("one", 2_500), ("two", 2_501)], json!({}), "asks for 5001 pods"),
        (vec![("one", 2), ("two", 0)], json!({}), "1 at least"),
        (vec![], json!({}), "1 to 32"),
        (vec![("one", 1); 33], json!({}), "1 to 32"),
        (vec![("odd", 1)], json!({}), "PodTemplate odd: "),
        (vec![("empty", 1)], json!({}), "it has no spec"),
        (vec![("one", 1)], json!({"ValidUntilSeconds": "soon"}), "a number of seconds"),
    ] {
        match read(&sets, parameters) {
            Err(GangFault::Refused(why)) => assert!(why.contains(word), "{why}"),
            other => panic!("{sets:?}: {other:?}"),
        }
    }
    for name in ["gone", "unknown"] {
        assert!(matches!(read(&[(name, 1)], json!({})), Err(GangFault::Waits(_))), "{name}");
    }
    let fault = GangFault::Refused("no".into());
    let refused = judge_fault(&fault, GangPhase::Waiting, start());
    assert_eq!(judge_fault(&fault, GangPhase::Booked(at(5).wall), start()), GangOutcome::Unchanged);
    assert_eq!(judge_fault(&fault, GangPhase::Booked(at(5).wall), at(5).wall), GangOutcome::BookingOver);
    let mut status = ProvisioningRequestStatus::default();
    refused.write_to(&mut status, None, Some(3), start());
    let said = &status.conditions[0];
    assert_eq!(
        (said.type_.as_str(), said.status.as_str(), said.reason.as_str()),
        ("Failed", "True", "FailedToCreatePods")
    );
}

#[test]
fn requests_for_others_are_left_alone() {
    for (class, parameters, ours) in [
        (ATOMIC, json!({}), true),
        (CHECK, json!({"noRetry": "true"}), true),
        (CHECK, json!({"processorInstance": "west"}), false),
        ("queued-provisioning.gke.io", json!({}), false),
    ] {
        assert_eq!(is_ours(&request(class, &[("one", 1)], parameters)), ours, "{class}");
    }
}

#[test]
fn pod_of_a_request_has_its_templates_shape_and_no_volumes() {
    let gang = gang(ATOMIC, &[("one", 3), ("two", 2)]);
    let pod = gang.pod(1, 1).unwrap();
    assert_eq!((pod.name.as_str(), pod.uid.as_str()), ("provisioning-request-train-1-2", "provisioning-request.r-1-2"));
    assert!(pod.is_room() && pod.is_booked() && pod.labels["app"] == "train" && pod.volume_topology.is_empty());
    let written = write_request([&pod, &pod, &gang.pod(0, 0).unwrap()]).unwrap();
    assert_eq!(written, "default/train/0=1,default/train/1=2");
    assert!(gang.pod(2, 0).is_none());
}

#[test]
fn atomic_request_gets_all_its_nodes_or_none() {
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 10)]);
    play.world.node("n1");
    assert_eq!(play.wait(0), GangOutcome::Coming(4, 10));
    assert_eq!(play.plan.new.values().map(Vec::len).sum::<usize>(), 6);
    let mut play = Play::new(json!({"cpu": "8"}), ATOMIC, &[("one", 10)]);
    play.world.node("n1");
    let outcome = play.wait(0);
    assert!(
        not_found(&outcome).contains("2 of 10 pods have no place") && not_found(&outcome).contains("limit"),
        "{outcome:?}"
    );
    assert!(!outcome.keeps_room() && outcome.gives_back() && play.memory.places().is_empty());
    // It is looked for again after a minute, then after two.
    assert_eq!(play.wait(59), GangOutcome::Unchanged);
    assert!(matches!(play.wait(60), GangOutcome::NotFound(..)));
    assert_eq!(play.wait(179), GangOutcome::Unchanged);
}

#[test]
fn request_that_fits_is_found_and_launches_nothing() {
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 2), ("two", 1)]);
    play.world.node("n1");
    assert_eq!(play.wait(0), GangOutcome::Found(false));
    assert_eq!(play.plan.held_room(|_| true).values().map(Vec::len).sum::<usize>(), 3);
    assert!(play.packing.claims.is_empty());
}

#[test]
fn check_capacity_launches_nothing_and_counts_ready_nodes_alone() {
    let mut play = Play::new(json!({}), CHECK, &[("one", 4)]);
    assert_eq!(not_found(&play.wait(0)), "nodes that are ready have no room for 4 of 4 pods");
    assert!(play.packing.claims.is_empty());
    play.world.claim("c1", false, None);
    assert_eq!(not_found(&play.wait(100)), "nodes that are ready have no room for 4 of 4 pods", "one is on its way");
    play.world.node("n1");
    play.world.pod("a", Some("n1"), "1");
    play.world.node("n2");
    assert_eq!(play.wait(1000), GangOutcome::Found(false));
    let once = read_request(&request(CHECK, &[("one", 40)], json!({"noRetry": "true"})), &templates()).unwrap();
    let mut play = Play { gang: Arc::new(once), ..Play::new(json!({}), CHECK, &[("one", 4)]) };
    assert!(matches!(play.wait(0), GangOutcome::NotFound(_, true)));
}

#[test]
fn nodes_for_pods_that_wait_are_not_the_requests() {
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 4)]);
    for name in ["a", "b", "c"] {
        play.world.pod(name, None, "3");
    }
    assert_eq!(play.wait(0), GangOutcome::Coming(0, 4));
    assert_eq!((play.packing.claims.len(), play.plan.new[&0].len()), (1, 4), "the packer launches for the pods");
}

#[test]
fn successor_finds_ordered_nodes_and_orders_the_rest_alone() {
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 8), ("two", 2)]);
    let launched = BTreeMap::from([("dovetail.dev/launched-for-request", "default/train/0=4")]);
    play.world.claim_with("c1", false, &launched);
    let both = BTreeMap::from([("dovetail.dev/launched-for-request", "default/train/1=2,x/y/0=9,nonsense,a=b")]);
    play.world.claim_with("c2", false, &both);
    assert_eq!(play.wait(0), GangOutcome::Coming(0, 10));
    let now = &play.plan.gangs["default/train"];
    assert_eq!((now.coming, now.new, now.launched), (6, 4, true), "{now:?}");
    // All of them are ready.
    for name in ["c1", "c2", "c3"] {
        play.world.node_with(name, &launched);
    }
    assert_eq!(play.wait(60), GangOutcome::Found(true));
    assert_eq!(play.wait(61), GangOutcome::Found(true), "until it is written");
}

#[test]
fn failed_launches_are_made_up_for_or_the_rest_is_given_back() {
    let mut play = Play::new(json!({"nodes": "2"}), ATOMIC, &[("one", 8)]);
    let launched = BTreeMap::from([("dovetail.dev/launched-for-request", "default/train/0=4")]);
    assert_eq!(play.wait(0), GangOutcome::Coming(0, 8));
    play.memory.note_ordered("default/train", ["c1".to_owned(), "c2".to_owned()]);
    play.world.claim_with("c1", false, &launched);
    assert_eq!(play.wait(5), GangOutcome::Coming(0, 8), "another one for c2");
    assert_eq!(play.plan.new.len(), 1);
    // Another pool's node takes the room that its limit left.
    play.world.node("other");
    play.world.pod("a", Some("other"), "4");
    let outcome = play.wait(10);
    assert!(not_found(&outcome).contains("4 of 8 pods have no place"), "{outcome:?}");
    let back = |play: &Play| claims_to_give_back(&play.world.snapshot(), "default/train", &HeldRoom::new());
    assert_eq!(back(&play), [("c1".to_owned(), "uid-c1".to_owned())]);
    play.world.node_with("c1", &launched);
    assert_eq!(back(&play).len(), 1, "an idle node goes, too");
    play.world.pod("b", Some("c1"), "1");
    assert!(back(&play).is_empty(), "a pod is on it");
    let held = HeldRoom::from([(NominationTarget::Node("c1".into()), vec![])]);
    let mut other = Play::new(json!({}), ATOMIC, &[("one", 1)]);
    other.world.node_with("c1", &launched);
    assert!(claims_to_give_back(&other.world.snapshot(), "default/train", &held).is_empty(), "another has booked it");
}

#[test]
fn trial_whose_nodes_fail_too_often_is_given_up() {
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 4)]);
    for trial in 0..4 {
        assert_eq!(play.wait(trial), GangOutcome::Coming(0, 4), "{trial}");
        play.memory.note_ordered("default/train", [format!("c{trial}")]);
    }
    assert_eq!(play.wait(4), GangOutcome::Coming(0, 4), "four have failed");
    play.memory.note_ordered("default/train", ["c4".to_owned()]);
    assert!(not_found(&play.wait(5)).contains("5 nodes came to nothing or were held back"));
    assert!(play.memory.is_paused("default/train", Duration::from_secs(64)));
    assert_eq!(play.memory.next_trial(Duration::from_secs(6)), Some(Duration::from_secs(65)));
    assert_eq!(play.wait(65), GangOutcome::Coming(0, 4), "a new trial begins anew");
}

fn status(conditions: Value) -> ProvisioningRequest {
    let mut request = request(ATOMIC, &[("one", 4)], json!({}));
    request.status = serde_json::from_value(json!({"conditions": conditions})).unwrap();
    request
}

fn said(type_: &str, says: &str) -> Value {
    json!({"type": type_, "status": says, "reason": "R", "message": "", "lastTransitionTime": start()})
}

#[test]
fn room_is_booked_for_ten_minutes_or_as_long_as_asked() {
    assert_eq!(phase_of(&status(json!([]))), GangPhase::Waiting);
    assert_eq!(phase_of(&status(json!([said("Provisioned", "False")]))), GangPhase::Waiting);
    let mut booked = status(json!([said("Accepted", "True"), said("Provisioned", "True")]));
    assert_eq!(phase_of(&booked), GangPhase::Booked(at(600).wall));
    for (text, seconds) in [("30m", 1800), ("soon", 600), ("9000h", 600), ("0", 0)] {
        booked.metadata.annotations = Some([("dovetail.dev/booking".to_owned(), text.to_owned())].into());
        assert_eq!(phase_of(&booked), GangPhase::Booked(at(seconds).wall), "{text}");
    }
    for over in ["Failed", "BookingExpired", "CapacityRevoked"] {
        assert_eq!(
            phase_of(&status(json!([said("Provisioned", "True"), said(over, "True")]))),
            GangPhase::Over,
            "{over}"
        );
    }
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 4)]);
    play.world.node("n1");
    let until = GangPhase::Booked(at(600).wall);
    assert_eq!((play.look(until, 599), play.look(until, 600)), (GangOutcome::Held, GangOutcome::BookingOver));
    assert_eq!(play.look(GangPhase::Over, 700), GangOutcome::Unchanged);
}

#[test]
fn pods_that_come_take_of_the_room_and_all_of_them_end_it() {
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 4), ("two", 2)]);
    for name in ["n1", "n2", "n3"] {
        play.world.node(name);
    }
    let until = GangPhase::Booked(at(600).wall);
    assert_eq!(play.look(until, 0), GangOutcome::Held);
    let consumes = BTreeMap::from([("autoscaling.x-k8s.io/consume-provisioning-request", "train")]);
    play.world.pod_with("a", Some("n1"), "1", &consumes);
    play.world.pod_with("b", Some("n2"), "2", &consumes);
    play.world.pod_with("c", Some("n3"), "500m", &consumes);
    assert_eq!(play.look(until, 10), GangOutcome::Held);
    assert_eq!(Consumers::of_snapshot(&play.world.snapshot()).leave(&play.gang), [2, 1]);
    let held: usize = play.plan.held_room(|_| true).values().map(Vec::len).sum();
    assert_eq!(held, 3);
    let earlier = BTreeMap::from([("cluster-autoscaler.kubernetes.io/consume-provisioning-request", "train")]);
    for name in ["d", "e", "f"] {
        play.world.pod_with(name, Some("n1"), "100m", &earlier);
    }
    assert_eq!(play.look(until, 20), GangOutcome::Consumed);
}

#[test]
fn booked_room_that_is_gone_for_half_a_minute_is_revoked() {
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 4)]);
    play.world.node("n1");
    let until = GangPhase::Booked(at(600).wall);
    assert_eq!(play.look(until, 0), GangOutcome::Held);
    play.world.pod("thief", Some("n1"), "2");
    assert_eq!((play.look(until, 10), play.look(until, 39)), (GangOutcome::Held, GangOutcome::Held));
    let lost = play.look(until, 40);
    assert_eq!(lost, GangOutcome::Lost(2));
    let mut status = ProvisioningRequestStatus::default();
    lost.write_to(&mut status, None, None, start());
    assert_eq!(
        (status.conditions[0].type_.as_str(), status.conditions[0].reason.as_str()),
        ("CapacityRevoked", "CapacityIsLost")
    );
    // With room elsewhere it moves.
    let mut play = Play::new(json!({}), ATOMIC, &[("one", 4)]);
    play.world.node("n1");
    play.look(until, 0);
    play.world.pod("thief", Some("n1"), "2");
    play.world.node("n2");
    assert_eq!((play.look(until, 10), play.look(until, 100)), (GangOutcome::Held, GangOutcome::Held));
}

#[test]
fn request_without_room_expires_after_its_time() {
    let mut play = Play::new(json!({"cpu": "1"}), ATOMIC, &[("one", 4)]);
    let week = 7 * 24 * 3600;
    assert!(matches!(play.wait(week - 1), GangOutcome::NotFound(..)));
    assert_eq!(play.wait(week), GangOutcome::Expired);
    let short = request(ATOMIC, &[("one", 4)], json!({"ValidUntilSeconds": "90"}));
    assert_eq!(read_request(&short, &templates()).unwrap().valid_until, at(90).wall);
}

#[test]
fn plans_for_other_pods_leave_booked_room_alone() {
    let mut world = World::new(json!({}));
    world.node("n1");
    world.pod("a", None, "2");
    let consumes = BTreeMap::from([("autoscaling.x-k8s.io/consume-provisioning-request", "train")]);
    world.pod_with("b", None, "1", &consumes);
    let plan = |world: &World| solve(&world.snapshot().planning(&World::input(at(0))).problem, &Options::default());
    let closed = plan(&world);
    assert_eq!((closed.claims.len(), closed.on_existing.len(), closed.unscheduled.len()), (0, 1, 0), "{closed:?}");
    world.state.follow_bookings(true);
    let pods = (0..3).map(|number| Arc::new(gang(ATOMIC, &[("one", 3)]).pod(0, number).unwrap())).collect();
    world.state.book_room(HeldRoom::from([(NominationTarget::Node("n1".into()), pods)]));
    let open = plan(&world);
    assert_eq!((open.claims.len(), open.unscheduled.len()), (1, 1), "{open:?}");
    assert!(format!("{:?}", open.unscheduled).contains("it consumes ProvisioningRequest default/train"));
    // To disruption they are pods that stay, counted once.
    let seen = world.snapshot().with_room();
    assert_eq!(seen.loads["n1"].visitors, 3);
    assert!(seen.booked.as_ref().is_some_and(|booked| booked.is_empty()));
    assert!(world.snapshot().holds_room(&NominationTarget::Node("n1".into())));
    world.state.forget_plans();
    assert!(world.snapshot().booked.is_none());
}

/// Without the gate the problem is the same to the byte, whatever pods say of requests.
#[test]
fn closed_gate_leaves_every_plan_as_it_was() {
    let of = |annotations: &BTreeMap<&str, &str>| {
        let mut world = World::new(json!({}));
        world.node("n1");
        world.pod_with("a", None, "2", annotations);
        world.pod_with("b", Some("n1"), "1", annotations);
        let planning = world.snapshot().planning(&World::input(at(0)));
        (format!("{:?}", planning.problem), format!("{:?}", solve(&planning.problem, &Options::default()).claims))
    };
    let consumes = BTreeMap::from([("autoscaling.x-k8s.io/consume-provisioning-request", "train")]);
    assert_eq!(of(&consumes), of(&BTreeMap::new()));
}
