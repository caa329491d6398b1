//! A replica that is asked to end hands over at once and leaves nothing half done for long.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::time::Duration;

use dovetail_core::clock::Clock as _;
use dovetail_sandbox::apiserver::LEASES;
use serde_json::json;
use world::{Spoil, World, run, run_drawn, seconds};

#[test]
fn next_replica_leads_within_one_look_before_lease_runs_out() {
    run(|world| async move {
        let first = world.replica(0);
        world.until(seconds(30), || world.journal.count("elected") == 1).await;
        let second = world.replica(1);
        tokio::time::sleep(seconds(10)).await;
        first.shutdown().await;
        let took = world.until(seconds(30), || world.journal.count("elected") == 2).await;
        assert!(took <= seconds(3), "{took:?}");
        let (before, now) = (first.state().await, second.state().await);
        assert_eq!((&before["control_plane"]["leads"], &now["control_plane"]["leads"]), (&json!(false), &json!(true)));
        assert!(before["packer"].is_null() && now["packer"].is_object(), "the leader's actors have ended");
    });
}

/// Holder and term of the Lease.
fn lease(world: &World) -> (String, u64) {
    let lease = world.api.get(&LEASES, "kube-system", "karpenter-leader-election");
    let spec = lease.map(|lease| lease["spec"].clone()).unwrap_or_default();
    (spec["holderIdentity"].as_str().unwrap_or_default().into(), spec["leaseTransitions"].as_u64().unwrap_or_default())
}

#[test]
fn a_lease_is_given_back_although_the_api_server_fails_often() {
    for number in 0..8 {
        run_drawn(u64::from(number), |world| async move {
            let replica = world.replica(number);
            world.until(seconds(30), || world.journal.count("elected") == 1).await;
            world.faults.change(|faults| faults.api_server.error_rate = 0.6);
            replica.shutdown().await;
            assert_eq!(lease(&world).0, "", "replica {number}");
        });
    }
}

#[test]
fn lease_being_taken_when_replica_ends_names_nobody_after() {
    for tenths in 0..40 {
        run(|world| async move {
            world.faults.change(|faults| faults.api_server.latency = Duration::from_millis(500));
            let replica = world.replica(0);
            tokio::time::sleep(Duration::from_millis(100 * tenths)).await;
            replica.shutdown().await;
            tokio::time::sleep(seconds(30)).await;
            let (holder, term) = lease(&world);
            assert!(holder.is_empty() || term == 0, "after {tenths} tenths: {holder} holds it in term {term}");
        });
    }
}

#[test]
fn lease_taken_late_by_a_held_write_names_nobody_after() {
    let taken = std::cell::Cell::new(0);
    for tenths in 0..40 {
        let taken = &taken;
        run(|world| async move {
            // Vacant, as another has given it back.
            let other = world.replica(1);
            world.until(seconds(30), || world.journal.count("elected") == 1).await;
            other.shutdown().await;
            let before = lease(&world).1;
            // Less than who asks waits for an answer, which never comes.
            world.faults.hold_writes(0, seconds(3), None);
            let replica = world.replica(0);
            tokio::time::sleep(Duration::from_millis(100 * tenths)).await;
            world.faults.hold_no_longer(0);
            let ended_at = lease(&world).1;
            replica.shutdown().await;
            tokio::time::sleep(seconds(30)).await;
            let (holder, term) = lease(&world);
            assert_eq!(holder, "", "after {tenths} tenths, in term {term}");
            taken.set(taken.get() + u32::from(ended_at == before && term > before));
        });
    }
    assert!(taken.get() > 0, "none was taken after the replica was asked to end");
}

#[test]
fn hanging_launch_delays_nobody_and_is_finished_by_the_next() {
    run(|world| async move {
        world
            .pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]));
        world.pods(4, "500m");
        world.cloud.spoil([Spoil::Hangs]);
        let first = world.replica(0);
        world.until(seconds(60), || !world.cloud.calls().is_empty()).await;
        let begun = world.clock.monotonic();
        first.shutdown().await;
        let took = world.clock.monotonic() - begun;
        assert!(took <= seconds(6), "{took:?}");
        let _second = world.replica(1);
        world.until_bound(4, seconds(300)).await;
        assert_eq!(world.cloud.living().len(), world.claims().len(), "nothing is launched twice");
    });
}

#[test]
fn every_actor_that_runs_says_how_it_is_and_nobody_is_silent() {
    run(|world| async move {
        let replica = world.replica(0);
        world.until(seconds(30), || world.journal.count("elected") == 1).await;
        tokio::time::sleep(seconds(5)).await;
        let state = replica.state().await;
        assert_eq!(state["control_plane"]["silent"], json!([]));
        for name in ["leader", "pod_watcher", "cluster_watcher", "catalogue", "packer", "launcher", "terminator"] {
            assert!(state[name].is_object(), "{name} is not in {state}");
        }
    });
}
