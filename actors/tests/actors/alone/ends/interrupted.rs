//! The terminator and nodes that EC2 takes back: the end is written where a successor finds it, and the node is drained in time.

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::messages::{ClaimRef, Interrupted};
use dovetail_actors::settings::Interruptions;
use dovetail_actors::terminator::Terminator;
use dovetail_core::clock::Clock as _;
use dovetail_core::interruption::{Announcement, InterruptionKind, InterruptionNotice};
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODES};
use jiff::SignedDuration;

use super::terminator::{go_on, show, start, working};
use crate::alone::objects::{id, node_name};
use crate::alone::{Alone, TERM, alone, alone_with, trace};

/// EC2 ends the instance in two minutes.
fn notice(bench: &Alone, kind: InterruptionKind) -> InterruptionNotice {
    let now = bench.clock.wall();
    let instances = vec![id(1)];
    let announced = Announcement { id: "e-1".into(), kind, instances, time: Some(now), begins: None };
    InterruptionNotice::from_announcement(&announced, Some(now), now).unwrap().unwrap()
}

fn interrupted(bench: &Alone, kind: InterruptionKind) -> Interrupted {
    let uid = bench.claim_now("default-1").metadata.uid.clone().unwrap();
    let claim = ClaimRef { name: "default-1".into(), uid };
    Interrupted { term: TERM, claim, notice: notice(bench, kind), trace: trace(1) }
}

async fn ask(actor: &Addr<Terminator>, interrupted: Interrupted) -> bool {
    actor.send(interrupted).await.unwrap()
}

fn written(bench: &Alone) -> String {
    let claim = bench.api.get(&NODE_CLAIMS, "", "default-1").unwrap();
    claim["metadata"]["annotations"]["dovetail.dev/interruption"].as_str().unwrap_or_default().to_owned()
}

fn is_going(bench: &Alone) -> bool {
    bench.api.get(&NODE_CLAIMS, "", "default-1").is_none_or(|claim| claim["metadata"]["deletionTimestamp"].is_string())
}

fn taints(bench: &Alone) -> String {
    bench.api.get(&NODES, "", &node_name(1)).map(|node| node["spec"]["taints"].to_string()).unwrap_or_default()
}

/// One that has the places of nobody to wait for.
fn with_node(test: impl AsyncFnOnce(Alone, Addr<Terminator>)) {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        test(bench, actor).await;
    });
}

#[test]
fn the_end_is_on_the_claim_before_it_is_answered() {
    with_node(async |bench, actor| {
        assert!(ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await);
        assert!(written(&bench).starts_with("spot_interrupted 2026-01-01T00:02"), "{}", written(&bench));
        show(&bench, &actor, 1);
        bench.pass(1.0).await;
        assert!(taints(&bench).contains("karpenter.sh/disrupted"), "nothing new comes to it");
    });
}

#[test]
fn a_sooner_end_that_is_written_stays() {
    with_node(async |bench, actor| {
        ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await;
        let first = written(&bench);
        bench.pass(30.0).await;
        assert!(ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await);
        assert_eq!(written(&bench), first);
    });
}

#[test]
fn an_announcement_of_an_older_term_is_not_written() {
    with_node(async |bench, actor| {
        let mut older = interrupted(&bench, InterruptionKind::SpotInterruption);
        older.term.0 -= 1;
        assert!(!ask(&actor, older).await, "its message comes again");
        assert_eq!(written(&bench), "");
    });
}

#[test]
fn what_is_gone_or_another_is_written_on_nothing_and_done_with() {
    with_node(async |bench, actor| {
        let mut another = interrupted(&bench, InterruptionKind::SpotInterruption);
        another.claim.uid = "another".into();
        let mut gone = interrupted(&bench, InterruptionKind::SpotInterruption);
        gone.claim.name = "no-such".into();
        assert!(ask(&actor, another).await && ask(&actor, gone).await, "nobody needs the messages");
        assert_eq!(written(&bench), "");
    });
}

#[test]
fn a_server_that_refuses_it_leaves_the_message_in_the_queue() {
    for code in [403, 422] {
        with_node(async |bench, actor| {
            bench.wire.refuse("PATCH", "/nodeclaims/default-1", 1, code);
            assert!(!ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await, "{code}");
            assert!(ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await, "{code}");
        });
    }
}

#[test]
fn an_empty_node_is_drained_at_once_and_its_instance_ended() {
    with_node(async |bench, actor| {
        ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await;
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_going(&bench) && bench.sky.inner.living().is_empty(), "{:?}", bench.told.lines());
        assert_eq!(bench.told.count("retreating"), 1);
    });
}

#[test]
fn pods_without_a_place_stay_until_the_time_is_up() {
    with_node(async |bench, actor| {
        bench.pod("web-a", Some(1));
        ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await;
        go_on(&bench, &actor, 1, 60).await;
        assert!(!is_going(&bench), "thirty seconds of grace and ten more of two minutes");
        go_on(&bench, &actor, 1, 40).await;
        assert!(is_going(&bench), "{:?}", bench.told.lines());
    });
}

#[test]
fn an_instance_that_ends_already_is_waited_for_by_nobody() {
    with_node(async |bench, actor| {
        bench.pod("web-a", Some(1));
        ask(&actor, interrupted(&bench, InterruptionKind::InstanceTerminating)).await;
        go_on(&bench, &actor, 1, 5).await;
        assert!(is_going(&bench));
    });
}

#[test]
fn refused_deletion_is_retried_in_time() {
    for code in [403, 422] {
        with_node(async |bench, actor| {
            bench.wire.refuse("DELETE", "/nodeclaims/default-1", usize::MAX, code);
            ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await;
            go_on(&bench, &actor, 1, 30).await;
            assert!(!is_going(&bench));
            let tries = bench.wire.count("DELETE", "/nodeclaims/default-1");
            assert!((3..=10).contains(&tries), "{code}: {tries} in half a minute");
            // The webhook that refused it is back.
            bench.wire.heal();
            go_on(&bench, &actor, 1, 12).await;
            assert!(is_going(&bench), "{code}: its instance ends whatever anybody says: {:?}", bench.told.lines());
            assert_eq!(bench.told.count("retreating"), 1, "{code}: it is said once");
        });
    }
}

#[test]
fn what_a_predecessor_has_written_is_gone_on_with() {
    with_node(async |bench, first| {
        bench.pod("web-a", Some(1));
        ask(&first, interrupted(&bench, InterruptionKind::SpotInterruption)).await;
        // Another leader's, which hears of the claim as of any other.
        let second = start(&bench);
        let claim = bench.claim_now("default-1");
        second.do_send(bench.marks(&claim, 1));
        go_on(&bench, &second, 1, 100).await;
        assert!(is_going(&bench), "{:?}", bench.told.lines());
    });
}

#[test]
fn end_written_on_claim_of_foreign_instance_taints_nothing() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.launched("default-1", 1, &super::terminator::INITIALIZED);
        bench.working(1);
        let until = bench.clock.wall() + SignedDuration::from_secs(5);
        let written = serde_json::json!({"metadata": {"annotations": {"dovetail.dev/interruption": format!("spot_interrupted {until}")}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &written).unwrap();
        go_on(&bench, &actor, 1, 20).await;
        assert!(!taints(&bench).contains("disrupted") && !is_going(&bench), "{}", taints(&bench));
    });
}

#[test]
fn nonsense_in_the_annotation_is_no_end() {
    for text in [
        "",
        "spot_interrupted",
        "spot_interrupted soon",
        "never 2026-01-01T00:02:00Z",
        "spot_interrupted 9999-99-99T00:00:00Z",
    ] {
        with_node(async |bench, actor| {
            let written = serde_json::json!({"metadata": {"annotations": {"dovetail.dev/interruption": text}}});
            bench.api.patch(&NODE_CLAIMS, "", "default-1", &written).unwrap();
            go_on(&bench, &actor, 1, 10).await;
            assert!(!is_going(&bench), "{text:?}");
            assert!(!taints(&bench).contains("disrupted"), "{text:?}");
        });
    }
}

#[test]
fn an_end_that_a_restored_server_has_forgotten_is_written_again() {
    with_node(async |bench, actor| {
        bench.pod("web-a", Some(1));
        ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await;
        show(&bench, &actor, 1);
        bench.pass(1.0).await;
        let first = written(&bench);
        let back = serde_json::json!({"metadata": {"annotations": {"dovetail.dev/interruption": null}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &back).unwrap();
        show(&bench, &actor, 1);
        bench.pass(1.0).await;
        assert_eq!(written(&bench), first);
    });
}

#[test]
fn karpenters_way_deletes_at_once_and_answers_when_that_is_so() {
    alone_with(Settings { interruption: Interruptions::Evict, ..Settings::default() }, |bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web-a", Some(1));
        assert!(ask(&actor, interrupted(&bench, InterruptionKind::SpotInterruption)).await);
        assert!(is_going(&bench));
        working(&bench, &actor, 2);
        bench.wire.refuse("DELETE", "/nodeclaims/default-2", usize::MAX, 403);
        let mut second = interrupted(&bench, InterruptionKind::SpotInterruption);
        second.claim =
            ClaimRef { name: "default-2".into(), uid: bench.claim_now("default-2").metadata.uid.clone().unwrap() };
        assert!(!ask(&actor, second).await, "the message comes again");
    });
}
