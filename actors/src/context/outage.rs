//! Outages of the API server as this replica sees them by its calls for the Lease. A watch that was asked for while nothing came
//! through hangs for up to a minute after everything else is answered again, and one whose connection was forgotten meanwhile says
//! nothing: what it would have told is not known, and nobody knows that. When an outage is over, every watch is therefore asked for
//! anew, and nothing is decided until it may have said what it has to (docs/decisions/030).

mod streamed;

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{Either, select};
use http_body_util::{BodyStream, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tower::service_fn;

/// Time without failure after which a watch that was requested again counts as running: it is silent while nothing changes.
pub const RUNS: Duration = Duration::from_secs(1);

/// Knowledge of one replica about outages of the API server; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Outage(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    state: Mutex<State>,
    unreached: Mutex<Unreached>,
    /// Wakes in the order in which it was asked for, unlike a `watch`, which draws one: a seed replays.
    over: Arc<Notify>,
    /// True if the API server makes streams of lists.
    streams: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// A call has gone unanswered, and none has been answered since.
    on: bool,
    /// End of the last outage. Monotonic.
    over_since: Option<Duration>,
}

/// Requests that cannot reach the API server, and whether a line has said so.
#[derive(Debug, Default)]
struct Unreached {
    said: bool,
    quiet: BTreeSet<String>,
}

impl Unreached {
    /// True if `what` was among the failures that one line stood for; it no longer is.
    fn forget(&mut self, what: &str) -> bool {
        let known = self.quiet.remove(what);
        self.said &= !(known && self.quiet.is_empty());
        known
    }
}

/// A call or a watch under way.
#[derive(Debug)]
pub struct Asked<'a> {
    outage: &'a Outage,
    what: &'a str,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.outage.gave_up(self.what);
    }
}

/// Requests that fail for an outage and are not said one by one: more of them are forgotten.
const MOST_QUIET: usize = 10_000;

impl Outage {
    /// `what` has failed often enough to be said, as the API server cannot be reached. True for the first: one line is for all.
    pub fn cannot_reach(&self, what: &str) -> bool {
        let mut unreached = self.unreached();
        if unreached.quiet.len() >= MOST_QUIET {
            unreached.quiet.clear();
        }
        unreached.quiet.insert(what.to_owned());
        !std::mem::replace(&mut unreached.said, true)
    }

    /// `what` has not been said, as it failed for an outage, and fails for another reason now.
    pub fn fails_otherwise(&self, what: &str) -> bool {
        self.unreached().forget(what)
    }

    /// The API server has answered `what`. None where its failure was said by itself; else whether the end of the outage is to be
    /// said: true for the first.
    pub fn reached(&self, what: &str) -> Option<bool> {
        let mut unreached = self.unreached();
        let said = unreached.said;
        unreached.forget(what).then(|| {
            unreached.said = false;
            said
        })
    }

    /// `what` is asked no more, and was not answered. Where nothing else waits for the end of the outage, nobody would say it: the
    /// next is said anew.
    pub fn gave_up(&self, what: &str) {
        self.unreached().forget(what);
    }

    /// Gives `what` up when that which is answered is dropped, however it ends.
    pub fn asked<'a>(&'a self, what: &'a str) -> Asked<'a> {
        Asked { outage: self, what }
    }

    /// True from the report that the API server cannot be reached until the report that it can.
    pub fn is_said(&self) -> bool {
        self.unreached().said
    }

    fn unreached(&self) -> MutexGuard<'_, Unreached> {
        self.0.unreached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call was not answered in its time. Where a connection is refused, those of the watches have ended by themselves.
    pub fn unanswered(&self) {
        self.state().on = true;
    }

    /// A call was answered: if the one before was not, watches are asked for anew.
    pub fn answered(&self, now: Duration) {
        let ends = {
            let mut state = self.state();
            let ends = std::mem::take(&mut state.on);
            if ends {
                state.over_since = Some(now);
            }
            ends
        };
        if ends {
            self.0.over.notify_waiters();
        }
    }

    /// True if watches may still have to catch up: an outage is on, or ended less than a second ago.
    pub fn hides(&self, now: Duration) -> bool {
        let state = self.state();
        state.on || state.over_since.is_some_and(|since| now < since.saturating_add(RUNS))
    }

    /// Sets whether the API server makes streams of lists.
    pub fn stream_lists(&self, streams: bool) {
        self.0.streams.store(streams, Ordering::Relaxed);
    }

    /// The API server has refused to make a stream of a list. True if that is new.
    pub fn refuses_streams(&self) -> bool {
        self.0.streams.swap(false, Ordering::Relaxed)
    }

    /// True if the API server makes streams of lists, as far as it is known.
    pub fn streams_lists(&self) -> bool {
        self.0.streams.load(Ordering::Relaxed)
    }

    /// A client of the same API server for watches, whose requests end when an outage ends.
    pub fn for_watches(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let outage = self.clone();
        let service = service_fn(move |mut request: http::Request<Body>| {
            *request.uri_mut() = streamed::most_recent(std::mem::take(request.uri_mut()));
            let (client, over) = (client.clone(), Box::pin(outage.over()));
            async move {
                match select(Box::pin(client.send(request)), over).await {
                    // A watch that ends goes on from what it has shown last, at the cost of a request.
                    Either::Left((answer, over)) => {
                        Ok(answer?.map(|body| StreamBody::new(BodyStream::new(body).take_until(over))))
                    }
                    Either::Right(_) => Err(kube::Error::Service(Box::new(cut_off()))),
                }
            }
        });
        Client::new(service, namespace)
    }

    /// Comes when an outage that is on now, or begins later, is over.
    fn over(&self) -> OwnedNotified {
        self.0.over.clone().notified_owned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "asked for while the API server did not answer")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::convert::Infallible;

    use actix::Actor as _;
    use bytes::Bytes;
    use dovetail_sandbox::Caller;
    use dovetail_sandbox::apiserver::{ApiServer, CUSTOM_RESOURCE_DEFINITIONS};
    use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
    use futures::FutureExt as _;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::BodyExt as _;
    use tokio::task::LocalSet;

    use super::*;
    use crate::cluster_watcher::ClusterWatcher;
    use crate::context::env::Env;
    use crate::messages::{TakeObserved, TakeSnapshot};
    use crate::pod_watcher::PodWatcher;
    use crate::settings::Settings;
    use crate::telemetry::journal::MemoryJournal;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn outage_ends_with_first_answer_and_hides_a_second_more() {
        let outage = Outage::default();
        outage.answered(at(0));
        assert!(!outage.hides(at(1)), "there was none");
        outage.unanswered();
        outage.unanswered();
        assert!(outage.hides(at(90_000)));
        outage.answered(at(90_000));
        outage.answered(at(90_500));
        assert!(outage.hides(at(90_999)) && !outage.hides(at(91_000)));
    }

    #[test]
    fn an_outage_is_said_once_and_so_is_its_end() {
        let outage = Outage::default();
        let all = ["watching pods", "watching nodes", "patch a"];
        assert_eq!(all.map(|what| outage.cannot_reach(what)), [true, false, false]);
        assert!(outage.is_said());
        assert_eq!(outage.reached("watching pools"), None, "it was said by itself");
        assert!(outage.fails_otherwise("patch a") && !outage.fails_otherwise("patch a"));
        assert_eq!(all.map(|what| outage.reached(what)), [Some(true), Some(false), None]);
        assert!(!outage.is_said() && outage.cannot_reach("watching pods"), "the next is another");
    }

    #[test]
    fn outage_after_one_that_nothing_outlived_is_said_again() {
        let outage = Outage::default();
        assert!(outage.cannot_reach("patch a") && !outage.cannot_reach("patch b"));
        assert!(outage.fails_otherwise("patch a") && outage.is_said(), "another waits for its end");
        outage.gave_up("patch b");
        assert!(!outage.is_said() && outage.cannot_reach("patch a"));
        drop(outage.asked("patch a"));
        assert!(outage.cannot_reach("patch c") && outage.fails_otherwise("patch c") && !outage.is_said());
    }

    #[test]
    fn cluster_is_known_but_not_shown_until_second_after_outage() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(LocalSet::new().run_until(async {
            let clock = Arc::new(VirtualClock::new(DEFAULT_START));
            let api = ApiServer::new(clock.clone());
            for crd in dovetail_api::crds::crds() {
                api.create(&CUSTOM_RESOURCE_DEFINITIONS, "", serde_json::to_value(crd).unwrap()).unwrap();
            }
            let env = Env::new("r", Settings::default(), clock, Arc::new(MemoryJournal::default()), 1);
            let client = api.client(Caller::replica(0, "test"));
            let cluster = ClusterWatcher::new(&env, client.clone()).start();
            let _pods = PodWatcher::new(&env, client, cluster.clone().into()).start();
            tokio::time::sleep(at(5000)).await;
            let shown = async || cluster.send(TakeObserved).await.unwrap().is_some();
            assert!(shown().await);
            env.outage.unanswered();
            assert!(!shown().await && cluster.send(TakeSnapshot).await.unwrap().is_some());
            env.outage.answered(env.now());
            tokio::time::sleep(at(900)).await;
            assert!(!shown().await);
            tokio::time::sleep(at(200)).await;
            assert!(shown().await);
        }));
    }

    /// One line, and then nothing for ever; `/hangs` is not even begun.
    fn client() -> Client {
        let service = service_fn(|request: http::Request<Body>| async move {
            if request.uri().path() == "/hangs" {
                std::future::pending::<()>().await;
            }
            let line = stream::once(async { Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"line"))) });
            Ok::<_, Infallible>(http::Response::new(StreamBody::new(line.chain(stream::pending()))))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn watch_request_ends_when_outage_ends_and_not_before() {
        let outage = Outage::default();
        let client = outage.for_watches(client());
        let ask = |path: &str| client.send(http::Request::get(path).body(Body::empty()).unwrap());
        let mut hangs = Box::pin(ask("/hangs"));
        // The client takes it from here.
        assert!((&mut hangs).now_or_never().is_none());
        let mut streams = ask("/streams").await.unwrap().into_body();
        assert_eq!(streams.frame().await.unwrap().unwrap().into_data().unwrap(), "line");
        outage.answered(at(0));
        outage.unanswered();
        tokio::task::yield_now().await;
        assert!((&mut hangs).now_or_never().is_none() && streams.frame().now_or_never().is_none());
        outage.answered(at(1));
        assert!(hangs.await.is_err() && streams.frame().await.is_none());
        let mut again = ask("/streams").await.unwrap().into_body();
        assert!(again.frame().await.is_some() && again.frame().now_or_never().is_none());
    }

    #[test]
    fn watches_are_asked_anew_in_the_order_they_were_asked() {
        let outage = Outage::default();
        let woken = Arc::new(Mutex::new(Vec::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(LocalSet::new().run_until(async {
            for number in 0..40 {
                let (over, woken) = (outage.over(), woken.clone());
                tokio::task::spawn_local(async move {
                    over.await;
                    woken.lock().unwrap().push(number);
                });
            }
            tokio::task::yield_now().await;
            outage.unanswered();
            outage.answered(at(1));
            tokio::task::yield_now().await;
        }));
        assert_eq!(*woken.lock().unwrap(), (0..40).collect::<Vec<_>>());
    }
}
