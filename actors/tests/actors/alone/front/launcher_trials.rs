//! The launcher and a pool whose nodes do not register: one at a time is tried, after growing pauses, and the others wait.

use actix::prelude::*;
use dovetail_actors::launcher::Launcher;
use dovetail_actors::messages::{ClaimChanged, ClaimGone, NotRegistered, PackNow};
use dovetail_api::v1::NodeClaim;
use dovetail_core::clock::Clock as _;
use dovetail_sandbox::apiserver::NODE_CLAIMS;
use serde_json::json;

use super::launcher::{claims, launch, not_made, one_to_one, planned, start, state, with_pool};
use crate::alone::Alone;

/// A node of a pool has not registered in its time.
fn fails(launcher: &Addr<Launcher>, name: &str, pool: &str) {
    let mut claim: NodeClaim = planned(name);
    claim.metadata.labels.get_or_insert_default().insert("karpenter.sh/nodepool".into(), pool.into());
    launcher.do_send(NotRegistered { claim: claim.into() });
}

/// The node of a launched claim has come as far as this.
fn comes(bench: &Alone, launcher: &Addr<Launcher>, name: &str, stages: &[&str]) {
    let id = bench.claim_now(name).status.clone().unwrap().provider_id;
    let instance = bench.sky.inner.living().into_iter().find(|one| one.provider_id() == id).unwrap();
    launcher.do_send(ClaimChanged(bench.stages(name, &instance, 1, stages)));
}

fn now(bench: &Alone) -> u64 {
    bench.clock.monotonic().as_secs()
}

async fn orders(bench: &Alone, launcher: &Addr<Launcher>, names: &[&str]) {
    launcher.do_send(launch(names));
    bench.pass(5.0).await;
}

#[test]
fn unregistered_node_leaves_one_trial_until_it_registers() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.pass(6.0).await;
        fails(&launcher, "default-0", "default");
        orders(&bench, &launcher, &["default-a", "default-b", "default-c"]).await;
        assert_eq!((claims(&bench).len(), state(&bench, &launcher).await.held), (0, 3));
        assert_eq!(bench.told.count("launch_held"), 1, "three wait for the same");
        bench.pass(60.0).await;
        assert_eq!(not_made(&bench), 3, "after half a minute their pods are packed anew");
        bench.heard.forget();
        orders(&bench, &launcher, &["default-d", "default-e", "default-f"]).await;
        assert_eq!(claims(&bench), ["default-d"], "the trial");
        comes(&bench, &launcher, "default-d", &["Launched"]);
        bench.pass(1.0).await;
        assert_eq!((claims(&bench).len(), not_made(&bench)), (1, 0), "the others wait");
        comes(&bench, &launcher, "default-d", &["Launched", "Registered"]);
        bench.pass(1.0).await;
        assert_eq!((not_made(&bench), bench.heard.count::<PackNow>()), (2, 2), "they wait no longer");
        orders(&bench, &launcher, &["default-g", "default-h"]).await;
        assert_eq!(claims(&bench).len(), 3, "{:?}", bench.told.lines());
    });
}

#[test]
fn each_trial_that_does_not_register_doubles_the_pause() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.pass(6.0).await;
        fails(&launcher, "default-0", "default");
        let mut at = Vec::new();
        for trial in 0..4 {
            let begun = now(&bench);
            while claims(&bench).len() == trial {
                let name = format!("default-{trial}-{}", now(&bench));
                orders(&bench, &launcher, &[name.as_str()]).await;
                bench.pass(5.0).await;
                assert!(now(&bench) - begun < 1000, "{at:?}");
            }
            at.push(now(&bench) - begun);
            let name = claims(&bench).into_iter().find(|name| name.starts_with(&format!("default-{trial}-"))).unwrap();
            fails(&launcher, &name, "default");
            // A node that was launched before the first failure says nothing new.
            fails(&launcher, "default-of-before", "default");
        }
        let near = |seconds: u64, pause: u64| (pause - 10..=pause + 20).contains(&seconds);
        assert!([60, 120, 240, 480].iter().zip(&at).all(|(pause, seconds)| near(*seconds, *pause)), "{at:?}");
    });
}

#[test]
fn a_trial_that_goes_makes_way_for_the_next_at_once() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.pass(6.0).await;
        fails(&launcher, "default-0", "default");
        bench.pass(61.0).await;
        orders(&bench, &launcher, &["default-a", "default-b"]).await;
        assert_eq!(claims(&bench), ["default-a"]);
        bench.api.patch(&NODE_CLAIMS, "", "default-a", &json!({"metadata": {"finalizers": []}})).unwrap();
        bench.delete(&NODE_CLAIMS, "default-a");
        launcher.do_send(ClaimGone { name: "default-a".into() });
        bench.pass(1.0).await;
        assert_eq!((not_made(&bench), bench.heard.count::<PackNow>()), (1, 1), "{:?}", bench.told.lines());
        orders(&bench, &launcher, &["default-c"]).await;
        assert_eq!(claims(&bench), ["default-c"]);
    });
}

#[test]
fn trials_are_per_pool_and_existing_claims_are_none() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.pass(6.0).await;
        fails(&launcher, "other-0", "other");
        orders(&bench, &launcher, &["default-a", "default-b"]).await;
        assert_eq!(claims(&bench).len(), 2);
        one_to_one(&bench);
        fails(&launcher, "default-0", "default");
        // A person has made it: it is there, and is launched for.
        launcher.do_send(ClaimChanged(bench.claim("by-hand")));
        bench.pass(10.0).await;
        assert_eq!(bench.sky.inner.living().len(), 3, "{:?}", bench.told.lines());
    });
}
