//! The registrar and claims whose nodes do not come, or go: they are given up in their time, when it is sure, and none for another of
//! its name.

use actix::prelude::*;
use dovetail_actors::messages::{
    ActorState, ClaimChanged, ClaimGone, NodeChanged, NodeGone, NotRegistered, PackNow, Wrote,
};
use dovetail_actors::registrar::Registrar;
use dovetail_sandbox::apiserver::{DeleteOptions, NODE_CLAIMS, NODES};
use serde_json::json;

use super::registrar::{joins, show, start};
use crate::alone::objects::{id, node_name};
use crate::alone::wire::{Act, Refuses};
use crate::alone::{Alone, alone, seconds};

fn goes(bench: &Alone, name: &str) -> bool {
    bench.claim_now(name).metadata.deletion_timestamp.is_some()
}

/// A claim whose node has registered and works.
async fn registered(bench: &Alone, actor: &Addr<Registrar>) {
    joins(bench, actor, 1);
    bench.kubelet(1, "True");
    for _ in 0..3 {
        show(bench, actor, 1);
        bench.pass(1.0).await;
    }
}

/// Somebody removes the Node from the API server, and nothing waits for its finalizers.
fn remove_node(bench: &Alone) {
    bench.api.patch(&NODES, "", &node_name(1), &json!({"metadata": {"finalizers": []}})).unwrap();
    bench.api.delete(&NODES, "", &node_name(1), &DeleteOptions::default()).unwrap();
}

#[test]
fn node_that_never_joins_is_given_up_after_fifteen_minutes() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = bench.launched("default-1", 1, &["Launched"]);
        actor.do_send(ClaimChanged(claim.clone()));
        actor.do_send(bench.marks(&claim, 1));
        bench.pass(890.0).await;
        assert!(!goes(&bench, "default-1"));
        bench.pass(30.0).await;
        assert!(goes(&bench, "default-1"), "{:?}", bench.told.lines());
        // The watch shows it as it is now, and time goes on.
        actor.do_send(ClaimChanged(bench.claim_now("default-1")));
        bench.pass(120.0).await;
        assert_eq!((bench.heard.count::<NotRegistered>(), bench.told.count("gave_up")), (1, 1));
        assert!(bench.heard.count::<PackNow>() >= 1, "its pods are free");
    });
}

#[test]
fn unlaunched_claim_is_given_up_after_five_minutes() {
    alone(|bench| async move {
        let actor = start(&bench);
        actor.do_send(ClaimChanged(bench.claim("default-1")));
        bench.pass(290.0).await;
        assert!(!goes(&bench, "default-1"));
        bench.pass(12.0).await;
        assert!(goes(&bench, "default-1"), "{:?}", bench.told.lines());
        actor.do_send(ClaimChanged(bench.claim_now("default-1")));
        bench.pass(60.0).await;
        assert_eq!((bench.heard.count::<NotRegistered>(), bench.heard.count::<PackNow>()), (0, 1));
    });
}

#[test]
fn a_claim_that_goes_by_somebody_elses_hand_is_not_given_up() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.claim("default-1");
        bench.delete(&NODE_CLAIMS, "default-1");
        actor.do_send(ClaimChanged(bench.claim_now("default-1")));
        bench.pass(1800.0).await;
        assert_eq!((bench.told.count("gave_up"), bench.wire.writes().len()), (0, 0));
    });
}

#[test]
fn a_node_that_only_the_watch_has_lost_keeps_its_claim() {
    alone(|bench| async move {
        let actor = start(&bench);
        registered(&bench, &actor).await;
        actor.do_send(NodeGone { name: node_name(1) });
        bench.heard.forget();
        bench.pass(1200.0).await;
        assert!(!goes(&bench, "default-1") && bench.told.count("gave_up") == 0);
        let told = bench.heard.all::<Wrote>();
        assert!(told.iter().any(|one| matches!(&**one, Wrote::Node(_))), "the state is told what is there");
        // Then it goes indeed.
        remove_node(&bench);
        bench.pass(60.0).await;
        assert!(goes(&bench, "default-1"), "{:?}", bench.told.lines());
        assert_eq!((bench.told.count("gave_up"), bench.heard.count::<NotRegistered>()), (1, 0), "it had registered");
    });
}

#[test]
fn a_node_that_comes_back_in_time_keeps_its_claim() {
    alone(|bench| async move {
        let actor = start(&bench);
        registered(&bench, &actor).await;
        for _ in 0..5 {
            actor.do_send(NodeGone { name: node_name(1) });
            bench.pass(280.0).await;
            show(&bench, &actor, 1);
            bench.pass(20.0).await;
        }
        assert!(!goes(&bench, "default-1"), "no absence was as long as five minutes");
        assert_eq!(bench.wire.count("DELETE", "/nodeclaims/"), 0);
    });
}

#[test]
fn node_of_another_machine_does_not_stand_for_the_claim() {
    alone(|bench| async move {
        let actor = start(&bench);
        registered(&bench, &actor).await;
        remove_node(&bench);
        let other = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(1)},
            "spec": {"providerID": format!("aws:///us-east-1a/{}", id(2))}});
        bench.api.create(&NODES, "", other).unwrap();
        actor.do_send(NodeGone { name: node_name(1) });
        bench.pass(400.0).await;
        assert!(goes(&bench, "default-1"), "{:?}", bench.told.lines());
    });
}

#[test]
fn a_node_of_that_name_that_does_not_say_whose_it_is_may_be_its() {
    alone(|bench| async move {
        let actor = start(&bench);
        registered(&bench, &actor).await;
        remove_node(&bench);
        let silent = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(1)}, "spec": {}});
        bench.api.create(&NODES, "", silent).unwrap();
        actor.do_send(NodeGone { name: node_name(1) });
        bench.pass(900.0).await;
        assert!(!goes(&bench, "default-1"), "{:?}", bench.told.lines());
    });
}

#[test]
fn claim_stays_while_its_node_cannot_be_looked_up() {
    for refuses in [Refuses::Webhook, Refuses::Validation] {
        alone(|bench| async move {
            let actor = start(&bench);
            registered(&bench, &actor).await;
            remove_node(&bench);
            actor.do_send(NodeGone { name: node_name(1) });
            refuses.begin(&bench.wire, "GET", "/nodes/");
            bench.pass(1200.0).await;
            assert!(!goes(&bench, "default-1"), "{refuses:?}");
            let asked = bench.wire.count("GET", "/nodes/");
            assert!((5..=40).contains(&asked), "{refuses:?}: {asked} looks in a quarter of an hour");
            bench.wire.heal();
            bench.pass(90.0).await;
            assert!(goes(&bench, "default-1"), "{refuses:?}: {:?}", bench.told.lines());
        });
    }
}

#[test]
fn write_for_a_gone_claim_says_nothing_of_its_namesake() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.wire.next("PATCH", "/nodeclaims/default-1/status", 1, Act::Late(seconds(3)));
        joins(&bench, &actor, 1);
        bench.pass(1.0).await;
        assert_eq!(bench.wire.count("PATCH", "/nodeclaims/default-1/status"), 1, "it is on its way");
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &json!({"metadata": {"finalizers": []}})).unwrap();
        bench.delete(&NODE_CLAIMS, "default-1");
        actor.do_send(ClaimGone { name: "default-1".into() });
        let anew = bench.launched("default-1", 2, &["Launched"]);
        actor.do_send(ClaimChanged(anew.clone()));
        actor.do_send(bench.marks(&anew, 2));
        bench.pass(10.0).await;
        let conditions = bench.api.get(&NODE_CLAIMS, "", "default-1").unwrap()["status"]["conditions"].to_string();
        assert!(!conditions.contains("\"Registered\""), "{conditions}");
        let ActorState::Registrar(state) = bench.state(&actor).await else { panic!("another's state") };
        assert_eq!((state.claims, state.busy, state.passed.len()), (1, 0, 0));
        // Its own Node joins.
        bench.joined(2);
        actor.do_send(NodeChanged(bench.node_now(2)));
        bench.pass(5.0).await;
        let conditions = bench.api.get(&NODE_CLAIMS, "", "default-1").unwrap()["status"]["conditions"].to_string();
        assert!(conditions.contains("\"Registered\""), "{conditions}");
    });
}
