//! Evictions and deletions of pods: what each answer of an API server means for the pod, and that no other pod goes.

use dovetail_actors::kube::evict::{EvictionOutcome, delete, evict};
use dovetail_core::Pod;
use dovetail_core::cluster_state::PodEntry;
use dovetail_sandbox::apiserver::{DeleteOptions, POD_DISRUPTION_BUDGETS, PODS};
use serde_json::json;

use crate::alone::wire::{Act, status};
use crate::alone::{Alone, alone};

/// A pod of that name on a node, as the state has it.
fn pod(bench: &Alone, name: &str) -> Pod {
    bench.pod(name, Some(1));
    let there = bench.api.get(&PODS, "default", name).unwrap();
    PodEntry::from_kube(&serde_json::from_value((*there).clone()).unwrap()).unwrap().pod.as_ref().clone()
}

fn goes(bench: &Alone, name: &str) -> bool {
    bench.api.get(&PODS, "default", name).is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string())
}

#[test]
fn an_eviction_carries_the_pods_uid_and_lets_it_go() {
    alone(|bench| async move {
        let web = pod(&bench, "web");
        assert_eq!(evict(&bench.calls("terminator"), &web).await, EvictionOutcome::Going);
        assert!(goes(&bench, "web"));
        let body = &bench.wire.asked("POST", "/eviction")[0].body;
        assert_eq!(body["deleteOptions"]["preconditions"]["uid"], web.uid.as_str(), "{body}");
    });
}

#[test]
fn another_pod_of_the_name_is_neither_evicted_nor_deleted() {
    alone(|bench| async move {
        let first = pod(&bench, "web-0");
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        bench.api.delete(&PODS, "default", "web-0", &now).unwrap();
        bench.pod("web-0", Some(1));
        let calls = bench.calls("terminator");
        assert_eq!(evict(&calls, &first).await, EvictionOutcome::Gone);
        assert_eq!(delete(&calls, &first, 0).await, EvictionOutcome::Gone);
        assert!(!goes(&bench, "web-0"));
    });
}

#[test]
fn a_pod_that_is_gone_is_gone() {
    alone(|bench| async move {
        let web = pod(&bench, "web");
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        bench.api.delete(&PODS, "default", "web", &now).unwrap();
        let calls = bench.calls("terminator");
        assert_eq!(evict(&calls, &web).await, EvictionOutcome::Gone);
        assert_eq!(delete(&calls, &web, 30).await, EvictionOutcome::Gone);
    });
}

#[test]
fn budget_refuses_in_its_words_and_deletion_asks_no_budget() {
    alone(|bench| async move {
        let web = pod(&bench, "web");
        bench.api.patch(&PODS, "default", "web", &json!({"metadata": {"labels": {"app": "web"}}})).unwrap();
        let budget = json!({"metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
        bench.api.create(&POD_DISRUPTION_BUDGETS, "default", budget).unwrap();
        let status = json!({"status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1, "observedGeneration": 1}});
        bench.api.patch_status(&POD_DISRUPTION_BUDGETS, "default", "web", &status).unwrap();
        let calls = bench.calls("terminator");
        let refused = evict(&calls, &web).await;
        assert!(matches!(&refused, EvictionOutcome::Refused(why) if why.contains("disruption budget")), "{refused:?}");
        assert!(!goes(&bench, "web"));
        assert_eq!(delete(&calls, &web, 0).await, EvictionOutcome::Going);
    });
}

#[test]
fn more_than_one_budget_is_a_refusal_though_the_code_says_500() {
    alone(|bench| async move {
        let web = pod(&bench, "web");
        let mut said = status(500);
        said["message"] =
            json!("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.");
        bench.wire.next("POST", "/eviction", 1, Act::Answer(500, said));
        assert!(matches!(evict(&bench.calls("terminator"), &web).await, EvictionOutcome::Refused(_)));
    });
}

#[test]
fn whatever_else_is_answered_the_pod_stays_and_is_tried_later() {
    for (code, denied) in
        [(400, true), (401, false), (403, true), (422, true), (429, false), (500, false), (503, false)]
    {
        alone(|bench| async move {
            let web = pod(&bench, "web");
            let calls = bench.calls("terminator");
            let is_meant = |outcome: EvictionOutcome| match outcome {
                EvictionOutcome::Denied(_) => denied,
                EvictionOutcome::Failed(_) => !denied,
                _ => false,
            };
            bench.wire.refuse("POST", "/eviction", 1, code);
            assert!(is_meant(evict(&calls, &web).await), "{code}");
            bench.wire.refuse("DELETE", "/pods/web", 1, code);
            assert!(is_meant(delete(&calls, &web, 0).await), "{code}");
            assert!(!goes(&bench, "web"), "{code}");
            assert_eq!(bench.wire.count("POST", "/eviction"), 1, "{code}: who asked decides when to try again");
        });
    }
}

#[test]
fn unanswered_eviction_is_given_up_after_ten_seconds() {
    alone(|bench| async move {
        let web = pod(&bench, "web");
        bench.wire.next("POST", "/eviction", 1, Act::Hang);
        let begun = tokio::time::Instant::now();
        assert!(matches!(evict(&bench.calls("terminator"), &web).await, EvictionOutcome::Failed(_)));
        assert_eq!(begun.elapsed().as_secs(), 10);
    });
}

#[test]
fn after_the_term_nobody_is_evicted() {
    alone(|bench| async move {
        let web = pod(&bench, "web");
        bench.term.end();
        assert!(matches!(evict(&bench.calls("terminator"), &web).await, EvictionOutcome::Failed(_)));
        assert_eq!((goes(&bench, "web"), bench.wire.writes()), (false, vec![]));
    });
}
