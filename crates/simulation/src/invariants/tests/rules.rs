//! Launches and removals, judged by what pods need and operators allow.

use serde_json::{Value, json};

use super::{Run, assert_none, assert_only, provider};
use crate::world::Action;

#[test]
fn two_claims_for_the_same_pods_are_inv_14() {
    assert_only("INV-14", |run| run.claim(2.5, "2", "free", 2));
    assert_none(|run| {
        run.pods(2.4, &["p3", "p4"]);
        run.claim(2.5, "2", "free", 2);
    });
}

#[test]
fn pods_gone_just_before_their_node_may_still_be_planned_for() {
    let interrupted = |run: &mut Run, gone: f64| {
        ["p1", "p2"].into_iter().for_each(|pod| run.pod(gone, "deleted", pod));
        run.instance(600.0, "interrupted", "1", "1");
        run.claim(600.1, "2", "free", 2);
    };
    assert_none(|run| interrupted(run, 595.0));
    assert_only("INV-14", |run| interrupted(run, 560.0));
    assert_only("INV-14", |run| {
        ["p1", "p2"].into_iter().for_each(|pod| run.pod(595.0, "deleted", pod));
        run.claim(600.1, "2", "free", 2);
    });
    // The node had to go before; who hears of both late plans for them, unless they were sent away: then they have successors.
    let leaves_first = |run: &mut Run, changes: &[&str]| {
        run.instance(594.0, "interrupted", "1", "1");
        for change in changes {
            ["p1", "p2"].into_iter().for_each(|pod| run.pod(595.0, change, pod));
        }
        run.claim(600.1, "2", "free", 2);
    };
    assert_none(|run| leaves_first(run, &["deleted"]));
    assert_only("INV-14", |run| leaves_first(run, &["evicted", "deleted"]));
    assert_only("INV-14", |run| {
        ["p1", "p2"].into_iter().for_each(|pod| run.on_pod(594.5, "delete", Value::Null, pod));
        leaves_first(run, &["deleted"]);
    });
}

#[test]
fn only_drifted_or_disrupted_node_is_replaced_before_it_goes() {
    let says = |run: &mut Run, t: f64, type_: &str, on: bool| {
        let requests = json!({"cpu": "2", "memory": "2Gi", "pods": "2"});
        let claim = json!({"nodePool": "free", "requests": requests, "term": "1", "token": "tok-1", "providerID": provider("i-1")});
        let condition = json!({"type": type_, "status": "True"});
        let all = if on { vec![condition] } else { vec![] };
        run.api(t, "patch", "1", claim, json!({"status": {"conditions": all}}));
    };
    for type_ in ["Drifted", "DisruptionReason"] {
        assert_none(|run| {
            says(run, 600.0, type_, true);
            run.claim(600.1, "2", "free", 2);
        });
        // It was given up while the replacement was on its way.
        assert_none(|run| {
            says(run, 590.0, type_, true);
            says(run, 599.0, type_, false);
            run.claim(600.1, "2", "free", 2);
        });
        assert_only("INV-14", |run| {
            says(run, 550.0, type_, true);
            says(run, 560.0, type_, false);
            run.claim(600.1, "2", "free", 2);
        });
    }
    assert_only("INV-14", |run| {
        says(run, 600.0, "Consolidatable", true);
        run.claim(600.1, "2", "free", 2);
    });
}

#[test]
fn unheard_claim_counts_after_half_a_minute_or_once_written_to() {
    let late = |run: &mut Run, lost: bool, written: bool, then: f64| {
        let claim = json!({"nodePool": "free", "requests": {"cpu": "5"}, "term": "1", "token": "tok-4"});
        run.api(2.2, "create", "4", claim.clone(), json!({"spec": {"expireAfter": "Never"}}));
        run.entries.last_mut().unwrap().fields.push(("answerLost".into(), json!(lost)));
        if written {
            run.api(2.3, "patch", "4", claim, json!({}));
        }
        run.pods(then - 0.1, &["p3"]);
        run.claim(then, "3", "free", 1);
    };
    assert_none(|run| late(run, true, false, 2.5));
    assert_only("INV-14", |run| late(run, false, false, 2.5));
    assert_only("INV-14", |run| late(run, true, true, 2.5));
    assert_only("INV-14", |run| late(run, true, false, 40.0));
}

#[test]
fn new_leader_may_ask_for_more_for_pods_of_earlier_terms_claims() {
    let third = |run: &mut Run, term: &str| {
        run.pods(2.4, &["p3", "p4"]);
        run.claim(2.5, "2", "free", 2);
        let claim = json!({"nodePool": "free", "requests": {"cpu": "3"}, "term": term});
        run.api(2.6, "create", "3", claim, json!({"spec": {"expireAfter": "Never"}}));
    };
    assert_only("INV-14", |run| third(run, "1"));
    assert_none(|run| third(run, "2"));
    // A leader that takes a claim over writes its own term on it.
    assert_none(|run| {
        third(run, "2");
        let third = run.entries.pop().unwrap();
        let taken = json!({"nodePool": "free", "requests": {"cpu": "2"}, "term": "2", "token": "tok-2"});
        run.api(2.6, "patch", "2", taken, json!({}));
        run.entries.push(third);
    });
}

#[test]
#[allow(clippy::too_many_lines)] // one table, or one course from beginning to end
fn the_last_pod_that_a_budget_needs_is_inv_15_however_it_goes() {
    let evicts = |run: &mut Run, t: f64, pod: &str| {
        run.on_pod(t, "create", json!("eviction"), pod);
        run.pod(t, "evicted", pod);
    };
    assert_none(|run| evicts(run, 600.0, "p1"));
    assert_only("INV-15", |run| {
        evicts(run, 600.0, "p1");
        evicts(run, 601.0, "p2");
    });
    assert_only("INV-15", |run| {
        evicts(run, 600.0, "p1");
        run.on_pod(601.0, "delete", Value::Null, "p2");
    });
    assert_only("INV-15", |run| {
        run.api(
            590.0,
            "delete",
            "1",
            json!({"nodePool": "default", "term": "1", "token": "tok-1", "providerID": provider("i-1")}),
            json!({}),
        );
        run.instance(600.0, "shutting-down", "1", "1");
        run.pod(600.1, "lost", "p1");
        run.pod(600.1, "lost", "p2");
    });
    // The API server shows a pod ready for a while whose machine is gone.
    let one_is_lost = |run: &mut Run| run.pod(600.0, "lost", "p1");
    assert_none(|run| {
        one_is_lost(run);
        evicts(run, 601.0, "p2");
    });
    assert_only("INV-15", |run| {
        one_is_lost(run);
        run.pod(600.5, "not-ready", "p1");
        evicts(run, 601.0, "p2");
    });
    assert_only("INV-15", |run| {
        one_is_lost(run);
        run.on_pod(601.0, "delete", Value::Null, "p2");
    });
    // The API server has not worked out yet that a budget needs more.
    let grown = |run: &mut Run, at: f64| {
        run.pods(at, &["p3", "p4"]);
        let budget = json!({"resource": "poddisruptionbudgets", "namespace": "default", "name": "web",
            "maxUnavailable": 1, "covers": ["Deployment/web"]});
        run.world(500.0, "rules", budget);
        evicts(run, 600.0, "p1");
    };
    assert_none(|run| grown(run, 599.9));
    assert_only("INV-15", |run| grown(run, 599.0));
    // Nor that one is ready no longer.
    let silent = |run: &mut Run, at: f64| {
        run.pod(at, "not-ready", "p2");
        evicts(run, 600.0, "p1");
    };
    assert_none(|run| silent(run, 599.9));
    assert_only("INV-15", |run| silent(run, 599.0));
    // Nor that it has less.
    let shrunk = |run: &mut Run, at: f64| {
        run.pod(at, "deleting", "p2");
        evicts(run, 600.0, "p1");
    };
    assert_none(|run| shrunk(run, 599.9));
    assert_only("INV-15", |run| shrunk(run, 599.0));
    // The workload has other pods by now in place of those that kubelet refused.
    assert_none(|run| {
        let budget = json!({"resource": "poddisruptionbudgets", "namespace": "default", "name": "web",
            "maxUnavailable": 1, "covers": ["Deployment/web"]});
        run.world(500.0, "rules", budget);
        run.pods(510.0, &["p3", "p4", "p5"]);
        ["p3", "p4", "p5"].into_iter().for_each(|pod| run.pod(520.0, "failed", pod));
        evicts(run, 600.0, "p1");
    });
    // A share of a workload is one of what it has been scaled to, though the others are still there.
    let half = |run: &mut Run, replicas: u32| {
        let budget = json!({"resource": "poddisruptionbudgets", "namespace": "default", "name": "web",
            "maxUnavailable": 1, "covers": ["StatefulSet/web", "Deployment/web"]});
        run.world(500.0, "rules", budget);
        let (kind, namespace, name) = ("Deployment".to_owned(), "default".to_owned(), "web".to_owned());
        run.step(500.0, &Action::Scale { kind, namespace, name, replicas });
        evicts(run, 600.0, "p1");
        run.on_pod(601.0, "create", json!("eviction"), "p2");
    };
    assert_none(|run| half(run, 1));
    assert_only("INV-15", |run| {
        half(run, 2);
        run.pods(600.5, &["p3"]);
    });
    assert_none(|run| {
        run.instance(590.0, "interrupted", "1", "1");
        evicts(run, 600.0, "p1");
        run.on_pod(601.0, "delete", Value::Null, "p2");
    });
}

/// A second claim of the pool, with an instance of so many CPUs, ready at 90 s.
fn second(run: &mut Run, cpu: &str) {
    run.pods(60.0, &["p3", "p4"]);
    run.claim(60.0, "2", "default", 2);
    run.sent(61.0, 0, 1);
    run.instance(61.0, "pending", "2", "2");
    run.status(62.0, "2", "2", cpu);
    run.serves(90.0, "2");
}

#[test]
fn a_pool_that_has_more_than_its_limits_is_inv_16() {
    assert_none(|run| second(run, "2"));
    assert_only("INV-16", |run| second(run, "4"));
    assert_none(|run| {
        run.instance(50.0, "interrupted", "1", "1");
        second(run, "4");
    });
    assert_only("INV-16", |run| {
        run.pods(1.0, &["p3", "p4", "p5"]);
        ["2", "3", "4"].into_iter().for_each(|id| run.claim(2.0, id, "default", 1));
    });
}

#[test]
fn unheard_created_claim_counts_only_once_it_can_be_known() {
    let late = |run: &mut Run, lost: bool, then: f64| {
        run.pods(1.0, &["p3", "p4", "p5", "p6"]);
        run.claim(2.0, "2", "default", 1);
        let claim = json!({"nodePool": "default", "requests": {"cpu": "1"}, "term": "1"});
        run.api(2.2, "create", "4", claim, json!({"spec": {"expireAfter": "Never"}}));
        let created = run.entries.iter_mut().find(|entry| entry.text("uid") == "c4" && entry.text("verb") == "create");
        created.unwrap().fields.push(("answerLost".into(), json!(lost)));
        run.claim(then, "3", "default", 1);
    };
    assert_none(|run| late(run, true, 2.5));
    assert_only("INV-16", |run| late(run, false, 2.5));
    assert_only("INV-16", |run| late(run, true, 40.0));
}

#[test]
fn more_nodes_removed_at_once_than_a_budget_allows_are_inv_17() {
    let removes = |run: &mut Run, t: f64, id: &str| {
        let instance = provider(&format!("i-{id}"));
        let claim = json!({"nodePool": "default", "term": "1", "token": format!("tok-{id}"), "providerID": instance});
        run.api(t, "delete", id, claim, json!({}));
    };
    assert_none(|run| {
        second(run, "2");
        removes(run, 600.0, "2");
    });
    assert_only("INV-17", |run| {
        second(run, "2");
        removes(run, 600.0, "2");
        removes(run, 610.0, "1");
    });
    assert_none(|run| {
        second(run, "2");
        removes(run, 600.0, "2");
        run.instance(605.0, "shutting-down", "2", "2");
        removes(run, 610.0, "1");
    });
    assert_none(|run| {
        second(run, "2");
        removes(run, 600.0, "2");
        run.instance(605.0, "interrupted", "1", "1");
        removes(run, 610.0, "1");
    });
    // The end of a capacity block takes all its nodes, and nothing else does.
    let ends = |run: &mut Run, reason: &str, kind: &str| {
        second(run, "2");
        for id in ["1", "2"] {
            let claim = json!({"nodePool": "default", "term": "1", "token": format!("tok-{id}"),
                "providerID": provider(&format!("i-{id}"))});
            let labels = json!({"karpenter.k8s.aws/capacity-reservation-type": kind});
            run.api(590.0, "patch", id, claim.clone(), json!({"metadata": {"labels": labels}}));
            let annotations = json!({"dovetail.dev/end-reason": format!("{reason} 2026-01-01T00:10:00Z")});
            run.api(600.0, "patch", id, claim, json!({"metadata": {"annotations": annotations}}));
            removes(run, 600.0, id);
        }
    };
    assert_none(|run| ends(run, "expired", "capacity-block"));
    assert_only("INV-17", |run| ends(run, "expired", "default"));
    assert_only("INV-17", |run| ends(run, "drifted", "capacity-block"));
    // It is there again, and stays.
    assert_none(|run| {
        second(run, "2");
        removes(run, 600.0, "2");
        let claim = json!({"nodePool": "default", "term": "1", "token": "tok-2", "providerID": provider("i-2")});
        run.api(605.0, "restore", "2", claim, json!({}));
        removes(run, 610.0, "1");
    });
}

#[test]
fn repaired_nodes_are_inv_17_unless_they_go_by_force() {
    let repaired = |run: &mut Run, by_force: bool| {
        second(run, "2");
        for id in ["1", "2"] {
            let claim = json!({"nodePool": "default", "term": "1", "token": format!("tok-{id}"),
                "providerID": provider(&format!("i-{id}"))});
            let mut annotations = json!({"dovetail.dev/end-reason": "unhealthy 2026-01-01T00:10:00Z"});
            if by_force {
                annotations["karpenter.sh/nodeclaim-termination-timestamp"] = json!("2026-01-01T00:10:00Z");
            }
            run.api(600.0, "patch", id, claim.clone(), json!({"metadata": {"annotations": annotations}}));
            run.api(600.0, "delete", id, claim, json!({}));
        }
    };
    assert_none(|run| repaired(run, true));
    assert_only("INV-17", |run| repaired(run, false));
}
