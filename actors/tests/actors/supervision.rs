//! An actor that panics is started again, with all the leader's actors and in the same term; one that does so again and
//! again ends the replica.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dovetail_actors::{
    ClusterClock, InlineSolver, Journal, JournalEntry, LogEvent, MemoryJournal, ReplicaParts, Settings,
};
use dovetail_core::clock::Clock as _;
use dovetail_sandbox::Caller;
use dovetail_sandbox::faults::{Direction, Service};
use serde_json::{Value, json};
use world::{Spoil, World, run, seconds};

/// Panics so many times when the packer tells that it has batched pods, and with it the packer.
struct Panics(AtomicUsize, Arc<MemoryJournal>);

impl Panics {
    fn times(times: usize, world: &World) -> Arc<Self> {
        Arc::new(Self(times.into(), world.journal.clone()))
    }
}

impl Journal for Panics {
    fn record(&self, entry: &JournalEntry) {
        let batched = matches!(entry.log_event, LogEvent::Batched { .. });
        let next = |left: usize| if batched { left.checked_sub(1) } else { None };
        assert!(self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_err(), "the telling has a bug");
        self.1.record(entry);
    }
}

fn on_demand(world: &World) {
    world.pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]));
}

/// Every claim has an instance of its own, and nobody else has one.
fn one_to_one(world: &World) {
    let mut of_claims: Vec<String> = world.claims().iter().map(|claim| id_of(claim)).collect();
    let mut living: Vec<String> = world.cloud.living().into_iter().map(|one| one.id).collect();
    of_claims.sort();
    living.sort();
    assert_eq!(of_claims, living, "{}", world.log_events().join("\n"));
}

fn id_of(claim: &Value) -> String {
    claim["status"]["providerID"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned()
}

#[test]
fn panicked_actor_restarts_in_same_term_and_pods_get_nodes() {
    run(|world| async move {
        on_demand(&world);
        world.pods(4, "500m");
        let replica = world.replica_told(0, Settings::default(), Panics::times(2, &world));
        world.until_bound(4, seconds(180)).await;
        assert_eq!((world.journal.count("restarting"), world.journal.count("elected")), (2, 1));
        assert!(world.log_events().iter().any(|line| line.contains("packer has died; starting again in")));
        assert_eq!(replica.state().await["control_plane"]["restarts"], 2);
        one_to_one(&world);
    });
}

#[test]
fn leader_actors_restart_only_after_api_server_shows_their_work() {
    run(|world| async move {
        on_demand(&world);
        world.pods(4, "500m");
        let replica = world.replica_told(0, Settings::default(), Panics::times(1, &world));
        while world.journal.count("restarting") == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        world.faults.partition(0, &[Service::ApiServer], Direction::Both);
        tokio::time::sleep(seconds(3)).await;
        assert_eq!(replica.state().await["control_plane"]["leads"], false, "{}", world.log_events().join("\n"));
        world.faults.heal(0, &[Service::ApiServer]);
        world.until_bound(4, seconds(180)).await;
        assert_eq!(world.journal.count("elected"), 1, "{}", world.log_events().join("\n"));
        one_to_one(&world);
    });
}

/// Panics when an election is told, and with it who tells it.
struct Trap;

impl Journal for Trap {
    fn record(&self, entry: &JournalEntry) {
        assert!(!matches!(entry.log_event, LogEvent::Elected { .. }), "the telling has a bug");
    }
}

#[test]
fn the_death_of_who_takes_part_in_the_election_ends_the_replica() {
    run(|world| async move {
        on_demand(&world);
        let client = |name: &str| world.api.client(Caller::replica(0, name));
        let replica = dovetail_actors::start(ReplicaParts {
            identity: "replica-0".into(),
            kube: client("controller"),
            lease_kube: client("lease"),
            cloud: world.cloud.clone(),
            clock: ClusterClock::over(world.clock.clone()),
            streams_lists: false,
            rng_seed: 1,
            settings: Settings { cluster_name: "demo".into(), ..Settings::default() },
            identities: None,
            solver: Arc::new(InlineSolver),
            journal: Arc::new(Trap),
        });
        let why = tokio::time::timeout(seconds(60), replica.exit().wait()).await.expect("it gives up");
        assert_eq!(why, "leader has died");
    });
}

#[test]
fn launch_during_a_panic_elsewhere_is_not_lost_or_repeated() {
    run(|world| async move {
        on_demand(&world);
        world.pods(4, "500m");
        let panics = Panics::times(0, &world);
        let _replica = world.replica_told(0, Settings::default(), panics.clone());
        // The instance is made, and the answer never comes.
        world.cloud.spoil([Spoil::Hangs]);
        while world.cloud.living().is_empty() {
            tokio::time::sleep(seconds(1)).await;
        }
        panics.0.store(1, Ordering::Relaxed);
        // Pods of another batch: the packer panics.
        world.pods_of("more", 3, "500m");
        world.until_bound(7, seconds(400)).await;
        assert_eq!(world.journal.count("restarting"), 1, "{}", world.log_events().join("\n"));
        one_to_one(&world);
    });
}

#[test]
fn restarts_grow_apart_and_their_budget_ends_the_replica() {
    run(|world| async move {
        on_demand(&world);
        world.pods(4, "500m");
        let broken = world.replica_told(0, Settings::default(), Panics::times(usize::MAX, &world));
        let begun = world.clock.monotonic();
        let why = tokio::time::timeout(seconds(600), broken.exit().wait()).await.expect("it gives up");
        assert!(why.contains("packer has died, after 5 restarts"), "{why}");
        let took = world.clock.monotonic() - begun;
        assert!(took > seconds(1 + 2 + 4 + 8), "five restarts with back-off in {took:?}");
        assert_eq!((world.journal.count("restarting"), world.journal.count("exiting")), (5, 1));
        // Whoever runs it ends its process; the other replica has no such bug.
        broken.shutdown().await;
        let _other = world.replica(1);
        world.until_bound(4, seconds(180)).await;
        one_to_one(&world);
    });
}

#[test]
fn panics_that_are_far_apart_use_up_no_budget() {
    run(|world| async move {
        on_demand(&world);
        let panics = Panics::times(0, &world);
        let replica = world.replica_told(0, Settings::default(), panics.clone());
        for round in 0..7 {
            panics.0.store(1, Ordering::Relaxed);
            world.pods_of(&format!("round-{round}"), 1, "1500m");
            world.until_bound(round + 1, seconds(180)).await;
            tokio::time::sleep(seconds(700)).await;
        }
        assert_eq!((world.journal.count("restarting"), world.journal.count("exiting")), (7, 0));
        assert_eq!(replica.state().await["control_plane"]["leads"], true);
    });
}
