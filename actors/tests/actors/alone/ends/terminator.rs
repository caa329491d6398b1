//! The terminator: what is being deleted is cordoned, drained, ended and let go in that order, whoever is in the way.

use actix::prelude::*;
use dovetail_actors::messages::{
    ActorState, ClaimChanged, ClaimGone, ClaimRef, FreedReserved, LookUp, NodeChanged, NodeGone, Remove,
    TerminatorState, Wrote,
};
use dovetail_actors::terminator::{Terminator, TerminatorLinks};
use dovetail_core::disruption::RemovalReason;
use dovetail_sandbox::apiserver::{DeleteOptions, NODE_CLAIMS, NODES, PODS};
use serde_json::json;

use crate::alone::objects::{id, node_name};
use crate::alone::{Alone, TERM, alone, trace};

pub const INITIALIZED: [&str; 3] = ["Launched", "Registered", "Initialized"];

pub fn start(bench: &Alone) -> Addr<Terminator> {
    let ear = &bench.ear;
    let links = TerminatorLinks {
        cluster: ear.clone().into(),
        recorder: ear.clone().into(),
        owner: ear.clone().into(),
        catalogue: ear.clone().into(),
        cloud: bench.sky.clone(),
        calls: bench.calls("terminator"),
    };
    bench.start(Terminator::new(&bench.env, links))
}

/// The watches show a claim and its Node as they stand, or that they are gone.
pub fn show(bench: &Alone, actor: &Addr<Terminator>, number: u64) {
    bench.show();
    tell(bench, actor, number);
}

/// Tells the actor alone of a claim's and its Node's state.
pub fn tell(bench: &Alone, actor: &Addr<Terminator>, number: u64) {
    let name = format!("default-{number}");
    match bench.is_there(&NODE_CLAIMS, &name) {
        true => actor.do_send(ClaimChanged(bench.claim_now(&name))),
        false => actor.do_send(ClaimGone { name }),
    }
    match bench.is_there(&NODES, &node_name(number)) {
        true => actor.do_send(NodeChanged(bench.node_now(number))),
        false => actor.do_send(NodeGone { name: node_name(number) }),
    }
}

/// A node that works, of an instance that is known to be its claim's.
pub fn working(bench: &Alone, actor: &Addr<Terminator>, number: u64) {
    let claim = bench.launched(&format!("default-{number}"), number, &INITIALIZED);
    bench.working(number);
    actor.do_send(ClaimChanged(claim.clone()));
    actor.do_send(bench.marks(&claim, number));
    show(bench, actor, number);
}

/// Time passes, and the watches show what there is each half of a second; pods that are told to go are gone by then.
pub async fn go_on(bench: &Alone, actor: &Addr<Terminator>, number: u64, seconds: u32) {
    for _ in 0..2 * seconds {
        for pod in bench.api.list(&PODS) {
            if pod["metadata"]["deletionTimestamp"].is_string() {
                let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
                let _ = bench.api.delete(&PODS, "default", pod["metadata"]["name"].as_str().unwrap(), &now);
            }
        }
        show(bench, actor, number);
        bench.pass(0.5).await;
    }
}

pub fn lives(bench: &Alone, number: u64) -> bool {
    bench.sky.inner.living().iter().any(|one| one.id == id(number))
}

pub fn is_gone(bench: &Alone, number: u64) -> bool {
    !bench.is_there(&NODE_CLAIMS, &format!("default-{number}")) && !bench.is_there(&NODES, &node_name(number))
}

pub fn delete_claim(bench: &Alone, number: u64) {
    bench.delete(&NODE_CLAIMS, &format!("default-{number}"));
}

fn order(bench: &Alone, number: u64, reason: RemovalReason) -> Remove {
    let claim = bench.claim_now(&format!("default-{number}"));
    let claims = vec![ClaimRef { name: format!("default-{number}"), uid: claim.metadata.uid.clone().unwrap() }];
    Remove { term: TERM, claims, reason, grace: None, disrupted: Default::default(), trace: trace(1) }
}

async fn state(bench: &Alone, actor: &Addr<Terminator>) -> TerminatorState {
    match bench.state(actor).await {
        ActorState::Terminator(state) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_node_goes_with_its_instance_in_order() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        actor.do_send(order(&bench, 1, RemovalReason::Empty));
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1) && !lives(&bench, 1), "{:?}", bench.told.lines());
        let events: Vec<&str> = bench.told.events().iter().map(|one| one.event()).collect();
        let at = |event| events.iter().position(|one| *one == event).unwrap_or_else(|| panic!("{event}: {events:?}"));
        assert!(at("removing") < at("cordoned") && at("cordoned") < at("drained"));
        assert!(at("drained") < at("terminated") && at("terminated") < at("nodeclaim_deleted"), "{events:?}");
        let annotations = bench.wire.asked("PATCH", "/nodeclaims/default-1");
        assert!(annotations.iter().any(|one| one.body.to_string().contains("empty")), "why is written for a successor");
    });
}

#[test]
fn state_says_how_far_claim_and_node_are_on_their_way_out() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web-a", Some(1));
        // Its kubelet says nothing: nobody waits for places.
        bench.kubelet(1, "Unknown");
        delete_claim(&bench, 1);
        show(&bench, &actor, 1);
        assert_eq!(state(&bench, &actor).await.phases, [("tainted", 1)].into());
        for _ in 0..10 {
            show(&bench, &actor, 1);
            bench.pass(0.5).await;
        }
        let now = state(&bench, &actor).await;
        assert_eq!((now.deleting, now.phases), (2, [("draining", 2)].into()), "{:?}", bench.told.lines());
        go_on(&bench, &actor, 1, 60).await;
        assert!(is_gone(&bench, 1) && state(&bench, &actor).await.phases.is_empty());
    });
}

#[test]
fn a_node_that_a_person_deletes_takes_its_claim_and_instance() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.delete(&NODES, &node_name(1));
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1) && !lives(&bench, 1), "{:?}", bench.told.lines());
    });
}

#[test]
fn pods_are_evicted_before_the_instance_ends() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web-a", Some(1));
        bench.pod("web-b", Some(1));
        // Its kubelet says nothing: nobody waits for places.
        bench.kubelet(1, "Unknown");
        delete_claim(&bench, 1);
        show(&bench, &actor, 1);
        bench.pass(2.0).await;
        assert!(lives(&bench, 1));
        go_on(&bench, &actor, 1, 30).await;
        assert!(is_gone(&bench, 1) && !lives(&bench, 1), "{:?}", bench.told.lines());
        assert_eq!(bench.wire.count("POST", "/eviction"), 2);
        assert_eq!(bench.records("Evicted").len(), 2);
    });
}

#[test]
fn an_order_of_an_older_term_or_for_another_uid_does_nothing() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        let mut older = order(&bench, 1, RemovalReason::Empty);
        older.term.0 -= 1;
        let mut another = order(&bench, 1, RemovalReason::Empty);
        another.claims[0].uid = "another".into();
        let mut unknown = order(&bench, 1, RemovalReason::Empty);
        unknown.claims[0].name = "no-such".into();
        for one in [older, another, unknown] {
            actor.do_send(one);
        }
        go_on(&bench, &actor, 1, 5).await;
        assert!(lives(&bench, 1) && bench.wire.writes().is_empty(), "{:?}", bench.wire.writes());
    });
}

#[test]
fn a_hundred_claims_in_one_order_all_go() {
    alone(|bench| async move {
        let actor = start(&bench);
        let mut all = Remove {
            term: TERM,
            claims: vec![],
            reason: RemovalReason::Empty,
            grace: None,
            disrupted: Default::default(),
            trace: trace(1),
        };
        for number in 1..=100 {
            working(&bench, &actor, number);
            all.claims.extend(order(&bench, number, RemovalReason::Empty).claims);
        }
        actor.do_send(all);
        for _ in 0..60 {
            bench.show();
            (1..=100).for_each(|number| tell(&bench, &actor, number));
            bench.pass(1.0).await;
        }
        assert!((1..=100).all(|number| is_gone(&bench, number)) && bench.sky.inner.living().is_empty());
        let calls = bench.sky.count("terminate_all");
        assert!(calls < 30, "{calls} calls for a hundred instances");
        assert_eq!(state(&bench, &actor).await.deleting, 0);
    });
}

#[test]
fn the_end_of_a_reserved_instance_is_told_to_the_catalogue() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        working(&bench, &actor, 2);
        let labels = json!({"metadata": {"labels": {"karpenter.k8s.aws/capacity-reservation-id": "cr-1"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &labels).unwrap();
        show(&bench, &actor, 1);
        actor.do_send(order(&bench, 2, RemovalReason::Empty));
        go_on(&bench, &actor, 2, 20).await;
        assert_eq!((is_gone(&bench, 2), bench.heard.count::<FreedReserved>()), (true, 0));
        actor.do_send(order(&bench, 1, RemovalReason::Empty));
        go_on(&bench, &actor, 1, 20).await;
        assert_eq!((is_gone(&bench, 1), bench.heard.count::<FreedReserved>()), (true, 1));
        assert_eq!(bench.heard.last::<FreedReserved>().id, "cr-1");
    });
}

#[test]
fn an_instance_that_is_gone_already_holds_nothing() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web-a", Some(1));
        let instance = bench.sky.inner.living()[0].clone();
        use dovetail_cloud::CloudInstances as _;
        bench.sky.inner.terminate_all(&[instance]).await.unwrap();
        bench.kubelet(1, "Unknown");
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1), "{:?}", bench.told.lines());
        assert_eq!(bench.sky.count("terminate_all"), 0);
    });
}

#[test]
fn what_is_not_known_to_be_ours_is_asked_for_and_waited_for() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = bench.launched("default-1", 1, &INITIALIZED);
        bench.working(1);
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 20).await;
        assert!(lives(&bench, 1) && bench.is_there(&NODE_CLAIMS, "default-1"));
        assert_eq!(bench.heard.last::<LookUp>().id, id(1));
        actor.do_send(bench.marks(&claim, 1));
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1) && !lives(&bench, 1));
    });
}

#[test]
fn at_its_deadline_a_node_is_drained_by_force() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web-a", Some(1));
        bench.wire.refuse("POST", "/eviction", usize::MAX, 500);
        let grace = json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": "2026-01-01T00:01:00Z"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &grace).unwrap();
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 20).await;
        assert!(lives(&bench, 1), "its pods have thirty seconds to end before it");
        go_on(&bench, &actor, 1, 100).await;
        assert!(is_gone(&bench, 1) && !lives(&bench, 1), "{:?}", bench.told.lines());
        assert!(bench.wire.count("DELETE", "/pods/web-a") >= 1);
    });
}

#[test]
fn node_without_claim_that_is_not_ours_goes_as_it_is() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.working(7);
        bench.sky.inner.strange(&id(7), &[]);
        bench.pod("web-a", Some(7));
        let marks = dovetail_core::ownership::OwnershipMarks::of_no_instance();
        actor.do_send(dovetail_actors::messages::InstanceKnown { id: id(7), marks: Some(std::sync::Arc::new(marks)) });
        bench.delete(&NODES, &node_name(7));
        go_on(&bench, &actor, 7, 20).await;
        assert!(!bench.is_there(&NODES, &node_name(7)) && lives(&bench, 7), "{:?}", bench.told.lines());
        assert_eq!(bench.wire.count("POST", "/eviction"), 0);
    });
}

#[test]
fn until_the_cluster_is_known_nobody_is_drained() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.heard.knows(false, false);
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 10).await;
        assert!(lives(&bench, 1) && bench.wire.writes().is_empty());
        bench.heard.knows(true, true);
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1));
    });
}

#[test]
fn a_claim_whose_launch_nobody_knows_is_looked_for_by_its_token() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = bench.launched("default-1", 1, &[]);
        // The claim does not say which instance it has.
        bench.api.patch_status(&NODE_CLAIMS, "", "default-1", &json!({"status": {"providerID": ""}})).unwrap();
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 120).await;
        assert!(
            !bench.is_there(&NODE_CLAIMS, "default-1") && !lives(&bench, 1),
            "{:?} {:?}",
            claim.metadata.name,
            bench.told.lines()
        );
    });
}

#[test]
fn while_nothing_goes_nothing_is_asked() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pass(5.0).await;
        bench.wire.forget();
        let asked = bench.heard.snapshots();
        bench.pass(600.0).await;
        assert_eq!((bench.heard.snapshots(), bench.sky.count("instances_of")), (asked, 0));
        assert_eq!(bench.wire.writes(), [""; 0]);
    });
}

#[test]
fn what_is_gone_is_told_to_the_state_at_once() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 20).await;
        let told = bench.heard.all::<Wrote>();
        assert!(told.iter().any(|one| matches!(&**one, Wrote::NodeGone(name, _) if *name == node_name(1))));
        assert!(told.iter().any(|one| matches!(&**one, Wrote::ClaimGone(name, Some(_)) if name == "default-1")));
    });
}
