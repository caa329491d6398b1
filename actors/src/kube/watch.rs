//! A kind listed and watched for ever, with our own back-off: no randomness but the replica's.

use std::fmt::Debug;
use std::time::Duration;

use dovetail_core::cluster_state::Unreadable;
use futures::StreamExt;
use kube::Resource;
use kube_runtime::watcher::{self, Config, Event, watcher};
use serde::de::DeserializeOwned;

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::kube::failure::KubeFailure;
use crate::kube::listing::Listing;
use crate::kube::woken::when_woken;
use crate::messages::Came;
use crate::reading::{LenientApi, ReadObject};
use crate::telemetry::log_event::LogEvent;

/// Longest pause between two attempts: a cluster that is back should not wait long for us.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Longest wait for the next part of a list: a server that is gone without a word says nothing for ever.
const LISTED_WITHIN: Duration = Duration::from_secs(60);
/// Seconds after which a server ends a watch (timeoutSeconds); kube-runtime gives up one that says nothing for five more. Proxies
/// often forget connections that are idle for a minute, and tell neither side.
const WATCHED_FOR: u32 = 50;
/// Time without failure after which a watch runs: one that continues says nothing while nothing changes. It is longer than an
/// attempt that nobody answers.
const RAN: Duration = Duration::from_secs(90);
/// Refusals in a row after which a watch that goes on where it was lists anew: where it was is what is refused.
const REFUSED_TOO_OFTEN: u32 = 3;
/// The number of failures in a row after which it is reported, once.
const WORTH_TELLING: u32 = 3;

/// Name in log lines for everything that cannot reach the API server.
const EVERYTHING: &str = "watching the cluster";

/// Reports that something has failed this many times in a row, if the number is worth a line.
pub fn tell_failed(env: &Env, what: &str, failures: u32, error: &str) {
    if failures == WORTH_TELLING || (failures > WORTH_TELLING && env.outage.fails_otherwise(what)) {
        env.emit(LogEvent::Retrying { what: what.to_owned(), error: error.to_owned() });
    }
}

/// Like [`tell_failed`], but while the API server cannot be reached one line stands for all that fails for it.
pub fn tell_failure(env: &Env, what: &str, failures: u32, error: &str, unreached: bool) {
    if !unreached {
        tell_failed(env, what, failures, error);
    } else if failures == WORTH_TELLING && env.outage.cannot_reach(what) {
        env.emit(LogEvent::Retrying { what: EVERYTHING.to_owned(), error: error.to_owned() });
    }
}

/// Ends the report of an outage, if there was one: the API server has answered after this many failures, though not as was asked.
pub fn tell_answered(env: &Env, what: &str, failures: u32) {
    if env.outage.reached(what) == Some(true) {
        env.emit(LogEvent::Recovered { what: EVERYTHING.to_owned(), attempts: failures.saturating_add(1) });
    }
}

/// Reports the recovery after this many failures, if they were reported.
pub fn tell_recovered(env: &Env, what: &str, failures: u32) {
    if failures < WORTH_TELLING {
        return;
    }
    let attempts = failures.saturating_add(1);
    match env.outage.reached(what) {
        None => env.emit(LogEvent::Recovered { what: what.to_owned(), attempts }),
        Some(true) => env.emit(LogEvent::Recovered { what: EVERYTHING.to_owned(), attempts }),
        Some(false) => {}
    }
}

pub enum WatchNews<K> {
    Event(Event<K>),
    /// An object that cannot be read, and how it has come: no failure of the watch.
    NotRead(Box<Unreadable>, Came),
    /// The watch has failed with this error and is requested again after this pause.
    Failed(Duration, String),
    /// The watch had failed and is known to run again.
    Runs,
}

impl<K> From<Event<ReadObject<K>>> for WatchNews<K> {
    fn from(event: Event<ReadObject<K>>) -> Self {
        match event {
            Event::Init => Self::Event(Event::Init),
            Event::InitDone => Self::Event(Event::InitDone),
            Event::InitApply(ReadObject::Object(object)) => Self::Event(Event::InitApply(object)),
            Event::Apply(ReadObject::Object(object)) => Self::Event(Event::Apply(object)),
            Event::Delete(ReadObject::Object(object)) => Self::Event(Event::Delete(object)),
            Event::InitApply(ReadObject::Unreadable(object)) => Self::NotRead(object, Came::Listed),
            Event::Apply(ReadObject::Unreadable(object)) => Self::NotRead(object, Came::Changed),
            Event::Delete(ReadObject::Unreadable(object)) => Self::NotRead(object, Came::Gone),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterWatchFailure {
    /// Continues from its last version: an API server that has kept its state sends the changes. Lists anew after three refusals
    /// in a row.
    GoOn,
    /// Lists anew; the next events are the complete list.
    ListAnew,
}

impl AfterWatchFailure {
    /// True if an event, so long after the list or the last failure, proves that the watch runs. A list does not: a server may
    /// answer it and refuse the watch. If each failure costs a list, only time proves it, however many events come.
    fn runs<K>(self, said: &Event<K>, quiet: Duration) -> bool {
        matches!(said, Event::Apply(_) | Event::Delete(_)) && (self == Self::GoOn || quiet >= RAN)
    }

    /// True if the next attempt lists, after so many refusals in a row.
    fn lists_anew(self, refusals: u32) -> bool {
        self == Self::ListAnew || refusals >= REFUSED_TOO_OFTEN
    }
}

/// True if the server itself refuses the request. A server that is away, or for which a proxy answers, refuses nothing, and an
/// overloaded one is not asked for a list.
fn is_refusal(error: &watcher::Error) -> bool {
    let refused = |status: &kube::core::Status| !matches!(status.code, 429 | 502 | 503);
    match error {
        watcher::Error::InitialListFailed(why)
        | watcher::Error::WatchStartFailed(why)
        | watcher::Error::WatchFailed(why) => {
            matches!(why, kube::Error::Api(status) if refused(status))
        }
        watcher::Error::WatchError(status) => refused(status),
        watcher::Error::NoResourceVersion => true,
    }
}

/// True if the server says that it makes no streams of lists. Whatever else it answers may pass: one that has just started forbids
/// everything until it has read its roles.
fn is_refusal_of_streams(error: &watcher::Error) -> bool {
    let refused = |status: &kube::core::Status| matches!(status.code, 400 | 405 | 422);
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => refused(status),
        watcher::Error::WatchError(status) => refused(status),
        _ => false,
    }
}

/// Hands everything to `on`. Ends never; the actor that spawned it ends it.
pub async fn watch<K>(
    api: LenientApi<K>,
    env: Env,
    kind: &'static str,
    after: AfterWatchFailure,
    on: impl FnMut(WatchNews<K>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    // An actor polls all that it has spawned whenever it is sent anything: a watch is deep, and mostly has nothing to say.
    when_woken(for_ever(api, Config::default(), env, kind, after, on)).await;
}

/// Hands what is heard of those that `config` chooses to `on`.
pub async fn watch_some<K>(
    api: LenientApi<K>,
    config: Config,
    env: Env,
    kind: &'static str,
    on: impl FnMut(WatchNews<K>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    when_woken(for_ever(api, config, env, kind, AfterWatchFailure::GoOn, on)).await;
}

/// An event of a watch or its failure; or nothing within the time for which it was listened to.
type Heard<K> = Result<Option<Result<Event<K>, watcher::Error>>, tokio::time::error::Elapsed>;

/// True if what is heard shows that the watch runs.
fn shows_running<K>(said: &Heard<K>, after: &AfterWatchFailure, listing: &Listing, quiet: Duration) -> bool {
    match said {
        Ok(Some(Ok(event))) => after.runs(event, quiet),
        Ok(_) => false,
        Err(_) => !listing.is_under_way(),
    }
}

async fn for_ever<K>(
    api: LenientApi<K>,
    config: Config,
    env: Env,
    kind: &'static str,
    after: AfterWatchFailure,
    mut on: impl FnMut(WatchNews<K>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut backoff = Backoff::new(Duration::from_millis(200), LONGEST_PAUSE, env.rng(kind));
    let what = format!("watching {kind}");
    let _asked = env.outage.asked(&what);
    let config = config.timeout(WATCHED_FOR);
    let mut listing = Listing::new(&env.outage);
    // Since when nothing has failed, and how often in a row it was refused.
    let (mut since, mut refusals) = (env.now(), 0_u32);
    loop {
        let mut events = std::pin::pin!(watcher(api.clone().into_inner(), listing.begin(&config)));
        loop {
            let quiet = env.now().saturating_sub(since);
            let said =
                tokio::time::timeout(waits(listing.is_under_way(), backoff.failures(), quiet), events.next()).await;
            let quiet = env.now().saturating_sub(since);
            if shows_running(&said, &after, &listing, quiet) {
                tell_recovered(&env, &what, backoff.failures());
                if backoff.failures() > 0 {
                    on(WatchNews::Runs);
                }
                backoff.reset();
                refusals = 0;
            }
            let (error, anew, unreached) = match said {
                Ok(Some(Ok(event))) => {
                    if listing.hears(&event) {
                        break;
                    }
                    since = if matches!(event, Event::InitDone) { env.now() } else { since };
                    on(event.into());
                    continue;
                }
                Ok(Some(Err(error))) => {
                    let (refused, cut) = (is_refusal(&error), listing.is_cut_by_failure());
                    let refused_stream = is_refusal_of_streams(&error);
                    let (words, unreached) = in_words(error);
                    if listing.fails(refused_stream.then_some((&env, &*words)), false) {
                        break;
                    }
                    refusals = if refused { refusals.saturating_add(1) } else { 0 };
                    (words, cut || after.lists_anew(refusals), unreached)
                }
                Ok(None) => ("the watch has ended".to_owned(), true, false),
                Err(_) if listing.is_late() => {
                    (format!("no answer to a list within {} s", LISTED_WITHIN.as_secs()), true, true)
                }
                Err(_) => continue,
            };
            let pause = backoff.pause();
            on(WatchNews::Failed(pause, error.clone()));
            tell_failure(&env, &what, backoff.failures(), &error, unreached);
            tokio::time::sleep(pause).await;
            since = env.now();
            if anew {
                refusals = 0;
                break;
            }
        }
    }
}

/// Words for people on the failed step and the server's answer, as kube's own text repeats the answer as Rust has it in memory;
/// and true if the API server cannot be reached.
fn in_words(error: watcher::Error) -> (String, bool) {
    let (what, why) = match error {
        watcher::Error::InitialListFailed(why) => ("the list failed", why),
        watcher::Error::WatchStartFailed(why) => ("the watch did not begin", why),
        watcher::Error::WatchFailed(why) => ("the watch broke off", why),
        watcher::Error::WatchError(status) => ("the API server ended the watch", kube::Error::Api(status)),
        watcher::Error::NoResourceVersion => {
            return ("an object without metadata.resourceVersion was answered".to_owned(), false);
        }
    };
    let failure = KubeFailure::from(why);
    (format!("{what}: {failure}"), failure.is_unreachable())
}

/// Longest wait for the next event while nothing fails.
fn waits(listing: bool, failures: u32, quiet: Duration) -> Duration {
    match (listing, failures) {
        (true, _) => LISTED_WITHIN,
        (false, 0) => Duration::MAX,
        (false, _) => RAN.saturating_sub(quiet),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_fails_a_watch_is_said_in_plain_words() {
        let api = |code, message: &str| Status::failure(message, "Reason").with_code(code).boxed();
        let forbidden = "nodes is forbidden: User \"a\" cannot list resource \"nodes\"";
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused");
        for (error, said) in [
            (
                watcher::Error::InitialListFailed(kube::Error::Api(api(403, forbidden))),
                format!("the list failed: 403 {forbidden}"),
            ),
            (
                watcher::Error::WatchStartFailed(kube::Error::Service(refused.into())),
                "the watch did not begin: Connection refused".to_owned(),
            ),
            (watcher::Error::WatchError(api(410, "too old")), "the API server ended the watch: 410 too old".to_owned()),
            (
                watcher::Error::WatchFailed(kube::Error::ReadEvents(std::io::Error::other("cut off"))),
                "the watch broke off: Error reading events stream: cut off".to_owned(),
            ),
        ] {
            let unreached = said.contains("refused") || said.contains("cut off");
            assert_eq!(in_words(error), (said, unreached));
        }
    }

    #[test]
    fn list_proves_no_watch_change_does_if_failure_costs_no_list() {
        let listed = [Event::Init, Event::InitApply(()), Event::InitDone];
        for after in [AfterWatchFailure::GoOn, AfterWatchFailure::ListAnew] {
            assert!(listed.iter().all(|event| !after.runs(event, RAN)));
        }
        let changed = [Event::Apply(()), Event::Delete(())];
        let early = Duration::from_secs(1);
        assert!(
            changed
                .iter()
                .all(|event| AfterWatchFailure::GoOn.runs(event, early)
                    && !AfterWatchFailure::ListAnew.runs(event, early))
        );
    }

    #[test]
    fn watch_that_goes_on_lists_anew_after_three_refusals_in_a_row() {
        use AfterWatchFailure::{GoOn, ListAnew};
        assert_eq!([0, 1, 2, 3, 9].map(|refusals| GoOn.lists_anew(refusals)), [false, false, false, true, true]);
        assert!(ListAnew.lists_anew(0));
        let api = |code| kube::Error::Api(Status::failure("no", "Reason").with_code(code).boxed());
        for code in [400, 403, 404, 410, 422, 500, 504] {
            assert!(is_refusal(&watcher::Error::WatchStartFailed(api(code))), "{code}");
        }
        for code in [429, 502, 503] {
            assert!(!is_refusal(&watcher::Error::WatchStartFailed(api(code))), "{code}");
        }
        assert!(!is_refusal(&watcher::Error::WatchFailed(kube::Error::Service("cut off".into()))), "it is away");
    }

    #[test]
    fn only_answers_about_the_request_itself_end_streams() {
        let api = |code| Status::failure("no", "Reason").with_code(code).boxed();
        for code in [400, 405, 422] {
            assert!(is_refusal_of_streams(&watcher::Error::WatchStartFailed(kube::Error::Api(api(code)))), "{code}");
            assert!(is_refusal_of_streams(&watcher::Error::WatchError(api(code))), "{code}");
        }
        for code in [401, 403, 404, 410, 429, 500, 502, 503, 504] {
            assert!(!is_refusal_of_streams(&watcher::Error::WatchStartFailed(kube::Error::Api(api(code)))), "{code}");
            assert!(!is_refusal_of_streams(&watcher::Error::WatchError(api(code))), "{code}");
        }
        assert!(!is_refusal_of_streams(&watcher::Error::NoResourceVersion));
    }

    #[test]
    fn busy_watch_is_known_to_run_after_same_time_as_silent_one() {
        assert!(AfterWatchFailure::ListAnew.runs(&Event::Apply(()), RAN));
        let second = Duration::from_secs(1);
        assert_eq!(waits(false, 1, RAN.saturating_sub(second)), second);
        assert_eq!(waits(false, 1, RAN + second), Duration::ZERO);
    }

    #[test]
    fn failed_watch_is_proved_by_time_and_list_wait_is_capped() {
        let none = Duration::ZERO;
        assert_eq!([waits(false, 0, RAN), waits(false, 1, none), waits(false, 9, none)], [Duration::MAX, RAN, RAN]);
        assert_eq!([waits(true, 0, RAN), waits(true, 9, none)], [LISTED_WITHIN; 2]);
    }
}
