//! The reported reason for a node's end is true: the one who decided, or the object that somebody else has deleted; a decision
//! without consequence is no reason of a later end.

use actix::prelude::*;
use dovetail_actors::messages::{ClaimRef, Remove};
use dovetail_actors::terminator::Terminator;
use dovetail_core::disruption::RemovalReason;
use dovetail_sandbox::apiserver::{NODE_POOLS, NODES};
use jiff::{SignedDuration, Timestamp};

use super::terminator::{delete_claim, go_on, is_gone, show, start, working};
use crate::alone::objects::node_name;
use crate::alone::wire::Refuses;
use crate::alone::{Alone, TERM, alone, trace};

fn remove(bench: &Alone, actor: &Addr<Terminator>, reason: RemovalReason) {
    remove_within(bench, actor, reason, None);
}

fn remove_within(bench: &Alone, actor: &Addr<Terminator>, reason: RemovalReason, grace: Option<SignedDuration>) {
    let uid = bench.claim_now("default-1").metadata.uid.clone().unwrap();
    let claims = vec![ClaimRef { name: "default-1".into(), uid }];
    actor.do_send(Remove { term: TERM, claims, reason, grace, disrupted: Default::default(), trace: trace(1) });
}

/// The reasons in the lines of a kind.
fn reasons(bench: &Alone, event: &str) -> Vec<String> {
    let all = bench.told.events().into_iter().filter(|one| one.event() == event);
    all.map(|one| one.to_string()).collect()
}

#[test]
fn whose_deletion_takes_a_node_along_is_said_once() {
    let asked = |what: &str| format!("the deletion of {what} was asked for");
    for (deletes, said) in [
        ("claim", asked("nodeclaim default-1")),
        ("node", asked(&format!("node {}", node_name(1)))),
        ("pool", "its nodepool default is deleted".to_owned()),
    ] {
        alone(|bench| async move {
            bench.pool("default");
            let actor = start(&bench);
            working(&bench, &actor, 1);
            match deletes {
                "claim" => delete_claim(&bench, 1),
                "node" => bench.delete(&NODES, &node_name(1)),
                _ => {
                    bench.delete(&NODE_POOLS, "default");
                    bench.heard.cluster(|state| state.delete_pool("default", None));
                    delete_claim(&bench, 1);
                }
            }
            go_on(&bench, &actor, 1, 20).await;
            assert!(is_gone(&bench, 1), "{deletes}: {:?}", bench.told.lines());
            let lines = reasons(&bench, "deletion_asked");
            assert!(lines.len() == 1 && lines[0].contains(&said), "{deletes}: {lines:?}");
            assert_eq!(bench.records("TerminatingOnDeletion").len(), 2, "{deletes}: on the claim and its Node");
        });
    }
}

#[test]
fn a_removals_own_bound_is_written_with_its_reason() {
    for minutes in [None, Some(0), Some(10)] {
        alone(|bench| async move {
            bench.pool("default");
            let actor = start(&bench);
            working(&bench, &actor, 1);
            remove_within(&bench, &actor, RemovalReason::Unhealthy, minutes.map(SignedDuration::from_mins));
            bench.pass(0.5).await;
            let claim = bench.claim_now("default-1");
            let own = claim.metadata.annotations.clone().unwrap_or_default();
            let (reason, decided) = own["dovetail.dev/end-reason"].split_once(' ').unwrap();
            assert_eq!(reason, "unhealthy");
            let written = own.get("karpenter.sh/nodeclaim-termination-timestamp");
            let bound = written.map(|text| text.parse::<Timestamp>().unwrap());
            let decided: Timestamp = decided.parse().unwrap();
            assert_eq!(bound, minutes.map(|minutes| decided + SignedDuration::from_mins(minutes)));
        });
    }
}

#[test]
fn own_removal_names_no_user_as_its_cause() {
    alone(|bench| async move {
        bench.pool("default");
        let actor = start(&bench);
        working(&bench, &actor, 1);
        remove(&bench, &actor, RemovalReason::Empty);
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1));
        assert_eq!((reasons(&bench, "deletion_asked").len(), bench.records("TerminatingOnDeletion").len()), (0, 0));
        assert!(reasons(&bench, "nodeclaim_deleted")[0].contains("empty"), "{:?}", bench.told.lines());
    });
}

#[test]
fn a_successor_says_the_reason_that_its_predecessor_has_decided() {
    alone(|bench| async move {
        bench.pool("default");
        let first = start(&bench);
        working(&bench, &first, 1);
        remove(&bench, &first, RemovalReason::Empty);
        bench.pass(0.5).await;
        assert!(bench.claim_now("default-1").metadata.deletion_timestamp.is_some());
        // Nobody tells the first anything any more.
        let second = start(&bench);
        show(&bench, &second, 1);
        second.do_send(bench.marks(&bench.claim_now("default-1"), 1));
        go_on(&bench, &second, 1, 20).await;
        assert!(is_gone(&bench, 1), "{:?}", bench.told.lines());
        let lines = reasons(&bench, "nodeclaim_deleted");
        assert!(lines.len() == 1 && lines[0].contains("empty"), "{lines:?}");
    });
}

#[test]
fn refused_removal_is_no_reason_for_a_later_deletion() {
    for refuses in [Refuses::Webhook, Refuses::Validation] {
        alone(|bench| async move {
            bench.pool("default");
            let actor = start(&bench);
            working(&bench, &actor, 1);
            refuses.begin(&bench.wire, "DELETE", "/nodeclaims/");
            remove(&bench, &actor, RemovalReason::Empty);
            bench.pass(5.0).await;
            assert!(bench.claim_now("default-1").metadata.deletion_timestamp.is_none());
            bench.wire.heal();
            // It is not empty any more, and nobody decides it again.
            bench.pass(3600.0).await;
            show(&bench, &actor, 1);
            delete_claim(&bench, 1);
            go_on(&bench, &actor, 1, 20).await;
            assert!(is_gone(&bench, 1), "{refuses:?}: {:?}", bench.told.lines());
            let lines = reasons(&bench, "deletion_asked");
            assert!(
                lines.len() == 1 && lines[0].contains("nodeclaim default-1 was asked for"),
                "{refuses:?}: {:?}",
                bench.told.lines()
            );
        });
    }
}
