//! A kind listed and watched for ever, with our own back-off: no randomness but the replica's.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::{Api, Resource};
use kube_runtime::watcher::{Config, Event, watcher};
use serde::de::DeserializeOwned;

use crate::backoff::Backoff;
use crate::desk::Desk;
use crate::story::Story;
use crate::woken::when_woken;

/// Longest pause between two attempts: a cluster that is back should not wait long for us.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Failures in a row after which it is told, once.
const WORTH_TELLING: u32 = 3;

/// Tells that something has failed so often in a row, where that is worth telling.
pub fn tell_failed(desk: &Desk, what: &str, failures: u32, error: &str) {
    if failures == WORTH_TELLING {
        desk.tell(Story::Retrying { what: what.to_owned(), error: error.to_owned() });
    }
}

/// Tells that it goes on after so many failures, where those were told of.
pub fn tell_recovered(desk: &Desk, what: &str, failures: u32) {
    if failures >= WORTH_TELLING {
        desk.tell(Story::Recovered { what: what.to_owned(), attempts: failures + 1 });
    }
}

/// Hands every event to `on`. Ends never; the actor that spawned it ends it.
pub async fn watch<K>(api: Api<K>, desk: Desk, kind: &'static str, on: impl FnMut(Event<K>))
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_some(api, Config::default(), desk, kind, on).await;
}

/// The same for those that `config` chooses.
pub async fn watch_some<K>(api: Api<K>, config: Config, desk: Desk, kind: &'static str, on: impl FnMut(Event<K>))
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    // An actor polls all that it has spawned whenever it is sent anything: a watch is deep, and mostly has nothing to say.
    when_woken(for_ever(api, config, desk, kind, on)).await;
}

async fn for_ever<K>(api: Api<K>, config: Config, desk: Desk, kind: &'static str, mut on: impl FnMut(Event<K>))
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut backoff = Backoff::new(Duration::from_millis(200), LONGEST_PAUSE, desk.rng(kind));
    let what = format!("watching {kind}");
    loop {
        let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // Init is said before the list is asked for: only what follows proves that the server answers.
                    if !matches!(event, Event::Init) {
                        tell_recovered(&desk, &what, backoff.failures());
                        backoff.reset();
                    }
                    on(event);
                }
                Err(error) => {
                    let pause = backoff.pause();
                    tell_failed(&desk, &what, backoff.failures(), &error.to_string());
                    tokio::time::sleep(pause).await;
                }
            }
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}
