//! Lists of watches: as a stream of events where the API server makes one, else by pages (docs/decisions/067).

use kube_runtime::watcher::{Config, Event};

use crate::context::env::Env;
use crate::context::outage::Outage;
use crate::telemetry::log_event::LogEvent;

/// Streams in a row that fail before their end, for whatever reason, after which pages are asked for.
const FAILS_TOO_OFTEN: u32 = 3;

/// The list of a watch, and its way.
pub(super) struct Listing {
    outage: Outage,
    /// True if it comes as a stream.
    streams: bool,
    under_way: bool,
    /// True once a list has come to its end, until the next begins.
    complete: bool,
    /// Lists that have begun since one came to its end, and since the watch failed.
    begun: u32,
    /// Failures since a list came to its end.
    failed: u32,
}

impl Listing {
    /// As the API server is known to list.
    pub fn new(outage: &Outage) -> Self {
        Self {
            outage: outage.clone(),
            streams: outage.streams_lists(),
            under_way: false,
            complete: false,
            begun: 0,
            failed: 0,
        }
    }

    /// The configuration of the next watch, which begins with a list.
    pub fn begin(&mut self, config: &Config) -> Config {
        (self.under_way, self.complete, self.begun) = (false, false, 0);
        self.streams &= self.outage.streams_lists();
        if self.streams { config.clone().streaming_lists() } else { config.clone() }
    }

    /// Hears an event. True if a stream begins anew though it has not come to its end: the server makes none, or not in time, and
    /// lists by pages from now on.
    pub fn hears<K>(&mut self, event: &Event<K>) -> bool {
        self.under_way = matches!(event, Event::Init | Event::InitApply(_));
        match event {
            Event::Init => (self.complete, self.begun) = (false, self.begun + 1),
            Event::InitDone => (self.complete, self.begun, self.failed) = (true, 0, 0),
            Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => {}
        }
        self.streams && self.begun > 1 && self.fails(None, true)
    }

    /// True while a list is awaited.
    pub fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// True if a list is awaited that nothing more is heard of; a stream is given up.
    pub fn is_late(&mut self) -> bool {
        let late = self.under_way;
        if late {
            self.fails(None, true);
        }
        late
    }

    /// True if a failure now costs the list that is awaited: a stream goes on behind a part of it that could not be read, and would
    /// end as if nothing were missing.
    pub fn is_cut_by_failure(&self) -> bool {
        self.streams && !self.complete
    }

    /// The watch has failed: `refused` by the server, in these words, or its list `unfinished`. True if it lists anew, by pages.
    pub fn fails(&mut self, refused: Option<(&Env, &str)>, unfinished: bool) -> bool {
        (self.under_way, self.begun) = (false, 0);
        let refused = refused.filter(|_| !self.complete);
        self.failed += u32::from(!self.complete);
        if !self.streams || !(refused.is_some() || unfinished || self.failed >= FAILS_TOO_OFTEN) {
            return false;
        }
        self.streams = false;
        if let Some((env, why)) = refused
            && self.outage.refuses_streams()
        {
            env.emit(LogEvent::ListsByPages { why: why.to_owned() });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use dovetail_sandbox::Caller;
    use dovetail_sandbox::apiserver::{ApiServer, PODS};
    use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;
    use kube::{Client, ResourceExt as _};
    use serde_json::json;
    use tokio::task::LocalSet;
    use tower::service_fn;

    use super::*;
    use crate::kube::watch::{AfterWatchFailure, WatchNews, watch};
    use crate::reading::LenientApi;
    use crate::settings::Settings;
    use crate::telemetry::journal::MemoryJournal;

    /// Names of the pods that a watch has shown until its first list ends, and the requests that it made. The server refuses streams if
    /// asked to, as one does that has them switched off.
    fn watched(refuses: bool) -> (Vec<String>, Vec<String>, Outage) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(LocalSet::new().run_until(async move {
            let clock = Arc::new(VirtualClock::new(DEFAULT_START));
            let api = ApiServer::new(clock.clone());
            for name in ["a", "b", "c"] {
                let spec = json!({"containers": [{"name": "main", "image": "pause"}]});
                api.create(&PODS, "default", json!({"metadata": {"name": name}, "spec": spec})).unwrap();
            }
            let (inner, asked) = (api.client(Caller::replica(0, "test")), Arc::new(Mutex::new(Vec::new())));
            let noted = asked.clone();
            let service = service_fn(move |request: http::Request<Body>| {
                let (inner, uri) = (inner.clone(), request.uri().to_string());
                noted.lock().unwrap().push(uri.clone());
                async move {
                    if refuses && uri.contains("sendInitialEvents") {
                        let status = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid"});
                        let answer = http::Response::builder().status(422);
                        return Ok(answer.body(Body::from(status.to_string().into_bytes())).unwrap());
                    }
                    inner.send(request).await
                }
            });
            let env = Env::new("r", Settings::default(), clock, Arc::new(MemoryJournal::default()), 1);
            env.outage.stream_lists(true);
            let client = env.outage.for_watches(Client::new(service, "default"));
            let shown = Rc::new(RefCell::new((Vec::new(), false)));
            let hears = shown.clone();
            let on = move |news| match news {
                WatchNews::Event(Event::InitApply(pod)) => hears.borrow_mut().0.push(Pod::name_any(&pod)),
                WatchNews::Event(Event::InitDone) => hears.borrow_mut().1 = true,
                _ => {}
            };
            let api = LenientApi::<Pod>::all(client);
            tokio::task::spawn_local(watch(api, env.clone(), "pods", AfterWatchFailure::GoOn, on));
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (names, done) = shown.take();
            assert!(done);
            let asked = asked.lock().unwrap().clone();
            (names, asked, env.outage)
        }))
    }

    #[test]
    fn list_is_one_stream_of_what_is_there_now() {
        let (names, asked, outage) = watched(false);
        assert_eq!((names, asked.len()), (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], 1), "{asked:?}");
        assert!(asked[0].contains("sendInitialEvents=true") && !asked[0].contains("resourceVersion=0"), "{asked:?}");
        assert!(outage.streams_lists());
    }

    #[test]
    fn server_that_refuses_a_stream_is_asked_for_pages() {
        let (names, asked, outage) = watched(true);
        assert_eq!(names, ["a", "b", "c"]);
        assert!(asked[1].contains("limit=500") && !asked[1].contains("watch"), "{asked:?}");
        assert_eq!(asked.iter().filter(|uri| uri.contains("sendInitialEvents")).count(), 1);
        assert!(!outage.streams_lists());
    }

    fn env() -> Env {
        let clock = Arc::new(VirtualClock::new(DEFAULT_START));
        Env::new("r", Settings::default(), clock, Arc::new(MemoryJournal::default()), 1)
    }

    fn listing(streams: bool) -> (Outage, Listing) {
        let outage = Outage::default();
        outage.stream_lists(streams);
        let mut listing = Listing::new(&outage);
        listing.begin(&Config::default());
        (outage, listing)
    }

    #[test]
    fn refused_stream_is_asked_for_by_no_watch_again() {
        let env = env();
        let refused = Some((&env, "no"));
        let (outage, mut listing) = listing(true);
        assert!(listing.fails(refused, false) && !outage.streams_lists());
        assert!(!outage.refuses_streams(), "it is said once");
        let (outage, mut listing) = self::listing(true);
        assert!(!listing.hears::<()>(&Event::Init) && listing.is_under_way());
        assert!(!listing.fails(None, false), "the server is away");
        listing.begin(&Config::default());
        assert!(!listing.hears::<()>(&Event::Init) && !listing.hears::<()>(&Event::InitDone));
        assert!(!listing.fails(refused, false) && outage.streams_lists(), "what is refused is no list");
        listing.begin(&Config::default());
        assert_eq!([(), (), ()].map(|()| listing.fails(None, false)), [false, false, true], "nothing comes of it");
    }

    #[test]
    fn failure_within_a_stream_costs_the_list_and_later_ones_do_not() {
        let (_, mut listing) = listing(true);
        assert!(!listing.hears::<()>(&Event::Init) && listing.is_cut_by_failure());
        assert!(!listing.hears::<()>(&Event::InitDone) && !listing.is_cut_by_failure());
        let (_, mut pages) = self::listing(false);
        assert!(!pages.hears::<()>(&Event::Init) && !pages.is_cut_by_failure(), "a page is asked for again by itself");
    }

    #[test]
    fn stream_without_an_end_is_a_list_by_pages_from_then_on() {
        let env = env();
        let (outage, mut listing) = listing(true);
        assert!(!listing.hears::<()>(&Event::Init) && listing.hears::<()>(&Event::Init));
        assert!(outage.streams_lists(), "of another kind there may be less");
        listing.begin(&Config::default());
        assert!(!listing.hears::<()>(&Event::Init) && !listing.hears::<()>(&Event::Init));
        let (_, mut pages) = self::listing(false);
        assert!(!pages.hears::<()>(&Event::Init) && !pages.hears::<()>(&Event::Init));
        assert!(!pages.fails(Some((&env, "no")), true));
    }
}
