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
/// Longest wait for the next part of a list: a server that is gone without a word says nothing for ever.
const LISTED_WITHIN: Duration = Duration::from_secs(60);
/// A watch that has not failed for so long has run: one that goes on says nothing where nothing has changed. Longer than an
/// attempt takes that nobody answers.
const RAN: Duration = Duration::from_secs(60);
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

/// What is heard of a watch.
pub enum Heard<K> {
    /// What it says.
    Event(Event<K>),
    /// It has failed, and is asked for again after this pause.
    Failed(Duration),
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It goes on where it was: a server that is as it was shows what has changed.
    GoOn,
    /// It lists anew: what it says next is what there is.
    ListAnew,
}

/// Hands everything to `on`. Ends never; the actor that spawned it ends it.
pub async fn watch<K>(api: Api<K>, desk: Desk, kind: &'static str, after: After, on: impl FnMut(Heard<K>))
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    // An actor polls all that it has spawned whenever it is sent anything: a watch is deep, and mostly has nothing to say.
    when_woken(for_ever(api, Config::default(), (desk, kind), after, on)).await;
}

/// Hands every event of those that `config` chooses to `on`.
pub async fn watch_some<K>(api: Api<K>, config: Config, desk: Desk, kind: &'static str, mut on: impl FnMut(Event<K>))
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = move |heard| {
        if let Heard::Event(event) = heard {
            on(event);
        }
    };
    when_woken(for_ever(api, config, (desk, kind), After::GoOn, events)).await;
}

async fn for_ever<K>(
    api: Api<K>,
    config: Config,
    (desk, kind): (Desk, &'static str),
    after: After,
    mut on: impl FnMut(Heard<K>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut backoff = Backoff::new(Duration::from_millis(200), LONGEST_PAUSE, desk.rng(kind));
    let what = format!("watching {kind}");
    let (mut listing, mut failed) = (false, Duration::ZERO);
    loop {
        let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
        loop {
            let within = if listing { LISTED_WITHIN } else { Duration::MAX };
            let (error, anew) = match tokio::time::timeout(within, events.next()).await {
                Ok(Some(Ok(event))) => {
                    // Init is said before the list is asked for: only what follows proves that the server answers.
                    if !matches!(event, Event::Init) {
                        tell_recovered(&desk, &what, backoff.failures());
                        backoff.reset();
                    }
                    listing = matches!(event, Event::Init | Event::InitApply(_));
                    on(Heard::Event(event));
                    continue;
                }
                Ok(Some(Err(error))) => (error.to_string(), after == After::ListAnew),
                Ok(None) => ("the watch has ended".to_owned(), true),
                Err(_) => (format!("no answer to a list within {LISTED_WITHIN:?}"), true),
            };
            let now = desk.now();
            if has_run(listing, now.saturating_sub(failed)) {
                backoff.reset();
            }
            let pause = backoff.pause();
            (listing, failed) = (false, now + pause);
            on(Heard::Failed(pause));
            tell_failed(&desk, &what, backoff.failures(), &error);
            tokio::time::sleep(pause).await;
            if anew {
                break;
            }
        }
    }
}

/// Whether a watch that fails, so long after it was asked for again, has run between: it has not failed in a row.
fn has_run(listing: bool, passed: Duration) -> bool {
    !listing && passed > RAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_nobody_answers_are_failures_in_a_row_and_a_cut_after_long_is_not() {
        let connecting = Duration::from_secs(10);
        assert!(!has_run(false, connecting) && !has_run(false, connecting * 3));
        assert!(!has_run(true, LISTED_WITHIN * 2), "a list that hangs");
        assert!(has_run(false, Duration::from_secs(290)));
    }
}
