//! The registrar: a claim is said to be as far as its Node is and no further, and one whose Node does not come is given up.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_actors::messages::{
    ActorState, ClaimChanged, ClaimGone, InstanceKnown, NodeChanged, NodeGone, Planned, PodBound, PodGone,
    RegistrarState, WaitingPod, Wrote,
};
use dovetail_actors::registrar::{Registrar, RegistrarLinks};
use dovetail_actors::{LogEvent, Settings};
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::NominationTarget;
use dovetail_core::ownership::OwnershipMarks;
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODES};
use serde_json::{Value, json};

use crate::alone::objects::{id, node_name};
use crate::alone::wire::Act;
use crate::alone::{Alone, alone, alone_with, seconds, trace};

pub fn start(bench: &Alone) -> Addr<Registrar> {
    let ear = &bench.ear;
    let links = RegistrarLinks {
        cluster: ear.clone().into(),
        packer: ear.clone().into(),
        launcher: ear.clone().into(),
        recorder: ear.clone().into(),
        calls: bench.calls("registrar"),
        cloud: bench.sky.clone(),
    };
    bench.start(Registrar::new(&bench.env, links))
}

/// The watches show claim and Node as they stand.
pub fn show(bench: &Alone, actor: &Addr<Registrar>, number: u64) {
    bench.show();
    let name = format!("default-{number}");
    if bench.is_there(&NODE_CLAIMS, &name) {
        actor.do_send(ClaimChanged(bench.claim_now(&name)));
    }
    if bench.is_there(&NODES, &node_name(number)) {
        actor.do_send(NodeChanged(bench.node_now(number)));
    }
}

/// A claim whose instance is known to be its own, and its Node, as far as they have come.
pub fn joins(bench: &Alone, actor: &Addr<Registrar>, number: u64) -> Arc<NodeClaim> {
    let claim = bench.launched(&format!("default-{number}"), number, &["Launched"]);
    actor.do_send(ClaimChanged(claim.clone()));
    actor.do_send(bench.marks(&claim, number));
    bench.joined(number);
    show(bench, actor, number);
    claim
}

fn says(bench: &Alone, number: u64, type_: &str) -> String {
    let claim = bench.api.get(&NODE_CLAIMS, "", &format!("default-{number}")).unwrap();
    let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().find(|one| one["type"] == type_).map(|one| one["status"].to_string()).unwrap_or_default()
}

fn label(bench: &Alone, number: u64, key: &str) -> Value {
    bench.api.get(&NODES, "", &node_name(number)).unwrap()["metadata"]["labels"][key].clone()
}

async fn state(bench: &Alone, actor: &Addr<Registrar>) -> RegistrarState {
    match bench.state(actor).await {
        ActorState::Registrar(state) => state,
        other => panic!("{other:?}"),
    }
}

const TRUE: &str = "\"True\"";

#[test]
fn node_is_registered_with_claim_labels_and_then_initialized() {
    alone(|bench| async move {
        let actor = start(&bench);
        joins(&bench, &actor, 1);
        bench.pass(1.0).await;
        assert_eq!(says(&bench, 1, "Registered"), TRUE);
        assert_eq!(label(&bench, 1, "topology.kubernetes.io/zone"), "us-east-1a");
        let node = bench.api.get(&NODES, "", &node_name(1)).unwrap();
        assert_eq!(node["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
        assert!(!node["spec"]["taints"].to_string().contains("unregistered"), "{}", node["spec"]["taints"]);
        assert_ne!(says(&bench, 1, "Initialized"), TRUE, "its kubelet has not said that it is ready");
        bench.kubelet(1, "True");
        show(&bench, &actor, 1);
        bench.pass(1.0).await;
        assert_eq!(says(&bench, 1, "Initialized"), TRUE);
        let passed = state(&bench, &actor).await.passed;
        assert_eq!((passed["registered"], passed["initialized"]), (1, 1));
        assert_eq!((bench.told.count("registered"), bench.told.count("initialized")), (1, 1));
    });
}

#[test]
fn each_step_is_written_once_however_often_the_watch_shows_it() {
    alone(|bench| async move {
        let actor = start(&bench);
        joins(&bench, &actor, 1);
        bench.kubelet(1, "True");
        for _ in 0..20 {
            show(&bench, &actor, 1);
        }
        bench.pass(2.0).await;
        bench.wire.forget();
        for _ in 0..20 {
            show(&bench, &actor, 1);
            bench.pass(5.0).await;
        }
        let own: Vec<String> = bench
            .wire
            .writes()
            .into_iter()
            .filter(|one| !one.contains("PATCH /apis/karpenter.sh/v1/nodeclaims/default-1?"))
            .collect();
        assert_eq!(own, [""; 0], "but for the tags' annotations");
        assert_eq!(state(&bench, &actor).await.passed["registered"], 1);
    });
}

#[test]
fn a_node_that_comes_before_what_its_instance_is_waits_for_that() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = bench.launched("default-1", 1, &["Launched"]);
        bench.joined(1);
        show(&bench, &actor, 1);
        bench.pass(30.0).await;
        assert_eq!(bench.wire.writes(), [""; 0], "nobody has said whose the instance is");
        actor.do_send(bench.marks(&claim, 1));
        bench.pass(1.0).await;
        assert_eq!(says(&bench, 1, "Registered"), TRUE);
    });
}

#[test]
fn the_node_of_an_instance_of_somebody_else_is_never_touched() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.launched("default-1", 1, &["Launched"]);
        bench.joined(1);
        show(&bench, &actor, 1);
        let marks = OwnershipMarks::launched_with("dt-of-another-1", "");
        actor.do_send(InstanceKnown { id: id(1), marks: Some(Arc::new(marks)) });
        bench.pass(60.0).await;
        assert_eq!(label(&bench, 1, "karpenter.sh/registered"), Value::Null);
        assert!(!bench.wire.writes().iter().any(|one| one.contains("/nodes/")), "{:?}", bench.wire.writes());
    });
}

#[test]
fn what_somebody_writes_meanwhile_is_kept() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.wire.next("PATCH", "/nodes/", 1, Act::Late(seconds(2)));
        joins(&bench, &actor, 1);
        bench.pass(1.0).await;
        bench.api.patch(&NODES, "", &node_name(1), &json!({"metadata": {"labels": {"theirs": "true"}}})).unwrap();
        bench.pass(2.0).await;
        show(&bench, &actor, 1);
        bench.pass(3.0).await;
        assert_eq!((label(&bench, 1, "theirs"), says(&bench, 1, "Registered")), (json!("true"), TRUE.to_owned()));
    });
}

#[test]
fn absent_server_leaves_no_half_registered_claim() {
    alone(|bench| async move {
        let actor = start(&bench);
        // The Node is written, and the claim cannot be for a minute.
        bench.wire.refuse("PATCH", "/nodeclaims/default-1/status", 15, 503);
        joins(&bench, &actor, 1);
        bench.pass(5.0).await;
        assert_eq!(
            (label(&bench, 1, "karpenter.sh/registered"), says(&bench, 1, "Registered")),
            (json!("true"), String::new())
        );
        bench.pass(90.0).await;
        assert_eq!(says(&bench, 1, "Registered"), TRUE);
        assert_eq!(bench.told.count("registered"), 1);
    });
}

#[test]
fn a_node_that_goes_while_it_is_written_is_no_failure() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.wire.next("PATCH", "/nodes/", 1, Act::Late(seconds(2)));
        joins(&bench, &actor, 1);
        bench.pass(1.0).await;
        bench.delete(&NODES, &node_name(1));
        actor.do_send(NodeGone { name: node_name(1) });
        bench.pass(5.0).await;
        let now = state(&bench, &actor).await;
        assert_eq!((now.claims, now.nodes, now.busy), (1, 0, 0));
        // It joins again.
        bench.joined(1);
        show(&bench, &actor, 1);
        bench.pass(3.0).await;
        assert_eq!(says(&bench, 1, "Registered"), TRUE);
    });
}

#[test]
fn a_claim_that_goes_is_not_registered_any_more() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = bench.launched("default-1", 1, &["Launched"]);
        actor.do_send(bench.marks(&claim, 1));
        bench.delete(&NODE_CLAIMS, "default-1");
        bench.joined(1);
        show(&bench, &actor, 1);
        bench.pass(30.0).await;
        assert_eq!(says(&bench, 1, "Registered"), "");
    });
}

#[test]
fn a_node_without_its_guard_taint_is_told_of() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = bench.launched("default-1", 1, &["Launched"]);
        actor.do_send(bench.marks(&claim, 1));
        bench.joined(1);
        bench.api.patch(&NODES, "", &node_name(1), &json!({"spec": {"taints": []}})).unwrap();
        show(&bench, &actor, 1);
        bench.pass(1.0).await;
        assert_eq!(bench.told.count("guard_missing"), 1);
        assert_eq!(bench.records("UnregisteredTaintMissing").len(), 1);
    });
}

#[test]
fn node_not_ready_for_pods_in_time_is_given_up_with_reason() {
    let short = Settings { initialization_timeout: Some(seconds(300)), ..Settings::default() };
    alone_with(short, |bench| async move {
        let actor = start(&bench);
        joins(&bench, &actor, 1);
        bench.pass(2.0).await;
        show(&bench, &actor, 1);
        bench.pass(400.0).await;
        assert!(bench.claim_now("default-1").metadata.deletion_timestamp.is_some());
        assert_eq!(bench.records("InitializationTimeout").len(), 1);
    });
}

fn bound(uid: &str, node: &str) -> PodBound {
    let since = jiff::Timestamp::UNIX_EPOCH;
    let waited = WaitingPod { name: uid.into(), namespace: "shop".into(), since, created: None, trace: trace(1) };
    PodBound { uid: uid.into(), node: node.into(), waited: Arc::new(waited) }
}

fn planned(target: &str, pods: &[&str]) -> Planned {
    let pods = pods.iter().map(|uid| (*uid).to_owned()).collect();
    Planned { target: NominationTarget::Claim(target.into()), pods, trace: trace(2) }
}

/// Numbers of pods that each line reports as bound.
fn told_bound(bench: &Alone) -> Vec<usize> {
    let all = bench.told.events().into_iter();
    all.filter_map(|event| match event {
        LogEvent::Bound { pods, .. } => Some(pods),
        _ => None,
    })
    .collect()
}

#[test]
fn with_the_last_pod_of_a_plan_it_is_told_how_many_are_bound() {
    alone(|bench| async move {
        let actor = start(&bench);
        actor.do_send(planned("default-1", &["a", "b", "c"]));
        for uid in ["a", "b"] {
            actor.do_send(bound(uid, "node-1"));
        }
        bench.pass(0.1).await;
        assert!(told_bound(&bench).is_empty());
        actor.do_send(bound("c", "node-1"));
        actor.do_send(bound("c", "node-1"));
        bench.pass(0.1).await;
        assert_eq!(told_bound(&bench), [3]);
        assert_eq!(state(&bench, &actor).await.plans, 0);
    });
}

#[test]
fn pods_that_go_or_are_planned_elsewhere_keep_no_plan_open() {
    alone(|bench| async move {
        let actor = start(&bench);
        actor.do_send(planned("default-1", &["a", "b", "c"]));
        actor.do_send(bound("a", "node-1"));
        actor.do_send(PodGone { uid: "b".into() });
        actor.do_send(PodGone { uid: "never-planned".into() });
        actor.do_send(planned("default-2", &["c"]));
        bench.pass(0.1).await;
        assert_eq!((told_bound(&bench), state(&bench, &actor).await.plans), (vec![1], 1));
        actor.do_send(ClaimGone { name: "default-2".into() });
        bench.pass(0.1).await;
        assert_eq!((told_bound(&bench), state(&bench, &actor).await.plans), (vec![1], 0));
    });
}

#[test]
fn two_hundred_and_fifty_claims_join_at_once() {
    alone(|bench| async move {
        let actor = start(&bench);
        for number in 1..=250 {
            let claim = bench.launched(&format!("default-{number}"), number, &["Launched"]);
            actor.do_send(ClaimChanged(claim.clone()));
            actor.do_send(bench.marks(&claim, number));
            bench.joined(number);
            actor.do_send(NodeChanged(bench.node_now(number)));
        }
        bench.pass(5.0).await;
        assert_eq!(state(&bench, &actor).await.passed["registered"], 250);
        assert_eq!(bench.heard.all::<Wrote>().iter().filter(|one| matches!(&***one, Wrote::Node(_))).count(), 250);
    });
}
