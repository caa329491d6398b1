//! Whatever happens, what a watcher has put together equals the list.
use super::*;
use crate::apiserver::{DeleteOptions, PODS};
use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::runtime::watcher::{self, Event};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Act {
    Create(u8),
    Label(u8, u8),
    Bind(u8),
    Delete(u8, bool),
    Wait(u8),
    Read(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..6_u8).prop_map(Act::Create),
        (0..6_u8, 0..3_u8).prop_map(|(pod, label)| Act::Label(pod, label)),
        (0..6_u8).prop_map(Act::Bind),
        (0..6_u8, any::<bool>()).prop_map(|(pod, now)| Act::Delete(pod, now)),
        (0..200_u8).prop_map(Act::Wait),
        (1..20_u8).prop_map(Act::Read),
    ]
}

type Seen = BTreeMap<String, String>;

/// A cache fed by a watcher, as kube's reflector keeps it.
#[derive(Default)]
struct Cache {
    seen: Seen,
    building: Seen,
}

impl Cache {
    fn hear(&mut self, event: watcher::Result<Event<Pod>>) {
        let entry = |pod: Pod| (pod.name_any(), pod.resource_version().unwrap());
        match event {
            Ok(Event::Init) => self.building.clear(),
            Ok(Event::InitApply(pod)) => self.building.extend([entry(pod)]),
            Ok(Event::InitDone) => self.seen = std::mem::take(&mut self.building),
            Ok(Event::Apply(pod)) => self.seen.extend([entry(pod)]),
            Ok(Event::Delete(pod)) => drop(self.seen.remove(&pod.name_any())),
            Err(_) => {}
        }
    }
}

fn apply(server: &ApiServer, act: &Act) {
    let name = |n: &u8| format!("p{n}");
    // Refusals (it is not there, it is bound) are part of the game.
    match act {
        Act::Create(n) => drop(server.create(&PODS, "default", pod_value(&name(n)))),
        Act::Label(n, l) => {
            drop(server.patch(&PODS, "default", &name(n), &json!({"metadata": {"labels": {"l": l.to_string()}}})))
        }
        Act::Bind(n) => drop(server.bind("default", &name(n), "n1")),
        Act::Delete(n, now) => {
            let options = DeleteOptions { grace_period_seconds: now.then_some(0), ..DeleteOptions::default() };
            drop(server.delete(&PODS, "default", &name(n), &options));
        }
        Act::Wait(_) | Act::Read(_) => {}
    }
}

async fn read(events: &mut (impl Stream<Item = watcher::Result<Event<Pod>>> + Unpin), cache: &mut Cache, count: usize) {
    for _ in 0..count {
        match tokio::time::timeout(Duration::from_millis(10), events.next()).await {
            Ok(Some(event)) => cache.hear(event),
            _ => return,
        }
    }
}

async fn run(acts: &[Act], config: watcher::Config, selected: &str) {
    let server = ApiServer::with(
        Arc::new(VirtualClock::new(DEFAULT_START)),
        ServerSettings { history: 8, lag: 12, ..ServerSettings::default() },
    );
    let mut events = watcher::watcher(pods(&server), config).boxed();
    let mut cache = Cache::default();
    for act in acts {
        apply(&server, act);
        match act {
            Act::Wait(seconds) => tokio::time::sleep(Duration::from_secs(u64::from(*seconds))).await,
            Act::Read(count) => read(&mut events, &mut cache, usize::from(*count)).await,
            _ => {}
        }
    }
    read(&mut events, &mut cache, 1000).await;
    let selector = crate::apiserver::ListSelector::parse(Some(selected), None).unwrap();
    let text = |v: &Value, field: &str| v["metadata"][field].as_str().unwrap().to_owned();
    let there: Seen = server
        .list_selected(&PODS, Some("default"), &selector)
        .iter()
        .map(|v| (text(v, "name"), text(v, "resourceVersion")))
        .collect();
    assert_eq!(cache.seen, there);
    let bound: usize = server.list(&PODS).iter().filter(|p| p["spec"]["nodeName"] == "n1").count();
    assert_eq!(server.pods_on("n1").len(), bound);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_watcher_s_cache_equals_the_list_in_the_end(acts in prop::collection::vec(act(), 0..60), streaming: bool, selecting: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let config = if streaming { watcher::Config::default().streaming_lists() } else { watcher::Config::default().page_size(2) };
        let (config, selected) = if selecting { (config.labels("l=1"), "l=1") } else { (config, "") };
        runtime.block_on(run(&acts, config, selected));
    }
}
