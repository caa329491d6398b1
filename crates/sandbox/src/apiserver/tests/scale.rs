//! Five thousand pods are no problem.
use super::*;
use crate::apiserver::PODS;
use futures::StreamExt;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event};

#[tokio::test(start_paused = true)]
async fn five_thousand_pods_are_created_bound_and_seen_by_a_watcher() {
    let server = ApiServer::new(Arc::new(VirtualClock::new(DEFAULT_START)));
    let mut events = watcher::watcher(pods(&server), watcher::Config::default()).boxed();
    for at in 0..5_000 {
        server.create(&PODS, "default", pod_value(&format!("p{at}"))).unwrap();
    }
    for at in 0..5_000 {
        let (name, node) = (format!("p{at}"), format!("n{}", at / 100));
        server.bind("default", &name, &node).unwrap();
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        server.patch_status(&PODS, "default", &name, &status).unwrap();
    }
    let list = pods(&server).list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 5_000);
    assert_eq!(server.pods_on("n7").len(), 100);
    let mut seen = 0;
    while let Some(Ok(event)) = events.next().await {
        match event {
            Event::InitApply(_) => seen += 1,
            Event::InitDone => break,
            _ => {}
        }
    }
    assert_eq!(seen, 5_000);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!(
        "{}",
        status.lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS")).collect::<Vec<_>>().join(" ")
    );
}
