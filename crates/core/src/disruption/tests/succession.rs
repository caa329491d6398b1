//! Drifted and unwell nodes of static pools: their successors stand first, or at the limit they go first.

use super::drift::Drifting;
use super::*;
use crate::disruption::drift::Gates;
use crate::disruption::succession::SuccessionMark;

const STATIC: Gates = Gates {
    node_repair: true,
    legacy_repair: false,
    reboot_for_repair: false,
    reserved_capacity: true,
    static_capacity: true,
    terminate_first_drift: true,
    terminate_first_repair: false,
    drift_off: false,
};

/// A static pool of three nodes, each with a pod, that have drifted.
fn drifted(limits: Value, gates: Gates) -> Drifting {
    let mut all = Drifting::new(json!({"consolidateAfter": "0s", "budgets": [{"nodes": "2"}]}));
    all.world.memory.set_gates(gates);
    all.change_pool(|pool| {
        pool["spec"]["replicas"] = json!(3);
        pool["spec"]["limits"] = limits;
        pool["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": at(0.0)}]});
    });
    for name in ["a", "b", "c"] {
        all.node(name, |_| ());
        all.world.pod(&format!("p-{name}"), name, |_| ());
    }
    all.look(1.0);
    all.change_class(|class| class["spec"]["tags"]["release"] = json!("two"));
    all.look(2.0);
    all
}

/// A look whose marks are written.
fn look(all: &mut Drifting, seconds: f64) -> DisruptionDecision {
    let decision = all.look(seconds);
    for mark in &decision.successions.marks {
        let there = all.world.state.snapshot().claims[&mark.disrupted.claim].claim.clone();
        let mut claim = mark.on(&there, at(seconds));
        claim.metadata.resource_version = Some(all.world.next().to_string());
        all.world.state.apply_claim(Arc::new(claim));
    }
    decision
}

fn marked(decision: &DisruptionDecision, waits: bool) -> Vec<&str> {
    let own = |mark: &&SuccessionMark| mark.waits == waits;
    decision.successions.marks.iter().filter(own).map(|mark| mark.disrupted.node.as_str()).collect()
}

#[test]
fn drifted_node_stays_until_its_successor_is_initialized() {
    let mut all = drifted(json!({"nodes": "4"}), STATIC);
    let first = look(&mut all, 3.0);
    assert_eq!((marked(&first, true), gone(&first).len()), (vec!["a"], 0), "there is room for one: {first:#?}");
    let waits = look(&mut all, 4.0);
    assert_eq!((waits.successions.held.as_slice(), gone(&waits).len()), (["claim-a".to_owned()].as_slice(), 0));
    assert_eq!(marked(&waits, true), [""; 0], "the limit leaves no room for more");
    all.node("d", |claim| claim["status"]["conditions"] = json!([]));
    assert_eq!(gone(&look(&mut all, 5.0)), [""; 0], "it is not initialized");
    all.node("d", |_| ());
    assert_eq!(gone(&look(&mut all, 6.0)), ["a"]);
}

#[test]
fn a_later_leader_goes_on_by_the_condition_alone() {
    let mut all = drifted(json!({"nodes": "4"}), STATIC);
    look(&mut all, 3.0);
    all.world.memory = Memory::new();
    all.world.memory.set_gates(STATIC);
    all.hear();
    let next = look(&mut all, 4.0);
    assert_eq!((next.successions.held.len(), marked(&next, false).len()), (1, 0), "{next:#?}");
    all.node("d", |_| ());
    assert_eq!(gone(&look(&mut all, 5.0)), ["a"]);
}

#[test]
fn node_without_successor_for_ten_minutes_stays_and_pool_waits() {
    let mut all = drifted(json!({"nodes": "4"}), STATIC);
    look(&mut all, 3.0);
    assert_eq!(look(&mut all, 600.0).drift.stay.len(), 0);
    let late = look(&mut all, 604.0);
    assert_eq!(marked(&late, false), ["a"]);
    assert!(late.drift.stay[0].why.contains("ten minutes") && late.drift.stay[0].pause == Some(120), "{late:#?}");
    assert_eq!(marked(&look(&mut all, 605.0), true), [""; 0], "the pool's next try waits");
    assert_eq!(marked(&look(&mut all, 725.0), true).len(), 1);
}

#[test]
fn node_that_drifts_no_more_is_released() {
    let mut all = drifted(json!({"nodes": "4"}), STATIC);
    look(&mut all, 3.0);
    all.change_class(|class| class["spec"]["tags"]["release"] = json!("one"));
    look(&mut all, 4.0);
    let cleared = look(&mut all, 5.0);
    assert_eq!((marked(&cleared, false), cleared.drift.stay[0].pause), (vec!["a"], None));
    assert!(!conditions(&all.world.claim("a")).contains(&"DisruptionReason".to_owned()));
}

#[test]
fn at_the_limit_nodes_go_first_one_by_one_with_the_gate() {
    let mut all = drifted(json!({"nodes": "3"}), STATIC);
    let first = look(&mut all, 3.0);
    assert_eq!((gone(&first), first.successions.ended[0].limit), (vec!["a"], 3), "budgets allow two: {first:#?}");
    assert_eq!(gone(&look(&mut all, 4.0)), [""; 0], "it has been asked to go");
    all.world.state.delete_claim("claim-a", None);
    assert_eq!(gone(&look(&mut all, 5.0)), [""; 0], "the pool gets its node first");
    all.node("d", |_| ());
    assert_eq!(gone(&look(&mut all, 6.0)), ["b"]);
}

#[test]
fn at_the_limit_nodes_stay_without_gate_or_ready_pool() {
    let mut all = drifted(json!({"nodes": "3"}), Gates { terminate_first_drift: false, ..STATIC });
    let held = look(&mut all, 3.0);
    assert_eq!(gone(&held), [""; 0]);
    assert!(held.blocked.iter().any(|one| one.why.contains("TerminateFirstDrift")), "{held:#?}");
    let mut all = drifted(json!({"nodes": "3"}), STATIC);
    all.change_pool(|pool| pool["status"]["conditions"][0]["status"] = json!("False"));
    let held = look(&mut all, 3.0);
    assert_eq!(gone(&held), [""; 0]);
    assert!(held.blocked.iter().any(|one| one.why.contains("nothing is launched")), "{held:#?}");
}

#[test]
fn unwell_node_of_a_static_pool_is_succeeded_too() {
    let mut all = drifted(json!({"nodes": "4"}), Gates { drift_off: true, ..STATIC });
    look(&mut all, 3.0);
    let hashes = all.hashes();
    all.world.machine("b", |claim, node| {
        claim["metadata"]["annotations"] = hashes;
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(0.0)}]);
    });
    let first = look(&mut all, 3600.0);
    assert_eq!((marked(&first, true), gone(&first).len()), (vec!["b"], 0), "{first:#?}");
    all.node("d", |_| ());
    assert_eq!(gone(&look(&mut all, 3601.0)), ["b"]);
}

#[test]
fn gate_off_leaves_static_nodes_to_the_usual_replacement() {
    let mut all = drifted(json!({"nodes": "4"}), Gates { static_capacity: false, ..STATIC });
    let usual = look(&mut all, 3.0);
    assert!(usual.successions == Default::default() && !usual.drift.begin.is_empty(), "{usual:#?}");
}

#[test]
fn a_node_whose_drain_would_not_end_holds_up_no_other() {
    let mut all = drifted(json!({"nodes": "3"}), STATIC);
    all.change_pool(|pool| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "1"}]));
    let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(0.0)}]);
    let (kept, free) = (json!({"app": "kept"}), json!({"app": "free"}));
    for (name, node, labels) in [("one", "a", &kept), ("two", "a", &kept), ("three", "b", &free), ("four", "c", &free)]
    {
        let cpu = if node == "a" { 900 } else { 1500 };
        all.world.asking(name, node, cpu, |pod| {
            pod["metadata"]["labels"] = labels.clone();
            pod["status"] = json!({"phase": "Running", "conditions": ready});
        });
    }
    let budget = json!({"metadata": {"name": "kept", "namespace": "default", "uid": "pdb", "resourceVersion": "5", "generation": 1},
        "spec": {"selector": {"matchLabels": kept}, "maxUnavailable": 1},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    all.world.state.apply_budget(serde_json::from_value(budget).unwrap());
    let first = look(&mut all, 3.0);
    assert_eq!(gone(&first), ["b"]);
    assert!(
        first.blocked.iter().any(|one| one.node == "a" && one.why.contains("the drain would not end")),
        "{first:#?}"
    );
}
