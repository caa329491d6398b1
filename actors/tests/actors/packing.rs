//! Packing that fails, by a panic or by its bound, leaves the pods out that break it: all others get their nodes, no actor is
//! started again, and what was left out is tried again with a back-off.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dovetail_actors::{InlineSolver, Journal, JournalEntry, LogEvent, Measure, Settings, Solution, Solver};
use dovetail_core::Problem;
use dovetail_core::clock::Clock as _;
use dovetail_core::pack::{Options, PackingError};
use dovetail_core::problem::Policy;
use dovetail_sandbox::apiserver::{Gvr, PODS};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use world::{World, run, seconds};

/// Ways to fail.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// It panics, when polled.
    Panics,
    /// It panics at once.
    PanicsAtOnce,
    /// It meets its bound.
    MeetsItsBound,
    /// It panics, but for `fewest-nodes`.
    PanicsByCost,
}

/// Fails where a pod takes part whose name begins so, as long as it is broken.
struct Fails {
    how: How,
    begins: &'static str,
    broken: AtomicBool,
    asked: AtomicUsize,
    failed: Mutex<Vec<usize>>,
}

impl Fails {
    fn with(begins: &'static str, how: How) -> Arc<Self> {
        Arc::new(Self { how, begins, broken: true.into(), asked: 0.into(), failed: Mutex::default() })
    }

    /// Number of failures.
    fn failures(&self) -> usize {
        self.failed.lock().unwrap().len()
    }
}

impl Solver for Fails {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let meant = problem.pods.iter().any(|pod| pod.name.starts_with(self.begins));
        let by_cost = problem.node_pools.iter().any(|pool| pool.policy == Policy::Cost);
        if !meant || !self.broken.load(Ordering::Relaxed) || (self.how == How::PanicsByCost && !by_cost) {
            return InlineSolver.solve(problem, options);
        }
        self.failed.lock().unwrap().push(number);
        match self.how {
            How::MeetsItsBound => async { Err(PackingError::Bound { steps: 7 }) }.boxed(),
            How::PanicsAtOnce => std::panic::resume_unwind(Box::new("a fault of the test")),
            _ => async { panics() }.boxed(),
        }
    }
}

/// A panic that no hook prints.
fn panics() -> Solution {
    std::panic::resume_unwind(Box::new("a fault of the test"))
}

fn on_demand(world: &World) {
    world.pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]));
}

fn bound_by_name(world: &World, begins: &str) -> usize {
    let named = |pod: &&Arc<Value>| pod["metadata"]["name"].as_str().unwrap().starts_with(begins);
    world.api.list(&PODS).iter().filter(named).filter(|pod| pod["spec"]["nodeName"].is_string()).count()
}

/// The failures told, each with the pods that it names.
fn told(world: &World) -> Vec<(usize, Vec<String>)> {
    let entries = world.journal.entries();
    let failed = entries.into_iter().filter_map(|entry| match entry.log_event {
        LogEvent::PackingFailed { pods, names, .. } => Some((pods, names.named)),
        _ => None,
    });
    failed.collect()
}

fn ordinary_pods_get_their_nodes_beside(how: How) {
    run(move |world| async move {
        on_demand(&world);
        let solver = Fails::with("bad", how);
        let replica = world.replica_of(0, Settings::default(), solver.clone());
        world.pods_of("web", 6, "500m");
        world.pods_of("bad", 3, "6");
        world.pods_of("api", 5, "900m");
        world.until_bound(11, seconds(180)).await;
        assert_eq!((bound_by_name(&world, "web"), bound_by_name(&world, "api")), (6, 5));
        assert_eq!((world.journal.count("restarting"), world.journal.count("exiting")), (0, 0));
        assert_eq!(replica.state().await["control_plane"]["restarts"], 0);
        let names = ["default/bad-0000", "default/bad-0001", "default/bad-0002"].map(str::to_owned).to_vec();
        assert_eq!(told(&world)[0], (3, names), "{}", world.log_events().join("\n"));
        let said = world.events("FailedScheduling");
        for pod in ["bad-0000", "bad-0001", "bad-0002"] {
            assert!(said.iter().any(|(name, message)| name == pod && message.contains("left out")), "{said:?}");
        }
        assert!(!said.iter().any(|(name, _)| !name.starts_with("bad")), "{said:?}");
    });
}

#[test]
fn packing_panic_leaves_out_its_pod_class_and_restarts_nothing() {
    ordinary_pods_get_their_nodes_beside(How::Panics);
}

#[test]
fn so_does_a_solver_that_panics_before_it_answers_a_future() {
    ordinary_pods_get_their_nodes_beside(How::PanicsAtOnce);
}

#[test]
fn so_does_packing_that_meets_its_bound() {
    ordinary_pods_get_their_nodes_beside(How::MeetsItsBound);
}

#[test]
fn panic_of_lowest_price_search_falls_back_to_fewest_nodes() {
    run(|world| async move {
        on_demand(&world);
        let _replica = world.replica_of(0, Settings::default(), Fails::with("bad", How::PanicsByCost));
        world.pods_of("bad", 3, "700m");
        world.pods_of("web", 3, "500m");
        world.until_bound(6, seconds(180)).await;
        assert!(world.journal.count("packed_by_fewest_nodes") > 0, "{}", world.log_events().join("\n"));
        assert_eq!((world.journal.count("packing_failed"), world.journal.count("restarting")), (0, 0));
    });
}

#[test]
fn left_out_pods_are_retried_less_and_placed_once_packing_works() {
    run(|world| async move {
        on_demand(&world);
        let solver = Fails::with("bad", How::Panics);
        let _replica = world.replica_of(0, Settings::default(), solver.clone());
        world.pods_of("bad", 2, "6");
        world.pods_of("web", 2, "500m");
        world.until_bound(2, seconds(180)).await;
        // Packings go on all the while, for others: those that fail are few.
        for round in 0..20 {
            world.pods_of(&format!("more-{round}"), 1, "1500m");
            tokio::time::sleep(seconds(30)).await;
        }
        let tried = told(&world).len();
        assert!((4..=7).contains(&tried), "tried {tried} times in ten minutes");
        world.until_bound(22, seconds(180)).await;
        assert_eq!(bound_by_name(&world, "more"), 20);
        // Each time the whole, by fewest-nodes, and the class: not more than a few attempts.
        assert!(solver.failures() <= 5 * tried, "{} failures of {tried} tries", solver.failures());
        solver.broken.store(false, Ordering::Relaxed);
        world.until_bound(24, seconds(1800)).await;
        assert_eq!(bound_by_name(&world, "bad"), 2);
        assert_eq!(world.journal.count("restarting"), 0);
    });
}

#[test]
fn later_pods_of_same_class_are_not_tried_before_it_is_due() {
    run(|world| async move {
        on_demand(&world);
        let solver = Fails::with("bad", How::Panics);
        let _replica = world.replica_of(0, Settings::default(), solver.clone());
        world.pods_of("bad-one", 1, "700m");
        let told_once = || told(&world).len() == 1;
        world.until(seconds(60), told_once).await;
        let failures = solver.failures();
        world.pods_of("bad-two", 1, "700m");
        tokio::time::sleep(seconds(10)).await;
        assert_eq!(solver.failures(), failures, "{}", world.log_events().join("\n"));
        let said = world.events("FailedScheduling");
        assert!(said.iter().any(|(name, _)| name.starts_with("bad-two")), "{said:?}");
    });
}

/// Counts failures as a metric would.
#[derive(Default)]
struct Counts(Mutex<Vec<(&'static str, &'static str)>>);

impl Journal for Counts {
    fn record(&self, _: &JournalEntry) {}

    fn measure(&self, measure: &Measure<'_>) {
        if let Measure::PackingFailed { cause, outcome } = measure {
            self.0.lock().unwrap().push((cause, outcome));
        }
    }
}

#[test]
fn each_packing_that_fails_is_counted_by_cause_and_outcome() {
    for (how, expected) in [
        (How::Panics, ("panic", "left_out")),
        (How::MeetsItsBound, ("bound", "left_out")),
        (How::PanicsByCost, ("panic", "fewest_nodes")),
    ] {
        run(move |world| async move {
            on_demand(&world);
            let counts = Arc::new(Counts::default());
            let _replica = world.replica_by(0, Settings::default(), Fails::with("bad", how), counts.clone());
            world.pods_of("bad", 2, "700m");
            let begun = world.clock.monotonic();
            while counts.0.lock().unwrap().is_empty() && world.clock.monotonic() - begun < seconds(60) {
                tokio::time::sleep(seconds(1)).await;
            }
            assert_eq!(counts.0.lock().unwrap().first(), Some(&expected));
        });
    }
}

#[test]
fn a_pod_with_more_soft_terms_than_count_is_told_so_once() {
    run(|world| async move {
        on_demand(&world);
        let _replica = world.replica(0);
        let preferred: Vec<Value> = (0..40)
            .map(|at| {
                json!({"weight": 1 + at, "preference": {"matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [format!("zone-{at}")]}]}})
            })
            .collect();
        // It fits nowhere, so that it is packed again and again.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "heavy", "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "900"}}}],
                "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}},
        });
        world.api.create(&PODS, "default", pod).unwrap();
        let status = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes"}]}});
        world.api.patch_status(&PODS, "default", "heavy", &status).unwrap();
        tokio::time::sleep(seconds(120)).await;
        let said = world.events("SoftTermsIgnored");
        let expected = "Only the 32 heaviest of its 40 soft scheduling terms count";
        assert_eq!(said, [("heavy".to_owned(), expected.to_owned())], "{}", world.log_events().join("\n"));
        assert_eq!(world.journal.count("soft_terms_ignored"), 1);
    });
}

#[test]
fn daemonset_that_fits_nowhere_is_named_and_others_get_nodes() {
    run(|world| async move {
        on_demand(&world);
        let _replica = world.replica(0);
        let set = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "big", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"d": "big"}}, "template": {"metadata": {"labels": {"d": "big"}},
                "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1000"}}}]}}},
        });
        world.api.create(&Gvr::new("apps", "v1", "daemonsets"), "default", set).unwrap();
        tokio::time::sleep(seconds(5)).await;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "innocent", "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]},
        });
        world.api.create(&PODS, "default", pod).unwrap();
        let status = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes"}]}});
        world.api.patch_status(&PODS, "default", "innocent", &status).unwrap();
        tokio::time::sleep(seconds(60)).await;
        assert_eq!(world.journal.count("nodeclaim_created"), 1, "{}", world.log_events().join("\n"));
        let said = world.events("DaemonSetNotCounted");
        assert!(said.len() == 1 && said[0].0 == "big", "{said:?}");
        assert!(said[0].1.contains("DaemonSet default/big is not counted") && said[0].1.contains("it needs 1000 CPU"));
        assert_eq!(world.journal.count("daemonset_not_counted"), 1);
    });
}
