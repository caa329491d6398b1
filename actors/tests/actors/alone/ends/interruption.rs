//! The interruption queue: each announcement is acted on once, written down before its message goes, and nothing that
//! somebody puts into the queue holds up the rest.

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::interruption::{Interruption, InterruptionLinks};
use dovetail_actors::messages::{
    ActorState, Interrupted, InterruptionState, MarkDeleting, PackNow, Refused, ReservationTakenBack,
};
use dovetail_actors::settings::{Interruptions, Rebalance};
use dovetail_core::clock::Clock as _;
use dovetail_core::interruption::InterruptionKind;
use dovetail_core::interruption::status::Trouble;
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODE_POOLS};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::alone::objects::id;
use crate::alone::{Alone, Fails, TERM, alone_with};

const INITIALIZED: [&str; 3] = ["Launched", "Registered", "Initialized"];

fn settings() -> Settings {
    Settings { interruption_queue: "demo".into(), ..Settings::default() }
}

pub fn with_queue(test: impl AsyncFnOnce(Alone)) {
    alone_with(settings(), |bench| async move { test(bench).await });
}

pub fn start(bench: &Alone) -> Addr<Interruption> {
    let ear = &bench.ear;
    let links = InterruptionLinks {
        cluster: ear.clone().into(),
        catalogue: ear.clone().into(),
        packer: ear.clone().into(),
        terminator: ear.clone().into(),
        recorder: ear.clone().into(),
        cloud: bench.sky.clone(),
        calls: bench.calls("interruption"),
        leader_term: bench.term.clone(),
    };
    bench.start(Interruption::new(&bench.env, links))
}

/// A claim of a running node, which the state knows.
pub fn node(bench: &Alone, number: u64) {
    bench.launched(&format!("default-{number}"), number, &INITIALIZED);
    bench.working(number);
    bench.show();
}

/// A spot node.
pub fn spot(bench: &Alone, number: u64) {
    node(bench, number);
    let label = json!({"metadata": {"labels": {"karpenter.sh/capacity-type": "spot"}}});
    bench.api.patch(&NODE_CLAIMS, "", &format!("default-{number}"), &label).unwrap();
    bench.show();
}

fn event(bench: &Alone, event_id: &str, detail_type: &str, detail: Value) -> String {
    let time = bench.clock.wall().to_string();
    json!({"version": "0", "id": event_id, "detail-type": detail_type, "source": "aws.ec2", "time": time, "detail": detail})
        .to_string()
}

fn warning(bench: &Alone, event_id: &str, number: u64) -> String {
    let detail = json!({"instance-id": id(number), "instance-action": "terminate"});
    event(bench, event_id, "EC2 Spot Instance Interruption Warning", detail)
}

fn interrupted(bench: &Alone) -> Vec<(String, InterruptionKind)> {
    bench.heard.all::<Interrupted>().iter().map(|one| (one.claim.name.clone(), one.notice.kind)).collect()
}

fn deleted(bench: &Alone) -> Vec<String> {
    bench.sky.inner.deleted()
}

pub async fn state(bench: &Alone, actor: &Addr<Interruption>) -> InterruptionState {
    match bench.state(actor).await {
        ActorState::Interruption(state) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_warning_is_marked_packed_for_written_and_then_deleted() {
    with_queue(async |bench| {
        spot(&bench, 1);
        let _actor = start(&bench);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(1.0).await;
        assert_eq!(interrupted(&bench), [("default-1".to_owned(), InterruptionKind::SpotInterruption)]);
        let mark = bench.heard.last::<MarkDeleting>();
        assert!(mark.deleting && mark.claims == ["default-1"] && mark.term == TERM);
        assert_eq!(bench.heard.count::<PackNow>(), 1);
        let refusals = &bench.heard.last::<Refused>().refusals;
        assert_eq!((refusals[0].instance_type.as_str(), refusals[0].zone.as_str()), ("m5.large", "us-east-1a"));
        assert_eq!(deleted(&bench), ["r-1"]);
        assert_eq!(bench.records("SpotInterrupted").len(), 2, "at the claim and at its Node");
        let names = bench.heard.names();
        let at = |name| names.iter().position(|one| *one == name).unwrap();
        assert!(at("MarkDeleting") < at("PackNow"), "{names:?}");
    });
}

#[test]
fn what_is_not_written_down_stays_in_the_queue() {
    with_queue(async |bench| {
        spot(&bench, 1);
        bench.heard.writes_ends(false);
        let actor = start(&bench);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(1.0).await;
        assert_eq!((deleted(&bench).len(), state(&bench, &actor).await.unwritten), (0, 0));
        // It comes again, and now it is written.
        bench.heard.writes_ends(true);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-2");
        bench.pass(1.0).await;
        assert_eq!((interrupted(&bench).len(), deleted(&bench)), (2, vec!["r-2".to_owned()]));
    });
}

#[test]
fn unwritten_end_is_said_once_however_often_message_returns() {
    with_queue(async |bench| {
        spot(&bench, 1);
        bench.heard.writes_ends(false);
        let _actor = start(&bench);
        let message = warning(&bench, "e-1", 1);
        for copy in 0..4 {
            bench.sky.inner.announce_by(&message, &format!("r-{copy}"));
            bench.pass(20.0).await;
        }
        assert_eq!((interrupted(&bench).len(), bench.told.count("interrupted")), (4, 1));
        // Another announcement of the same instance is another thing.
        bench.sky.inner.announce_by(&warning(&bench, "e-2", 1), "r-5");
        bench.pass(1.0).await;
        assert_eq!(bench.told.count("interrupted"), 2);
    });
}

#[test]
fn the_same_event_is_acted_on_once_however_often_it_comes() {
    with_queue(async |bench| {
        spot(&bench, 1);
        let actor = start(&bench);
        for copy in 0..5 {
            bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), &format!("r-{copy}"));
            bench.pass(2.0).await;
        }
        assert_eq!((interrupted(&bench).len(), deleted(&bench).len()), (1, 5));
        let counts = state(&bench, &actor).await.messages;
        assert_eq!((counts["spot_interrupted"], counts["duplicate"]), (5, 4));
    });
}

#[test]
fn nonsense_in_the_queue_is_deleted_counted_and_told_of_seldom() {
    with_queue(async |bench| {
        spot(&bench, 1);
        let actor = start(&bench);
        let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
        let huge = format!("{{\"version\": \"{}\"}}", "x".repeat(200_000));
        let bodies = [
            "",
            " ",
            "null",
            "[]",
            "{}",
            "not json",
            "{\"version\": 1}",
            &deep,
            &huge,
            "\u{0}\u{ffff}",
            "{\"version\":\"0\",\"source\":\"aws.ec2\",\"detail-type\":\"EC2 Spot Instance Interruption Warning\"}",
            "{\"version\":\"0\",\"source\":\"aws.ec2\",\"detail-type\":\"EC2 Spot Instance Interruption Warning\",\"detail\":{\"instance-id\":\"i-1 OR 1=1\"}}",
            "{\"version\":\"0\",\"source\":\"aws.health\",\"detail-type\":\"AWS Health Event\",\"detail\":{\"service\":\"EC2\",\"eventTypeCategory\":\"scheduledChange\",\"affectedEntities\":7}}",
        ];
        for round in 0..20 {
            for (at, body) in bodies.iter().enumerate() {
                bench.sky.inner.announce_by(body, &format!("r-{round}-{at}"));
            }
        }
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "good");
        bench.pass(5.0).await;
        assert_eq!(deleted(&bench).len(), 20 * bodies.len() + 1, "{:?}", state(&bench, &actor).await);
        assert_eq!(interrupted(&bench).len(), 1, "what is behind it is acted on");
        let told = bench.told.count("messages_ignored");
        assert!((3..=6).contains(&told), "{told} lines for {} messages", 20 * bodies.len());
        assert!(bench.told.lines().iter().all(|line| line.len() < 600), "nobody's text floods the log");
    });
}

#[test]
fn an_instance_of_nobody_is_passed_over_after_a_while() {
    with_queue(async |bench| {
        node(&bench, 1);
        let actor = start(&bench);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 77), "r-1");
        bench.pass(2.0).await;
        assert_eq!((deleted(&bench).len(), state(&bench, &actor).await.unknown), (0, 1));
        bench.pass(300.0).await;
        assert_eq!((deleted(&bench), state(&bench, &actor).await.unknown), (vec!["r-1".to_owned()], 0));
        assert_eq!(interrupted(&bench), []);
        assert_eq!(bench.heard.count::<PackNow>(), 0);
    });
}

#[test]
fn warning_before_its_claim_has_the_instance_is_kept() {
    with_queue(async |bench| {
        let claim = bench.claim("default-1");
        bench.show();
        let _actor = start(&bench);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(5.0).await;
        assert_eq!(interrupted(&bench), []);
        let instance = bench.sky.inner.strange(&id(1), &[]);
        bench.stages("default-1", &instance, 1, &["Launched"]);
        bench.show();
        bench.pass(3.0).await;
        assert_eq!(
            interrupted(&bench),
            [("default-1".to_owned(), InterruptionKind::SpotInterruption)],
            "{:?}",
            claim.metadata.name
        );
        assert_eq!(deleted(&bench), ["r-1"]);
    });
}

#[test]
fn until_the_cluster_is_known_messages_wait_and_none_is_lost() {
    with_queue(async |bench| {
        spot(&bench, 1);
        bench.heard.knows(false, false);
        let _actor = start(&bench);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(10.0).await;
        assert_eq!((interrupted(&bench).len(), deleted(&bench).len()), (0, 0));
        bench.heard.knows(true, true);
        bench.pass(1.0).await;
        assert_eq!((interrupted(&bench).len(), deleted(&bench)), (1, vec!["r-1".to_owned()]));
    });
}

#[test]
fn a_queue_that_is_not_there_is_looked_for_ever_less_often() {
    with_queue(async |bench| {
        spot(&bench, 1);
        bench.sky.always("queue_url", Some(Fails::NotThere));
        let actor = start(&bench);
        bench.pass(600.0).await;
        let asked = bench.sky.count("queue_url");
        assert!((20..=60).contains(&asked), "{asked} times in ten minutes");
        assert_eq!(bench.told.count("retrying"), 1);
        assert!(state(&bench, &actor).await.failures >= 20);
        // Somebody makes it.
        bench.sky.always("queue_url", None);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(25.0).await;
        assert_eq!(interrupted(&bench).len(), 1);
        assert_eq!(bench.told.count("recovered"), 1);
    });
}

#[test]
fn a_queue_that_goes_is_looked_up_anew() {
    with_queue(async |bench| {
        spot(&bench, 1);
        let _actor = start(&bench);
        bench.sky.next("receive", [Fails::Throttled, Fails::NotThere]);
        bench.pass(60.0).await;
        assert_eq!(bench.sky.count("queue_url"), 2);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(25.0).await;
        assert_eq!(interrupted(&bench).len(), 1);
    });
}

#[test]
fn a_message_that_sqs_keeps_is_deleted_again_a_few_times() {
    with_queue(async |bench| {
        spot(&bench, 1);
        let _actor = start(&bench);
        bench.sky.next("delete_messages", [Fails::Throttled, Fails::Throttled]);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(5.0).await;
        assert_eq!(deleted(&bench), ["r-1"]);
        bench.sky.always("delete_messages", Some(Fails::Throttled));
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-2");
        bench.pass(60.0).await;
        assert_eq!(bench.sky.count("delete_messages"), 3 + 3, "and then it comes again");
    });
}

#[test]
fn after_the_term_nothing_is_received_or_deleted() {
    with_queue(async |bench| {
        spot(&bench, 1);
        let _actor = start(&bench);
        bench.pass(1.0).await;
        bench.term.end();
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(60.0).await;
        assert_eq!((bench.sky.inner.unread(), interrupted(&bench).len()), (1, 0));
    });
}

#[test]
fn second_warning_of_ending_node_says_nothing_new() {
    with_queue(async |bench| {
        spot(&bench, 1);
        let _actor = start(&bench);
        let sooner = bench.clock.wall() + SignedDuration::from_secs(30);
        let written =
            json!({"metadata": {"annotations": {"dovetail.dev/interruption": format!("spot_interrupted {sooner}")}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &written).unwrap();
        bench.show();
        bench.sky.inner.announce_by(&warning(&bench, "e-2", 1), "r-1");
        bench.pass(2.0).await;
        assert_eq!((interrupted(&bench).len(), deleted(&bench)), (0, vec!["r-1".to_owned()]));
    });
}

#[test]
fn a_claim_that_goes_already_is_left_alone() {
    with_queue(async |bench| {
        spot(&bench, 1);
        bench.delete(&NODE_CLAIMS, "default-1");
        bench.show();
        let _actor = start(&bench);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(2.0).await;
        assert_eq!((interrupted(&bench).len(), deleted(&bench)), (0, vec!["r-1".to_owned()]));
    });
}

#[test]
fn karpenters_way_marks_nothing_and_packs_nothing_beforehand() {
    let evict = Settings { interruption: Interruptions::Evict, ..settings() };
    alone_with(evict, |bench| async move {
        spot(&bench, 1);
        let _actor = start(&bench);
        bench.sky.inner.announce_by(&warning(&bench, "e-1", 1), "r-1");
        bench.pass(1.0).await;
        assert_eq!((bench.heard.count::<MarkDeleting>(), bench.heard.count::<PackNow>()), (0, 0));
        assert_eq!(interrupted(&bench).len(), 1);
    });
}

#[test]
fn rebalance_recommendation_is_said_and_followed_only_if_asked() {
    for (rebalance, follows) in [(Rebalance::Event, 0), (Rebalance::Replace, 1)] {
        alone_with(Settings { rebalance, ..settings() }, |bench| async move {
            spot(&bench, 1);
            let _actor = start(&bench);
            let detail = json!({"instance-id": id(1)});
            let body = event(&bench, "e-1", "EC2 Instance Rebalance Recommendation", detail);
            bench.sky.inner.announce_by(&body, "r-1");
            bench.pass(1.0).await;
            assert_eq!(bench.records("SpotRebalanceRecommendation").len(), 2, "at the claim and at its Node");
            assert_eq!((interrupted(&bench).len(), deleted(&bench).len()), (follows, 1), "{rebalance:?}");
        });
    }
}

#[test]
fn a_reservation_that_is_taken_back_is_told_to_the_catalogue() {
    with_queue(async |bench| {
        node(&bench, 1);
        let label = json!({"metadata": {"labels": {"karpenter.k8s.aws/capacity-reservation-id": "cr-1"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &label).unwrap();
        bench.show();
        let _actor = start(&bench);
        let detail = json!({"instance-id": id(1), "capacity-reservation-id": "cr-1"});
        let kind = "EC2 Capacity Reservation Instance Interruption Warning";
        bench.sky.inner.announce_by(&event(&bench, "e-1", kind, detail), "r-1");
        bench.pass(1.0).await;
        assert_eq!(bench.heard.last::<ReservationTakenBack>().id, "cr-1");
        assert_eq!(bench.heard.count::<Refused>(), 0, "its type can be had elsewhere");
    });
}

#[test]
fn three_thousand_warnings_at_once_are_all_acted_on() {
    with_queue(async |bench| {
        for number in 1..=150 {
            bench.launched(&format!("default-{number}"), number, &INITIALIZED);
        }
        bench.show();
        let _actor = start(&bench);
        for copy in 0..20 {
            for number in 1..=150 {
                bench
                    .sky
                    .inner
                    .announce_by(&warning(&bench, &format!("e-{number}"), number), &format!("r-{copy}-{number}"));
            }
        }
        bench.pass(30.0).await;
        assert_eq!(interrupted(&bench).len(), 150);
        // Copies that came while the first was being written come again, and are known.
        for copy in 0..20 {
            for number in 1..=150 {
                let again = format!("again-{copy}-{number}");
                bench.sky.inner.announce_by(&warning(&bench, &format!("e-{number}"), number), &again);
            }
        }
        bench.pass(30.0).await;
        assert_eq!(interrupted(&bench).len(), 150);
        assert_eq!(deleted(&bench).iter().filter(|receipt| receipt.starts_with("again")).count(), 3000);
    });
}

pub fn trouble(bench: &Alone, number: u64, kind: InterruptionKind) -> Trouble {
    Trouble {
        instance: id(number),
        kind,
        what: "reachability".into(),
        time: Some(bench.clock.wall() - SignedDuration::from_mins(10)),
    }
}

/// The condition of the pool `default` about its interruptions: status and reason.
fn heard(bench: &Alone) -> Option<(String, String)> {
    let pool = bench.api.get(&NODE_POOLS, "", "default").unwrap();
    let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = conditions.into_iter().find(|one| one["type"] == "dovetail.dev/InterruptionsHeard")?;
    Some((one["status"].as_str().unwrap().to_owned(), one["reason"].as_str().unwrap().to_owned()))
}

/// A pool with a spot node, and the queue's calls fail like this from the start.
async fn lost(bench: &Alone, call: &'static str, fails: Fails) -> Addr<Interruption> {
    bench.class("default");
    bench.pool_of("default", json!({}));
    spot(bench, 1);
    bench.sky.always(call, Some(fails));
    start(bench)
}

#[test]
fn queue_that_cannot_be_read_is_said_where_people_look() {
    for (call, fails) in [("queue_url", Fails::NotThere), ("queue_url", Fails::Never), ("receive", Fails::Never)] {
        with_queue(async |bench| {
            let actor = lost(&bench, call, fails).await;
            bench.pass(5.0).await;
            bench.show();
            let state_now = state(&bench, &actor).await;
            assert!(!state_now.lost.is_empty() && state_now.unheard == 1, "{call}: {state_now:?}");
            assert_eq!((bench.told.count("spot_unheard"), bench.records("InterruptionsNotHeard").len()), (1, 1));
            assert!(bench.records("InterruptionsNotHeard")[0].1.contains("of the queue demo fails"));
            let (status, reason) = heard(&bench).unwrap();
            assert_eq!((status.as_str(), reason.as_str()), ("False", state_now.lost.replace('.', "").as_str()));
            bench.pass(1800.0).await;
            assert_eq!((bench.told.count("spot_unheard"), bench.records("InterruptionsNotHeard").len()), (1, 1));
            bench.sky.always(call, None);
            bench.pass(60.0).await;
            bench.show();
            bench.pass(60.0).await;
            assert_eq!((bench.told.count("spot_heard"), bench.records("InterruptionsHeard").len()), (1, 1));
            let state_now = state(&bench, &actor).await;
            assert_eq!((state_now.lost.as_str(), state_now.unheard, heard(&bench)), ("", 0, None));
        });
    }
}

#[test]
fn queue_that_is_away_for_a_moment_is_not_lost() {
    with_queue(async |bench| {
        let actor = lost(&bench, "receive", Fails::Throttled).await;
        bench.pass(10.0).await;
        assert_eq!((bench.told.count("spot_unheard"), state(&bench, &actor).await.lost.as_str()), (0, ""));
        bench.pass(60.0).await;
        assert_eq!((bench.told.count("spot_unheard"), bench.records("InterruptionsNotHeard").len()), (1, 1));
    });
}
