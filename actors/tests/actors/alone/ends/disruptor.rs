//! The disruptor: nodes go by our own will only when the cluster is shown, the rules allow it, and it is said why.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_actors::disruptor::{Disruptor, DisruptorLinks};
use dovetail_actors::messages::{
    ActorState, ClusterChanged, DisruptorState, HoldClaims, InstancesSeen, LaunchClaims, PlanClaims, Remove, Wrote,
};
use dovetail_actors::{InlineSolver, Settings, Solution, Solver};
use dovetail_core::Problem;
use dovetail_core::disruption::RemovalReason;
use dovetail_core::disruption::commands::{CommandAnswer, Question};
use dovetail_core::pack::{Options, PackingError};
use dovetail_sandbox::apiserver::{DAEMON_SETS, NODE_CLAIMS, NODE_POOLS, PODS};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::terminator::INITIALIZED;
use crate::alone::{Alone, alone_with};

fn start_with(bench: &Alone, solver: Arc<dyn Solver>) -> Addr<Disruptor> {
    let ear = &bench.ear;
    let links = DisruptorLinks {
        cluster: ear.clone().into(),
        catalogue: ear.clone().into(),
        launcher: ear.clone().into(),
        terminator: ear.clone().into(),
        recorder: ear.clone().into(),
        cloud: bench.sky.clone(),
        calls: bench.calls("disruptor"),
    };
    bench.start(Disruptor::new(&bench.env, links, solver))
}

pub fn start(bench: &Alone) -> Addr<Disruptor> {
    start_with(bench, Arc::new(InlineSolver))
}

/// A pool whose nodes go when they are empty for half a minute.
pub fn with_pool(more: Value, test: impl AsyncFnOnce(Alone)) {
    alone_with(Settings::default(), |bench| async move {
        bench.class("default");
        bench.pool_of("default", more);
        bench.offer("default");
        test(bench).await;
    });
}

fn when_empty() -> Value {
    json!({"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}})
}

/// Nodes that work, and nobody on them.
pub fn nodes(bench: &Alone, count: u64) {
    for number in 1..=count {
        bench.launched(&format!("default-{number}"), number, &INITIALIZED);
        bench.working(number);
    }
    bench.show();
}

/// Time passes, and the watches show what was written.
pub async fn go_on(bench: &Alone, actor: &Addr<Disruptor>, seconds: u32) {
    for _ in 0..seconds {
        bench.show();
        actor.do_send(ClusterChanged);
        bench.pass(1.0).await;
    }
}

/// The claims that were ordered to go, each once, and why.
pub fn removed(bench: &Alone) -> Vec<(String, RemovalReason)> {
    let all = bench.heard.all::<Remove>();
    let mut each: Vec<_> =
        all.iter().flat_map(|one| one.claims.iter().map(|claim| (claim.name.clone(), one.reason))).collect();
    each.sort();
    each.dedup();
    each
}

async fn state(bench: &Alone, actor: &Addr<Disruptor>) -> DisruptorState {
    match bench.state(actor).await {
        ActorState::Disruptor(state) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_node_goes_after_its_pools_time_and_not_before() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 1);
        go_on(&bench, &actor, 25).await;
        assert_eq!(removed(&bench), []);
        go_on(&bench, &actor, 60).await;
        assert_eq!(removed(&bench), [("default-1".to_owned(), RemovalReason::Empty)], "{:?}", bench.told.lines());
        assert_eq!(bench.told.count("disrupting"), 1);
        assert!(!bench.records("DisruptionTerminating").is_empty());
    });
}

#[test]
fn unfulfilled_removal_is_ordered_again_and_said_once() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 1);
        go_on(&bench, &actor, 600).await;
        let orders = bench.heard.count::<Remove>();
        assert!((5..=12).contains(&orders), "{orders} orders in ten minutes");
        assert_eq!(bench.told.count("disrupting"), 1, "{:?}", bench.told.lines());
        assert_eq!(state(&bench, &actor).await.removed["empty"], 1);
    });
}

#[test]
fn a_node_with_a_pod_is_not_empty_and_one_with_a_daemon_is() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 2);
        bench.pod("web", Some(1));
        let owner = bench.owner(&DAEMON_SETS, "DaemonSet");
        let daemon = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": "default",
                "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "pause"}]}});
        bench.api.create(&PODS, "default", daemon).unwrap();
        bench.api.bind("default", "agent", &crate::alone::objects::node_name(2)).unwrap();
        go_on(&bench, &actor, 120).await;
        assert_eq!(removed(&bench), [("default-2".to_owned(), RemovalReason::Empty)]);
    });
}

#[test]
fn while_the_cluster_is_not_shown_nothing_goes() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 2);
        bench.heard.knows(true, false);
        go_on(&bench, &actor, 180).await;
        assert_eq!((removed(&bench).len(), bench.wire.writes().len()), (0, 0));
        let looks = state(&bench, &actor).await.looks;
        assert_eq!(looks, 0);
        bench.heard.knows(true, true);
        go_on(&bench, &actor, 90).await;
        assert_eq!(removed(&bench).len(), 2);
    });
}

#[test]
fn after_the_term_nothing_goes() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 2);
        go_on(&bench, &actor, 20).await;
        bench.term.end();
        go_on(&bench, &actor, 120).await;
        assert_eq!(removed(&bench), []);
    });
}

#[test]
fn observed_pool_loses_nothing_and_says_what_it_would() {
    with_pool(when_empty(), async |bench| {
        let observe = json!({"metadata": {"annotations": {"dovetail.dev/disruption": "observe"}}});
        bench.api.patch(&NODE_POOLS, "", "default", &observe).unwrap();
        let actor = start(&bench);
        nodes(&bench, 2);
        go_on(&bench, &actor, 180).await;
        assert_eq!(removed(&bench), []);
        assert!(bench.told.count("would_disrupt") >= 1, "{:?}", bench.told.lines());
    });
}

#[test]
fn a_budget_of_none_keeps_all_and_is_said_to_the_pool() {
    let none = json!({"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "0"}]}});
    with_pool(none, async |bench| {
        let actor = start(&bench);
        nodes(&bench, 3);
        go_on(&bench, &actor, 180).await;
        assert_eq!(removed(&bench), []);
        assert!(bench.told.count("budget_blocked") <= 2, "{:?}", bench.told.lines());
        assert!(
            bench
                .records("DisruptionBlocked")
                .iter()
                .any(|(name, why)| name == "default" && why.contains("a budget says so"))
        );
    });
}

#[test]
fn a_budget_that_cannot_be_read_keeps_all() {
    let odd = json!({"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s",
        "budgets": [{"nodes": "100%", "schedule": "0 25 * * *", "duration": "1h"}]}});
    with_pool(odd, async |bench| {
        let actor = start(&bench);
        nodes(&bench, 2);
        go_on(&bench, &actor, 120).await;
        assert_eq!(removed(&bench), [], "a mistake is no licence");
    });
}

#[test]
fn a_node_whose_claim_expires_goes_though_pods_are_on_it() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 2);
        bench.pod("web-1", Some(1));
        bench.pod("web-2", Some(2));
        bench.show();
        // Another claim that had less time.
        bench.launched("default-3", 3, &INITIALIZED);
        bench.working(3);
        bench.pod("web-3", Some(3));
        let mut short = (*bench.api.get(&NODE_CLAIMS, "", "default-3").unwrap()).clone();
        short["metadata"] = json!({"name": "default-4", "labels": short["metadata"]["labels"], "annotations": short["metadata"]["annotations"],
            "finalizers": ["karpenter.sh/termination"]});
        short["spec"]["expireAfter"] = json!("60s");
        let status = short["status"].take();
        bench.api.create(&NODE_CLAIMS, "", short).unwrap();
        bench.api.patch_status(&NODE_CLAIMS, "", "default-4", &json!({"status": status})).unwrap();
        go_on(&bench, &actor, 120).await;
        let all = removed(&bench);
        assert!(all.contains(&("default-4".to_owned(), RemovalReason::Expired)), "{all:?} {:?}", bench.told.lines());
        assert!(!all.iter().any(|(name, _)| name == "default-1" || name == "default-2"), "{all:?}");
    });
}

#[test]
fn a_swarm_of_changes_is_one_look() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 5);
        bench.pass(5.0).await;
        let before = state(&bench, &actor).await.looks;
        for _ in 0..10_000 {
            bench.env.post(&actor, ClusterChanged);
        }
        bench.pass(1.0).await;
        let looks = state(&bench, &actor).await.looks - before;
        assert!((1..=3).contains(&looks), "{looks}");
    });
}

#[test]
fn without_a_change_it_is_looked_every_ten_seconds() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 1);
        bench.pod("web", Some(1));
        go_on(&bench, &actor, 60).await;
        let before = state(&bench, &actor).await.looks;
        bench.pass(600.0).await;
        let looks = state(&bench, &actor).await.looks - before;
        assert!((50..=130).contains(&looks), "{looks} in ten minutes");
    });
}

#[test]
fn what_nodes_have_together_is_written_on_their_pool_once() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 3);
        (1..=3).for_each(|number| drop(bench.pod(&format!("web-{number}"), Some(number))));
        go_on(&bench, &actor, 30).await;
        let pool = bench.api.get(&NODE_POOLS, "", "default").unwrap();
        assert_eq!(pool["status"]["resources"]["nodes"], "3", "{}", pool["status"]);
        bench.wire.forget();
        go_on(&bench, &actor, 60).await;
        assert_eq!(bench.wire.count("PATCH", "/nodepools/default"), 0);
    });
}

#[test]
fn refused_writes_delay_no_removal_and_no_other_write() {
    with_pool(when_empty(), async |bench| {
        bench.wire.refuse("PATCH", "/nodeclaims/default-1", usize::MAX, 422);
        bench.wire.refuse("PATCH", "/nodepools/default", usize::MAX, 403);
        let actor = start(&bench);
        nodes(&bench, 3);
        go_on(&bench, &actor, 180).await;
        let all = removed(&bench);
        assert!(all.len() >= 2, "{all:?}");
        assert_eq!(state(&bench, &actor).await.writing, 0);
        // A look a second was asked for: what is refused is written ever more seldom all the same, and said.
        for path in ["/nodeclaims/default-1", "/nodepools/default"] {
            let refused = bench.wire.count("PATCH", path);
            assert!((4..=25).contains(&refused), "{path}: {refused}");
        }
        let said = bench.told.count("still_refused");
        assert!((2..=6).contains(&said), "{:?}", bench.told.lines());
        bench.wire.heal();
        go_on(&bench, &actor, 90).await;
        assert!(bench.told.count("recovered") >= 1, "{:?}", bench.told.lines());
    });
}

#[test]
fn silent_server_leaves_at_most_sixteen_writes_open() {
    with_pool(when_empty(), async |bench| {
        bench.wire.next("PATCH", "/nodeclaims/", usize::MAX, crate::alone::wire::Act::Hang);
        let actor = start(&bench);
        nodes(&bench, 40);
        go_on(&bench, &actor, 50).await;
        let now = state(&bench, &actor).await;
        assert!(now.writing <= 16, "{now:?}");
    });
}

pub fn under_used() -> Value {
    json!({"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}})
}

#[test]
fn two_under_used_nodes_stay_until_their_replacement_stands() {
    with_pool(under_used(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 2);
        bench.pod("web-1", Some(1));
        bench.pod("web-2", Some(2));
        go_on(&bench, &actor, 900).await;
        assert_eq!(removed(&bench), [], "{:?}", bench.told.lines());
        assert!(bench.heard.all::<HoldClaims>().iter().any(|hold| hold.held), "nothing new is planned on them");
        assert_eq!(bench.heard.count::<LaunchClaims>(), 1, "{:?}", bench.told.lines());
        assert!(bench.heard.count::<PlanClaims>() >= 1);
    });
}

#[test]
fn consolidation_waits_while_commitments_are_not_certain() {
    let mut settings = Settings::default();
    settings.commitments.read_setting("account").unwrap();
    alone_with(settings, |bench| async move {
        bench.class("default");
        bench.pool_of("default", under_used());
        bench.offer("default");
        bench.heard.is_uncertain(true);
        let actor = start(&bench);
        nodes(&bench, 3);
        bench.pod("web-1", Some(1));
        bench.pod("web-2", Some(2));
        let moves = || bench.told.lines().iter().any(|line| line.contains("underutilized"));
        go_on(&bench, &actor, 600).await;
        assert!(!moves(), "{:?}", bench.told.lines());
        assert_eq!(removed(&bench), [("default-3".to_owned(), RemovalReason::Empty)], "what is empty does not wait");
        bench.heard.is_uncertain(false);
        go_on(&bench, &actor, 300).await;
        assert!(moves(), "{:?}", bench.told.lines());
    });
}

#[test]
fn a_pod_that_may_not_be_disrupted_keeps_its_node() {
    with_pool(under_used(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 2);
        for number in 1..=2 {
            bench.pod(&format!("web-{number}"), Some(number));
            let keep = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
            bench.api.patch(&PODS, "default", &format!("web-{number}"), &keep).unwrap();
        }
        go_on(&bench, &actor, 900).await;
        assert_eq!(removed(&bench), []);
        assert!(!bench.records("DisruptionBlocked").is_empty(), "{:?}", bench.told.lines());
    });
}

/// Panics, or meets its bound, whatever it is asked.
struct Broken(bool);

impl Solver for Broken {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        InlineSolver.solve(problem, options)
    }

    fn consolidate(&self, _: Question) -> BoxFuture<'static, Result<CommandAnswer, PackingError>> {
        assert!(!self.0, "the consolidation has a bug");
        Box::pin(async { Err(PackingError::of_panic(&"its bound")) })
    }
}

#[test]
fn a_consolidation_that_fails_is_told_rests_and_keeps_emptiness() {
    for panics in [true, false] {
        with_pool(under_used(), async |bench| {
            let actor = start_with(&bench, Arc::new(Broken(panics)));
            nodes(&bench, 3);
            bench.pod("web-1", Some(1));
            bench.pod("web-2", Some(2));
            go_on(&bench, &actor, 1200).await;
            let failed = bench.told.count("consolidation_failed");
            assert!((1..=5).contains(&failed), "{failed} in twenty minutes");
            assert_eq!(removed(&bench), [("default-3".to_owned(), RemovalReason::Empty)]);
        });
    }
}

#[test]
fn nodes_of_another_providers_claims_are_not_looked_at() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        bench.working(9);
        let other = json!({"metadata": {"labels": {"karpenter.sh/nodepool": null}}});
        bench.api.patch(&dovetail_sandbox::apiserver::NODES, "", &crate::alone::objects::node_name(9), &other).unwrap();
        go_on(&bench, &actor, 120).await;
        assert_eq!((removed(&bench).len(), bench.heard.count::<Wrote>()), (0, 1), "but for the pool's count");
    });
}

#[test]
fn lost_networks_are_no_drift_while_class_is_unresolved() {
    with_pool(when_empty(), async |bench| {
        let actor = start(&bench);
        nodes(&bench, 1);
        bench.pod("web", Some(1));
        actor.do_send(InstancesSeen(Arc::new(Default::default())));
        go_on(&bench, &actor, 60).await;
        assert_eq!(removed(&bench), []);
    });
}
