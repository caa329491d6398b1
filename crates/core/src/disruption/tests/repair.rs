//! Nodes that are unwell for too long.

use std::collections::BTreeMap;

use super::drift::Drifting;
use super::*;
use crate::cluster_state::PlanningInput;
use crate::disruption::drift::Gates;
use crate::disruption::repair::HeldRepair;

pub(super) const MINUTE: f64 = 60.0;
pub(super) const REPAIRING: Gates = Gates {
    node_repair: true,
    legacy_repair: false,
    reboot_for_repair: false,
    reserved_capacity: true,
    static_capacity: false,
    terminate_first_drift: false,
    terminate_first_repair: false,
    drift_off: false,
};

/// A pool whose nodes report conditions, and the first look at it.
pub(super) struct Ward {
    pub(super) all: Drifting,
    /// Conditions by node, with the annotation `do-not-repair`.
    nodes: BTreeMap<String, (Vec<Value>, bool)>,
}

impl Ward {
    fn new(budgets: Value, names: &[&str]) -> Self {
        let mut ward = Self {
            all: Drifting::new(json!({"consolidateAfter": "Never", "budgets": budgets})),
            nodes: BTreeMap::new(),
        };
        ward.all.world.memory.set_gates(REPAIRING);
        names.iter().for_each(|name| ward.add(name, 0.0));
        ward.act(0.5);
        ward
    }

    /// Ten nodes.
    pub(super) fn of_ten(budgets: Value) -> Self {
        Self::new(budgets, &["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"])
    }

    pub(super) fn add(&mut self, name: &str, seconds: f64) {
        self.all.node(name, |claim| claim["metadata"]["creationTimestamp"] = json!(at(seconds)));
        self.nodes.insert(name.to_owned(), Default::default());
        self.show(name);
    }

    /// Each has a pod.
    pub(super) fn with_pods(mut self) -> Self {
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.all.world.pod(&format!("pod-{name}"), &name, |_| ());
        }
        self
    }

    fn show(&mut self, name: &str) {
        let (mut conditions, veto) = self.nodes[name].clone();
        if !conditions.iter().any(|one| one["type"] == "Ready") {
            conditions.push(json!({"type": "Ready", "status": "True"}));
        }
        // A name such as b-1 has its zone in front.
        let zone = if name.contains('-') { &name[..1] } else { "a" };
        let annotations = if veto { json!({"karpenter.sh/do-not-repair": "true"}) } else { json!({}) };
        let node = json!({
            "metadata": {"name": name, "uid": format!("uid-node-{name}"), "annotations": annotations,
                "resourceVersion": self.all.world.next().to_string(),
                "labels": {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": zone,
                    "karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default",
                    "karpenter.sh/initialized": "true", "karpenter.k8s.aws/ec2nodeclass": "default"}},
            "spec": {"providerID": format!("aws:///a/i-{name}")},
            "status": {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
                "allocatable": {"cpu": "2", "memory": "7Gi", "pods": "29"}, "conditions": conditions},
        });
        self.all.world.state.apply_node(&serde_json::from_value::<Node>(node).unwrap());
    }

    pub(super) fn ails(&mut self, name: &str, condition: &str, reason: &str, seconds: f64) {
        let status = if condition == "Silent" { "Unknown" } else { "False" };
        let type_ = if condition == "Silent" { "Ready" } else { condition };
        let one = json!({"type": type_, "status": status, "reason": reason, "lastTransitionTime": at(seconds)});
        self.nodes.get_mut(name).unwrap().0.push(one);
        self.show(name);
    }

    pub(super) fn all_ail(&mut self, names: &[&str], condition: &str) {
        names.iter().for_each(|name| self.ails(name, condition, "", 0.0));
    }

    pub(super) fn recovers(&mut self, name: &str) {
        self.nodes.get_mut(name).unwrap().0.clear();
        self.show(name);
    }

    /// A look whose orders are carried out.
    pub(super) fn act(&mut self, seconds: f64) -> DisruptionDecision {
        let decision = self.all.look(seconds);
        for mark in &decision.drift.repairs {
            let there = self.all.world.state.snapshot().claims[&mark.disrupted.claim].claim.clone();
            let mut claim = mark.on(&there, at(seconds));
            claim.metadata.resource_version = Some(self.all.world.next().to_string());
            self.all.world.state.apply_claim(Arc::new(claim));
        }
        let names = |all: Vec<&DisruptedClaim>| all.into_iter().map(|one| one.claim.clone()).collect::<Vec<_>>();
        let begin = names(decision.drift.begin.iter().collect());
        let stay = names(decision.drift.stay.iter().map(|one| &one.disrupted).collect());
        self.all.world.state.mark_deleting(begin.iter().map(String::as_str), true);
        self.all.world.state.mark_deleting(stay.iter().map(String::as_str), false);
        decision
    }

    /// The pod of a node gets a place on another.
    fn place(&mut self, node: &str, other: &str) {
        let until = Duration::from_secs_f64(self.all.world.seconds + 100_000.0);
        let target = NominationTarget::Node(other.to_owned());
        self.all.world.state.nominate([format!("uid-pod-{node}").as_str()], &target, until);
    }

    /// A node is gone, with its pod.
    fn leaves(&mut self, name: &str) {
        self.all.world.state.delete_pod(&format!("uid-pod-{name}"));
        self.all.world.state.delete_claim(&format!("claim-{name}"), None);
        self.all.world.state.delete_node(name, None);
    }

    pub(super) fn protect(&mut self) {
        let budget = json!({"metadata": {"name": "web", "namespace": "default", "uid": "pdb", "resourceVersion": "5", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
            "status": {"disruptionsAllowed": 0, "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
        self.all.world.state.apply_budget(serde_json::from_value(budget).unwrap());
    }
}

/// Names of the nodes whose repair has begun with the making of places.
pub(super) fn begun(decision: &DisruptionDecision) -> Vec<&str> {
    decision.drift.repairs.iter().map(|mark| mark.disrupted.node.as_str()).collect()
}

pub(super) fn held(decision: &DisruptionDecision) -> Vec<HeldRepair> {
    decision.not_repaired.iter().map(|one| one.why).collect()
}

#[test]
fn unwell_node_goes_after_its_condition_was_tolerated() {
    let grace = |minutes: i64| Some(SignedDuration::from_mins(minutes));
    for (condition, minutes, grace) in [
        ("Ready", 30.0, grace(10)),
        ("Silent", 30.0, grace(0)),
        ("AcceleratedHardwareReady", 10.0, None),
        ("StorageReady", 30.0, None),
        ("NetworkingReady", 30.0, None),
        ("KernelReady", 30.0, None),
        ("ContainerRuntimeReady", 30.0, None),
    ] {
        let mut ward = Ward::of_ten(json!([{"nodes": "10%"}]));
        ward.ails("n4", condition, "", 0.0);
        let early = ward.act(minutes * MINUTE - 1.0);
        assert_eq!((gone(&early), early.again), (vec![], Some(at(minutes * MINUTE))), "{condition}");
        let decision = ward.act(minutes * MINUTE);
        let condition = if condition == "Silent" { "Ready" } else { condition };
        assert_eq!(gone(&decision), ["n4"], "{condition}");
        assert_eq!(decision.removals[0].cause, DisruptionCause::Unhealthy { condition, grace });
    }
}

#[test]
fn without_the_gate_and_for_other_conditions_nothing_goes() {
    let mut gateless = Ward::of_ten(json!([]));
    gateless.all.world.memory.set_gates(Gates::default());
    gateless.ails("n1", "StorageReady", "", 0.0);
    assert_eq!(gone(&gateless.act(9000.0)), [""; 0]);
    let mut pressed = Ward::of_ten(json!([]));
    pressed.ails("n1", "MemoryPressure", "", 0.0);
    assert_eq!(gone(&pressed.act(9000.0)), [""; 0]);
}

#[test]
fn a_node_with_pods_goes_once_they_have_places_on_well_nodes() {
    let mut ward = Ward::of_ten(json!([{"nodes": "1"}])).with_pods();
    ward.all_ail(&["n1", "n2"], "StorageReady");
    assert_eq!(begun(&ward.act(1800.0)), ["n1"]);
    let claim = ward.all.world.claim("n1");
    let condition =
        dovetail_api::v1::condition(&claim.status.as_ref().unwrap().conditions, "DisruptionReason").cloned();
    assert_eq!(condition.unwrap().reason, "Unhealthy");
    let marked = |ward: &Ward| ward.all.world.state.snapshot().deleting.claims.contains("claim-n1");
    assert!(!marked(&ward), "the condition comes first");
    ward.act(1801.0);
    assert!(marked(&ward));
    ward.place("n1", "n2");
    assert_eq!(gone(&ward.act(1802.0)), [""; 0], "that node is unwell itself");
    ward.place("n1", "n3");
    let decision = ward.act(1803.0);
    assert_eq!((gone(&decision), begun(&decision)), (vec!["n1"], vec![]), "the budget is one");
    ward.leaves("n1");
    assert_eq!(begun(&ward.act(1810.0)), ["n2"]);
}

#[test]
fn a_node_that_recovers_while_places_are_made_stays() {
    let mut ward = Ward::of_ten(json!([{"nodes": "1"}])).with_pods();
    ward.ails("n1", "StorageReady", "", 0.0);
    ward.act(1800.0);
    ward.act(1801.0);
    ward.recovers("n1");
    let stay = ward.act(1802.0).drift.stay;
    assert_eq!((stay.len(), stay[0].why.as_str(), stay[0].pause), (1, "it is healthy again", None));
    let marks = ward.act(1803.0).marks;
    assert!(marks.iter().any(|mark| mark.claim == "claim-n1" && mark.left_behind), "its condition is removed");
}

#[test]
fn places_that_do_not_come_pause_repair_and_not_drift() {
    let mut ward = Ward::of_ten(json!([{"nodes": "1"}])).with_pods();
    ward.ails("n1", "StorageReady", "", 0.0);
    for seconds in [1800.0, 1801.0, 1802.0] {
        ward.act(seconds);
    }
    let stay = ward.act(1840.0).drift.stay;
    assert_eq!((stay.len(), stay[0].pause), (1, Some(120)));
    assert_eq!(begun(&ward.act(1900.0)), [""; 0]);
    ward.all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
    ward.act(1901.0);
    assert_eq!(ward.act(1902.0).drift.begin.len(), 1, "a drifted node begins meanwhile");
}

#[test]
fn budgets_for_unhealthy_bound_repair_and_ignore_silent_nodes() {
    for (budgets, gone_now) in [
        (json!([{"nodes": "10%"}]), 1),
        (json!([{"nodes": "10%"}, {"nodes": "0", "reasons": ["Drifted", "Empty", "Underutilized"]}]), 1),
        (json!([{"nodes": "100%"}, {"nodes": "0", "reasons": ["Unhealthy"]}]), 0),
        (json!([{"nodes": "2", "reasons": ["Unhealthy"]}]), 2),
    ] {
        let mut ward = Ward::of_ten(budgets.clone());
        // Two that are not Ready use up no budget for this reason.
        ward.ails("n1", "Silent", "", 0.0);
        ward.ails("n2", "StorageReady", "", 0.0);
        let decision = ward.act(1800.0);
        assert_eq!(gone(&decision).len(), gone_now, "{budgets}");
        assert_eq!(decision.exhausted.len(), usize::from(gone_now == 0), "{budgets}");
        assert_eq!(gone(&ward.act(1801.0)), [""; 0], "what goes uses it up: {budgets}");
    }
}

#[test]
fn repair_comes_before_drift_within_their_budgets() {
    let mut ward = Ward::new(json!([{"nodes": "1"}]), &["n0", "n1", "n2", "n3", "n4"]);
    ward.ails("n3", "StorageReady", "", 0.0);
    ward.all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
    // All are found to drift at this look, and n3 is due at the next.
    assert_eq!(gone(&ward.act(1799.0)), [""; 0]);
    let decision = ward.act(1800.0);
    assert_eq!((gone(&decision), decision.removals[0].cause.reason()), (vec!["n3"], RemovalReason::Unhealthy));
}

#[test]
fn rank_and_waiting_decide_the_order() {
    // The first has to be repaired before the second.
    for (first, second, why) in [
        (("Silent", "", 0.0), ("Ready", "", 0.0), "rank"),
        (("AcceleratedHardwareReady", "NvidiaDoubleBitError", 1200.0), ("Silent", "", 0.0), "a broken accelerator"),
        (("StorageReady", "", 0.0), ("ContainerRuntimeReady", "", 0.1), "the longer wait of equal ranks"),
        (("NetworkingReady", "", 0.0), ("StorageReady", "", 1860.0), "waiting makes up for a rank"),
        (("StorageReady", "", 0.0), ("NetworkingReady", "", -1740.0), "but not before"),
    ] {
        let mut ward = Ward::of_ten(json!([{"nodes": "1"}]));
        // The names' order would be the other.
        ward.ails("n1", second.0, second.1, second.2);
        ward.ails("n8", first.0, first.1, first.2);
        assert_eq!(gone(&ward.act(3660.0)), ["n8"], "{why}");
    }
}

#[test]
fn of_equals_fewer_pods_and_then_the_name_come_first() {
    let mut ward = Ward::of_ten(json!([{"nodes": "1"}]));
    ward.all_ail(&["n1", "n2"], "StorageReady");
    assert_eq!(gone(&ward.act(1800.0)), ["n1"]);
    let mut ward = Ward::of_ten(json!([{"nodes": "1"}]));
    ward.all_ail(&["n1", "n2"], "StorageReady");
    ward.all.world.pod("pod-n1", "n1", |_| ());
    assert_eq!(gone(&ward.act(1800.0)), ["n2"]);
}

#[test]
fn of_several_conditions_the_shortest_bound_counts() {
    let mut ward = Ward::of_ten(json!([{"nodes": "1"}]));
    ward.ails("n1", "AcceleratedHardwareReady", "NvidiaDoubleBitError", 0.0);
    ward.ails("n1", "Ready", "", 0.0);
    let cause = |decision: &DisruptionDecision| decision.removals[0].cause;
    let grace = Some(SignedDuration::from_mins(10));
    assert_eq!(cause(&ward.act(1800.0)), DisruptionCause::Unhealthy { condition: "AcceleratedHardwareReady", grace });
    let mut early = Ward::of_ten(json!([{"nodes": "1"}]));
    early.ails("n1", "AcceleratedHardwareReady", "", 0.0);
    early.ails("n1", "Ready", "", 0.0);
    assert_eq!(cause(&early.act(600.0)).grace(), None, "the other is tolerated yet");
    let mut short = Ward::of_ten(json!([{"nodes": "1"}]));
    short.all.node("n1", |claim| claim["spec"]["terminationGracePeriod"] = json!("60s"));
    short.ails("n1", "Ready", "", 0.0);
    assert_eq!(cause(&short.act(1800.0)).grace(), Some(SignedDuration::from_secs(60)), "its claim's is shorter");
}

#[test]
fn pods_keep_an_unwell_node_unless_its_drain_is_bounded() {
    for (condition, claims_grace, goes) in
        [("StorageReady", false, false), ("StorageReady", true, true), ("Ready", false, true), ("Silent", false, true)]
    {
        for by_annotation in [true, false] {
            let mut ward = Ward::of_ten(json!([{"nodes": "1"}]));
            if claims_grace {
                ward.all.node("n1", |claim| claim["spec"]["terminationGracePeriod"] = json!("1h"));
            }
            ward.all.world.pod("pod-n1", "n1", |pod| {
                if by_annotation {
                    pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
                }
                pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            });
            if !by_annotation {
                ward.protect();
            }
            ward.ails("n1", condition, "", 0.0);
            let decision = ward.act(1800.0);
            let begins = !begun(&decision).is_empty() || !gone(&decision).is_empty();
            assert_eq!(begins, goes, "{condition} {claims_grace} {by_annotation}");
            let says = decision.blocked.iter().any(|one| one.why.contains("no terminationGracePeriod bounds that"));
            assert_eq!(says, !goes, "{:?}", decision.blocked);
        }
    }
}

#[test]
fn do_not_repair_is_the_veto_and_do_not_disrupt_is_none() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    ward.all.node("n2", |claim| claim["metadata"]["annotations"]["karpenter.sh/do-not-repair"] = json!("true"));
    ward.all_ail(&["n1", "n2"], "StorageReady");
    ward.nodes.get_mut("n1").unwrap().1 = true;
    ward.show("n1");
    let decision = ward.act(1800.0);
    assert_eq!((gone(&decision), decision.blocked.len()), (vec![], 2), "at the Node and at the NodeClaim");
    assert!(decision.blocked[0].why.contains("karpenter.sh/do-not-repair"), "{}", decision.blocked[0].why);
    ward.nodes.get_mut("n1").unwrap().1 = false;
    ward.show("n1");
    assert_eq!(gone(&ward.act(1801.0)), ["n1"]);
    let mut world = World::new(json!({"consolidateAfter": "Never", "budgets": []}));
    world.memory.set_gates(REPAIRING);
    world.machine("n", |_, node| {
        node["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
        node["status"]["conditions"] =
            json!([{"type": "StorageReady", "status": "False", "lastTransitionTime": at(0.0)}]);
    });
    assert_eq!(gone(&world.look(1800.0)), ["n"]);
}

#[test]
fn six_of_ten_sick_nodes_are_repaired_one_at_a_time() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    ward.all_ail(&["n0", "n1", "n2", "n3", "n4", "n5"], "StorageReady");
    let mut seconds = 1800.0;
    for n in 0..6 {
        let name = format!("n{n}");
        let decision = ward.act(seconds);
        assert_eq!(gone(&decision), [name.as_str()], "{seconds}");
        assert_eq!(held(&decision).len(), 5 - n);
        ward.leaves(&name);
        ward.add(&format!("m{n}"), seconds + 5.0);
        assert_eq!(gone(&ward.act(seconds + 599.0)), [""; 0]);
        seconds += 600.0;
    }
}

#[test]
fn the_one_with_a_condition_of_its_own_comes_before_an_alarm() {
    let shared = ["n0", "n1", "n2", "n3", "n4", "n5"];
    for (condition, reason) in [("KernelReady", ""), ("StorageReady", "DiskGone"), ("NetworkingReady", "")] {
        for broken in ["n3", "n9"] {
            let mut ward = Ward::of_ten(json!([{"nodes": "1"}]));
            ward.all_ail(&shared, "StorageReady");
            // The others have waited ten minutes longer.
            ward.ails(broken, condition, reason, 600.0);
            assert_eq!(gone(&ward.act(2400.0)), [broken], "{condition} {reason}");
        }
    }
}

#[test]
fn under_the_brake_a_fifth_may_have_conditions_of_their_own() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    ward.all_ail(&["n0", "n1", "n2", "n3"], "StorageReady");
    ward.ails("n7", "StorageReady", "DiskGone", 0.0);
    ward.ails("n8", "KernelReady", "", 0.0);
    assert_eq!(gone(&ward.act(1800.0)), ["n8", "n7"]);
}

#[test]
fn an_alarm_of_many_reasons_or_conditions_is_one_alarm() {
    const KINDS: [&str; 4] = ["StorageReady", "NetworkingReady", "KernelReady", "ContainerRuntimeReady"];
    for (kinds, reasons) in [(1, 6), (1, 3), (3, 1), (2, 2), (4, 1)] {
        let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
        for n in 0..6 {
            ward.ails(&format!("n{n}"), KINDS[n % kinds], &format!("reason-{}", n % reasons), 0.0);
        }
        let case = format!("{kinds} conditions, {reasons} reasons");
        let first = gone(&ward.act(1800.0)).into_iter().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(first.len(), 1, "{case}");
        ward.leaves(&first[0]);
        ward.add("m0", 1805.0);
        for seconds in [1801.0, 1860.0, 2399.0] {
            assert_eq!(gone(&ward.act(seconds)), [""; 0], "{case} {seconds}");
        }
        if kinds == 1 {
            // One that is surely broken comes first all the same.
            ward.ails("n9", "AcceleratedHardwareReady", "", 0.0);
            assert_eq!(gone(&ward.act(2399.5)), ["n9"], "{case}");
        }
    }
}

#[test]
fn the_end_of_an_alarm_is_no_reason_to_repair_the_rest() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    let sick = ["n0", "n1", "n2", "n3", "n4", "n5"];
    ward.all_ail(&sick, "StorageReady");
    ward.act(1500.0);
    ward.recovers("n0");
    let decision = ward.act(1800.0);
    assert_eq!((gone(&decision), held(&decision)), (vec![], vec![HeldRepair::Recovering; 5]));
    // One recovers every five minutes.
    for (n, minutes) in [(1, 35.0), (2, 40.0), (3, 45.0)] {
        ward.recovers(&format!("n{n}"));
        assert_eq!(gone(&ward.act(minutes * MINUTE)), [""; 0], "{minutes}");
    }
    assert_eq!(gone(&ward.act(54.0 * MINUTE)), [""; 0]);
    assert_eq!(gone(&ward.act(56.0 * MINUTE)), ["n4"], "two stay unwell: one at a time");
    ward.leaves("n4");
    assert_eq!(gone(&ward.act(57.0 * MINUTE)), [""; 0]);
    assert_eq!(gone(&ward.act(66.0 * MINUTE)), ["n5"]);
}

#[test]
fn a_later_leader_takes_what_two_share_for_an_alarm() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    ward.all_ail(&["n1", "n2"], "StorageReady");
    ward.all.world.memory = Memory::new();
    ward.all.world.memory.set_gates(REPAIRING);
    ward.all.hear();
    assert_eq!(gone(&ward.act(1800.0)), ["n1"]);
    ward.leaves("n1");
    assert_eq!(gone(&ward.act(1810.0)), [""; 0]);
    assert_eq!(gone(&ward.act(2400.0)), ["n2"]);
}

impl Ward {
    pub(super) fn succeed(&mut self) {
        self.all.world.succeed(REPAIRING);
        self.all.hear();
    }
}

#[test]
fn a_later_leader_keeps_the_pace_of_repairs() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    ward.all_ail(&["n0", "n1", "n2", "n3", "n4", "n5"], "StorageReady");
    assert_eq!(gone(&ward.act(1800.0)), ["n0"]);
    ward.leaves("n0");
    ward.succeed();
    assert_eq!(gone(&ward.act(1810.0)), [""; 0]);
    assert_eq!(gone(&ward.act(2399.0)), [""; 0]);
    assert_eq!(gone(&ward.act(2400.0)), ["n1"]);
}

#[test]
fn a_later_leader_knows_of_nodes_that_have_just_recovered() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    ward.all_ail(&["n0", "n1", "n2"], "StorageReady");
    ward.act(1500.0);
    ward.recovers("n0");
    ward.recovers("n1");
    ward.act(1740.0);
    ward.succeed();
    // One alone is no alarm, but for those that had it a minute before.
    let decision = ward.act(1800.0);
    assert_eq!((gone(&decision), held(&decision)), (vec![], vec![HeldRepair::Recovering]));
    assert_eq!(gone(&ward.act(1740.0 + 600.0)), ["n2"]);
}

#[test]
fn a_later_leader_goes_on_with_the_pause_of_a_pool() {
    let mut ward = Ward::of_ten(json!([{"nodes": "2"}]));
    ward.ails("n0", "StorageReady", "", 0.0);
    ward.act(1800.0);
    ward.leaves("n0");
    ward.add("m0", 1860.0);
    ward.ails("m0", "StorageReady", "", 1900.0);
    ward.act(2200.0);
    ward.ails("n2", "KernelReady", "", 0.0);
    ward.succeed();
    let decision = ward.act(2210.0);
    assert_eq!((gone(&decision), held(&decision)), (vec![], vec![HeldRepair::SuccessorsFellSick]));
    assert_eq!(gone(&ward.act(2200.0 + 1199.0)), [""; 0]);
    assert_eq!(gone(&ward.act(2200.0 + 1200.0)), ["n2"]);
}

#[test]
fn a_pace_that_nobody_can_have_written_is_bounded() {
    let far = json!({"first": at(1e9), "last": at(1e9), "shared": at(1e9), "recovered": at(1e9), "until": at(1e9), "failures": 4_000_000_000_u32});
    for (note, until) in [(far.to_string(), 1800.0 + 4.0 * 3600.0), ("{\"until\": 5}".to_owned(), 1800.0)] {
        let mut ward = Ward::of_ten(json!([{"nodes": "2"}]));
        ward.ails("n0", "StorageReady", "", 0.0);
        ward.all.world.annotate("dovetail.dev/repair-pace", &note);
        ward.succeed();
        assert_eq!(gone(&ward.act(1800.0)).is_empty(), until > 1800.0, "{note}");
        assert_eq!(gone(&ward.act(until - 1.0)), [""; 0], "{note}");
        let decision = ward.act(until.max(1861.0));
        assert_eq!(gone(&decision), ["n0"], "{note}");
    }
}

#[test]
fn the_pace_of_a_pool_is_taken_off_when_it_is_over() {
    let mut ward = Ward::of_ten(json!([{"nodes": "2"}]));
    let noted = |ward: &Ward| !ward.all.world.pool["metadata"]["annotations"]["dovetail.dev/repair-pace"].is_null();
    ward.ails("n0", "StorageReady", "", 0.0);
    ward.act(1799.0);
    assert!(!noted(&ward));
    ward.act(1800.0);
    assert!(noted(&ward));
    ward.leaves("n0");
    ward.act(1800.0 + 2.0 * 3600.0);
    ward.act(1801.0 + 2.0 * 3600.0);
    assert!(!noted(&ward));
}

#[test]
fn a_pool_whose_new_nodes_fall_sick_waits_ever_longer() {
    let mut ward = Ward::of_ten(json!([{"nodes": "2"}]));
    ward.ails("n0", "StorageReady", "", 0.0);
    assert_eq!(gone(&ward.act(1800.0)), ["n0"]);
    ward.leaves("n0");
    ward.add("m0", 1860.0);
    ward.ails("m0", "StorageReady", "", 1900.0);
    ward.ails("n1", "KernelReady", "", 100.0);
    let early = ward.act(1900.0 + 4.0 * MINUTE);
    assert_eq!(gone(&early), ["n1"], "it may be a moment's");
    ward.leaves("n1");
    let fell = 1900.0 + 5.0 * MINUTE;
    ward.act(fell);
    ward.ails("n2", "KernelReady", "", 0.0);
    let decision = ward.act(fell + 1.0);
    assert_eq!((gone(&decision), held(&decision)), (vec![], vec![HeldRepair::SuccessorsFellSick]));
    assert_eq!(gone(&ward.act(fell + 20.0 * MINUTE - 1.0)), [""; 0]);
    assert_eq!(gone(&ward.act(fell + 20.0 * MINUTE)), ["n2"]);
    ward.leaves("n2");
    // Its successor falls sick too: forty minutes.
    ward.add("m2", fell + 21.0 * MINUTE);
    ward.ails("m2", "KernelReady", "", fell + 22.0 * MINUTE);
    ward.recovers("m0");
    let again = fell + 27.0 * MINUTE;
    ward.act(again);
    ward.ails("n3", "NetworkingReady", "", 0.0);
    assert_eq!(gone(&ward.act(again + 39.0 * MINUTE)), [""; 0]);
    assert!(gone(&ward.act(again + 40.0 * MINUTE)).contains(&"n3"));
}

#[test]
fn an_observed_pool_repairs_nothing_and_says_so_once() {
    let mut ward = Ward::of_ten(json!([]));
    ward.all.world.annotate("dovetail.dev/disruption", "observe");
    ward.ails("n1", "StorageReady", "", 0.0);
    let decision = ward.act(1800.0);
    assert_eq!((gone(&decision), decision.observed.len()), (vec![], 1));
    assert_eq!(ward.act(1801.0).observed.len(), 0);
}

#[test]
fn nodes_that_never_served_are_repaired_without_a_budget() {
    let mut ward = Ward::of_ten(json!([{"nodes": "0"}]));
    ward.ails("n0", "StorageReady", "", 0.0);
    for name in ["new0", "new1"] {
        ward.add(name, 0.0);
        ward.all.node(name, |claim| claim["status"]["conditions"] = json!([]));
        ward.ails(name, "AcceleratedHardwareReady", "", 0.0);
    }
    assert_eq!(gone(&ward.act(599.0)), [""; 0]);
    assert_eq!(gone(&ward.act(600.0)), ["new0"]);
    assert_eq!(gone(&ward.act(601.0)), [""; 0], "no other while it goes");
    ward.leaves("new0");
    assert_eq!(gone(&ward.act(700.0)), ["new1"]);
    let decision = ward.act(1800.0);
    assert!(!gone(&decision).contains(&"n0") && !decision.exhausted.is_empty(), "those that have served need one");
}

#[test]
fn those_that_are_not_due_yet_count_for_an_alarm() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    for (n, kind) in ["StorageReady", "NetworkingReady", "KernelReady"].into_iter().enumerate() {
        ward.ails(&format!("n{}", 2 * n), kind, "", 180.0 * n as f64);
        ward.ails(&format!("n{}", 2 * n + 1), kind, "", 180.0 * n as f64);
    }
    assert_eq!(gone(&ward.act(1800.0)), ["n0"]);
    ward.leaves("n0");
    ward.add("m0", 1805.0);
    for seconds in [1801.0, 1981.0, 2200.0, 2399.0] {
        assert_eq!(gone(&ward.act(seconds)), [""; 0], "{seconds}");
    }
    assert_eq!(gone(&ward.act(2400.0)).len(), 1);
}

#[test]
fn an_alarm_of_many_reasons_is_remembered_whatever_comes_after() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    for n in 0..6 {
        ward.ails(&format!("n{n}"), "StorageReady", &format!("reason-{n}"), 0.0);
    }
    assert_eq!(gone(&ward.act(1800.0)), ["n0"]);
    ward.leaves("n0");
    ward.add("m0", 1805.0);
    ward.act(1850.0);
    // All but one are well again, and that one gives another reason.
    ["n1", "n2", "n3", "n4", "n5"].iter().for_each(|name| ward.recovers(name));
    ward.ails("n5", "StorageReady", "another", 0.0);
    for seconds in [1900.0, 2400.0, 2499.0] {
        let decision = ward.act(seconds);
        assert_eq!((gone(&decision), held(&decision)), (vec![], vec![HeldRepair::Recovering]), "{seconds}");
    }
    assert_eq!(gone(&ward.act(2500.0)), ["n5"]);
}

#[test]
fn a_node_on_its_way_is_not_unwell() {
    let mut ward = Ward::of_ten(json!([{"nodes": "1"}]));
    ward.ails("n0", "StorageReady", "", 0.0);
    for n in 0..9 {
        let name = format!("new{n}");
        ward.add(&name, 1700.0);
        ward.all.node(&name, |claim| claim["status"]["conditions"] = json!([]));
        ward.ails(&name, "Ready", "", 1700.0);
    }
    let decision = ward.act(1800.0);
    assert_eq!((gone(&decision), held(&decision)), (vec!["n0"], vec![]));
}

#[test]
fn successors_come_to_no_unwell_node_or_zone() {
    let zones = |ward: &Ward| -> Vec<(Vec<String>, usize)> {
        let now = Moment { monotonic: Duration::from_secs(1801), wall: at(1801.0) };
        let input = PlanningInput { now, ..PlanningInput::default() };
        let planning = ward.all.world.state.snapshot().planning(&input);
        let rules = planning.problem.pods.iter().map(|pod| {
            let rules = pod.volume_topology.iter().flatten().filter(|rule| rule.key == "topology.kubernetes.io/zone");
            (rules.flat_map(|rule| rule.values.clone()).collect(), pod.refused_nodes.len())
        });
        rules.collect()
    };
    // Nodes by zone, and the unwell ones of these.
    for (names, sick, kept_off) in [
        (&["a-1", "a-2", "a-3", "b-1", "b-2"][..], &["a-1", "a-2"][..], &["a"][..]),
        (&["a-1", "a-2", "a-3", "a-4", "b-1"][..], &["a-1", "a-2"][..], &[][..]),
        (&["a-1", "b-1", "b-2"][..], &["a-1"][..], &[][..]),
        (&["a-1", "a-2", "b-1", "b-2"][..], &["a-1", "a-2", "b-1", "b-2"][..], &[][..]),
    ] {
        let mut ward = Ward::new(json!([{"nodes": "1"}]), names).with_pods();
        ward.all_ail(sick, "StorageReady");
        ward.act(1800.0);
        ward.act(1801.0);
        let kept_off: Vec<String> = kept_off.iter().map(|zone| (*zone).to_owned()).collect();
        assert_eq!(zones(&ward), [(kept_off, sick.len() - 1)], "{names:?} {sick:?}");
    }
}

#[test]
fn sick_nodes_of_a_shifted_zone_are_repaired_when_it_is_over() {
    let mut ward = Ward::of_ten(json!([{"nodes": "100%"}]));
    ward.all_ail(&["n1"], "StorageReady");
    ward.all.world.state.shift_zones(shifted("a"));
    let decision = ward.act(1800.0);
    assert_eq!((gone(&decision), begun(&decision)), (vec![], vec![]));
    assert!(decision.blocked.iter().any(|one| one.node == "n1" && one.why.contains("shifted away")));
    ward.all.world.state.shift_zones(ShiftedZones::default());
    assert_eq!(gone(&ward.act(1801.0)), ["n1"]);
}

#[test]
fn a_repair_that_did_not_come_to_pass_is_asked_for_again() {
    for sick in [&["n1"][..], &["n1", "n2", "n3"][..]] {
        let mut ward = Ward::of_ten(json!([{"nodes": "1"}]));
        ward.all_ail(sick, "StorageReady");
        assert_eq!(gone(&ward.act(1800.0)), ["n1"]);
        assert_eq!(gone(&ward.act(1859.0)), [""; 0]);
        assert_eq!(gone(&ward.act(1861.0)), ["n1"], "{sick:?}");
    }
}
