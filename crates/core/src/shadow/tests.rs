#![allow(clippy::unwrap_used)]
use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const BEGAN: Timestamp = Timestamp::constant(1_767_225_600, 0);
const WINDOW: SignedDuration = SignedDuration::from_secs(10);

fn at(second: i64) -> Timestamp {
    BEGAN + SignedDuration::from_secs(second)
}

fn machine(claim: &str, price: f64) -> ShadowNode {
    ShadowNode {
        claim: claim.to_owned(),
        node_pool: "default".to_owned(),
        instance_type: format!("m5.{price}"),
        zone: "us-east-1a".to_owned(),
        capacity_type: "on-demand".to_owned(),
        price_per_hour: Some(price),
        ..ShadowNode::default()
    }
}

fn launched(claim: &str, price: f64) -> Fact {
    Fact::Launched(machine(claim, price))
}

fn leaves(claim: &str) -> Fact {
    Fact::Leaves { claim: claim.to_owned(), reason: "Empty".to_owned() }
}

fn waits(pod: &str) -> Fact {
    Fact::Waits { pod: pod.to_owned() }
}

fn placed(pod: &str, claim: &str) -> Fact {
    Fact::Placed { pod: pod.to_owned(), claim: Some(claim.to_owned()) }
}

#[test]
fn node_is_paid_from_launch_or_start_of_run_until_gone() {
    let mut ledger = Ledger::new(BEGAN, WINDOW);
    let before = ShadowNode { before: true, ..machine("old", 0.5) };
    assert_eq!(ledger.record(Side::Active, BEGAN, Fact::Launched(before)), None);
    assert!(ledger.record(Side::Active, at(1800), launched("new", 2.0)).is_some());
    ledger.record(Side::Active, at(3600), leaves("new"));
    ledger.record(Side::Active, at(5400), Fact::Gone { claim: "new".to_owned() });
    let own = ledger.report(at(7200)).active;
    assert!((own.cost - (0.5 * 2.0 + 2.0)).abs() < 1e-9, "{own:?}");
    assert_eq!((own.nodes, own.launched, own.removed, own.cost_per_hour), (1, 1, 1, 0.5));
    assert_eq!(own.removed_by_reason["Empty"], 1);
}

#[test]
fn pod_waits_until_placed_and_launch_time_counts_separately() {
    let mut ledger = Ledger::new(BEGAN, WINDOW);
    for fact in [waits("a/x"), waits("a/y")] {
        ledger.record(Side::Shadow, at(0), fact);
    }
    ledger.record(Side::Shadow, at(3), launched("one", 1.0));
    ledger.record(Side::Shadow, at(45), placed("a/x", "one"));
    let own = ledger.report(at(60)).shadow;
    assert_eq!((own.pods_placed, own.pods_waiting), (1, 1));
    assert_eq!((own.pending_seconds, own.seconds_to_launch, own.longest_pending_seconds), (105.0, 3.0, 60.0));
    // A place on a node that was there before the pod is no launch that it waited for.
    ledger.record(Side::Shadow, at(60), placed("a/y", "none"));
    assert_eq!(ledger.report(at(99)).shadow.seconds_to_launch, 3.0);
}

#[test]
fn a_pod_that_is_evicted_again_after_it_was_gone_counts_again() {
    let mut ledger = Ledger::new(BEGAN, WINDOW);
    let evicted = || Fact::Evicted { pod: "a/x".to_owned() };
    for second in 0..3 {
        ledger.record(Side::Active, at(second), evicted());
    }
    ledger.record(Side::Active, at(4), Fact::Ended { pod: "a/x".to_owned() });
    ledger.record(Side::Active, at(5), evicted());
    assert_eq!(ledger.report(at(9)).active.evictions, 2);
}

#[test]
fn actions_of_both_sides_within_a_window_form_one_round() {
    let mut ledger = Ledger::new(BEGAN, WINDOW);
    ledger.record(Side::Shadow, at(0), launched("s", 1.0));
    ledger.record(Side::Active, at(9), launched("a", 1.0));
    ledger.record(Side::Active, at(30), launched("b", 3.0));
    ledger.record(Side::Shadow, at(35), launched("t", 2.0));
    ledger.record(Side::Shadow, at(90), leaves("t"));
    let report = ledger.report(at(100));
    let verdicts: Vec<_> = report.rounds.iter().map(|told| told.verdict).collect();
    assert_eq!(verdicts, [RoundVerdict::Same, RoundVerdict::Cheaper, RoundVerdict::Cheaper]);
    assert!(report.rounds[0].round.is_of_both() && !report.rounds[2].round.is_of_both());
}

#[test]
fn a_node_that_goes_unseen_is_removed_all_the_same() {
    let mut ledger = Ledger::new(BEGAN, WINDOW);
    ledger.record(Side::Active, at(0), launched("a", 1.0));
    let decision = ledger.record(Side::Active, at(5), Fact::Gone { claim: "a".to_owned() });
    assert!(matches!(decision, Some(SideDecision::Remove { .. })));
    assert_eq!(ledger.report(at(5)).active.removed_by_reason["Unknown"], 1);
}

fn claim(name: &str, provider: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot",
            "topology.kubernetes.io/zone": "us-east-1b", "node.kubernetes.io/instance-type": "m5.large",
        }},
        "spec": {
            "resources": {"requests": {"pods": "7"}},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m6i.large"]}],
        },
        "status": {"providerID": provider, "nodeName": format!("node-of-{name}")},
    })
}

fn prices(instance_type: &str, zone: &str, capacity_type: &str) -> Option<f64> {
    assert_eq!((instance_type, zone, capacity_type), ("m5.large", "us-east-1b", "spot"));
    Some(0.04)
}

#[test]
fn nodeclaim_counts_as_launched_with_instance_pods_and_types() {
    let mut observer = Observer::default();
    assert_eq!(observer.claim(&claim("a", ""), false, &prices), []);
    let facts = observer.claim(&claim("a", "aws:///us-east-1b/i-1"), false, &prices);
    let [Fact::Launched(machine)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!((machine.pods, machine.options, machine.price_per_hour), (Some(7), 2, Some(0.04)));
    let mut going = claim("a", "aws:///us-east-1b/i-1");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["status"]["conditions"] = json!([{"type": "DisruptionReason", "status": "True", "reason": "Drifted"}]);
    let expected = [Fact::Leaves { claim: "a".to_owned(), reason: "Drifted".to_owned() }];
    assert_eq!(observer.claim(&going, false, &prices), expected);
    assert_eq!(observer.claim_gone("a"), [Fact::Gone { claim: "a".to_owned() }]);
    assert_eq!(observer.claim_gone("a"), []);
}

#[test]
fn pod_failed_before_having_a_node_stops_waiting_and_ends_once() {
    let mut observer = Observer::default();
    let pod = |phase: &str| json!({"metadata": {"namespace": "default", "name": "web"}, "status": {"phase": phase}});
    let name = || "default/web".to_owned();
    assert_eq!(observer.pod(&pod("Pending")), [Fact::Waits { pod: name() }]);
    assert_eq!(observer.pod(&pod("Failed")), [Fact::Ended { pod: name() }]);
    assert_eq!(observer.pod(&pod("Failed")), []);
}

#[test]
fn pods_of_daemonsets_gated_ones_and_finished_ones_do_not_wait() {
    let pod = |extra: Value| {
        let mut pod = json!({"metadata": {"namespace": "a", "name": "x"}, "spec": {}, "status": {"phase": "Pending"}});
        json_merge(&mut pod, extra);
        Observer::default().pod(&pod)
    };
    assert_eq!(pod(json!({})), [waits("a/x")]);
    for extra in [
        json!({"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}}),
        json!({"spec": {"schedulingGates": [{"name": "wait"}]}}),
        json!({"status": {"phase": "Failed"}}),
    ] {
        assert_eq!(pod(extra), []);
    }
}

#[test]
fn what_a_new_list_no_longer_has_is_missed() {
    let mut observer = Observer::default();
    observer.claim(&claim("a", "aws:///us-east-1b/i-1"), true, &prices);
    observer.pod(&json!({"metadata": {"namespace": "n", "name": "x"}, "spec": {"nodeName": "node-of-a"}}));
    assert_eq!(observer.missed_claims(&BTreeSet::new()), ["a"]);
    assert_eq!(observer.missed_claims(&BTreeSet::from(["a".to_owned()])), [""; 0]);
    assert_eq!(observer.missed_pods(&BTreeSet::new()), [("n".to_owned(), "x".to_owned())]);
}

fn json_merge(into: &mut Value, from: Value) {
    for (key, value) in from.as_object().cloned().unwrap_or_default() {
        match value {
            Value::Object(_) => json_merge(&mut into[&key], value),
            value => into[&key] = value,
        }
    }
}

fn any_fact() -> impl Strategy<Value = Fact> {
    let claim = || (0..6_u8).prop_map(|n| format!("claim-{n}"));
    let pod = || (0..6_u8).prop_map(|n| format!("a/pod-{n}"));
    prop_oneof![
        (claim(), 1..5_u8, any::<bool>()).prop_map(|(claim, price, before)| {
            Fact::Launched(ShadowNode { before, ..machine(&claim, f64::from(price)) })
        }),
        claim().prop_map(|claim| leaves(&claim)),
        claim().prop_map(|claim| Fact::Gone { claim }),
        pod().prop_map(|pod| waits(&pod)),
        (pod(), proptest::option::of(claim())).prop_map(|(pod, claim)| Fact::Placed { pod, claim }),
        pod().prop_map(|pod| Fact::Ended { pod }),
        pod().prop_map(|pod| Fact::Evicted { pod }),
    ]
}

/// Facts, each some seconds after the one before; a clock may be set back.
fn any_history() -> impl Strategy<Value = Vec<(i64, Fact)>> {
    proptest::collection::vec((-3..40_i64, any_fact()), 0..60)
}

proptest! {
    #[test]
    fn two_sides_that_do_the_same_have_no_difference(history in any_history()) {
        let (mut ledger, mut now) = (Ledger::new(BEGAN, WINDOW), 0);
        for (later, fact) in history {
            now += later;
            ledger.record(Side::Active, at(now), fact.clone());
            ledger.record(Side::Shadow, at(now), fact);
        }
        let report = ledger.report(at(now));
        prop_assert_eq!(&report.difference, &Difference::default());
        prop_assert_eq!(&report.active, &report.shadow);
        prop_assert!(report.rounds.iter().all(|told| told.verdict == RoundVerdict::Same), "{}", report);
    }

    #[test]
    fn a_fact_that_is_told_twice_counts_once(history in any_history()) {
        let (mut once, mut twice, mut now) = (Ledger::new(BEGAN, WINDOW), Ledger::new(BEGAN, WINDOW), 0);
        for (later, fact) in history {
            now += later;
            once.record(Side::Active, at(now), fact.clone());
            twice.record(Side::Active, at(now), fact.clone());
            // A node that is gone may come again under its name.
            if !matches!(fact, Fact::Placed { .. }) {
                twice.record(Side::Active, at(now), fact);
            }
        }
        prop_assert_eq!(once.report(at(now)), twice.report(at(now)));
    }

    #[test]
    fn rounds_add_up_to_the_totals_and_costs_never_fall(history in any_history()) {
        let (mut ledger, mut now, mut cost) = (Ledger::new(BEGAN, WINDOW), 0, 0.0);
        for (later, fact) in history {
            now += later.max(0);
            ledger.record(Side::Shadow, at(now), fact);
            let report = ledger.report(at(now));
            prop_assert!(report.shadow.cost >= cost - 1e-9);
            cost = report.shadow.cost;
        }
        let report = ledger.report(at(now));
        let sum = |of: fn(&RoundMoves) -> usize| report.rounds.iter().map(|told| of(&told.round.shadow)).sum::<usize>();
        prop_assert_eq!(sum(|moves| moves.launched), report.shadow.launched);
        prop_assert_eq!(sum(|moves| moves.removed), report.shadow.removed);
        prop_assert_eq!(report.verdicts.values().sum::<usize>(), report.rounds.len());
        for pair in report.rounds.windows(2) {
            prop_assert!(pair[1].round.from.duration_since(pair[0].round.until) > WINDOW);
        }
    }
}
