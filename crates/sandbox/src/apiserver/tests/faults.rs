//! What callers see when things go wrong, and what the log says.
use super::*;
use crate::apiserver::PODS;
use crate::faults::{Direction, Faults, Service};
use crate::log::EventLog;
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, WatchParams};
use std::time::Duration;

fn faulty() -> (ApiServer, Faults, EventLog) {
    let clock = Arc::new(VirtualClock::new(DEFAULT_START));
    let (faults, log) = (Faults::new(3), EventLog::new(clock.clone()));
    let settings = Settings { faults: Some(faults.clone()), log: Some(log.clone()), ..Settings::default() };
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
async fn the_log_has_each_write_and_the_term_of_the_one_who_holds_the_lease() {
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
        (field(1, "verb"), field(1, "resource"), field(1, "object"), field(1, "code")),
        (json!("create"), json!("pods"), json!("default/a"), json!(201))
    );
    assert_eq!((field(2, "code"), field(2, "reason")), (json!(409), json!("AlreadyExists")));
}
