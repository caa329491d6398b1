//! The packer in trouble: what cannot be packed now is packed later, once, and keeps nobody else.

use dovetail_actors::messages::{LaunchClaims, PackNow, PlanClaims, WorldChanged};
use dovetail_sandbox::apiserver::NODE_POOLS;
use serde_json::json;

use super::packer::{batch, planned, start, state, waiting, with_pool};
use crate::alone::{TERM, trace};

#[test]
fn hidden_cluster_plans_nothing_and_loses_nothing() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let uids = waiting(&bench, "web", 3, "500m");
        bench.heard.knows(true, false);
        packer.do_send(batch(&uids));
        bench.pass(60.0).await;
        assert_eq!((planned(&bench), state(&bench, &packer).await.solving), (0, true));
        bench.heard.knows(true, true);
        bench.pass(1.0).await;
        assert_eq!(planned(&bench), 3);
    });
}

#[test]
fn until_the_catalogue_is_read_a_batch_waits() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let uids = waiting(&bench, "web", 3, "500m");
        bench.heard.offers(None);
        packer.do_send(batch(&uids));
        bench.pass(30.0).await;
        assert_eq!(planned(&bench), 0);
        bench.offer("default");
        bench.pass(1.0).await;
        assert_eq!(planned(&bench), 3);
    });
}

#[test]
fn who_fits_nowhere_is_told_why_once_and_keeps_no_other() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let mut uids = waiting(&bench, "web", 3, "500m");
        uids.extend(waiting(&bench, "huge", 1, "5000"));
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        assert_eq!(planned(&bench), 3);
        bench.pass(60.0).await;
        let told = bench.told.count("unschedulable");
        assert_eq!((told, state(&bench, &packer).await.left_over.len()), (1, 1));
        let failed = bench.records("FailedScheduling");
        assert!(
            failed.iter().all(|(name, why)| name == "huge-000" && why.starts_with("Failed to schedule pod")),
            "{failed:?}"
        );
    });
}

#[test]
fn as_a_last_resort_is_asked_for_only_what_was_left_over() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let uids = waiting(&bench, "huge", 1, "5000");
        packer.do_send(batch(&uids));
        bench.pass(25.0).await;
        let asked = bench.heard.asked_types();
        assert!(!asked[0].last_resort && asked.last().unwrap().last_resort, "{:?}", asked.len());
    });
}

#[test]
fn world_change_packs_only_what_was_left_over() {
    with_pool(async |bench| {
        bench.delete(&NODE_POOLS, "default");
        bench.heard.cluster(|state| state.delete_pool("default", None));
        let packer = start(&bench);
        let uids = waiting(&bench, "web", 2, "500m");
        for _ in 0..100 {
            packer.do_send(WorldChanged::Room);
        }
        bench.pass(1.0).await;
        assert_eq!(bench.heard.snapshots(), 0, "nobody waits for room");
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        assert_eq!((planned(&bench), state(&bench, &packer).await.left_over.len()), (0, 2));
        bench.pool_of("default", json!({}));
        bench.show();
        let before = state(&bench, &packer).await.packings;
        for _ in 0..100 {
            packer.do_send(WorldChanged::Room);
        }
        bench.pass(1.0).await;
        assert_eq!((planned(&bench), state(&bench, &packer).await.packings), (2, before + 1));
    });
}

#[test]
fn a_pool_that_is_not_ready_is_skipped_and_told_once() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let generation = bench.api.get(&NODE_POOLS, "", "default").unwrap()["metadata"]["generation"].clone();
        let not = json!({"type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "no subnets",
            "observedGeneration": generation, "lastTransitionTime": bench.now_text()});
        bench.api.patch_status(&NODE_POOLS, "", "default", &json!({"status": {"conditions": [not]}})).unwrap();
        let uids = waiting(&bench, "web", 2, "500m");
        packer.do_send(batch(&uids));
        bench.pass(60.0).await;
        assert_eq!((planned(&bench), bench.told.count("pool_skipped")), (0, 1), "{:?}", bench.told.lines());
    });
}

#[test]
fn an_empty_batch_launches_nothing() {
    with_pool(async |bench| {
        let packer = start(&bench);
        packer.do_send(batch(&[]));
        packer.do_send(PackNow::after(TERM, trace(1)));
        bench.pass(60.0).await;
        assert_eq!((bench.heard.count::<LaunchClaims>(), bench.heard.count::<PlanClaims>()), (0, 0));
        assert_eq!(state(&bench, &packer).await.packings, 0);
    });
}
