//! Invariants of commands: the nodes that they launch and drain, and the pods that they move.

use serde_json::{Value, json};

use super::{Run, assert_none, assert_only, provider};
use crate::world::Action;

fn claim(id: &str) -> Value {
    let requests = json!({"cpu": "2", "memory": "2Gi", "pods": "2"});
    json!({"nodePool": "default", "requests": requests, "term": "1", "token": format!("tok-{id}"),
        "providerID": provider(&format!("i-{id}"))})
}

/// Claim `cN` says that a command holds it until `nM` stands; or that none does.
fn says(run: &mut Run, t: f64, id: &str, replacement: Option<&str>) {
    let mut conditions = vec![json!({"type": "Initialized", "status": "True"})];
    if let Some(name) = replacement {
        let message = format!("to be removed once these nodeclaims are initialized: n{name}");
        conditions
            .push(json!({"type": "DisruptionReason", "status": "True", "reason": "Underutilized", "message": message}));
    }
    run.api(t, "patch", id, claim(id), json!({"status": {"conditions": conditions}}));
}

/// Claim `cN` is removed by a replica.
fn removes(run: &mut Run, t: f64, id: &str, reason: &str) {
    let written =
        json!({"metadata": {"annotations": {"dovetail.dev/end-reason": format!("{reason} 2026-01-01T00:10:00Z")}}});
    run.api(t, "patch", id, claim(id), written);
    run.api(t, "delete", id, claim(id), Value::Null);
}

/// The first claim is replaced by `c2`, whose node is Ready then.
fn replaced(run: &mut Run, ready: f64) {
    says(run, 700.0, "1", Some("2"));
    run.claim(700.5, "2", "default", 2);
    run.launched(701.0, "2", "2");
    run.serves(ready - 1.0, "2");
}

#[test]
fn replacement_made_after_its_command_let_go_is_inv_19() {
    let late = |run: &mut Run, made: f64| {
        says(run, 700.0, "1", Some("2"));
        // It waits for nothing that is there.
        says(run, 701.0, "1", None);
        run.pods(made - 1.0, &["p3", "p4"]);
        run.claim(made, "2", "default", 2);
    };
    assert_none(|run| late(run, 750.0));
    assert_only("INV-19", |run| late(run, 770.0));
}

#[test]
fn command_that_lets_go_of_a_present_replacement_is_inv_19() {
    let undone = |run: &mut Run, at: f64| {
        replaced(run, 740.0);
        says(run, at, "1", None);
    };
    assert_only("INV-19", |run| undone(run, 720.0));
    assert_only("INV-19", |run| undone(run, 760.0));
    // It has waited for as long as it should.
    assert_none(|run| undone(run, 1190.0));
    // Its replacement goes.
    assert_none(|run| {
        undone(run, 720.0);
        run.instance(715.0, "interrupted", "2", "2");
    });
    // A new leader may not have seen it.
    assert_none(|run| {
        undone(run, 720.0);
        run.step(690.0, &Action::SlowWatches { by: std::time::Duration::from_secs(9), duration: None });
    });
}

#[test]
fn awaited_replacement_removed_as_empty_is_inv_19() {
    assert_only("INV-19", |run| {
        let budgets = json!([{"nodes": "2"}]);
        run.world(0.5, "rules", json!({"resource": "nodepools", "name": "default", "budgets": budgets}));
        replaced(run, 740.0);
        removes(run, 760.0, "2", "empty");
    });
    // The node that it was launched for goes.
    assert_none(|run| {
        replaced(run, 740.0);
        removes(run, 750.0, "1", "underutilized");
        run.instance(751.0, "shutting-down", "1", "1");
        removes(run, 760.0, "2", "empty");
    });
}

#[test]
fn node_removed_before_its_replacement_is_ready_is_inv_20() {
    let goes = |run: &mut Run, ready: f64| {
        replaced(run, ready);
        removes(run, 750.0, "1", "underutilized");
    };
    assert_none(|run| goes(run, 740.0));
    assert_only("INV-20", |run| goes(run, 760.0));
    // Nobody is on it any more.
    assert_none(|run| {
        goes(run, 760.0);
        ["p1", "p2"].into_iter().for_each(|pod| run.pod(745.0, "deleted", pod));
    });
}

/// The pods of the first node go to the second, which is to go again at a time.
fn moved_twice(run: &mut Run, again: f64) {
    replaced(run, 740.0);
    removes(run, 750.0, "1", "underutilized");
    run.instance(755.0, "shutting-down", "1", "1");
    for (pod, successor) in [("p1", "q1"), ("p2", "q2")] {
        run.pod(751.0, "deleting", pod);
        run.pods(751.5, &[successor]);
        run.pod(752.0, "deleted", pod);
        run.world(
            753.0,
            "pod",
            json!({"change": "bound", "namespace": "default", "name": successor, "uid": successor, "node": "node-2"}),
        );
    }
    removes(run, again, "2", "underutilized");
}

#[test]
fn a_pod_that_is_moved_twice_within_an_hour_is_inv_21() {
    assert_only("INV-21", |run| {
        run.leads(0, 1, 1200.0, 5000.0);
        run.end.t = 5000.0;
        moved_twice(run, 4200.0);
    });
    assert_none(|run| {
        run.leads(0, 1, 1200.0, 5000.0);
        run.end.t = 5000.0;
        moved_twice(run, 4300.0);
    });
}

#[test]
fn a_young_node_that_goes_with_its_pods_is_inv_22() {
    assert_only("INV-22", |run| removes(run, 400.0, "1", "underutilized"));
    assert_none(|run| removes(run, 700.0, "1", "underutilized"));
    assert_none(|run| removes(run, 400.0, "1", "empty"));
    assert_none(|run| {
        ["p1", "p2"].into_iter().for_each(|pod| run.pod(390.0, "deleted", pod));
        removes(run, 400.0, "1", "underutilized");
    });
}

#[test]
fn a_node_that_a_command_holds_counts_for_its_pools_budget() {
    let second = |run: &mut Run| {
        run.pods(1.5, &["r1", "r2"]);
        run.claim(2.5, "3", "default", 2);
        run.launched(3.5, "3", "3");
        run.serves(30.0, "3");
        removes(run, 705.0, "3", "empty");
    };
    assert_none(second);
    assert_only("INV-17", |run| {
        second(run);
        says(run, 700.0, "1", Some("2"));
    });
    // It is held no more: what it waited for has never come.
    assert_none(|run| {
        second(run);
        says(run, 700.0, "1", Some("2"));
        says(run, 704.0, "1", None);
    });
}
