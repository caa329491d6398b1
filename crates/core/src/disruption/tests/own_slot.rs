//! Nodes whose only place is their own instance of a capacity reservation.

use std::collections::BTreeSet;

use super::drift::Drifting;
use super::repair::REPAIRING;
use super::*;
use crate::cluster_state::ClaimEntry;
use crate::disruption::drift::{Gates, InstanceNetwork};
use crate::instance_type::InstanceType;

const ID: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// The type of the nodes: with `left` instances of the reservation `cr-1`, and on demand where that is said, true if EC2 has it.
pub(super) fn offers(left: u32, on_demand: Option<bool>) -> OffersByClass {
    let mut offerings = vec![json!({"zone": "a", "capacityType": "reserved", "price": 1e-8, "available": left > 0,
        "reservationCapacity": left, "requirements": [{"key": ID, "operator": "In", "values": ["cr-1"]}]})];
    offerings.extend(
        on_demand
            .map(|available| json!({"zone": "a", "capacityType": "on-demand", "price": 0.1, "available": available})),
    );
    let one: InstanceType = serde_json::from_value(json!({"name": "m5.large",
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "offerings": offerings,
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}]}))
    .unwrap();
    [("default".to_owned(), Arc::new(vec![Arc::new(one)]))].into()
}

/// Reserved nodes with a pod each, which have drifted, of a pool of these capacity types without a limit to its disruptions.
pub(super) struct Rotation {
    pub(super) all: Drifting,
    offers: OffersByClass,
    notes_are_written: bool,
    /// True if the storage of new nodes is not ready, each for a reason of its own.
    ailing: bool,
}

impl Rotation {
    pub(super) fn new(capacity_types: &[&str], names: &[&str], offers: OffersByClass) -> Self {
        let mut rotation = Self::at_rest(capacity_types, names, offers, false);
        rotation.all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
        rotation.act(1.0);
        rotation
    }

    /// The same before anything has changed.
    fn at_rest(capacity_types: &[&str], names: &[&str], offers: OffersByClass, ailing: bool) -> Self {
        let mut all = Drifting::new(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}));
        all.change_pool(|pool| {
            pool["spec"]["template"]["spec"]["requirements"] =
                json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types}]);
            pool["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": at(0.0)}]});
        });
        all.change_class(|class| {
            class["status"]["capacityReservations"] = json!([{"id": "cr-1", "instanceType": "m5.large",
                "availabilityZone": "a", "ownerID": "1", "instanceMatchCriteria": "targeted"}]);
        });
        let mut rotation = Self { all, offers, notes_are_written: true, ailing };
        for name in names {
            rotation.node(name, 0.0);
            rotation.all.world.asking(&format!("pod-{name}"), name, 1500, |_| ());
        }
        rotation
    }

    fn node(&mut self, name: &str, created: f64) {
        let (hashes, ailing) = (self.all.hashes(), self.ailing);
        self.all.world.machine(name, |claim, node| {
            if ailing {
                let one = json!({"type": "StorageReady", "status": "False", "reason": format!("disk-{name}"), "lastTransitionTime": at(0.0)});
                node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}, one]);
            }
            let labels = &mut node["metadata"]["labels"];
            labels["karpenter.sh/capacity-type"] = json!("reserved");
            labels[ID] = json!("cr-1");
            labels["karpenter.sh/registered"] = json!("true");
            labels["karpenter.sh/initialized"] = json!("true");
            claim["metadata"]["creationTimestamp"] = json!(at(created));
            claim["metadata"]["annotations"] = hashes;
            claim["metadata"]["labels"] = labels.clone();
            claim["status"]["imageID"] = json!("ami-1");
            claim["status"]["providerID"] = json!(format!("aws:///a/i-{name}"));
            node["spec"]["providerID"] = json!(format!("aws:///a/i-{name}"));
        });
        let security_groups = ["sg-1".to_owned(), "sg-2".to_owned()].into();
        let network = InstanceNetwork { subnet: "subnet-1".into(), security_groups };
        self.all.networks.insert(format!("i-{name}"), network);
        self.all.hear();
    }

    /// A look whose orders are carried out: conditions are written, nodes marked and unmarked.
    fn act(&mut self, seconds: f64) -> DisruptionDecision {
        let world = &mut self.all.world;
        world.seconds = seconds;
        let now = Moment { monotonic: Duration::from_secs_f64(seconds), wall: at(seconds) };
        let decision = decide_disruption(&world.state.snapshot(), &self.offers, &mut world.memory, now);
        for mark in &decision.drift.marks {
            let mut claim = mark.on(&world.state.snapshot().claims[&mark.claim].claim.clone(), at(seconds));
            claim.metadata.resource_version = Some(world.next().to_string());
            world.state.apply_claim(Arc::new(claim));
        }
        let begin: Vec<String> = decision.drift.begin.iter().map(|disrupted| disrupted.claim.clone()).collect();
        let stay: Vec<String> = decision.drift.stay.iter().map(|one| one.disrupted.claim.clone()).collect();
        world.state.mark_deleting(begin.iter().map(String::as_str), true);
        world.state.mark_deleting(stay.iter().map(String::as_str), false);
        for mark in &decision.drift.repairs {
            let mut claim = mark.on(&world.state.snapshot().claims[&mark.disrupted.claim].claim.clone(), at(seconds));
            claim.metadata.resource_version = Some(world.next().to_string());
            world.state.apply_claim(Arc::new(claim));
        }
        if self.notes_are_written {
            world.write_notes(&decision);
        }
        decision
    }

    /// Looks every second until something is ended, or as long as given.
    pub(super) fn until_gone(&mut self, from: u32, to: u32) -> Option<(u32, DisruptionDecision)> {
        (from..to).map(|second| (second, self.act(f64::from(second)))).find(|(_, decision)| !gone(decision).is_empty())
    }

    /// A node is gone with its claim, and its pod waits.
    fn end(&mut self, name: &str) {
        let state = &mut self.all.world.state;
        state.delete_node(name, None);
        state.delete_claim(&format!("claim-{name}"), None);
        self.all.world.gone(&format!("pod-{name}"));
        self.waits(&format!("again-{name}"));
    }

    fn waits(&mut self, name: &str) {
        self.all.world.asking(name, "", 1500, |pod| {
            pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "", "lastTransitionTime": at(0.0)}]});
        });
    }

    /// A pod that waits since then.
    fn waits_since(&mut self, name: &str, seconds: f64) {
        self.all.world.asking(name, "", 1500, |pod| {
            pod["metadata"]["creationTimestamp"] = json!(at(seconds));
            pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "", "lastTransitionTime": at(seconds)}]});
        });
    }

    fn claim(&self, name: &str) -> Arc<ClaimEntry> {
        self.all.world.state.snapshot().claims[&format!("claim-{name}")].clone()
    }
}

#[test]
fn nodes_give_up_their_own_instances_one_at_a_time() {
    let mut rotation = Rotation::new(&["reserved"], &["a", "b"], offers(0, None));
    let (second, decision) = rotation.until_gone(2, 60).unwrap();
    assert!(second >= 30, "packing had half a minute: {second}");
    assert_eq!((gone(&decision), decision.removals[0].cause), (vec!["a"], DisruptionCause::Drifted));
    let first = &decision.drift.first;
    assert_eq!((first.len(), first[0].reservation.as_str()), (1, "cr-1"));
    assert_eq!(rotation.all.world.memory.kept_slots(), ["cr-1"]);
    assert_eq!(rotation.until_gone(second + 1, 400).map(|(_, decision)| gone(&decision).join("")), Some("a".into()));
    rotation.end("a");
    rotation.offers = offers(1, None);
    assert!(rotation.until_gone(401, 500).is_none(), "its successor does not stand yet");
    rotation.node("successor", 450.0);
    rotation.offers = offers(0, None);
    rotation.all.world.gone("again-a");
    rotation.all.world.asking("pod-successor", "successor", 1500, |_| ());
    assert!(rotation.until_gone(501, 560).is_none(), "its pods are not Ready");
    rotation.all.world.asking("pod-successor", "successor", 1500, |pod| {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(560.0)}]);
    });
    let (_, decision) = rotation.until_gone(561, 700).unwrap();
    assert_eq!((gone(&decision), decision.drift.first.len()), (vec!["b"], 1));
    assert!(!rotation.claim("b").facts.deleting);
}

#[test]
fn what_ec2_refuses_for_now_counts_as_a_place() {
    for kind in [Some(true), Some(false)] {
        let mut rotation = Rotation::new(&["reserved", "on-demand"], &["a"], offers(0, kind));
        assert!(rotation.until_gone(2, 700).is_none(), "{kind:?}");
    }
    // Nothing of it is offered in this zone at all.
    let mut rotation = Rotation::new(&["reserved", "on-demand"], &["a"], offers(0, None));
    assert!(rotation.until_gone(2, 60).is_some());
}

#[test]
fn a_reservation_with_a_free_instance_is_no_reason_to_go_first() {
    let mut rotation = Rotation::new(&["reserved"], &["a"], offers(1, None));
    assert!(rotation.until_gone(2, 700).is_none());
}

#[test]
fn pods_that_would_not_come_back_keep_their_node() {
    // The pool does not allow reserved capacity any more, and nothing else is offered.
    let mut rotation = Rotation::new(&["spot"], &["a"], offers(0, None));
    assert!(rotation.until_gone(2, 700).is_none());
}

#[test]
fn launches_that_failed_do_not_end_a_node_first() {
    let mut rotation = Rotation::new(&["reserved"], &["a"], offers(0, None));
    rotation.all.world.waits_after_a_refusal();
    assert!(rotation.until_gone(2, 60).is_none());
}

impl World {
    /// EC2 had nothing for a claim on which the pod of node `a` was expected.
    pub(super) fn waits_after_a_refusal(&mut self) {
        let target = NominationTarget::Claim("claim-refused".into());
        self.state.mark_deleting(std::iter::once("claim-a"), true);
        self.state.nominate(["uid-pod-a"], &target, Duration::from_secs(1000));
        self.state.sold_out("claim-refused", Duration::from_secs(1));
    }
}

#[test]
fn a_lost_instance_is_told_and_ends_nobody_else() {
    let mut rotation = Rotation::new(&["reserved"], &["a", "b"], offers(0, None));
    let (second, _) = rotation.until_gone(2, 60).unwrap();
    rotation.end("a");
    let from = f64::from(second);
    assert_eq!(rotation.act(from + 1.0).drift.lost, []);
    assert_eq!(rotation.act(from + 60.0).drift.lost, []);
    let lost = rotation.act(from + 62.0).drift.lost;
    assert_eq!((lost[0].pool.as_str(), lost[0].node.as_str(), lost[0].news), ("default", "a", true));
    assert!(!rotation.act(from + 70.0).drift.lost[0].news, "it is news once");
    assert!(rotation.until_gone(second + 71, second + 2000).is_none());
    // The pod that has waited is gone: nobody is down any more.
    rotation.all.world.gone("again-a");
    let (_, decision) = rotation.until_gone(second + 2000, second + 6000).unwrap();
    assert_eq!(gone(&decision), ["b"]);
}

#[test]
fn pods_that_wait_for_something_else_hold_no_pool_up() {
    // One has waited all the time. One that came later may be of the node; while an instance is free that counts for an hour.
    for (created, until) in [(0.0, 100), (50.0, 3800)] {
        let mut rotation = Rotation::new(&["reserved"], &["a", "b"], offers(0, None));
        let (second, _) = rotation.until_gone(2, 60).unwrap();
        let state = &mut rotation.all.world.state;
        state.delete_node("a", None);
        state.delete_claim("claim-a", None);
        rotation.all.world.gone("pod-a");
        rotation.waits_since("stranger", created);
        let at_least = if created > 0.0 { 3600 } else { 30 };
        rotation.offers = offers(1, None);
        assert!(rotation.until_gone(second + 1, second + at_least).is_none(), "{created}");
        rotation.act(f64::from(second + until - 2));
        rotation.offers = offers(0, None);
        let (_, decision) = rotation.until_gone(second + until - 1, second + until + 700).unwrap();
        assert_eq!(gone(&decision), ["b"], "{created}");
    }
}

/// Nodes whose storage is not ready, in a pool that repairs.
pub(super) fn sick(capacity_types: &[&str], names: &[&str], offers: OffersByClass) -> Rotation {
    let mut rotation = Rotation::at_rest(capacity_types, names, offers, true);
    rotation.all.world.memory.set_gates(REPAIRING);
    rotation.ailing = false;
    // So many are well that two sick ones are no alarm.
    for name in ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"] {
        rotation.node(name, 0.0);
        rotation.all.world.asking(&format!("pod-{name}"), name, 1500, |_| ());
    }
    rotation
}

#[test]
fn sick_nodes_give_up_their_own_instances_one_at_a_time() {
    let mut rotation = sick(&["reserved"], &["a", "b"], offers(0, None));
    let (second, decision) = rotation.until_gone(1800, 1900).unwrap();
    assert!(second >= 1830, "packing had half a minute: {second}");
    assert_eq!((gone(&decision), decision.removals[0].cause.reason()), (vec!["a"], RemovalReason::Unhealthy));
    assert_eq!(decision.drift.first[0].reservation, "cr-1");
    rotation.end("a");
    rotation.offers = offers(1, None);
    assert!(rotation.until_gone(second + 1, second + 300).is_none(), "its successor does not stand yet");
    let blocked = rotation.act(f64::from(second) + 301.0).blocked;
    assert!(blocked[0].why.contains("the successor of node a"), "{blocked:?}");
    rotation.node("successor", f64::from(second));
    rotation.offers = offers(0, None);
    rotation.all.world.gone("again-a");
    rotation.all.world.asking("pod-successor", "successor", 1500, |pod| {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(0.0)}]);
    });
    let (_, decision) = rotation.until_gone(second + 302, second + 400).unwrap();
    assert_eq!((gone(&decision), decision.drift.first.len()), (vec!["b"], 1));
}

#[test]
fn sick_node_with_hope_of_another_place_is_not_ended_first() {
    for (types, offers, refused) in [
        (&["reserved", "on-demand"][..], offers(0, Some(true)), false),
        (&["reserved", "on-demand"][..], offers(0, Some(false)), false),
        (&["reserved"][..], offers(1, None), false),
        (&["reserved"][..], offers(0, None), true),
    ] {
        let mut rotation = sick(types, &["a"], offers);
        if refused {
            rotation.all.world.waits_after_a_refusal();
        }
        let until = if refused { 1860 } else { 2500 };
        assert!(rotation.until_gone(1800, until).is_none(), "{types:?} {refused}");
    }
}

#[test]
fn a_node_is_ended_first_only_once_its_pool_names_it() {
    let mut rotation = Rotation::new(&["reserved"], &["a"], offers(0, None));
    rotation.notes_are_written = false;
    assert!(rotation.until_gone(2, 90).is_none());
    let note = rotation.act(90.0).drift.notes;
    assert_eq!((note.len(), note[0].key), (1, "dovetail.dev/ended-first"));
    rotation.notes_are_written = true;
    let (_, decision) = rotation.until_gone(91, 100).unwrap();
    assert_eq!((gone(&decision), decision.drift.first.len()), (vec!["a"], 1));
}

impl Rotation {
    fn succeed(&mut self) {
        self.all.world.succeed(Gates { reserved_capacity: true, ..Gates::default() });
        self.all.hear();
    }

    fn names_a_node(&self) -> bool {
        !self.all.world.pool["metadata"]["annotations"]["dovetail.dev/ended-first"].is_null()
    }
}

#[test]
fn a_later_leader_awaits_the_successor_too() {
    let mut rotation = Rotation::new(&["reserved"], &["a", "b"], offers(0, None));
    let (second, _) = rotation.until_gone(2, 60).unwrap();
    rotation.end("a");
    rotation.succeed();
    assert!(rotation.until_gone(second + 1, second + 900).is_none(), "pods wait for the slot");
    assert!(rotation.names_a_node());
    let lost = rotation.act(f64::from(second) + 901.0).drift.lost;
    assert_eq!((lost[0].node.as_str(), lost[0].reservation.as_str()), ("a", "cr-1"));
    rotation.node("successor", 500.0);
    rotation.all.world.gone("again-a");
    rotation.all.world.asking("pod-successor", "successor", 1500, |pod| {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(560.0)}]);
    });
    let (_, decision) = rotation.until_gone(second + 902, second + 1000).unwrap();
    assert_eq!(gone(&decision), ["b"]);
}

#[test]
fn a_note_that_is_nonsense_or_about_one_that_stays_holds_nobody() {
    let stays = json!({"node": "a", "nodeUid": "uid-node-a", "claim": "claim-a", "claimUid": "uid-claim-a",
        "reservation": "cr-1", "since": at(1.0)});
    for note in [stays.to_string(), "{".to_owned(), "[]".to_owned(), String::new()] {
        let mut rotation = Rotation::new(&["reserved"], &["a"], offers(0, None));
        rotation.all.world.annotate("dovetail.dev/ended-first", &note);
        rotation.succeed();
        rotation.act(2.0);
        assert!(!rotation.names_a_node(), "{note}");
        assert!(rotation.until_gone(3, 90).is_some(), "{note}");
    }
}

#[test]
fn a_note_of_a_time_to_come_counts_from_now() {
    let to_come = json!({"node": "x", "nodeUid": "x", "claim": "x", "claimUid": "x", "reservation": "cr-1",
        "since": at(1e9)});
    let mut rotation = Rotation::new(&["reserved"], &["a"], offers(0, None));
    rotation.all.world.annotate("dovetail.dev/ended-first", &to_come.to_string());
    rotation.succeed();
    rotation.act(2.0);
    assert!(rotation.names_a_node(), "it is believed, but for its time");
    rotation.act(10.0);
    let note = rotation.all.world.pool["metadata"]["annotations"]["dovetail.dev/ended-first"].to_string();
    assert!(note.contains(&at(2.0).to_string()), "{note}");
    let (second, _) = rotation.until_gone(11, 200).unwrap();
    assert!(second > 32, "no pod waits for its successor after half a minute: {second}");
}

#[test]
fn a_sick_node_with_a_place_elsewhere_waits_for_no_successor() {
    let mut rotation = sick(&["reserved", "on-demand"], &["a", "b"], offers(0, None));
    let (second, _) = rotation.until_gone(1800, 1900).unwrap();
    rotation.end("a");
    rotation.act(f64::from(second + 1));
    let blocked = rotation.act(f64::from(second + 2)).blocked;
    assert!(blocked[0].why.contains("the successor of node a"), "{blocked:?}");
    rotation.offers = offers(0, Some(true));
    let decision = rotation.act(f64::from(second + 3));
    assert_eq!(decision.drift.repairs.len(), 1, "{:?}", decision.blocked);
    assert!(rotation.names_a_node(), "though the slot of a is not filled again");
}

#[test]
fn a_successor_that_never_serves_holds_repairs_for_an_hour() {
    // Its successor stands and its pod is not Ready; or the instance is lost, and its pod waits.
    for stands in [true, false] {
        let mut rotation = sick(&["reserved"], &["a", "b"], offers(0, None));
        let (second, _) = rotation.until_gone(1800, 1900).unwrap();
        rotation.end("a");
        if stands {
            rotation.node("successor", f64::from(second));
            rotation.all.world.gone("again-a");
            rotation.all.world.asking("pod-successor", "successor", 1500, |_| ());
        }
        rotation.act(f64::from(second + 1));
        rotation.act(f64::from(second + 3590));
        assert!(!rotation.act(f64::from(second + 3599)).blocked.is_empty());
        let (_, decision) = rotation.until_gone(second + 3600, second + 3700).unwrap();
        assert_eq!((gone(&decision), decision.drift.first.len()), (vec!["b"], 1), "{stands}");
    }
}

#[test]
fn nodes_of_static_pools_go_first_where_reservations_are_full() {
    let gates = Gates { static_capacity: true, ..REPAIRING };
    let changed = |change: fn(&mut InstanceType)| {
        let mut all = offers(0, None);
        change(Arc::make_mut(&mut Arc::make_mut(all.get_mut("default").unwrap())[0]));
        all
    };
    let unusable = changed(|one| one.offerings[0].reservation_capacity = None);
    let another = changed(|one| one.offerings[0].requirements[0].values = vec!["cr-2".to_owned()]);
    for (rule, types, offers, expected) in [
        ("the reservation is full", vec!["reserved"], offers(0, None), "first"),
        ("also where on demand is allowed and not offered", vec!["reserved", "on-demand"], offers(0, None), "first"),
        ("it has a free instance", vec!["reserved"], offers(1, None), "marked"),
        ("on demand is there", vec!["reserved", "on-demand"], offers(0, Some(true)), "marked"),
        ("on demand is there, and EC2 refuses it now", vec!["reserved", "on-demand"], offers(0, Some(false)), "marked"),
        ("it is unavailable for another reason", vec!["reserved"], unusable, "held"),
        ("the node's own is not offered any more", vec!["reserved"], another, "held"),
    ] {
        let mut rotation = Rotation::at_rest(&types, &["a", "b"], offers, false);
        rotation.all.world.memory.set_gates(gates);
        rotation.all.change_pool(|pool| {
            pool["spec"]["replicas"] = json!(2);
            pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}});
        });
        let looks: Vec<DisruptionDecision> = (1..8).map(|second| rotation.act(f64::from(second))).collect();
        let first = looks.iter().flat_map(|one| &one.drift.first).count();
        let marked = looks.iter().any(|one| !one.successions.marks.is_empty());
        let held = looks.iter().flat_map(|one| &one.blocked).any(|one| one.why.contains("in none that would get one"));
        let found = ("first", first == 1, "marked", marked, "held", held);
        let is = |what: &str| expected == what;
        assert_eq!(found, ("first", is("first"), "marked", is("marked"), "held", is("held")), "{rule}");
    }
}

#[test]
fn slots_that_waiting_pods_would_take_are_kept_in_static_pools() {
    for (waits, first) in [(false, 1), (true, 0)] {
        let mut rotation = Rotation::at_rest(&["reserved"], &["a", "b"], offers(0, None), false);
        rotation.all.world.memory.set_gates(Gates { static_capacity: true, ..REPAIRING });
        let mut other = rotation.all.world.pool.clone();
        other["metadata"]["name"] = json!("two");
        other["metadata"]["uid"] = json!("uid-two");
        rotation.all.world.state.apply_pool(serde_json::from_value(other).unwrap());
        rotation.all.change_pool(|pool| {
            pool["spec"]["replicas"] = json!(2);
            pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}});
        });
        if waits {
            rotation.waits("rival");
        }
        let looks: Vec<DisruptionDecision> = (1..8).map(|second| rotation.act(f64::from(second))).collect();
        let said = looks.iter().flat_map(|one| &one.blocked).any(|one| one.why.contains("pods that wait already"));
        let gave = looks.iter().flat_map(|one| &one.drift.first).count();
        assert_eq!((gave, said), (first, waits));
    }
}

#[test]
fn one_free_instance_is_the_place_of_one_node_drained_by_force() {
    let mut rotation = Rotation::new(&["reserved"], &["a", "b", "c"], offers(1, None));
    for name in ["a", "b", "c"] {
        let mut claim = serde_json::to_value(&*rotation.claim(name).claim).unwrap();
        claim["metadata"]["resourceVersion"] = json!(rotation.all.world.next().to_string());
        claim["spec"]["terminationGracePeriod"] = json!("10m");
        rotation.all.world.state.apply_claim(Arc::new(serde_json::from_value(claim).unwrap()));
        rotation.all.world.asking(&format!("pod-{name}"), name, 1500, |pod| {
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
        });
    }
    let mut all: BTreeSet<String> = BTreeSet::new();
    for second in 2..60 {
        all.extend(gone(&rotation.act(f64::from(second))).into_iter().map(str::to_owned));
    }
    assert_eq!(all.into_iter().collect::<Vec<_>>(), ["a"]);
}
