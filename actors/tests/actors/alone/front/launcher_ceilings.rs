//! The launcher and its ceilings: nothing is launched past them, and nothing before it is known what was.

use dovetail_actors::Settings;
use dovetail_actors::messages::{ClaimChanged, ClaimGone, PackNow, Record};
use dovetail_core::Resources;
use dovetail_core::launch_limits::Ceilings;
use dovetail_core::ownership::token::launch_token;
use dovetail_sandbox::apiserver::NODE_CLAIMS;
use serde_json::json;

use super::launcher::{claims, launch, not_made, one_to_one, planned, start, state, with_pool, with_pool_and};
use crate::alone::Fails;

#[test]
fn the_end_of_a_claim_that_waits_in_the_queue_frees_it() {
    with_pool_and(
        Settings { ceilings: Ceilings { launches: Some(1), cost: None }, ..Settings::default() },
        async |bench| {
            let launcher = start(&bench);
            bench.pass(10.0).await;
            launcher.do_send(launch(&["default-a", "default-b", "default-c"]));
            bench.pass(10.0).await;
            assert_eq!((claims(&bench).len(), bench.sky.inner.living().len()), (1, 1), "the ceiling holds the others");
            assert_eq!(state(&bench, &launcher).await.held, 2);
            launcher.do_send(ClaimGone { name: "default-b".into() });
            launcher.do_send(ClaimGone { name: "never-was".into() });
            bench.pass(40.0).await;
            assert_eq!(bench.told.count("launch_held"), 1, "it is said once in ten minutes");
            assert!(not_made(&bench) >= 1 && bench.heard.count::<PackNow>() >= 1, "their pods are packed anew");
            assert_eq!(state(&bench, &launcher).await.running, 0);
        },
    );
}

#[test]
fn with_a_ceiling_nothing_is_launched_before_the_past_is_known() {
    with_pool_and(
        Settings { ceilings: Ceilings { launches: Some(5), cost: None }, ..Settings::default() },
        async |bench| {
            bench.sky.always("instances_by_name", Some(Fails::Throttled));
            let launcher = start(&bench);
            launcher.do_send(launch(&["default-a"]));
            bench.pass(60.0).await;
            assert!(claims(&bench).is_empty() && !state(&bench, &launcher).await.begun);
            bench.sky.always("instances_by_name", None);
            bench.pass(30.0).await;
            // Nobody is known to wait for it any more: its pods are planned anew.
            assert!(state(&bench, &launcher).await.begun);
            one_to_one(&bench);
        },
    );
}

#[test]
fn without_a_ceiling_the_past_is_waited_for_five_seconds() {
    with_pool(async |bench| {
        bench.sky.always("instances_by_name", Some(Fails::Hangs));
        let launcher = start(&bench);
        launcher.do_send(launch(&["default-a"]));
        bench.pass(4.0).await;
        assert!(claims(&bench).is_empty());
        bench.heard.cluster(|state| state.plan_claim(planned("default-a"), Resources::new()));
        bench.pass(20.0).await;
        assert!(state(&bench, &launcher).await.begun);
    });
}

#[test]
fn claim_gone_during_its_price_query_does_not_wait_forever() {
    with_pool_and(
        Settings { ceilings: Ceilings { launches: None, cost: Some(0.001) }, ..Settings::default() },
        async |bench| {
            let claim = bench.claim("default-a");
            // A leader has begun to launch for it.
            let token = launch_token([claim.metadata.uid.as_deref().unwrap()], 1);
            let begun =
                json!({"metadata": {"annotations": {"dovetail.dev/launch-token": token, "dovetail.dev/term": "2"}}});
            bench.api.patch(&NODE_CLAIMS, "", "default-a", &begun).unwrap();
            let launcher = start(&bench);
            bench.pass(10.0).await;
            launcher.do_send(ClaimChanged(bench.claim_now("default-a")));
            launcher.do_send(ClaimGone { name: "default-a".into() });
            let finalizers = json!({"metadata": {"finalizers": []}});
            bench.api.patch(&NODE_CLAIMS, "", "default-a", &finalizers).unwrap();
            bench.delete(&NODE_CLAIMS, "default-a");
            bench.pass(120.0).await;
            let held = state(&bench, &launcher).await.held;
            bench.heard.forget();
            bench.pass(600.0).await;
            assert_eq!(state(&bench, &launcher).await.held, held, "it is asked for again and again");
            assert_eq!(bench.heard.count::<Record>(), 0, "of an object that is gone");
        },
    );
}
