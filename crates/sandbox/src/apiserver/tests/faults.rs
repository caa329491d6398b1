//! Faults as callers see them, and as the log records them.
use super::*;
use crate::apiserver::PODS;
use crate::faults::{Direction, FaultsInForce, Service};
use crate::log::EventLog;
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, WatchParams};
use std::time::Duration;

fn faulty() -> (ApiServer, FaultsInForce, EventLog) {
    let clock = Arc::new(VirtualClock::new(DEFAULT_START));
    let (faults, log) = (FaultsInForce::new(3), EventLog::new(clock.clone()));
    let settings = ServerSettings { faults: Some(faults.clone()), log: Some(log.clone()), ..ServerSettings::default() };
    (ApiServer::with(clock, settings), faults, log)
}

fn replica(server: &ApiServer, number: u32) -> Api<Pod> {
    Api::namespaced(server.client(Caller::replica(number, "controller")), "default")
}

#[tokio::test(start_paused = true)]
async fn a_partitioned_replica_gets_no_answer_and_others_do() {
    let (server, faults, _) = faulty();
    faults.partition(0, &[Service::ApiServer], Direction::Both);
    let start = tokio::time::Instant::now();
    assert!(replica(&server, 0).create(&PostParams::default(), &pod("a")).await.is_err());
    assert!(start.elapsed() >= Duration::from_secs(10));
    assert!(server.get(&PODS, "default", "a").is_none());
    replica(&server, 1).create(&PostParams::default(), &pod("a")).await.unwrap();
    faults.partition(0, &[Service::ApiServer], Direction::In);
    assert!(replica(&server, 0).create(&PostParams::default(), &pod("b")).await.is_err());
    assert!(server.get(&PODS, "default", "b").is_some(), "the request was carried out, the answer was lost");
}

#[tokio::test(start_paused = true)]
async fn events_of_a_watch_wait_until_the_partition_heals() {
    let (server, faults, _) = faulty();
    let mut events = replica(&server, 0).watch(&WatchParams::default(), "0").await.unwrap().boxed();
    faults.partition(0, &[Service::ApiServer], Direction::Both);
    server.create(&PODS, "default", pod_value("a")).unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(50), events.next()).await.is_err());
    faults.heal(0, &[Service::ApiServer]);
    assert!(matches!(events.next().await, Some(Ok(kube::api::WatchEvent::Added(_)))));
}

#[tokio::test(start_paused = true)]
async fn errors_come_at_the_rate_asked_for_and_change_nothing() {
    let (server, faults, _) = faulty();
    faults.change(|s| (s.api_server.error_rate, s.api_server.throttle_rate) = (0.5, 0.5));
    let mut codes = std::collections::BTreeMap::new();
    for at in 0..100 {
        let error = refusal(replica(&server, 0).create(&PostParams::default(), &pod(&format!("p{at}"))).await);
        *codes.entry(error.code).or_insert(0) += 1;
    }
    assert!(codes.keys().all(|c| [429, 500, 503, 504].contains(c)) && codes[&429] > 30, "{codes:?}");
    assert!(server.list(&PODS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_cut_off_and_a_latency_is_waited_for() {
    let (server, faults, _) = faulty();
    faults.change(|s| s.api_server.latency = Duration::from_millis(200));
    let start = tokio::time::Instant::now();
    replica(&server, 0).list(&ListParams::default()).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(200));
    faults.change(|s| s.api_server.error_rate = 1.0);
    let mut cut = 0;
    for _ in 0..8 {
        let Ok(events) = replica(&server, 0).watch(&WatchParams::default(), "0").await else { continue };
        let start = tokio::time::Instant::now();
        events.collect::<Vec<_>>().await;
        assert!(start.elapsed() < Duration::from_secs(120));
        cut += 1;
    }
    assert!(cut > 2, "{cut}");
}

#[tokio::test(start_paused = true)]
async fn log_has_each_write_and_the_term_of_the_lease_holder() {
    let (server, _, log) = faulty();
    let leases: Api<Lease> = Api::namespaced(server.client(Caller::replica(2, "controller")), "kube-system");
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseTransitions": 7}});
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    replica(&server, 2).create(&PostParams::default(), &pod("a")).await.unwrap();
    let late = replica(&server, 2).create(&PostParams::default(), &pod("a")).await;
    assert!(late.is_err());
    let entries = log.entries();
    let field = |at: usize, name: &str| entries[at].field(name).cloned().unwrap_or_default();
    assert_eq!(entries.len(), 3);
    assert_eq!((entries[1].kind.as_str(), entries[1].replica, entries[1].term), ("api", Some(2), Some(7)));
    assert_eq!(
        (field(1, "verb"), field(1, "resource"), field(1, "namespace"), field(1, "name"), field(1, "code")),
        (json!("create"), json!("pods"), json!("default"), json!("a"), json!(201))
    );
    assert_eq!((field(2, "code"), field(2, "reason")), (json!(409), json!("AlreadyExists")));
    assert_eq!(field(1, "answerLost"), json!(null));
}

#[tokio::test(start_paused = true)]
async fn log_marks_a_lost_answer_and_leaves_out_dry_runs() {
    let (server, faults, log) = faulty();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    replica(&server, 0).create(&dry, &pod("a")).await.unwrap();
    assert!(log.is_empty());
    faults.change(|s| s.api_server.timeout_rate = 1.0);
    assert!(replica(&server, 0).create(&PostParams::default(), &pod("a")).await.is_err());
    assert_eq!(log.entries()[0].field("answerLost"), Some(&json!(true)));
    assert!(server.get(&PODS, "default", "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn held_write_arrives_late_and_unheard_unless_server_is_down() {
    let (server, faults, _) = faulty();
    let (second, there) = (Duration::from_secs(1), |name: &str| server.get(&PODS, "default", name).is_some());
    let (own, params) = (replica(&server, 0), PostParams::default());
    faults.hold_writes(0, 30 * second, Some(second));
    let others = async {
        replica(&server, 1).create(&params, &pod("of-another")).await.unwrap();
        own.list(&ListParams::default()).await.unwrap();
        tokio::time::sleep(2 * second).await;
        own.create(&params, &pod("later")).await.unwrap();
        tokio::time::sleep(27 * second).await;
        assert!(!there("held") && there("later"));
        tokio::time::sleep(2 * second).await;
        assert!(there("held"));
    };
    let held = pod("held");
    let (told, ()) = tokio::join!(own.create(&params, &held), others);
    assert!(told.is_err(), "nobody is told");
    faults.hold_writes(0, 30 * second, Some(second));
    let lost = pod("lost");
    let goes_down = async {
        tokio::time::sleep(25 * second).await;
        faults.take_down(tokio::time::Instant::now() + 10 * second);
    };
    let (told, ()) = tokio::join!(own.create(&params, &lost), goes_down);
    assert!(told.is_err() && !there("lost"));
}

#[tokio::test(start_paused = true)]
async fn write_received_is_carried_out_though_its_sender_is_gone() {
    let (server, faults, log) = faulty();
    faults.change(|s| s.api_server.latency = Duration::from_millis(400));
    for at in 0..40 {
        let api = replica(&server, 0);
        let (name, params) = (pod(&format!("p{at:02}")), PostParams::default());
        let sent = tokio::time::timeout(Duration::from_millis(200), api.create(&params, &name));
        assert!(sent.await.is_err(), "given up");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let written = server.list(&PODS).len();
    assert!((5..=35).contains(&written), "{written} of 40 had arrived");
    assert_eq!(log.len(), written);
    let at = |at: usize| log.entries()[at].micros % 1_200_000;
    let late = (0..written).filter(|n| at(*n) > 200_000).count();
    assert!((1..written).contains(&late), "{late} of {written} were carried out after their senders' end");
}

#[tokio::test(start_paused = true)]
async fn log_tells_when_lease_was_asked_and_term_starts_at_its_answer() {
    let (server, faults, log) = faulty();
    faults.change(|s| s.api_server.latency = Duration::from_secs(1));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let leases: Api<Lease> = Api::namespaced(server.client(Caller::replica(2, "controller")), "kube-system");
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseTransitions": 7}});
    let lease: Lease = serde_json::from_value(lease).unwrap();
    let params = PostParams::default();
    let mut sender = Box::pin(leases.create(&params, &lease));
    while log.is_empty() {
        let step = tokio::time::timeout(Duration::from_millis(10), &mut sender).await;
        assert!(step.is_err(), "its answer takes longer");
    }
    let entry = log.entries().remove(0);
    assert_eq!(entry.field("asked"), Some(&json!(1.5)));
    assert!((1_500_000..2_500_000).contains(&entry.micros), "{}", entry.micros);
    assert_eq!((entry.term, log.term_of(2)), (None, None), "its answer is on its way");
    sender.await.unwrap();
    assert_eq!(log.term_of(2), Some(7));
}

#[tokio::test(start_paused = true)]
async fn restart_refuses_all_ends_every_watch_and_loses_nothing() {
    let (server, faults, _) = faulty();
    server.create(&PODS, "default", pod_value("a")).unwrap();
    let version = server.version().to_string();
    server.create(&PODS, "default", pod_value("b")).unwrap();
    let events = replica(&server, 0).watch(&WatchParams::default(), &server.version().to_string()).await.unwrap();
    faults.take_down(tokio::time::Instant::now() + Duration::from_secs(20));
    server.restart();
    assert_eq!(events.collect::<Vec<_>>().await.len(), 0, "it ends");
    let mut refused = 0;
    while replica(&server, 0).list(&ListParams::default()).await.is_err() {
        refused += 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((15..=20).contains(&refused), "{refused}");
    assert_eq!(replica(&server, 0).list(&ListParams::default()).await.unwrap().items.len(), 2);
    let mut events = replica(&server, 0).watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let first = events.next().await.unwrap();
    assert!(matches!(&first, Ok(kube::api::WatchEvent::Error(why)) if why.code == 410), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_watches_tell_late_and_in_order() {
    let (server, faults, _) = faulty();
    faults.set_watches_late(Duration::from_secs(5));
    let mut events =
        replica(&server, 0).watch(&WatchParams::default(), &server.version().to_string()).await.unwrap().boxed();
    let start = tokio::time::Instant::now();
    server.create(&PODS, "default", pod_value("a")).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.create(&PODS, "default", pod_value("b")).unwrap();
    assert_eq!(replica(&server, 0).list(&ListParams::default()).await.unwrap().items.len(), 2, "a list is not late");
    for (name, seconds) in [("a", 5), ("b", 7)] {
        let Some(Ok(kube::api::WatchEvent::Added(pod))) = events.next().await else { panic!("{name}") };
        assert_eq!((pod.metadata.name.as_deref(), start.elapsed().as_secs()), (Some(name), seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn restored_server_has_old_objects_under_unseen_versions() {
    let (server, _, _) = faulty();
    server.create(&PODS, "default", pod_value("gone-since")).unwrap();
    server.create(&PODS, "default", pod_value("changed-since")).unwrap();
    let then = server.get(&PODS, "default", "changed-since").unwrap();
    let snapshot = server.snapshot();
    let options = crate::apiserver::DeleteOptions { grace_period_seconds: Some(0), ..Default::default() };
    server.delete(&PODS, "default", "gone-since", &options).unwrap();
    server.patch(&PODS, "default", "changed-since", &json!({"metadata": {"labels": {"app": "other"}}})).unwrap();
    server.create(&PODS, "default", pod_value("come-since")).unwrap();
    let (seen, mut told) = (server.version(), server.subscribe(&[PODS]));
    let events = replica(&server, 0).watch(&WatchParams::default(), &seen.to_string()).await.unwrap();
    let changed = server.restore(&snapshot);
    assert_eq!(changed.len(), 3);
    assert_eq!(events.collect::<Vec<_>>().await.len(), 0, "the watch ends");
    assert_eq!(server.get(&PODS, "default", "changed-since").unwrap(), then, "with its version");
    assert!(server.get(&PODS, "default", "gone-since").is_some());
    assert!(server.get(&PODS, "default", "come-since").is_none());
    assert!(server.version() > seen + 1000);
    let mut heard = 0;
    while told.try_recv().is_ok() {
        heard += 1;
    }
    assert_eq!(heard, 4, "one came, one went, and one went and came");
    let mut events = replica(&server, 0).watch(&WatchParams::default(), &seen.to_string()).await.unwrap().boxed();
    let first = events.next().await.unwrap();
    assert!(matches!(&first, Ok(kube::api::WatchEvent::Error(why)) if why.code == 410), "{first:?}");
}
