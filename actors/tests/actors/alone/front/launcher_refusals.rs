//! The launcher and refusals: what one launch is refused with holds for others like it, and is tried again with growing pauses.

use std::collections::BTreeSet;

use actix::prelude::*;
use dovetail_actors::launcher::Launcher;
use dovetail_actors::messages::{ClaimChanged, ClaimSoldOut, ClosedPools, LaunchClaims, LaunchOrder, PackNow};
use dovetail_core::Resources;
use dovetail_core::launch_backoff::Demand;
use dovetail_core::ownership::token::launch_token;
use dovetail_sandbox::apiserver::NODE_CLAIMS;
use serde_json::json;

use super::launcher::{claims, launch, not_made, one_to_one, planned, start, state, with_pool};
use crate::alone::objects::id;
use crate::alone::{Alone, Fails, TERM, trace};
use crate::world::Spoil;

/// Orders that are alike to who has refused one.
fn alike(count: usize, prefix: &str) -> LaunchClaims {
    let demand = Demand {
        pool: "default".into(),
        generation: Some(1),
        shape: "any".into(),
        zones: BTreeSet::from(["us-east-1a".to_owned(), "us-east-1b".to_owned()]),
        capacity_type: "on-demand".into(),
        requests: Resources::new(),
    };
    let order = |n| LaunchOrder { claim: planned(&format!("{prefix}-{n:02}")), pods: 1, demand: Some(demand.clone()) };
    LaunchClaims { term: TERM, orders: (0..count).map(order).collect(), trace: trace(1) }
}

async fn order(bench: &Alone, launcher: &Addr<Launcher>, launch: LaunchClaims) {
    bench.pass(1.0).await;
    launcher.do_send(launch);
}

#[test]
fn hundred_claims_that_would_be_refused_are_not_all_asked_for() {
    for code in [403, 422] {
        with_pool(async |bench| {
            let launcher = start(&bench);
            bench.wire.refuse("POST", "/nodeclaims", usize::MAX, code);
            order(&bench, &launcher, alike(100, "default")).await;
            bench.pass(120.0).await;
            let asked = bench.wire.count("POST", "/nodeclaims");
            assert!(asked <= 25, "{code}: {asked} creations that were refused");
            let told = bench.told.count("launch_failed");
            assert!(told <= 25, "{code}: {told} lines");
            assert_eq!((bench.sky.count("launch"), state(&bench, &launcher).await.running), (0, 0));
            assert!(
                not_made(&bench) >= 1 && bench.heard.count::<PackNow>() >= 1,
                "{code}: their pods are not forgotten"
            );
        });
    }
}

#[test]
fn what_is_sold_out_for_one_is_not_asked_for_the_others_like_it() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.sky.inner.spoil([Spoil::SoldOut; 200]);
        order(&bench, &launcher, alike(100, "default")).await;
        bench.pass(30.0).await;
        let asked = bench.sky.count("launch");
        assert!(asked <= 25, "{asked} calls of CreateFleet for what is sold out");
        assert!(bench.heard.count::<ClaimSoldOut>() >= 90, "each is packed on something else");
        assert!(claims(&bench).is_empty());
    });
}

#[test]
fn permanent_ec2_refusal_closes_pool_and_costs_fewer_calls() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.sky.always("launch", Some(Fails::Never));
        order(&bench, &launcher, alike(5, "default")).await;
        bench.pass(900.0).await;
        let asked = bench.sky.count("launch");
        assert!((3..=60).contains(&asked), "{asked} in a quarter of an hour");
        let closed = bench.heard.all::<ClosedPools>();
        assert!(closed.iter().any(|one| one.closed.contains_key("default")), "packing leaves it out");
        let conditions = bench.api.list(&NODE_CLAIMS)[0]["status"]["conditions"].to_string();
        assert!(conditions.contains("Unauthorized"), "why is on the claim: {conditions}");
        // Somebody gives us the right.
        bench.sky.always("launch", None);
        bench.pass(300.0).await;
        one_to_one(&bench);
        assert!(!bench.sky.inner.living().is_empty());
    });
}

#[test]
fn class_without_network_ends_its_claims_in_few_calls() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.sky.always("launch", Some(Fails::ClassNotReady));
        order(&bench, &launcher, alike(100, "default")).await;
        bench.pass(30.0).await;
        let asked = bench.sky.count("launch");
        assert!((1..=25).contains(&asked), "{asked} calls of CreateFleet");
        assert!(claims(&bench).is_empty(), "no claim waits for what will not come");
        assert!(not_made(&bench) >= 100 && bench.heard.count::<PackNow>() >= 1, "their pods are packed anew");
        assert_eq!(bench.heard.count::<ClaimSoldOut>(), 0, "nothing is said of capacity");
        let closed = bench.heard.all::<ClosedPools>();
        assert!(closed.iter().any(|one| one.closed.contains_key("default")), "packing leaves the pool out");
    });
}

#[test]
fn token_used_elsewhere_is_looked_up_then_replaced() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.sky.next("launch", [Fails::TokenUsed]);
        order(&bench, &launcher, alike(1, "default")).await;
        bench.pass(240.0).await;
        one_to_one(&bench);
        let tokens = bench.sky.asked("launch");
        assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{tokens:?}");
        assert!(bench.sky.asked("instances_with_token").contains(&tokens[0]), "it may have launched something");
    });
}

#[test]
fn throttling_cloud_is_asked_again_and_told_once_per_claim() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.sky.next("launch", [Fails::Throttled; 6]);
        order(&bench, &launcher, alike(1, "default")).await;
        bench.pass(120.0).await;
        one_to_one(&bench);
        assert_eq!((bench.sky.count("launch"), bench.told.count("retrying")), (7, 1));
    });
}

#[test]
fn twenty_unanswered_claims_are_packed_anew_together() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.wire.refuse("POST", "/nodeclaims", usize::MAX, 500);
        bench.pass(1.0).await;
        let names: Vec<String> = (0..20).map(|n| format!("default-{n:02}")).collect();
        launcher.do_send(launch(&names.iter().map(String::as_str).collect::<Vec<_>>()));
        bench.pass(300.0).await;
        assert_eq!(not_made(&bench), 20);
        let packed = bench.heard.count::<PackNow>();
        assert!((1..=2).contains(&packed), "packing is asked for {packed} times");
    });
}

#[test]
fn instance_of_other_cluster_found_by_token_is_said_once() {
    with_pool(async |bench| {
        let claim = bench.claim("default-a");
        let token = launch_token([claim.metadata.uid.as_deref().unwrap()], 1);
        let annotations =
            json!({"metadata": {"annotations": {"dovetail.dev/launch-token": token, "dovetail.dev/term": "3"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-a", &annotations).unwrap();
        bench.sky.inner.strange(
            &id(1),
            &[("dovetail.dev/launch-token", token.as_str()), ("dovetail.dev/cluster-uid", "uid-of-another-cluster")],
        );
        let launcher = start(&bench);
        bench.pass(1.0).await;
        launcher.do_send(ClaimChanged(bench.claim_now("default-a")));
        bench.pass(300.0).await;
        let looks = bench.sky.count("instances_with_token");
        assert!(looks > 5, "{looks} looks");
        assert_eq!(bench.told.count("instance_not_owned"), 1, "{looks} looks");
    });
}
