//! Watches: what kube's watcher sees.
use super::*;
use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::runtime::watcher::{self, Event};
use std::time::Duration;
use tokio::time::Instant;

type Events = std::pin::Pin<Box<dyn Stream<Item = watcher::Result<Event<Pod>>> + Send>>;

fn watch(server: &ApiServer, config: watcher::Config) -> Events {
    watcher::watcher(pods(server), config).boxed()
}

/// The next `count` events, short.
async fn next(events: &mut Events, count: usize) -> Vec<String> {
    let short = |event: watcher::Result<Event<Pod>>| match event {
        Ok(Event::Init) => "init".to_owned(),
        Ok(Event::InitDone) => "done".to_owned(),
        Ok(Event::InitApply(pod)) => format!("has {}", pod.name_any()),
        Ok(Event::Apply(pod)) => format!("apply {}", pod.name_any()),
        Ok(Event::Delete(pod)) => format!("delete {}", pod.name_any()),
        Err(error) => format!("error {error}"),
    };
    events.take(count).map(short).collect().await
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_what_is_there_and_then_every_change() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
        watcher::Config::default().page_size(1),
    ] {
        let server = server();
        make(&server, "a").await;
        make(&server, "b").await;
        let mut events = watch(&server, config);
        assert_eq!(next(&mut events, 4).await, ["init", "has a", "has b", "done"]);
        make(&server, "c").await;
        pods(&server).delete("a", &DeleteParams::default()).await.unwrap();
        assert_eq!(next(&mut events, 2).await, ["apply c", "delete a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_lives_for_hours_by_bookmarks() {
    let server = server();
    let mut events = watch(&server, watcher::Config::default());
    assert_eq!(next(&mut events, 2).await, ["init", "done"]);
    let waited = tokio::time::timeout(Duration::from_secs(12_000), events.next()).await;
    assert!(waited.is_err(), "{waited:?}");
    // More changes of other kinds than the history holds do not matter: bookmarks kept the version fresh.
    for at in 0..100 {
        server
            .create(&crate::apiserver::CONFIG_MAPS, "default", json!({"metadata": {"name": format!("m{at}")}}))
            .unwrap();
    }
    make(&server, "a").await;
    assert_eq!(next(&mut events, 1).await, ["apply a"]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_the_stream_ends_on_time() {
    let server = server();
    let start = Instant::now();
    let params = WatchParams { timeout: Some(150), ..WatchParams::default() };
    let events = pods(&server).watch(&params, "0").await.unwrap();
    let times: Vec<u64> = events
        .map(|event| {
            assert!(matches!(event, Ok(WatchEvent::Bookmark(_))), "{event:?}");
            start.elapsed().as_secs()
        })
        .collect()
        .await;
    assert_eq!(times, [60, 120, 148]);
    assert_eq!(start.elapsed().as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_forgotten_version_gets_410_and_starts_over() {
    let server = server();
    let old = make(&server, "a").await.resource_version().unwrap();
    for at in 0..100 {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"at": at.to_string()}}}));
        pods(&server).patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    let events: Vec<_> = pods(&server).watch(&WatchParams::default(), &old).await.unwrap().collect().await;
    assert!(
        matches!(&events[..], [Ok(WatchEvent::Error(status))] if status.code == 410 && status.reason == "Expired"),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_reads_too_slowly_is_cut_and_recovers() {
    let server = server();
    make(&server, "a").await;
    let mut events = watch(&server, watcher::Config::default());
    assert_eq!(next(&mut events, 3).await, ["init", "has a", "done"]);
    make(&server, "b").await;
    assert_eq!(next(&mut events, 1).await, ["apply b"]);
    for at in 0..100 {
        make(&server, &format!("c{at}")).await;
    }
    let error = &next(&mut events, 1).await[0];
    assert!(error.contains("too old resource version"), "{error}");
    let again = next(&mut events, 104).await;
    assert_eq!((again[0].as_str(), again[103].as_str()), ("init", "done"));
}

#[tokio::test(start_paused = true)]
async fn object_entering_or_leaving_a_watch_is_added_or_deleted() {
    let server = server();
    make(&server, "a").await;
    let mut events = watch(&server, watcher::Config::default().labels("tier=gold"));
    assert_eq!(next(&mut events, 2).await, ["init", "done"]);
    let label = |tier: &str| Patch::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
    pods(&server).patch("a", &PatchParams::default(), &label("gold")).await.unwrap();
    pods(&server).patch("a", &PatchParams::default(), &label("tin")).await.unwrap();
    assert_eq!(next(&mut events, 2).await, ["apply a", "delete a"]);
    let mut unbound = watch(&server, watcher::Config::default().fields("spec.nodeName="));
    assert_eq!(next(&mut unbound, 3).await, ["init", "has a", "done"]);
    server.bind("default", "a", "n1").unwrap();
    assert_eq!(next(&mut unbound, 1).await, ["delete a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_namespace_does_not_hear_of_others() {
    let server = server();
    let mut events = watch(&server, watcher::Config::default());
    assert_eq!(next(&mut events, 2).await, ["init", "done"]);
    server.create(&crate::apiserver::PODS, "kube-system", pod_value("x")).unwrap();
    make(&server, "a").await;
    assert_eq!(next(&mut events, 1).await, ["apply a"]);
}

#[tokio::test(start_paused = true)]
async fn burst_longer_than_history_does_not_cut_an_open_watch() {
    let server = ApiServer::with(
        Arc::new(VirtualClock::new(DEFAULT_START)),
        ServerSettings { history: 8, lag: 1_000, ..ServerSettings::default() },
    );
    let mut events = watch(&server, watcher::Config::default());
    assert_eq!(next(&mut events, 2).await, ["init", "done"]);
    make(&server, "first").await;
    assert_eq!(next(&mut events, 1).await, ["apply first"]);
    for at in 0..500 {
        server.create(&crate::apiserver::PODS, "default", pod_value(&format!("p{at}"))).unwrap();
    }
    let seen = next(&mut events, 500).await;
    assert!(seen.iter().all(|e| e.starts_with("apply p")), "{seen:?}");
}
