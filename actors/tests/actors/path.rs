//! Pending pods get their nodes, and nothing is launched twice, whatever goes wrong on the way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::collections::BTreeSet;
use std::time::Duration;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dovetail_actors::{InlineSolver, Settings, Solution, Solver};
use dovetail_core::Problem;
use dovetail_core::pack::Options;
use dovetail_sandbox::apiserver::{DeleteOptions, LEASES, NODE_CLAIMS, NODE_POOLS, NODES, PODS};
use dovetail_sandbox::faults::{ApiServerFaults, Direction, Service};
use serde_json::{Value, json};
use world::{Spoil, World, minutes, on_demand_m5, run};

/// One living instance a claim, one claim an instance.
fn nothing_twice(world: &World) {
    let claimed: Vec<_> =
        world.claims().iter().filter_map(|claim| claim["status"]["providerID"].as_str().map(str::to_owned)).collect();
    let unique: BTreeSet<_> = claimed.iter().cloned().collect();
    assert_eq!(claimed.len(), unique.len(), "two claims share an instance");
    let living: BTreeSet<_> = world.cloud.living().iter().map(|one| one.provider_id()).collect();
    assert_eq!(living, unique, "an instance without a claim, or a claim without its instance");
}

#[test]
fn four_hundred_pods_get_their_nodes() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(400, "500m");
        let _replica = world.replica(0);
        world.until_bound(400, minutes(2)).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        nothing_twice(&world);
        assert_eq!(world.cloud.launched().len(), world.claims().len());
        assert!(world.cloud.calls().len() <= world.claims().len());
        let claim = &world.claims()[0];
        let labels = &claim["metadata"]["labels"];
        assert_eq!(labels["karpenter.sh/nodepool"], "default");
        assert_eq!(labels["karpenter.sh/capacity-type"], "on-demand");
        let lease = world.api.get(&LEASES, "kube-system", "karpenter-leader-election").unwrap();
        let term = lease["spec"]["leaseTransitions"].to_string();
        assert_eq!(claim["metadata"]["annotations"]["dovetail.dev/term"], term.as_str());
        assert!(claim["metadata"]["annotations"]["dovetail.dev/launch-token"].is_string());
        let ready =
            claim["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], "True");
        for node in world.api.list(&NODES) {
            assert_eq!(node["metadata"]["labels"]["karpenter.sh/initialized"], "true");
            assert_eq!(node["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
        }
        for event in ["elected", "batched", "packing_computed", "launched", "registered", "initialized", "bound"] {
            assert!(world.journal.count(event) > 0, "{event} is not told:\n{}", world.log_events().join("\n"));
        }
    });
}

/// Thinks for a while, as a large packing does.
#[derive(Default)]
struct Slow(AtomicUsize);

impl Solver for Slow {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> futures::future::BoxFuture<'static, Solution> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(4)).await;
            InlineSolver.solve(problem, options).await
        })
    }
}

#[test]
fn pod_arriving_while_a_packing_is_computed_is_not_forgotten() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "1500m");
        let slow = Arc::new(Slow::default());
        let _replica = world.replica_of(0, Settings::default(), slow.clone());
        while slow.0.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(world.claims().len(), 0);
        world.pods_of("later", 1, "30");
        world.until_bound(2, minutes(3)).await;
        nothing_twice(&world);
    });
}

/// docs/decisions/015.
#[test]
fn pods_kube_scheduler_skips_get_nodes_unless_mark_is_wanted() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.unmarked_pods(20, "1500m");
        let _replica = world.replica(0);
        world.until_bound(20, minutes(2)).await;
        nothing_twice(&world);
        assert_eq!(world.journal.count("batched"), 1);
    });
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.unmarked_pods(20, "1500m");
        let _replica = world.replica_with(0, Settings { unscheduled_pod_delay: None, ..Settings::default() });
        tokio::time::sleep(minutes(2)).await;
        assert_eq!((world.claims().len(), world.journal.count("batched")), (0, 0));
    });
}

#[test]
fn pods_that_get_their_place_at_once_open_no_window() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        tokio::time::sleep(minutes(1)).await;
        world.unmarked_pods(3, "1500m");
        tokio::time::sleep(Duration::from_millis(300)).await;
        for pod in ["pod-0000", "pod-0001", "pod-0002"] {
            world.api.bind("default", pod, "a-node").unwrap();
        }
        tokio::time::sleep(minutes(1)).await;
        assert_eq!((world.claims().len(), world.journal.count("batched")), (0, 0));
    });
}

#[test]
fn what_is_sold_out_is_packed_again_at_once_on_something_else() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(4, "1500m");
        world.cloud.spoil([Spoil::SoldOut]);
        let _replica = world.replica(0);
        world.until_bound(4, minutes(5)).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        nothing_twice(&world);
        assert!(world.journal.count("offering_refused") > 0 && world.journal.count("nodeclaim_deleted") > 0);
    });
}

#[test]
fn a_launch_whose_answer_is_lost_makes_one_instance() {
    for spoil in [Spoil::MadeAndLost, Spoil::LostBefore, Spoil::Hangs, Spoil::Throttled] {
        run(|world| async move {
            world.pool("default", on_demand_m5());
            world.pods(1, "500m");
            world.cloud.spoil([spoil]);
            let _replica = world.replica(0);
            world.until_bound(1, minutes(4)).await;
            tokio::time::sleep(minutes(2)).await;
            nothing_twice(&world);
            assert_eq!(world.cloud.living().len(), 1, "{spoil:?}");
        });
    }
}

#[test]
fn claim_made_late_by_a_held_request_is_taken_back() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        world.until(minutes(5), || world.journal.count("elected") > 0).await;
        // The first request for the claim is held, the second makes it; what it asks for is sold out.
        world.faults.hold_writes(0, Duration::from_secs(35), Some(Duration::from_secs(3)));
        world.cloud.spoil([Spoil::SoldOut]);
        world.pods(4, "500m");
        world.until_bound(4, minutes(2)).await;
        tokio::time::sleep(minutes(1)).await;
        assert!(
            world.log_events().iter().any(|line| line.contains("created_late")),
            "{}",
            world.log_events().join("\n")
        );
        assert_eq!(world.claims().len(), world.cloud.living().len(), "{}", world.log_events().join("\n"));
        nothing_twice(&world);
    });
}

#[test]
fn failing_throttling_and_forgetful_api_server_is_outlived() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(50, "500m");
        world.faults.change(|settings| {
            settings.api_server = ApiServerFaults {
                error_rate: 0.15,
                throttle_rate: 0.1,
                timeout_rate: 0.05,
                ..ApiServerFaults::default()
            };
        });
        let _replica = world.replica(0);
        world.until_bound(50, minutes(15)).await;
        world.faults.change(|settings| settings.api_server = ApiServerFaults::default());
        tokio::time::sleep(minutes(2)).await;
        nothing_twice(&world);
    });
}

#[test]
fn a_successor_finds_the_instance_that_its_predecessor_launched() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        world.cloud.spoil([Spoil::Hangs]);
        let first = tokio::task::LocalSet::new();
        let replica = {
            let _inside = first.enter();
            world.replica(0)
        };
        let driver = tokio::task::spawn_local(first);
        world.until(minutes(5), || !world.cloud.calls().is_empty()).await;
        driver.abort();
        drop(replica);
        let _second = world.replica(1);
        world.until_bound(1, minutes(5)).await;
        tokio::time::sleep(minutes(3)).await;
        nothing_twice(&world);
        assert_eq!((world.claims().len(), world.cloud.calls().len()), (1, 1));
        assert_eq!(world.journal.count("adopted"), 1);
    });
}

/// Makes a claim like one that is known, as somebody who leads no more.
fn leave(world: &World, known: &Value, name: &str, annotations: Value) {
    let meta = json!({"name": name, "labels": known["metadata"]["labels"], "finalizers": known["metadata"]["finalizers"],
        "annotations": annotations});
    let left =
        json!({"apiVersion": known["apiVersion"], "kind": known["kind"], "spec": known["spec"], "metadata": meta});
    world.api.create(&NODE_CLAIMS, "", left).unwrap();
}

#[test]
fn new_leader_without_watches_takes_claims_from_its_own_list() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let first = world.replica(0);
        world.until_bound(1, minutes(4)).await;
        let second = world.replica(1);
        tokio::time::sleep(minutes(1)).await;
        // Both know that this one waits; what the first plans for it is not shown to the second.
        world.pods_of("late", 1, "90");
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.faults.set_watches_late(minutes(60));
        while world.claims().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Made by the first at the very end, and not launched.
        let known = world.claims()[0].clone();
        leave(&world, &known, "left", json!({}));
        first.shutdown().await;
        tokio::time::sleep(minutes(1)).await;
        let log_events = world.log_events().join("\n");
        assert_eq!(second.state().await["control_plane"]["leads"], true, "{log_events}");
        tokio::time::sleep(minutes(3)).await;
        let log_events = world.log_events().join("\n");
        assert_eq!((world.claims().len(), world.cloud.calls().len()), (3, 3), "{log_events}");
    });
}

#[test]
fn cut_off_leader_launches_for_no_pod_placed_or_gone_meanwhile() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let replica = world.replica(0);
        world.until_bound(1, minutes(4)).await;
        // Watches are asked for anew once in less than a minute: those of then are not answered.
        world.pods_of("late", 3, "90");
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.faults.partition(0, &[Service::ApiServer], Direction::Both);
        tokio::time::sleep(Duration::from_secs(55)).await;
        let node = world.api.list(&NODES)[0]["metadata"]["name"].clone();
        world.api.bind("default", "late-0000", node.as_str().unwrap()).unwrap();
        world.api.delete(&PODS, "default", "late-0001", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.faults.heal(0, &[Service::ApiServer]);
        tokio::time::sleep(minutes(2)).await;
        let log_events = world.log_events().join("\n");
        assert_eq!(replica.state().await["control_plane"]["leads"], true, "{log_events}");
        assert_eq!((world.claims().len(), world.cloud.calls().len()), (2, 2), "for the one that waits: {log_events}");
    });
}

#[test]
fn claim_of_earlier_leader_is_given_up_where_pool_has_no_room() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let first = world.replica(0);
        world.until_bound(1, minutes(4)).await;
        let known = world.claims()[0].clone();
        first.shutdown().await;
        // Made for a plan of before, of which the successor knows nothing; whether they were launched only EC2 knows.
        let left = |name: &str| {
            let token = format!("dt-{name}");
            leave(&world, &known, name, json!({"dovetail.dev/term": "1", "dovetail.dev/launch-token": token}));
        };
        let spec = json!({"limits": {"nodes": "2"}, "disruption": {"consolidateAfter": "Never"}});
        world.api.patch(&NODE_POOLS, "", "default", &json!({"spec": spec})).unwrap();
        left("left-1");
        left("left-2");
        let _second = world.replica(1);
        tokio::time::sleep(minutes(2)).await;
        let log_events = world.log_events().join("\n");
        assert_eq!(world.cloud.calls().len(), 2, "one of the two that were left is within the limits: {log_events}");
        let names: Vec<_> = world.claims().iter().map(|claim| claim["metadata"]["name"].clone()).collect();
        assert!(names.contains(&json!("left-1")) && !names.contains(&json!("left-2")), "{names:?} {log_events}");
        assert!(log_events.contains("deleted nodeclaim left-2: limits"), "{log_events}");
        nothing_twice(&world);
    });
}

#[test]
fn unbegun_claim_of_earlier_leader_is_launched_where_needed() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(3, "500m");
        let first = world.replica(0);
        world.until_bound(3, minutes(4)).await;
        let known = world.claims()[0].clone();
        first.shutdown().await;
        for name in ["left-1", "left-2"] {
            leave(&world, &known, name, json!({"dovetail.dev/term": "1"}));
        }
        // It has no room on the node that is there, and one of those is enough for it.
        world.pods_of("late", 1, "500m");
        let _second = world.replica(1);
        world.until_bound(4, minutes(4)).await;
        let log_events = world.log_events().join("\n");
        assert_eq!((world.claims().len(), world.cloud.calls().len()), (2, 2), "{log_events}");
        assert_eq!(log_events.matches(": unneeded").count(), 1, "{log_events}");
        nothing_twice(&world);
    });
}

#[test]
fn of_three_replicas_one_leads() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(20, "500m");
        let _replicas = [world.replica(0), world.replica(1), world.replica(2)];
        world.until_bound(20, minutes(3)).await;
        assert_eq!((world.journal.count("elected"), world.journal.count("standby")), (1, 2));
        nothing_twice(&world);
    });
}

#[test]
fn pods_whose_claim_is_deleted_by_hand_get_another() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let _replica = world.replica(0);
        world.until(minutes(5), || world.journal.count("launched") > 0).await;
        let name = world.claims()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        world.api.delete(&NODE_CLAIMS, "", &name, &DeleteOptions::default()).unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        let planned: Vec<_> =
            world.claims().iter().filter(|one| one["metadata"]["deletionTimestamp"].is_null()).cloned().collect();
        assert_eq!(planned.len(), 1, "{}", world.log_events().join("\n"));
    });
}
