//! The node class actor: what classes resolve to and whether pools are ready is written, once, and without haste where it is
//! refused.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_actors::messages::{ActorState, CannotUse, ClassChanged, NodeClassState, PoolChanged, Record, Wrote};
use dovetail_actors::node_class::NodeClassActor;
use dovetail_api::names::conditions;
use dovetail_cloud::node_class::{Finding, NodeClassResolution};
use dovetail_core::cluster_state::{Unreadable, WatchedKind};
use dovetail_sandbox::apiserver::{EC2_NODE_CLASSES, Gvr, NODE_POOLS};
use serde_json::{Value, json};

use crate::alone::wire::Act;
use crate::alone::{Alone, Fails, alone};

pub fn start(bench: &Alone) -> Addr<NodeClassActor> {
    bench.start(NodeClassActor::new(
        &bench.env,
        bench.sky.clone(),
        bench.calls("node_class"),
        bench.ear.clone().into(),
        bench.ear.clone().into(),
    ))
}

/// One that has resolved a class.
pub async fn resolved(bench: &Alone) -> Addr<NodeClassActor> {
    let actor = start(bench);
    bench.bare_class("default");
    show_class(bench, &actor, "default");
    bench.pass(1.0).await;
    actor
}

fn now<K: serde::de::DeserializeOwned>(bench: &Alone, kind: &Gvr, name: &str) -> Option<Arc<K>> {
    bench.api.get(kind, "", name).map(|one| Arc::new(serde_json::from_value((*one).clone()).unwrap()))
}

/// The watch shows a class as it stands.
pub fn show_class(bench: &Alone, actor: &Addr<NodeClassActor>, name: &str) {
    actor.do_send(ClassChanged { name: name.into(), class: now(bench, &EC2_NODE_CLASSES, name) });
}

/// Tells the actor of a pool as it is now.
fn show_pool(bench: &Alone, actor: &Addr<NodeClassActor>, name: &str) {
    actor.do_send(PoolChanged { name: name.into(), pool: now(bench, &NODE_POOLS, name) });
}

/// A pool of which nobody has said anything.
fn bare_pool(bench: &Alone, name: &str, class: &str, more: Value) {
    let mut spec = json!({"template": {"spec": {"requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class}}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec});
    bench.api.create(&NODE_POOLS, "", pool).unwrap();
}

/// Status and message of a condition.
fn says(bench: &Alone, kind: &Gvr, name: &str, type_: &str) -> (String, String) {
    let object = bench.api.get(kind, "", name).unwrap();
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.iter().find(|one| one["type"] == type_).cloned().unwrap_or_default();
    (one["status"].as_str().unwrap_or_default().into(), one["message"].as_str().unwrap_or_default().into())
}

pub fn is_ready(bench: &Alone, kind: &Gvr, name: &str) -> bool {
    says(bench, kind, name, "Ready").0 == "True"
}

async fn state(bench: &Alone, actor: &Addr<NodeClassActor>) -> NodeClassState {
    match bench.state(actor).await {
        ActorState::NodeClass(state) => state,
        other => panic!("{other:?}"),
    }
}

fn found(conditions: Vec<Finding>) -> NodeClassResolution {
    NodeClassResolution { conditions, ..NodeClassResolution::default() }
}

#[test]
fn a_class_is_resolved_written_and_its_pool_ready_at_once() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bare_pool(&bench, "default", "default", json!({}));
        // The pool first, as a user may apply them.
        show_pool(&bench, &actor, "default");
        bench.pass(0.5).await;
        assert_eq!(says(&bench, &NODE_POOLS, "default", "NodeClassReady").0, "False");
        show_class(&bench, &actor, "default");
        bench.pass(0.5).await;
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default") && is_ready(&bench, &NODE_POOLS, "default"));
        let class = bench.api.get(&EC2_NODE_CLASSES, "", "default").unwrap();
        assert_eq!(class["status"]["instanceProfile"], "profile");
        assert_eq!(class["metadata"]["finalizers"], json!(["karpenter.k8s.aws/termination"]));
        assert!(bench.heard.all::<Wrote>().iter().any(|one| matches!(&**one, Wrote::Class(_))));
        let state = state(&bench, &actor).await;
        assert_eq!((state.classes_ready["default"], state.pools_ready["default"]), (true, true));
    });
}

#[test]
fn what_is_written_already_is_not_written_again() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bare_pool(&bench, "default", "default", json!({}));
        show_class(&bench, &actor, "default");
        show_pool(&bench, &actor, "default");
        bench.pass(5.0).await;
        bench.wire.forget();
        for _ in 0..20 {
            show_class(&bench, &actor, "default");
            show_pool(&bench, &actor, "default");
        }
        bench.pass(600.0).await;
        assert_eq!(bench.wire.writes(), [""; 0]);
        let asked = bench.sky.count("resolve_node_class");
        assert!((9..=12).contains(&asked), "EC2 is asked once a minute: {asked}");
        let told = bench.told.count("node_class");
        assert!(told <= 1, "{told} lines of the same");
    });
}

#[test]
fn throttled_cloud_is_asked_with_pauses_and_told_once() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bench.sky.next("resolve_node_class", [Fails::Throttled; 5]);
        show_class(&bench, &actor, "default");
        bench.pass(60.0).await;
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default"));
        assert_eq!(bench.told.count("retrying"), 1);
    });
}

#[test]
fn a_call_that_failed_takes_no_readiness_away() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        show_class(&bench, &actor, "default");
        bench.pass(1.0).await;
        let unknown = Finding::unknown(conditions::SUBNETS_READY, "DescribeSubnetsFailed", "no answer");
        bench.sky.resolves(found(vec![unknown]));
        bench.pass(300.0).await;
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default"));
        assert!(bench.sky.count("resolve_node_class") > 3, "it is looked at again");
    });
}

#[test]
fn fault_of_class_is_said_on_it_and_its_pools_until_mended() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bare_pool(&bench, "default", "default", json!({}));
        let why = "no subnet has the tag karpenter.sh/discovery=demo";
        bench.sky.resolves(found(vec![Finding::not_ready(conditions::SUBNETS_READY, "SubnetsNotFound", why)]));
        show_class(&bench, &actor, "default");
        show_pool(&bench, &actor, "default");
        bench.pass(1.0).await;
        assert_eq!(says(&bench, &EC2_NODE_CLASSES, "default", "SubnetsReady"), ("False".into(), why.into()));
        assert!(says(&bench, &NODE_POOLS, "default", "NodeClassReady").1.contains(why));
        let events = bench.records("NodeClassNotReady");
        assert!(events.len() == 1 && events[0].1.contains(why), "{events:?}");
        bench.sky.resolves(found(vec![Finding::ready(conditions::SUBNETS_READY)]));
        bench.pass(90.0).await;
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default") && is_ready(&bench, &NODE_POOLS, "default"));
    });
}

#[test]
fn a_pool_whose_status_is_refused_costs_ever_fewer_calls() {
    for code in [403, 422] {
        alone(|bench| async move {
            let actor = start(&bench);
            bench.bare_class("default");
            bare_pool(&bench, "default", "default", json!({}));
            bench.wire.refuse("PATCH", "/nodepools/default", usize::MAX, code);
            show_class(&bench, &actor, "default");
            show_pool(&bench, &actor, "default");
            bench.pass(600.0).await;
            let writes = bench.wire.count("PATCH", "/nodepools/default");
            assert!((4..=25).contains(&writes), "{code}: {writes} writes in ten minutes");
            bench.wire.heal();
            bench.pass(70.0).await;
            assert!(is_ready(&bench, &NODE_POOLS, "default"), "{code}");
        });
    }
}

#[test]
fn who_mends_an_object_that_is_refused_does_not_wait() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bench.wire.refuse("PATCH", "/ec2nodeclasses/default/status", 12, 422);
        show_class(&bench, &actor, "default");
        bench.pass(300.0).await;
        bench.wire.heal();
        let spec = json!({"spec": {"tags": {"team": "shop"}}});
        bench.api.patch(&EC2_NODE_CLASSES, "", "default", &spec).unwrap();
        show_class(&bench, &actor, "default");
        bench.pass(1.0).await;
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default"));
    });
}

#[test]
fn a_conflict_is_written_anew_on_what_the_watch_shows() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bench.wire.refuse("PATCH", "/ec2nodeclasses/default", 1, 409);
        show_class(&bench, &actor, "default");
        bench.pass(3.0).await;
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default"));
    });
}

#[test]
fn a_lost_answer_leaves_the_class_as_if_it_had_come() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bench.wire.next("PATCH", "/ec2nodeclasses/default", 1, Act::Lose);
        show_class(&bench, &actor, "default");
        bench.pass(1.0).await;
        // The watch shows what was done.
        show_class(&bench, &actor, "default");
        bench.pass(5.0).await;
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default"));
    });
}

fn unreadable(bench: &Alone, kind: WatchedKind, gvr: &Gvr, name: &str) -> CannotUse {
    let meta = bench.api.get(gvr, "", name).unwrap()["metadata"].clone();
    let object = Unreadable {
        kind: if kind == WatchedKind::NodePool { "NodePool" } else { "EC2NodeClass" }.into(),
        metadata: serde_json::from_value(meta).unwrap(),
        why: "spec.template: invalid type".into(),
        ..Unreadable::default()
    };
    CannotUse { kind, object: Arc::new(object) }
}

#[test]
fn unreadable_class_is_said_not_ready_once_with_its_pools() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bare_pool(&bench, "default", "default", json!({}));
        show_class(&bench, &actor, "default");
        show_pool(&bench, &actor, "default");
        bench.pass(1.0).await;
        bench.wire.forget();
        for _ in 0..10 {
            actor.do_send(unreadable(&bench, WatchedKind::NodeClass, &EC2_NODE_CLASSES, "default"));
        }
        bench.pass(5.0).await;
        assert_eq!(says(&bench, &EC2_NODE_CLASSES, "default", "Ready").0, "False");
        assert!(says(&bench, &NODE_POOLS, "default", "NodeClassReady").1.contains("cannot be read"));
        assert!(bench.wire.writes().len() <= 3, "{:?}", bench.wire.writes());
        assert_eq!(state(&bench, &actor).await.unreadable, ["ec2nodeclasses/default"]);
        // Somebody mends it.
        show_class(&bench, &actor, "default");
        bench.pass(70.0).await;
        assert!(is_ready(&bench, &NODE_POOLS, "default"));
        assert_eq!(state(&bench, &actor).await.unreadable, [""; 0]);
    });
}

#[test]
fn a_pool_that_makes_no_sense_is_told_so_once() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        show_class(&bench, &actor, "default");
        let budgets = json!({"disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "10%", "schedule": "0 25 * * *", "duration": "1h"}]}});
        bare_pool(&bench, "default", "default", budgets);
        for _ in 0..5 {
            show_pool(&bench, &actor, "default");
            bench.pass(5.0).await;
        }
        let all = bench.heard.all::<Record>();
        let warnings: Vec<_> =
            all.iter().filter(|one| one.warning).map(|one| (one.reason, one.message.clone())).collect();
        assert!(warnings.len() == 1 && warnings[0].1.contains("0 25 * * *"), "{warnings:?}");
    });
}

#[test]
fn five_hundred_pools_of_one_class_are_ready_within_a_moment() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        for n in 0..500 {
            bare_pool(&bench, &format!("pool-{n:03}"), "default", json!({}));
            show_pool(&bench, &actor, &format!("pool-{n:03}"));
        }
        show_class(&bench, &actor, "default");
        bench.pass(5.0).await;
        assert!((0..500).all(|n| is_ready(&bench, &NODE_POOLS, &format!("pool-{n:03}"))));
        assert_eq!(bench.sky.count("resolve_node_class"), 1, "one class is resolved once");
    });
}

#[test]
fn what_is_gone_is_forgotten_and_comes_back_as_another() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bare_pool(&bench, "default", "default", json!({}));
        show_class(&bench, &actor, "default");
        show_pool(&bench, &actor, "default");
        bench.pass(1.0).await;
        actor.do_send(ClassChanged { name: "default".into(), class: None });
        actor.do_send(PoolChanged { name: "default".into(), pool: None });
        actor.do_send(PoolChanged { name: "never-was".into(), pool: None });
        bench.pass(1.0).await;
        let gone = state(&bench, &actor).await;
        assert!(gone.classes_ready.is_empty() && gone.pools_ready.is_empty(), "{gone:?}");
        let asked = bench.sky.count("resolve_node_class");
        show_class(&bench, &actor, "default");
        bench.pass(1.0).await;
        assert_eq!(bench.sky.count("resolve_node_class"), asked + 1, "nothing of an earlier one counts for it");
    });
}
