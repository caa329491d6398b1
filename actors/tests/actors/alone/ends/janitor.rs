//! The janitor: what nobody owns goes, after two looks and within a bound, and nothing goes by an answer that may be wrong.

use actix::prelude::*;
use dovetail_actors::janitor::{Janitor, JanitorLinks};
use dovetail_actors::messages::{ActorState, ClaimChanged, InstancesSeen, JanitorState, Remove};
use dovetail_cloud::{Instance, MadeKind, MadeResource};
use dovetail_core::clock::Clock as _;
use dovetail_core::disruption::RemovalReason;
use dovetail_core::ownership::token::launch_token;
use dovetail_sandbox::apiserver::{NAMESPACES, NODE_CLAIMS, NODES};
use jiff::SignedDuration;
use serde_json::json;

use super::terminator::INITIALIZED;
use crate::alone::objects::{CLUSTER_UID, id, node_name};
use crate::alone::{Alone, Fails, alone};
use crate::world::SpoilEnd;

fn start(bench: &Alone) -> Addr<Janitor> {
    let ear = &bench.ear;
    let links = JanitorLinks {
        cluster: ear.clone().into(),
        terminator: ear.clone().into(),
        disruptor: ear.clone().into(),
        recorder: ear.clone().into(),
        cloud: bench.sky.clone(),
        calls: bench.calls("janitor"),
    };
    bench.start(Janitor::new(&bench.env, links))
}

/// An instance that we have launched for a claim of which nobody knows.
fn orphan(bench: &Alone, number: u64) {
    let token = launch_token([format!("uid-of-nobody-{number}").as_str()], 1);
    bench.sky.inner.strange(
        &id(number),
        &[
            ("dovetail.dev/launch-token", token.as_str()),
            ("dovetail.dev/cluster-uid", CLUSTER_UID),
            ("karpenter.sh/nodepool", "default"),
        ],
    );
}

/// Makes `count` claims with their instances, numbered from `from`.
fn claims(bench: &Alone, from: u64, count: u64) {
    for number in from..from + count {
        bench.launched(&format!("default-{number}"), number, &INITIALIZED);
    }
    bench.show();
}

fn lives(bench: &Alone, number: u64) -> bool {
    bench.sky.inner.living().iter().any(|one| one.id == id(number))
}

async fn state(bench: &Alone, actor: &Addr<Janitor>) -> JanitorState {
    match bench.state(actor).await {
        ActorState::Janitor(state) => state,
        other => panic!("{other:?}"),
    }
}

/// Time for two passes and a little more.
const TWO_PASSES: f64 = 300.0;

#[test]
fn an_orphan_goes_at_the_second_look_and_not_at_the_first() {
    alone(|bench| async move {
        claims(&bench, 1, 3);
        orphan(&bench, 10);
        let actor = start(&bench);
        bench.pass(60.0).await;
        assert!(lives(&bench, 10) && state(&bench, &actor).await.counts["passes"] == 1);
        bench.pass(TWO_PASSES).await;
        assert!(!lives(&bench, 10) && (1..=3).all(|number| lives(&bench, number)), "{:?}", bench.told.lines());
        assert_eq!(bench.told.count("collected"), 1);
        assert!(bench.heard.count::<InstancesSeen>() >= 2);
    });
}

#[test]
fn instances_that_are_not_shown_to_be_ours_are_never_touched() {
    alone(|bench| async move {
        claims(&bench, 1, 3);
        bench.sky.inner.strange(
            &id(10),
            &[("dovetail.dev/cluster-uid", "uid-of-another"), ("dovetail.dev/launch-token", "dt-a-1")],
        );
        bench.sky.inner.strange(&id(11), &[("kubernetes.io/cluster/demo", "owned")]);
        bench.sky.inner.strange(&id(12), &[]);
        let actor = start(&bench);
        bench.pass(3.0 * TWO_PASSES).await;
        assert!((10..=12).all(|number| lives(&bench, number)));
        let counts = state(&bench, &actor).await.counts;
        assert!(counts.contains_key("foreign") && counts.contains_key("unmarked"), "{counts:?}");
        let said = bench.told.count("collection_braked");
        assert!((1..=6).contains(&said), "{said} lines in a quarter of an hour");
    });
}

#[test]
fn an_instance_whose_claim_waits_for_it_by_token_stays() {
    alone(|bench| async move {
        claims(&bench, 1, 2);
        let claim = bench.launched("default-9", 9, &[]);
        bench.api.patch_status(&NODE_CLAIMS, "", "default-9", &json!({"status": {"providerID": ""}})).unwrap();
        bench.show();
        let _actor = start(&bench);
        bench.pass(2.0 * TWO_PASSES).await;
        assert!(lives(&bench, 9), "{:?}", claim.metadata.name);
    });
}

#[test]
fn a_pass_that_cannot_list_everything_collects_nothing() {
    for (call, path) in
        [(Some("instances_by_name"), None), (None, Some("/nodeclaims")), (None, Some("/namespaces/kube-system"))]
    {
        alone(|bench| async move {
            claims(&bench, 1, 3);
            orphan(&bench, 10);
            if let Some(call) = call {
                bench.sky.always(call, Some(Fails::Throttled));
            }
            if let Some(path) = path {
                bench.wire.refuse("GET", path, usize::MAX, 422);
            }
            let actor = start(&bench);
            bench.pass(2.0 * TWO_PASSES).await;
            assert!(lives(&bench, 10), "{call:?} {path:?}");
            let counts = state(&bench, &actor).await.counts;
            assert!(counts["passes_skipped"] >= 3 && !counts.contains_key("passes"), "{counts:?}");
        });
    }
}

#[test]
fn while_the_cluster_is_not_known_nothing_goes() {
    alone(|bench| async move {
        claims(&bench, 1, 3);
        orphan(&bench, 10);
        bench.heard.knows(false, false);
        let _actor = start(&bench);
        bench.pass(2.0 * TWO_PASSES).await;
        assert!(lives(&bench, 10));
    });
}

#[test]
fn an_empty_answer_of_ec2_takes_no_claim_away() {
    alone(|bench| async move {
        claims(&bench, 1, 6);
        let _actor = start(&bench);
        bench.pass(60.0).await;
        bench.sky.lists(Some(Vec::new()));
        bench.pass(3.0 * TWO_PASSES).await;
        assert_eq!(bench.heard.count::<Remove>(), 0, "{:?}", bench.told.lines());
        assert!(bench.told.lines().iter().any(|line| line.contains("EC2 lists no instance")));
    });
}

#[test]
fn an_api_server_that_has_lost_its_claims_costs_no_instance() {
    alone(|bench| async move {
        claims(&bench, 1, 8);
        let _actor = start(&bench);
        bench.pass(60.0).await;
        for number in 1..=8 {
            let name = format!("default-{number}");
            bench.api.patch(&NODE_CLAIMS, "", &name, &json!({"metadata": {"finalizers": []}})).unwrap();
            bench.delete(&NODE_CLAIMS, &name);
        }
        bench.show();
        bench.pass(3.0 * TWO_PASSES).await;
        assert_eq!(bench.sky.inner.living().len(), 8, "{:?}", bench.told.lines());
    });
}

#[test]
fn more_than_the_bound_is_braked_until_somebody_releases_it() {
    alone(|bench| async move {
        claims(&bench, 1, 3);
        (100..130).for_each(|number| orphan(&bench, number));
        let actor = start(&bench);
        bench.pass(2.0 * TWO_PASSES).await;
        assert_eq!(bench.sky.inner.living().len(), 33);
        assert!(state(&bench, &actor).await.braked);
        assert!(!bench.records("CollectionBraked").is_empty());
        // An operator has looked at them.
        let until = bench.clock.wall() + SignedDuration::from_hours(1);
        let release = json!({"metadata": {"annotations": {"dovetail.dev/allow-collection": until.to_string()}}});
        bench.api.patch(&NAMESPACES, "", "kube-system", &release).unwrap();
        bench.pass(2.0 * TWO_PASSES).await;
        assert_eq!(bench.sky.inner.living().len(), 3, "{:?}", bench.told.lines());
        assert_eq!(bench.told.count("collection_released"), 1);
    });
}

#[test]
fn nonsense_release_releases_nothing_and_is_told() {
    for text in ["yes", "true", "2026-13-45", "99999999999999999999"] {
        alone(|bench| async move {
            claims(&bench, 1, 3);
            (100..130).for_each(|number| orphan(&bench, number));
            let release = json!({"metadata": {"annotations": {"dovetail.dev/allow-collection": text}}});
            bench.api.patch(&NAMESPACES, "", "kube-system", &release).unwrap();
            let _actor = start(&bench);
            bench.pass(2.0 * TWO_PASSES).await;
            assert_eq!(bench.sky.inner.living().len(), 33, "{text}");
            assert!(
                bench.told.lines().iter().any(|line| line.contains("not understood")),
                "{text}: {:?}",
                bench.told.lines()
            );
        });
    }
}

#[test]
fn a_claim_whose_instance_has_ended_is_removed_by_its_uid() {
    alone(|bench| async move {
        claims(&bench, 1, 6);
        let _actor = start(&bench);
        bench.pass(60.0).await;
        use dovetail_cloud::CloudInstances as _;
        let gone: Vec<Instance> = bench.sky.inner.living().into_iter().filter(|one| one.id == id(2)).collect();
        bench.sky.inner.terminate_all(&gone).await.unwrap();
        bench.pass(3.0 * TWO_PASSES).await;
        let removed = bench.heard.all::<Remove>();
        assert!(!removed.is_empty(), "{:?}", bench.told.lines());
        assert!(removed.iter().all(|one| one.reason == RemovalReason::GarbageCollected && one.claims.len() == 1));
        assert_eq!(removed[0].claims[0].name, "default-2");
        assert_eq!(Some(&removed[0].claims[0].uid), bench.claim_now("default-2").metadata.uid.as_ref());
    });
}

#[test]
fn a_claim_that_was_seen_to_go_is_not_missed() {
    alone(|bench| async move {
        claims(&bench, 1, 6);
        let actor = start(&bench);
        bench.pass(60.0).await;
        bench.delete(&NODE_CLAIMS, "default-2");
        actor.do_send(ClaimChanged(bench.claim_now("default-2")));
        bench.pass(1.0).await;
        bench.api.patch(&NODE_CLAIMS, "", "default-2", &json!({"metadata": {"finalizers": []}})).unwrap();
        bench.show();
        bench.pass(2.0 * TWO_PASSES).await;
        assert!(!lives(&bench, 2), "its instance is nobody's: {:?}", bench.told.lines());
        assert!(bench.told.lines().iter().all(|line| !line.contains("lost nodeclaims")));
    });
}

#[test]
fn an_instance_that_ec2_will_not_end_is_told_of_and_tried_again() {
    alone(|bench| async move {
        claims(&bench, 1, 3);
        orphan(&bench, 10);
        bench.sky.inner.spoil_end(&id(10), Some(SpoilEnd::Refused));
        let _actor = start(&bench);
        bench.pass(3.0 * TWO_PASSES).await;
        assert!(lives(&bench, 10) && bench.told.count("collected") == 0);
        let told = bench.told.count("retrying");
        assert!((1..=2).contains(&told), "{told}");
        bench.sky.inner.spoil_end(&id(10), None);
        bench.pass(TWO_PASSES).await;
        assert!(!lives(&bench, 10));
    });
}

#[test]
fn unanswered_termination_is_repeated_and_reported_once() {
    for fails in [Fails::Unknown, Fails::Throttled] {
        alone(|bench| async move {
            claims(&bench, 1, 3);
            orphan(&bench, 10);
            bench.sky.next("terminate_all", [fails, fails]);
            let _actor = start(&bench);
            bench.pass(60.0 + TWO_PASSES).await;
            assert!(!lives(&bench, 10), "{fails:?}");
            assert_eq!((bench.sky.count("terminate_all"), bench.told.count("collected")), (3, 1), "{fails:?}");
        });
    }
}

#[test]
fn unconfirmed_termination_is_reported_and_takes_its_node() {
    alone(|bench| async move {
        claims(&bench, 1, 3);
        orphan(&bench, 10);
        // More Nodes with a claim than without: no claims have been lost.
        [1, 2, 10].into_iter().for_each(|number| drop(bench.working(number)));
        bench.kubelet(10, "Unknown");
        bench.show();
        bench.sky.inner.spoil_end(&id(10), Some(SpoilEnd::LostAfter));
        let _actor = start(&bench);
        bench.pass(60.0 + TWO_PASSES).await;
        assert!(!lives(&bench, 10));
        assert_eq!(bench.told.count("collected"), 1, "{:?}", bench.told.lines());
        assert!(!bench.is_there(&NODES, &node_name(10)), "its finalizer waits for nothing any more");
    });
}

#[test]
fn claim_that_comes_before_the_termination_keeps_its_instance() {
    alone(|bench| async move {
        claims(&bench, 1, 3);
        orphan(&bench, 10);
        let _actor = start(&bench);
        bench.pass(60.0).await;
        // A backup brings its claim back, between the first look and the second.
        let claim = bench.claim("back-again");
        let instance = bench.sky.inner.living().into_iter().find(|one| one.id == id(10)).unwrap();
        bench.stages("back-again", &instance, 10, &INITIALIZED);
        bench.pass(2.0 * TWO_PASSES).await;
        assert!(lives(&bench, 10), "it is {:?}'s", claim.metadata.name);
        assert_eq!(bench.told.count("collected"), 0);
    });
}

#[test]
fn after_the_term_nothing_is_ended() {
    alone(|bench| async move {
        claims(&bench, 1, 3);
        orphan(&bench, 10);
        let _actor = start(&bench);
        bench.pass(60.0).await;
        bench.term.end();
        bench.pass(2.0 * TWO_PASSES).await;
        assert!(lives(&bench, 10));
    });
}

fn made(bench: &Alone, kind: MadeKind, name: &str, class: &str, in_use: bool) -> MadeResource {
    let created = Some(bench.clock.wall() - SignedDuration::from_hours(5));
    MadeResource { kind, name: name.into(), class: class.into(), class_uid: None, created, in_use }
}

#[test]
fn launch_templates_that_nothing_uses_go_and_others_stay() {
    alone(|bench| async move {
        bench.class("default");
        bench.show();
        bench.sky.has_made(vec![
            made(&bench, MadeKind::LaunchTemplate, "unused", "default", false),
            made(&bench, MadeKind::LaunchTemplate, "used", "default", true),
            made(&bench, MadeKind::InstanceProfile, "profile", "default", false),
            made(&bench, MadeKind::InstanceProfile, "of-a-class-that-is-gone", "gone", false),
        ]);
        let _actor = start(&bench);
        bench.pass(3.0 * 3600.0).await;
        let removed = bench.sky.asked("remove_made");
        assert!(
            removed.contains(&"unused".to_owned()) && removed.contains(&"of-a-class-that-is-gone".to_owned()),
            "{removed:?}"
        );
        assert!(!removed.contains(&"used".to_owned()) && !removed.contains(&"profile".to_owned()), "{removed:?}");
    });
}

#[test]
fn what_cannot_be_listed_of_what_was_made_removes_nothing() {
    alone(|bench| async move {
        bench.class("default");
        bench.sky.has_made(vec![made(&bench, MadeKind::LaunchTemplate, "unused", "default", false)]);
        bench.heard.knows(false, false);
        let _actor = start(&bench);
        bench.pass(4.0 * 3600.0).await;
        assert_eq!(bench.sky.asked("remove_made"), [""; 0]);
    });
}
