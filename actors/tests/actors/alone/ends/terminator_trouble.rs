//! The terminator in trouble: whatever the API server, EC2 or a person does in the middle, nothing is ended by mistake and
//! nothing is left over.

use dovetail_actors::messages::{ClaimChanged, NodeChanged};
use dovetail_sandbox::apiserver::NODE_CLAIMS;
use serde_json::{Value, json};

use super::terminator::{delete_claim, go_on, is_gone, lives, show, start, working};
use crate::alone::objects::id;
use crate::alone::wire::Act;
use crate::alone::{Fails, alone};
use crate::world::SpoilEnd;

#[test]
fn a_cloud_that_fails_is_asked_again_and_the_finalizers_stay() {
    for fails in [Fails::Throttled, Fails::Unknown] {
        alone(|bench| async move {
            let actor = start(&bench);
            working(&bench, &actor, 1);
            bench.sky.always("terminate_all", Some(fails));
            delete_claim(&bench, 1);
            go_on(&bench, &actor, 1, 60).await;
            assert!(bench.is_there(&NODE_CLAIMS, "default-1") && lives(&bench, 1), "{fails:?}");
            let calls = bench.sky.count("terminate_all");
            assert!((3..=40).contains(&calls), "{fails:?}: {calls} calls in a minute");
            assert!((1..=2).contains(&bench.told.count("retrying")), "{fails:?}: {:?}", bench.told.lines());
            bench.sky.always("terminate_all", None);
            go_on(&bench, &actor, 1, 30).await;
            assert!(is_gone(&bench, 1) && !lives(&bench, 1), "{fails:?}: {:?}", bench.told.lines());
        });
    }
}

#[test]
fn instance_ec2_will_not_end_holds_only_its_own_claim() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        working(&bench, &actor, 2);
        bench.sky.inner.spoil_end(&id(1), Some(SpoilEnd::Refused));
        delete_claim(&bench, 1);
        delete_claim(&bench, 2);
        for _ in 0..60 {
            show(&bench, &actor, 1);
            show(&bench, &actor, 2);
            bench.pass(1.0).await;
        }
        assert!(is_gone(&bench, 2) && bench.is_there(&NODE_CLAIMS, "default-1"));
        assert_eq!(bench.told.count("retrying"), 1, "it is said once: {:?}", bench.told.lines());
        bench.sky.inner.spoil_end(&id(1), None);
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1));
    });
}

#[test]
fn refused_steps_are_retried_and_none_is_skipped() {
    // Each write on the way fails a few times, one kind of failure a run.
    for code in [409, 422, 429, 500] {
        alone(|bench| async move {
            let actor = start(&bench);
            working(&bench, &actor, 1);
            for (method, path) in
                [("PATCH", "/nodes/"), ("PATCH", "/nodeclaims/"), ("DELETE", "/nodes/"), ("GET", "/nodeclaims/")]
            {
                bench.wire.refuse(method, path, 2, code);
            }
            delete_claim(&bench, 1);
            go_on(&bench, &actor, 1, 60).await;
            assert!(is_gone(&bench, 1) && !lives(&bench, 1), "{code}: {:?}", bench.told.lines());
            assert_eq!(bench.told.count("terminated"), 1, "{code}");
        });
    }
}

#[test]
fn answers_that_are_lost_end_nothing_twice() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        for (method, path) in [("PATCH", "/nodes/"), ("PATCH", "/nodeclaims/"), ("DELETE", "/nodes/")] {
            bench.wire.next(method, path, 1, Act::Lose);
        }
        bench.sky.inner.spoil_end(&id(1), Some(SpoilEnd::LostAfter));
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 60).await;
        assert!(is_gone(&bench, 1) && !lives(&bench, 1), "{:?}", bench.told.lines());
        assert_eq!((bench.told.count("terminated"), bench.sky.count("terminate_all")), (1, 1));
    });
}

#[test]
fn succeeded_leader_writes_and_ends_nothing_more() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web-a", Some(1));
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 1).await;
        bench.term.end();
        bench.wire.forget();
        go_on(&bench, &actor, 1, 60).await;
        assert!(bench.wire.writes().is_empty() && lives(&bench, 1), "{:?}", bench.wire.writes());
        assert_eq!(bench.sky.count("terminate_all"), 0);
    });
}

#[test]
fn claim_alive_again_in_restored_server_ends_nothing() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        let before = (*bench.api.get(&NODE_CLAIMS, "", "default-1").unwrap()).clone();
        delete_claim(&bench, 1);
        show(&bench, &actor, 1);
        // Before anything is done the server is put back: the claim is as it was, and the watch lags.
        let mut alive = before.clone();
        alive["metadata"]["deletionTimestamp"] = Value::Null;
        for _ in 0..60 {
            bench.wire.next("GET", "/nodeclaims/default-1", 1, Act::Answer(200, alive.clone()));
        }
        bench.pass(30.0).await;
        assert!(lives(&bench, 1), "{:?}", bench.told.lines());
        assert_eq!(bench.sky.count("terminate_all"), 0);
    });
}

#[test]
fn a_pod_that_only_the_server_knows_keeps_the_instance() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        delete_claim(&bench, 1);
        show(&bench, &actor, 1);
        // Bound after what the watch has shown.
        bench.pod("late", Some(1));
        for _ in 0..10 {
            actor.do_send(ClaimChanged(bench.claim_now("default-1")));
            actor.do_send(NodeChanged(bench.node_now(1)));
            bench.pass(1.0).await;
        }
        assert!(lives(&bench, 1), "{:?}", bench.told.lines());
        assert!(bench.records("FailedDraining").iter().any(|(_, why)| why.contains("has not shown yet")));
    });
}

#[test]
fn a_refused_eviction_is_said_and_tried_with_growing_pauses() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web-a", Some(1));
        bench.kubelet(1, "Unknown");
        let cause = json!({"reason": "DisruptionBudget", "message": "The disruption budget web needs 1 healthy pods and has 1 currently"});
        let refused = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "Cannot evict pod as it would violate the pod's disruption budget.", "details": {"causes": [cause]}});
        bench.wire.next("POST", "/eviction", usize::MAX, Act::Answer(429, refused));
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 60).await;
        let tries = bench.wire.count("POST", "/eviction");
        assert!((8..=25).contains(&tries), "{tries} in a minute");
        assert!(bench.records("FailedDraining").iter().any(|(_, why)| why.contains("needs 1 healthy")));
        assert_eq!(bench.told.count("eviction_refused"), 1);
        assert!(lives(&bench, 1));
        bench.wire.heal();
        go_on(&bench, &actor, 1, 40).await;
        assert!(is_gone(&bench, 1));
    });
}
