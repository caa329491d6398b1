//! The owner: whose an instance is, by EC2's word alone, asked in few calls and said to who acts on it.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_actors::messages::{ActorState, ClaimChanged, ClaimGone, ClaimRefused, InstanceKnown, LookUp, OwnerState};
use dovetail_actors::owner::{Owner, OwnerLinks};
use dovetail_core::ownership::OwnershipMarks;
use dovetail_core::ownership::token::launch_token;

use crate::alone::objects::{CLUSTER_UID, id};
use crate::alone::{Alone, Fails, alone};

fn start(bench: &Alone) -> Addr<Owner> {
    let ear = &bench.ear;
    let links = OwnerLinks {
        cluster: ear.clone().into(),
        recorder: ear.clone().into(),
        cloud: bench.sky.clone(),
        listeners: vec![ear.clone().recipient()],
    };
    bench.start(Owner::new(&bench.env, links))
}

/// Last report about an instance.
fn said(bench: &Alone, number: u64) -> Option<Option<Arc<OwnershipMarks>>> {
    let all = bench.heard.all::<InstanceKnown>();
    all.iter().rev().find(|one| one.id == id(number)).map(|one| one.marks.clone())
}

async fn state(bench: &Alone, actor: &Addr<Owner>) -> OwnerState {
    match bench.state(actor).await {
        ActorState::Owner(state) => state,
        other => panic!("{other:?}"),
    }
}

/// A claim on which somebody has written an instance.
fn names(bench: &Alone, name: &str, number: u64, tags: &[(&str, &str)]) -> ClaimChanged {
    bench.claim(name);
    let instance = bench.sky.inner.strange(&id(number), tags);
    ClaimChanged(bench.stages(name, &instance, number, &["Launched"]))
}

#[test]
fn the_instance_of_a_claim_is_asked_for_once_and_said_to_be_its() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = bench.launched("default-1", 1, &["Launched"]);
        for _ in 0..10 {
            actor.do_send(ClaimChanged(claim.clone()));
        }
        bench.pass(30.0).await;
        assert_eq!(bench.sky.count("instances_of"), 1);
        let marks = said(&bench, 1).unwrap().unwrap();
        assert!(marks.is_of(&claim).is_ok());
        assert_eq!(bench.heard.count::<ClaimRefused>(), 0);
    });
}

#[test]
fn a_hundred_claims_that_come_at_once_are_one_call() {
    alone(|bench| async move {
        let actor = start(&bench);
        for number in 1..=100 {
            actor.do_send(ClaimChanged(bench.launched(&format!("default-{number}"), number, &["Launched"])));
        }
        bench.pass(3.0).await;
        assert_eq!(bench.sky.count("instances_of"), 1);
        assert!((1..=100).all(|number| said(&bench, number).is_some_and(|marks| marks.is_some())));
    });
}

#[test]
fn more_than_one_call_takes_come_in_turns_a_second_apart() {
    alone(|bench| async move {
        let actor = start(&bench);
        for number in 1..=450 {
            actor.do_send(ClaimChanged(bench.launched(&format!("default-{number}"), number, &["Launched"])));
        }
        bench.pass(1.0).await;
        assert!(bench.sky.count("instances_of") <= 2);
        bench.pass(3.0).await;
        assert_eq!(bench.sky.count("instances_of"), 3);
        assert!((1..=450).all(|number| said(&bench, number).is_some()));
    });
}

#[test]
fn what_was_just_launched_is_not_asked_for() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = bench.launched("default-1", 1, &["Launched"]);
        actor.do_send(bench.marks(&claim, 1));
        actor.do_send(ClaimChanged(claim));
        bench.pass(10.0).await;
        assert_eq!(bench.sky.count("instances_of"), 0);
        assert!(said(&bench, 1).is_some());
    });
}

#[test]
fn foreign_instance_refuses_its_claim_once_and_says_why() {
    alone(|bench| async move {
        let actor = start(&bench);
        let theirs = launch_token(["uid-of-another"], 1);
        let claim = names(
            &bench,
            "default-1",
            1,
            &[("dovetail.dev/cluster-uid", CLUSTER_UID), ("dovetail.dev/launch-token", &theirs)],
        );
        for _ in 0..5 {
            actor.do_send(claim.clone());
            bench.pass(5.0).await;
        }
        let refused = bench.heard.all::<ClaimRefused>();
        assert!(refused.len() == 1 && refused[0].refused && refused[0].claim == "default-1");
        assert_eq!((bench.records("InstanceNotOwned").len(), bench.told.count("instance_not_owned")), (1, 1));
        assert_eq!(state(&bench, &actor).await.refused.len(), 1);
    });
}

#[test]
fn a_claim_that_is_mended_is_refused_no_longer() {
    alone(|bench| async move {
        let actor = start(&bench);
        actor.do_send(names(&bench, "default-1", 1, &[]));
        bench.pass(2.0).await;
        assert!(bench.heard.last::<ClaimRefused>().refused);
        let uid = bench.claim_now("default-1").metadata.uid.clone().unwrap();
        let own = bench.sky.inner.strange(
            &id(2),
            &[
                ("dovetail.dev/cluster-uid", CLUSTER_UID),
                ("dovetail.dev/launch-token", &launch_token([uid.as_str()], 1)),
            ],
        );
        actor.do_send(ClaimChanged(bench.stages("default-1", &own, 2, &["Launched"])));
        bench.pass(5.0).await;
        assert!(!bench.heard.last::<ClaimRefused>().refused);
        assert!(state(&bench, &actor).await.refused.is_empty());
    });
}

#[test]
fn instance_unknown_to_ec2_is_asked_for_less_and_less_often() {
    alone(|bench| async move {
        let actor = start(&bench);
        let claim = names(&bench, "default-1", 1, &[]);
        // The claim names another than is there.
        let mut other = (*claim.0).clone();
        other.status.as_mut().unwrap().provider_id = format!("aws:///us-east-1a/{}", id(2));
        actor.do_send(ClaimChanged(Arc::new(other)));
        bench.pass(600.0).await;
        let asked = bench.sky.count("instances_of");
        assert!((8..=25).contains(&asked), "{asked} in ten minutes");
        assert_eq!(said(&bench, 2), Some(None));
        assert_eq!(state(&bench, &actor).await.unknown, 1, "it may come: EC2 is consistent after a while");
    });
}

#[test]
fn what_no_ec2_can_know_is_never_asked_for() {
    alone(|bench| async move {
        let actor = start(&bench);
        for (at, provider) in
            ["kind://docker/x", "aws:///us-east-1a/i-1,i-2", "nonsense", "aws:///us-east-1a/i-0123456789abcdeg0"]
                .iter()
                .enumerate()
        {
            let name = format!("default-{at}");
            let mut claim = (*bench.claim(&name)).clone();
            claim.status.get_or_insert_default().provider_id = (*provider).to_owned();
            actor.do_send(ClaimChanged(Arc::new(claim)));
        }
        actor.do_send(LookUp { id: "fargate-ip-10-0-0-1".into() });
        bench.pass(30.0).await;
        assert_eq!(bench.sky.count("instances_of"), 0, "EC2 refuses a whole call for one of those");
        assert_eq!(state(&bench, &actor).await.refused.len(), 4);
    });
}

#[test]
fn throttled_cloud_is_told_once_and_asked_with_pauses() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.sky.always("instances_of", Some(Fails::Throttled));
        actor.do_send(ClaimChanged(bench.launched("default-1", 1, &["Launched"])));
        bench.pass(300.0).await;
        let asked = bench.sky.count("instances_of");
        assert!((20..=120).contains(&asked), "{asked} in five minutes");
        assert_eq!((bench.told.count("retrying"), said(&bench, 1)), (1, None), "nothing is said of it");
        bench.sky.always("instances_of", None);
        bench.pass(15.0).await;
        assert!(said(&bench, 1).is_some_and(|marks| marks.is_some()));
    });
}

#[test]
fn an_account_that_may_not_ask_makes_nothing_ours() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.sky.always("instances_of", Some(Fails::Never));
        actor.do_send(ClaimChanged(bench.launched("default-1", 1, &["Launched"])));
        bench.pass(10.0).await;
        assert_eq!(said(&bench, 1), Some(None), "none of them is known to be ours");
        bench.sky.always("instances_of", None);
        bench.pass(120.0).await;
        assert!(said(&bench, 1).is_some_and(|marks| marks.is_some()), "it is asked again");
    });
}

#[test]
fn the_instances_of_claims_that_are_gone_are_asked_for_no_more() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.sky.next("instances_of", [Fails::Throttled, Fails::Throttled]);
        actor.do_send(ClaimChanged(bench.launched("default-1", 1, &["Launched"])));
        bench.pass(0.5).await;
        actor.do_send(ClaimGone { name: "default-1".into() });
        actor.do_send(ClaimGone { name: "never-was".into() });
        bench.pass(60.0).await;
        let now = state(&bench, &actor).await;
        assert_eq!((now.claims, now.unknown, bench.sky.count("instances_of")), (0, 0, 1));
    });
}

#[test]
fn of_two_claims_that_name_one_instance_the_other_is_refused() {
    alone(|bench| async move {
        let actor = start(&bench);
        let own = bench.launched("default-1", 1, &["Launched"]);
        bench.claim("thief");
        let instance = bench.sky.inner.living()[0].clone();
        let thief = bench.stages("thief", &instance, 1, &["Launched"]);
        // Whichever comes first.
        actor.do_send(ClaimChanged(thief));
        actor.do_send(ClaimChanged(own));
        bench.pass(3.0).await;
        let refused = bench.heard.all::<ClaimRefused>();
        assert!(refused.iter().all(|one| one.claim == "thief"), "{refused:?}");
        assert!(refused.last().is_some_and(|one| one.refused));
    });
}

#[test]
fn who_looks_for_an_instance_that_no_claim_names_is_answered() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench
            .sky
            .inner
            .strange(&id(5), &[("dovetail.dev/cluster-uid", CLUSTER_UID), ("dovetail.dev/launch-token", "dt-x-1")]);
        actor.do_send(LookUp { id: id(5) });
        actor.do_send(LookUp { id: id(6) });
        bench.pass(2.0).await;
        assert!(said(&bench, 5).unwrap().is_some() && said(&bench, 6) == Some(None));
        bench.pass(600.0).await;
        assert_eq!(state(&bench, &actor).await.unknown, 0, "it is not asked for without end");
    });
}
