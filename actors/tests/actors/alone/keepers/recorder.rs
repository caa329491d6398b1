//! The recorder: events for people, each once in its time, and never at the cost of anything else.

use actix::prelude::*;
use dovetail_actors::messages::{ActorState, Record, RecorderState, reference};
use dovetail_actors::recorder::Recorder;
use dovetail_sandbox::apiserver::{EVENTS, PODS};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::json;

use crate::alone::wire::{Act, status};
use crate::alone::{Alone, alone, seconds};

fn start(bench: &Alone) -> Addr<Recorder> {
    bench.start(Recorder::new(&bench.env, bench.client()))
}

fn pod(name: &str) -> ObjectReference {
    reference("v1", "Pod", "default", name, &format!("uid-of-{name}"))
}

/// The messages of the events that were written, in their order.
fn written(bench: &Alone) -> Vec<String> {
    let mut all = bench.api.list(&EVENTS);
    all.sort_by_key(|event| event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
    all.iter().map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

async fn state(bench: &Alone, recorder: &Addr<Recorder>) -> RecorderState {
    match bench.state(recorder).await {
        ActorState::Recorder(state) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_event_is_written_beside_its_object_by_karpenters_name() {
    alone(|bench| async move {
        let recorder = start(&bench);
        recorder.do_send(Record::warning(pod("web"), "FailedScheduling", "no room"));
        recorder.do_send(Record::normal(reference("v1", "Node", "", "node-1", "node-1"), "Registered", "there"));
        bench.pass(1.0).await;
        let all = bench.api.list(&EVENTS);
        let of = |name: &str| all.iter().find(|event| event["involvedObject"]["name"] == name).unwrap();
        let (web, node) = (of("web"), of("node-1"));
        assert_eq!((&web["type"], &web["reason"]), (&json!("Warning"), &json!("FailedScheduling")));
        assert_eq!(
            (&web["source"]["component"], &web["metadata"]["namespace"]),
            (&json!("karpenter"), &json!("default"))
        );
        assert_eq!((&node["type"], &node["metadata"]["namespace"]), (&json!("Normal"), &json!("default")));
        let now = state(&bench, &recorder).await;
        assert_eq!((now.waiting, now.written, now.dropped), (0, 2, 0));
        let shown = &now.latest[0];
        assert_eq!((shown.kind.as_str(), shown.namespace.as_str(), shown.name.as_str()), ("Pod", "default", "web"));
        assert_eq!((shown.reason.as_str(), shown.message.as_str()), ("FailedScheduling", "no room"));
        assert!(shown.warning && shown.written && !now.latest[1].warning, "{:?}", now.latest);
    });
}

#[test]
fn what_holds_for_many_objects_is_said_at_one_of_them() {
    alone(|bench| async move {
        let recorder = start(&bench);
        for name in ["a", "b", "c"] {
            let event = Record::warning(pod(name), "SpotSLRCreationFailed", "no role");
            recorder.do_send(event.once_for_all_of("nodeclaims of default").quiet_for(seconds(3600)));
            bench.pass(600.0).await;
        }
        assert_eq!(written(&bench).len(), 1);
        bench.pass(1900.0).await;
        let again = Record::warning(pod("d"), "SpotSLRCreationFailed", "no role");
        recorder.do_send(again.once_for_all_of("nodeclaims of default").quiet_for(seconds(3600)));
        bench.pass(1.0).await;
        // The first was forgotten by the API server after an hour.
        assert_eq!(bench.api.list(&EVENTS).last().unwrap()["involvedObject"]["name"], "d");
    });
}

#[test]
fn the_same_is_said_again_when_its_quiet_time_is_over() {
    alone(|bench| async move {
        let recorder = start(&bench);
        let event = || Record::warning(pod("web"), "FailedScheduling", "no room").quiet_for(seconds(300));
        for _ in 0..29 {
            recorder.do_send(event());
            bench.pass(10.0).await;
        }
        assert_eq!(written(&bench).len(), 1, "290 s");
        bench.pass(11.0).await;
        recorder.do_send(event());
        bench.pass(1.0).await;
        assert_eq!(written(&bench).len(), 2);
    });
}

#[test]
fn what_differs_in_object_reason_or_words_is_another_event() {
    alone(|bench| async move {
        let recorder = start(&bench);
        recorder.do_send(Record::normal(pod("a"), "Evicted", "one"));
        recorder.do_send(Record::normal(pod("b"), "Evicted", "one"));
        recorder.do_send(Record::normal(pod("a"), "Disrupted", "one"));
        recorder.do_send(Record::normal(pod("a"), "Evicted", "two"));
        bench.pass(1.0).await;
        assert_eq!(written(&bench), ["one", "one", "one", "two"]);
    });
}

#[test]
fn objects_without_a_uid_are_told_apart_by_their_names() {
    alone(|bench| async move {
        let recorder = start(&bench);
        for name in ["default-a", "default-b"] {
            // As of a claim that is about to be made.
            let claim = reference("karpenter.sh/v1", "NodeClaim", "", name, "");
            recorder.do_send(Record::normal(claim, "DisruptionLaunching", "Launched to replace node-1"));
        }
        bench.pass(1.0).await;
        assert_eq!(written(&bench).len(), 2);
    });
}

#[test]
fn nominated_is_said_ten_times_at_once_and_then_five_a_second() {
    alone(|bench| async move {
        let recorder = start(&bench);
        let nominate = |from: u32, count: u32| {
            for n in from..from + count {
                recorder.do_send(Record::normal(pod(&format!("pod-{n}")), "Nominated", "should schedule"));
            }
        };
        nominate(0, 50);
        recorder.do_send(Record::warning(pod("other"), "FailedScheduling", "no room"));
        bench.pass(1.0).await;
        assert_eq!(written(&bench).len(), 11, "others are not held up");
        nominate(100, 50);
        bench.pass(0.5).await;
        assert_eq!(written(&bench).len(), 16);
        bench.pass(60.0).await;
        nominate(200, 50);
        bench.pass(0.5).await;
        assert_eq!(written(&bench).len(), 26, "no more than the burst, however long it was quiet");
    });
}

#[test]
fn an_event_that_is_refused_is_dropped_and_the_next_is_written() {
    for code in [403, 404, 409, 422, 429, 500] {
        alone(|bench| async move {
            let recorder = start(&bench);
            bench.wire.refuse("POST", "/events", 1, code);
            recorder.do_send(Record::normal(pod("a"), "Evicted", "one"));
            recorder.do_send(Record::normal(pod("b"), "Evicted", "two"));
            bench.pass(1.0).await;
            assert_eq!(written(&bench), ["two"], "{code}");
            let now = state(&bench, &recorder).await;
            assert_eq!((now.waiting, now.written, now.dropped), (0, 1, 1));
            let written: Vec<bool> = now.latest.iter().map(|one| one.written).collect();
            assert_eq!(written, [false, true], "the console says which the cluster does not have");
            assert_eq!(bench.told.measured("EventWritten { reason: \"Evicted\", written: false }"), 1);
        });
    }
}

#[test]
fn silent_server_holds_an_event_up_for_five_seconds() {
    alone(|bench| async move {
        let recorder = start(&bench);
        bench.wire.next("POST", "/events", 2, Act::Hang);
        for name in ["a", "b", "c"] {
            recorder.do_send(Record::normal(pod(name), "Evicted", name));
        }
        bench.pass(9.0).await;
        let now = state(&bench, &recorder).await;
        assert_eq!((now.waiting, now.written, now.dropped), (1, 0, 1));
        bench.pass(2.0).await;
        assert_eq!(written(&bench), ["c"]);
    });
}

#[test]
fn while_nothing_is_answered_a_thousand_wait_and_no_more() {
    alone(|bench| async move {
        let recorder = start(&bench);
        bench.wire.next("POST", "/events", 1, Act::Hang);
        for n in 0..1500 {
            recorder.do_send(Record::normal(pod(&format!("pod-{n}")), "Evicted", "one"));
        }
        bench.pass(1.0).await;
        let now = state(&bench, &recorder).await;
        assert_eq!((now.waiting, now.dropped), (1000, 499), "one is being written");
        bench.pass(60.0).await;
        assert_eq!(written(&bench).len(), 1000);
        let now = state(&bench, &recorder).await;
        assert_eq!((now.dropped, now.latest.len()), (500, 50), "the latest are kept");
    });
}

#[test]
fn unwritten_event_is_repeated_after_two_minutes() {
    for act in [Act::Answer(500, status(500)), Act::Answer(422, status(422)), Act::Hang] {
        alone(|bench| async move {
            let recorder = start(&bench);
            let event = || Record::warning(pod("web"), "LaunchHeld", "no room").quiet_for(seconds(3600));
            bench.wire.next("POST", "/events", 1, act);
            recorder.do_send(event());
            bench.pass(10.0).await;
            recorder.do_send(event());
            bench.pass(1.0).await;
            let asked = bench.wire.count("POST", "/events");
            assert_eq!((written(&bench).len(), asked), (0, 1), "it is not repeated at once");
            bench.pass(120.0).await;
            recorder.do_send(event());
            bench.pass(1.0).await;
            assert_eq!(written(&bench).len(), 1);
            bench.pass(600.0).await;
            recorder.do_send(event());
            bench.pass(1.0).await;
            assert_eq!(written(&bench).len(), 1, "now it has been said");
        });
    }
}

#[test]
fn what_found_no_room_to_wait_is_said_again_after_two_minutes() {
    alone(|bench| async move {
        let recorder = start(&bench);
        bench.wire.next("POST", "/events", 1, Act::Hang);
        for n in 0..1001 {
            recorder.do_send(Record::normal(pod(&format!("pod-{n}")), "Evicted", "one"));
        }
        let event = || Record::warning(pod("web"), "LaunchHeld", "no room").quiet_for(seconds(3600));
        recorder.do_send(event());
        bench.pass(1.0).await;
        assert_eq!(state(&bench, &recorder).await.dropped, 1);
        bench.pass(130.0).await;
        recorder.do_send(event());
        bench.pass(1.0).await;
        assert!(written(&bench).contains(&"no room".to_owned()));
    });
}

#[test]
fn an_event_of_a_namespace_that_is_gone_is_dropped() {
    alone(|bench| async move {
        let recorder = start(&bench);
        let gone = reference("v1", "Pod", "no-such-namespace", "web", "1");
        recorder.do_send(Record::normal(gone, "Evicted", "one"));
        recorder.do_send(Record::normal(pod("b"), "Evicted", "two"));
        bench.pass(1.0).await;
        assert_eq!(written(&bench), ["two"]);
        assert_eq!(bench.api.list(&PODS).len(), 0);
    });
}
