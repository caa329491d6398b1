//! The pod watcher: which pods wait, are bound or gone is said once to the leader's actors, whatever the watch goes through.

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::messages::{
    ActorState, AttachPods, Detach, NotRead, PodBound, PodGone, PodPending, PodSeen, PodWatcherState, WatchFailed,
    WatchRuns,
};
use dovetail_actors::pod_watcher::PodWatcher;
use dovetail_sandbox::apiserver::{DeleteOptions, PODS};
use serde_json::json;

use crate::alone::{Alone, alone, alone_with, seconds, trace};
use crate::world::wire::{spoiling, spoilt};

fn start(bench: &Alone) -> Addr<PodWatcher> {
    bench.start(PodWatcher::new(&bench.env, bench.client(), bench.ear.clone().into()))
}

fn attach(bench: &Alone, watcher: &Addr<PodWatcher>) {
    let ear = &bench.ear;
    watcher.do_send(AttachPods {
        pending: ear.clone().recipient(),
        bound: vec![ear.clone().recipient(), ear.clone().recipient()],
        gone: vec![ear.clone().recipient(), ear.clone().recipient()],
    });
}

/// A watcher of a leader, that has listed.
async fn leading(bench: &Alone) -> Addr<PodWatcher> {
    let watcher = start(bench);
    attach(bench, &watcher);
    bench.pass(1.0).await;
    bench.heard.forget();
    watcher
}

fn waiting(bench: &Alone) -> Vec<String> {
    bench.heard.all::<PodPending>().iter().map(|pod| pod.uid.clone()).collect()
}

/// A pod of which kube-scheduler has said nothing.
fn unmarked(bench: &Alone, name: &str) -> String {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "pause"}]}});
    bench.api.create(&PODS, "default", pod).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn delete(bench: &Alone, name: &str) {
    bench
        .api
        .delete(&PODS, "default", name, &DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() })
        .unwrap();
}

async fn state(bench: &Alone, watcher: &Addr<PodWatcher>) -> PodWatcherState {
    match bench.state(watcher).await {
        ActorState::PodWatcher(state) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_that_waits_is_said_once_and_is_in_the_state_first() {
    alone(|bench| async move {
        let _watcher = leading(&bench).await;
        let uid = bench.pod("web", None);
        bench.pass(1.0).await;
        // Its status is written once more: nothing new to who waits for it.
        bench.pod_status("web", json!({"message": "still"}));
        bench.pass(5.0).await;
        assert_eq!(waiting(&bench), [uid]);
        let names = bench.heard.names();
        let at = |name| names.iter().position(|one| *one == name).unwrap();
        assert!(at("PodSeen") < at("PodPending"), "{names:?}");
    });
}

#[test]
fn a_standby_is_silent_and_says_all_to_who_attaches() {
    alone(|bench| async move {
        let watcher = start(&bench);
        let uid = bench.pod("web", None);
        let bound = bench.pod("bound", None);
        bench.pass(30.0).await;
        bench.api.bind("default", "bound", "a-node").unwrap();
        bench.pass(1.0).await;
        assert_eq!((waiting(&bench).len(), bench.heard.count::<PodBound>()), (0, 0), "{bound}");
        assert!(bench.heard.count::<PodSeen>() >= 3, "the state hears of all");
        attach(&bench, &watcher);
        bench.pass(0.1).await;
        let said = bench.heard.all::<PodPending>();
        assert_eq!((said.len(), &said[0].uid), (1, &uid));
        let waited = said[0].waited.unwrap();
        assert!(waited >= seconds(30) && waited < seconds(32), "{waited:?}");
    });
}

#[test]
fn after_a_detach_nothing_is_said() {
    alone(|bench| async move {
        let watcher = leading(&bench).await;
        watcher.do_send(Detach);
        bench.pod("web", None);
        bench.pass(5.0).await;
        assert_eq!(waiting(&bench).len(), 0);
        assert_eq!(state(&bench, &watcher).await, PodWatcherState { waiting: 1, undecided: 0, speaks: false });
    });
}

#[test]
fn a_bound_pod_is_told_to_each_with_who_it_is_and_measured() {
    alone(|bench| async move {
        let _watcher = leading(&bench).await;
        let uid = bench.pod("web", None);
        bench.pass(20.0).await;
        bench.api.bind("default", "web", "node-1").unwrap();
        bench.pass(1.0).await;
        let bound = bench.heard.all::<PodBound>();
        assert_eq!(bound.len(), 2);
        assert!(bound.iter().all(|pod| pod.uid == uid && pod.node == "node-1" && pod.waited.name == "web"));
        assert_eq!(bench.told.measured("PodBound"), 1);
        // It is bound for good: what comes of it later is nobody's news.
        delete(&bench, "web");
        bench.pass(1.0).await;
        assert_eq!(bench.heard.count::<PodGone>(), 0);
    });
}

#[test]
fn a_pod_that_goes_while_it_waits_is_gone() {
    alone(|bench| async move {
        let watcher = leading(&bench).await;
        let uid = bench.pod("web", None);
        bench.pass(1.0).await;
        delete(&bench, "web");
        bench.pass(1.0).await;
        let gone = bench.heard.all::<PodGone>();
        assert!(gone.len() == 2 && gone.iter().all(|pod| pod.uid == uid));
        assert_eq!(state(&bench, &watcher).await.waiting, 0);
    });
}

#[test]
fn another_pod_of_the_same_name_waits_for_itself() {
    alone(|bench| async move {
        let _watcher = leading(&bench).await;
        let first = bench.pod("web-0", None);
        bench.pass(1.0).await;
        delete(&bench, "web-0");
        let second = bench.pod("web-0", None);
        bench.pass(1.0).await;
        assert_eq!(waiting(&bench), [first.clone(), second]);
        assert!(bench.heard.all::<PodGone>().iter().all(|pod| pod.uid == first));
    });
}

#[test]
fn who_is_not_marked_waits_after_a_moment_unless_bound() {
    alone(|bench| async move {
        let watcher = leading(&bench).await;
        let slow = unmarked(&bench, "slow");
        unmarked(&bench, "quick");
        bench.pass(0.3).await;
        bench.api.bind("default", "quick", "node-1").unwrap();
        assert_eq!(state(&bench, &watcher).await.undecided, 2);
        bench.pass(1.0).await;
        assert_eq!(waiting(&bench), [slow]);
        assert_eq!(bench.heard.count::<PodBound>(), 0, "nobody was told that it waits");
    });
}

#[test]
fn a_burst_without_marks_is_not_waited_for() {
    alone(|bench| async move {
        let _watcher = leading(&bench).await;
        for n in 0..20 {
            unmarked(&bench, &format!("pod-{n}"));
        }
        bench.pass(0.1).await;
        assert_eq!(waiting(&bench).len(), 20);
        // One alone after it waits for its mark again.
        unmarked(&bench, "late");
        bench.pass(5.0).await;
        assert_eq!(waiting(&bench).len(), 21);
    });
}

#[test]
fn alone_after_a_burst_left_an_unmarked_pod_waits_its_time() {
    alone(|bench| async move {
        let _watcher = leading(&bench).await;
        for n in 0..20 {
            unmarked(&bench, &format!("pod-{n}"));
        }
        bench.pass(0.1).await;
        for n in 0..20 {
            bench.api.bind("default", &format!("pod-{n}"), "node-1").unwrap();
        }
        bench.pass(5.0).await;
        unmarked(&bench, "late");
        bench.pass(0.3).await;
        assert_eq!(waiting(&bench).len(), 20);
        bench.pass(0.5).await;
        assert_eq!(waiting(&bench).len(), 21);
    });
}

#[test]
fn with_never_only_the_mark_of_kube_scheduler_counts() {
    alone_with(Settings { unscheduled_pod_delay: None, ..Settings::default() }, |bench| async move {
        let _watcher = leading(&bench).await;
        (0..25).for_each(|n| drop(unmarked(&bench, &format!("pod-{n}"))));
        bench.pass(60.0).await;
        assert_eq!(waiting(&bench).len(), 0);
        let uid = bench.pod("marked", None);
        bench.pass(1.0).await;
        assert_eq!(waiting(&bench), [uid]);
    });
}

#[test]
fn a_server_that_refuses_the_list_is_told_of_and_outlived() {
    for code in [403, 410, 429, 500, 503] {
        alone(|bench| async move {
            bench.wire.refuse("GET", "/api/v1/pods", 8, code);
            let uid = bench.pod("web", None);
            let watcher = start(&bench);
            attach(&bench, &watcher);
            bench.pass(3.0).await;
            assert!(bench.heard.count::<WatchFailed>() >= 3, "{code}");
            assert_eq!(waiting(&bench).len(), 0);
            bench.pass(60.0).await;
            assert_eq!(waiting(&bench), std::slice::from_ref(&uid), "{code}");
            let asked = bench.wire.count("GET", "/api/v1/pods");
            assert!(asked < 30, "{asked} requests in a minute");
            bench.pass(120.0).await;
            assert_eq!(bench.heard.count::<WatchRuns>(), 1, "{code}: it is said that it runs again");
        });
    }
}

#[test]
fn a_pod_that_cannot_be_read_waits_no_longer() {
    alone(|bench| async move {
        let client = spoiling(bench.client());
        let watcher = bench.start(PodWatcher::new(&bench.env, client, bench.ear.clone().into()));
        attach(&bench, &watcher);
        let uid = bench.pod("web", None);
        bench.pass(1.0).await;
        assert_eq!(waiting(&bench), std::slice::from_ref(&uid));
        bench.api.patch(&PODS, "default", "web", &json!({"metadata": {"annotations": spoilt()}})).unwrap();
        bench.pass(1.0).await;
        let gone = bench.heard.all::<PodGone>();
        assert!(gone.len() == 2 && gone.iter().all(|pod| pod.uid == uid));
        assert_eq!(bench.heard.last::<NotRead>().object.metadata.uid.as_ref(), Some(&uid));
        // Somebody mends it.
        bench.api.patch(&PODS, "default", "web", &json!({"metadata": {"annotations": {"test/odd": null}}})).unwrap();
        bench.pass(1.0).await;
        assert_eq!(waiting(&bench), [uid.clone(), uid]);
    });
}

#[test]
fn a_pod_is_measured_as_started_once_and_only_if_seen_before() {
    alone(|bench| async move {
        let _watcher = leading(&bench).await;
        bench.pod("web", None);
        bench.pass(10.0).await;
        bench.api.bind("default", "web", "node-1").unwrap();
        let ready = || json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        bench.pod_status("web", ready());
        bench.pass(1.0).await;
        bench.pod_status("web", json!({"conditions": [{"type": "Ready", "status": "True"}], "message": "again"}));
        bench.pass(1.0).await;
        assert_eq!(bench.told.measured("PodStarted"), 1);
    });
}

#[test]
fn the_same_pod_has_the_same_trace_in_every_replica() {
    let traces: Vec<_> = (1..3)
        .map(|seed| {
            let (tell, told) = std::sync::mpsc::channel();
            alone(|bench| async move {
                let _watcher = leading(&bench).await;
                bench.pod("web", None);
                bench.pass(1.0).await;
                tell.send(bench.heard.last::<PodPending>().trace.trace_id()).unwrap();
                assert_ne!(bench.heard.last::<PodPending>().trace, trace(seed));
            });
            told.recv().unwrap()
        })
        .collect();
    assert_eq!(traces[0], traces[1]);
}
