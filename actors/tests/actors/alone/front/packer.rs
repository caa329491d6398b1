//! The packer: what waits is packed once, the plan is known before anything is created, and whatever fails keeps nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::prelude::*;
use dovetail_actors::messages::{
    ActorState, Batch, LaunchClaims, PackNow, PackerState, PlanClaims, Planned, Record, Term, WorldChanged,
};
use dovetail_actors::packer::{Packer, PackerLinks};
use dovetail_actors::{InlineSolver, Solution, Solver};
use dovetail_core::Problem;
use dovetail_core::cluster_state::NominationTarget;
use dovetail_core::pack::Options;
use dovetail_sandbox::apiserver::{DeleteOptions, PODS};
use futures::future::BoxFuture;

use crate::alone::{Alone, TERM, alone, seconds, trace};

pub fn start_with(bench: &Alone, solver: Arc<dyn Solver>) -> Addr<Packer> {
    let ear = &bench.ear;
    let links = PackerLinks {
        cluster: ear.clone().into(),
        catalogue: ear.clone().into(),
        launcher: ear.clone().into(),
        registrar: ear.clone().into(),
        terminator: ear.clone().into(),
        recorder: ear.clone().into(),
    };
    bench.start(Packer::new(&bench.env, links, solver))
}

pub fn start(bench: &Alone) -> Addr<Packer> {
    start_with(bench, Arc::new(InlineSolver))
}

pub fn batch(pods: &[String]) -> Batch {
    Batch { term: TERM, pods: pods.to_vec(), waited: seconds(1), trace: trace(1) }
}

/// A cluster with a pool, and instance types for it.
pub fn with_pool(test: impl AsyncFnOnce(Alone)) {
    alone(|bench| async move {
        bench.pool("default");
        bench.offer("default");
        test(bench).await;
    });
}

/// Pods that wait, which the state knows; their uids.
pub fn waiting(bench: &Alone, name: &str, count: usize, cpu: &str) -> Vec<String> {
    let uids = (0..count).map(|n| bench.pod_of(&format!("{name}-{n:03}"), None, cpu)).collect();
    bench.show();
    uids
}

/// Number of pods planned on new claims.
pub fn planned(bench: &Alone) -> usize {
    bench.heard.all::<LaunchClaims>().iter().flat_map(|launch| &launch.orders).map(|order| order.pods).sum()
}

pub async fn state(bench: &Alone, packer: &Addr<Packer>) -> PackerState {
    match bench.state(packer).await {
        ActorState::Packer(state) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn batch_becomes_claims_and_plan_is_said_before_launch() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let uids = waiting(&bench, "web", 10, "500m");
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        assert_eq!(planned(&bench), 10);
        let names: Vec<_> = bench.heard.names().into_iter().filter(|name| *name != "Record").collect();
        let at = |name| names.iter().position(|one| *one == name).unwrap();
        assert!(at("Planned") < at("PlanClaims") && at("PlanClaims") < at("LaunchClaims"), "{names:?}");
        let launch = bench.heard.last::<LaunchClaims>();
        assert!(launch.term == TERM && launch.trace.trace() == trace(1).trace());
        let claim = &launch.orders[0].claim;
        assert_eq!(claim.metadata.annotations.as_ref().unwrap()["dovetail.dev/term"], "3");
        let expected = &bench.heard.last::<PlanClaims>().expected[0];
        assert_eq!(expected.1, NominationTarget::Claim(claim.metadata.name.clone().unwrap()));
        assert_eq!(bench.records("Nominated").len(), 10);
    });
}

#[test]
fn what_is_planned_is_not_planned_again() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let uids = waiting(&bench, "web", 4, "500m");
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        for _ in 0..5 {
            packer.do_send(PackNow::after(TERM, trace(2)));
            packer.do_send(batch(&uids));
            bench.pass(2.0).await;
        }
        assert_eq!(planned(&bench), 4);
    });
}

#[test]
fn orders_of_an_older_term_are_dropped_and_of_a_newer_one_not() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let uids = waiting(&bench, "web", 2, "500m");
        packer.do_send(Batch { term: Term(TERM.0 - 1), ..batch(&uids) });
        packer.do_send(PackNow::after(Term(TERM.0 - 1), trace(1)));
        bench.pass(2.0).await;
        assert_eq!(planned(&bench), 0);
        packer.do_send(Batch { term: Term(TERM.0 + 1), ..batch(&uids) });
        bench.pass(2.0).await;
        assert_eq!(planned(&bench), 2);
    });
}

#[test]
fn only_pods_whose_window_has_closed_are_packed() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let uids = waiting(&bench, "web", 3, "500m");
        waiting(&bench, "later", 3, "500m");
        packer.do_send(batch(&uids));
        bench.pass(2.0).await;
        assert_eq!(planned(&bench), 3);
    });
}

#[test]
fn a_pod_that_is_gone_by_then_is_not_packed() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let mut uids = waiting(&bench, "web", 2, "500m");
        uids.push("a-pod-that-nobody-knows".into());
        bench
            .api
            .delete(
                &PODS,
                "default",
                "web-000",
                &DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() },
            )
            .unwrap();
        bench.show();
        packer.do_send(batch(&uids));
        bench.pass(2.0).await;
        assert_eq!(planned(&bench), 1);
        assert_eq!(state(&bench, &packer).await.handled, 1, "nobody waits for who is gone");
    });
}

/// Takes its time, and panics for who has this name.
struct Troubled {
    breaks: &'static str,
    asked: AtomicUsize,
}

impl Troubled {
    fn with(breaks: &'static str) -> Arc<Self> {
        Arc::new(Self { breaks, asked: AtomicUsize::new(0) })
    }
}

impl Solver for Troubled {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let breaks = self.breaks;
        Box::pin(async move {
            tokio::time::sleep(seconds(2)).await;
            assert!(problem.pods.iter().all(|pod| !pod.name.starts_with(breaks)), "the packing has a bug");
            InlineSolver.solve(problem, options).await
        })
    }
}

#[test]
fn a_pod_that_breaks_packing_is_left_out_named_and_tried_seldom() {
    with_pool(async |bench| {
        let solver = Troubled::with("bad");
        let packer = start_with(&bench, solver.clone());
        let mut uids = waiting(&bench, "web", 3, "500m");
        uids.extend(waiting(&bench, "bad", 2, "600m"));
        packer.do_send(batch(&uids));
        bench.pass(30.0).await;
        assert_eq!(planned(&bench), 3, "{:?}", bench.told.lines());
        bench.pass(600.0).await;
        let failed = bench.told.count("packing_failed");
        assert!((2..=8).contains(&failed), "{failed} in ten minutes");
        assert!(
            state(&bench, &packer).await.failing == 1
                && bench.records("FailedScheduling").iter().all(|(name, _)| name.starts_with("bad"))
        );
    });
}

#[test]
fn pods_of_a_node_that_leaves_are_packed_without_a_window() {
    with_pool(async |bench| {
        let packer = start(&bench);
        bench.launched("default-1", 1, &["Launched", "Registered", "Initialized"]);
        bench.working(1);
        bench.pod("web", Some(1));
        bench.show();
        bench.heard.cluster(|state| state.mark_deleting(["default-1"], true));
        packer.do_send(WorldChanged::Deleting);
        bench.pass(1.0).await;
        assert_eq!(planned(&bench), 1);
        assert_eq!(bench.heard.count::<Planned>(), 0, "its successor is another pod");
        assert!(bench.heard.all::<Record>().iter().any(|one| one.message.starts_with("Its successor should")));
    });
}

#[test]
fn a_node_with_room_takes_pods_before_another_is_launched() {
    with_pool(async |bench| {
        let packer = start(&bench);
        bench.launched("default-1", 1, &["Launched", "Registered", "Initialized"]);
        bench.working(1);
        let uids = waiting(&bench, "web", 2, "500m");
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        assert_eq!((planned(&bench), bench.told.count("fits_existing")), (0, 1), "{:?}", bench.told.lines());
        let said = &bench.heard.last::<Planned>();
        assert_eq!(said.pods.len(), 2);
    });
}

#[test]
fn a_thousand_pods_are_planned_each_once() {
    with_pool(async |bench| {
        let packer = start(&bench);
        let uids = waiting(&bench, "web", 1000, "250m");
        packer.do_send(batch(&uids));
        bench.pass(2.0).await;
        let mut expected: Vec<String> =
            bench.heard.last::<PlanClaims>().expected.iter().flat_map(|(pods, _)| pods.clone()).collect();
        expected.sort();
        let mut all = uids.clone();
        all.sort();
        assert_eq!(expected, all);
        let names: std::collections::BTreeSet<_> = bench
            .heard
            .last::<LaunchClaims>()
            .orders
            .iter()
            .map(|order| order.claim.metadata.name.clone().unwrap())
            .collect();
        assert_eq!(names.len(), bench.heard.last::<LaunchClaims>().orders.len(), "no name twice");
    });
}
