//! One actor by itself: it is driven by messages and its links, everybody else is an ear that only notes what it hears.
//! The API server is the sandbox's, with a wire before it that can refuse, lose or hang; the cloud is one that a test
//! tells what to answer; time is virtual.

pub mod ear;
pub mod objects;
pub mod sky;
pub mod wire;

mod ends;
mod front;
mod keepers;
mod pure;
mod ways;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use dovetail_actors::context::env::Env;
use dovetail_actors::context::leader_term::LeaderTerm;
use dovetail_actors::context::mailbox;
use dovetail_actors::kube::calls::Calls;
use dovetail_actors::messages::{ActorState, Observe, Record, Term, TraceContext};
use dovetail_actors::{Journal, JournalEntry, LogEvent, Measure, Settings};
use dovetail_core::clock::Clock as _;
use dovetail_sandbox::Caller;
use dovetail_sandbox::apiserver::{self, ApiServer, CUSTOM_RESOURCE_DEFINITIONS};
use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
use dovetail_sandbox::faults::FaultsInForce;
use tokio::task::LocalSet;

pub use ear::{Ear, Heard};
pub use sky::{Fails, Sky};
pub use wire::Wire;

/// The term in which the actors lead.
pub const TERM: Term = Term(3);

/// Recorded log events, and measures as their debug text.
#[derive(Default)]
pub struct Told {
    entries: Mutex<Vec<JournalEntry>>,
    measures: Mutex<Vec<String>>,
}

impl Journal for Told {
    fn record(&self, entry: &JournalEntry) {
        self.entries.lock().unwrap().push(entry.clone());
    }

    fn measure(&self, measure: &Measure<'_>) {
        self.measures.lock().unwrap().push(format!("{measure:?}"));
    }
}

impl Told {
    /// Number of times that an event was emitted.
    pub fn count(&self, event: &str) -> usize {
        self.entries.lock().unwrap().iter().filter(|entry| entry.log_event.event() == event).count()
    }

    /// The happenings so far.
    pub fn events(&self) -> Vec<LogEvent> {
        self.entries.lock().unwrap().iter().map(|entry| entry.log_event.clone()).collect()
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.events().iter().map(ToString::to_string).collect()
    }

    /// Number of measures with this in their text.
    pub fn measured(&self, text: &str) -> usize {
        self.measures.lock().unwrap().iter().filter(|one| one.contains(text)).count()
    }
}

/// An actor's surroundings.
#[derive(Clone)]
pub struct Alone {
    pub api: ApiServer,
    pub clock: Arc<VirtualClock>,
    pub told: Arc<Told>,
    pub wire: Wire,
    pub sky: Arc<Sky>,
    /// Recipient of all messages to other actors.
    pub ear: Addr<Ear>,
    /// Messages that it has received, and its answers.
    pub heard: Heard,
    pub term: LeaderTerm,
    /// The replica's, in the term.
    pub env: Env,
}

/// Runs a test of one actor.
pub fn alone<F: Future<Output = ()>>(test: impl FnOnce(Alone) -> F) {
    alone_with(Settings::default(), test);
}

/// Runs a test of lone actors with these settings.
pub fn alone_with<F: Future<Output = ()>>(settings: Settings, test: impl FnOnce(Alone) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(LocalSet::new().run_until(async { test(Alone::new(settings)).await }));
}

impl Alone {
    fn new(settings: Settings) -> Self {
        let clock = Arc::new(VirtualClock::new(DEFAULT_START));
        let api = ApiServer::with(
            clock.clone(),
            apiserver::ServerSettings { faults: Some(FaultsInForce::new(1)), ..apiserver::ServerSettings::default() },
        );
        for crd in dovetail_api::crds::crds() {
            api.create(&CUSTOM_RESOURCE_DEFINITIONS, "", serde_json::to_value(crd).unwrap()).unwrap();
        }
        let told = Arc::new(Told::default());
        let settings = Settings { cluster_name: "demo".into(), ..settings };
        let env = Env::new("replica-0", settings, clock.clone(), told.clone(), 1).in_term(TERM);
        let heard = Heard::default();
        let ear = Ear::new(heard.clone()).start();
        let term = LeaderTerm::new(TERM, Duration::MAX, clock.clone());
        let (wire, sky) = (Wire::default(), Arc::new(Sky::new(clock.clone())));
        Self { api, clock, told, wire, sky, ear, heard, term, env }
    }

    /// Starts an actor as the wiring does.
    pub fn start<A: Actor<Context = Context<A>>>(&self, actor: A) -> Addr<A> {
        A::create(|ctx| {
            ctx.set_mailbox_capacity(mailbox::BOUND);
            actor
        })
    }

    /// Its way to the API server.
    pub fn client(&self) -> kube::Client {
        self.wire.before(self.api.client(Caller::replica(0, "controller")))
    }

    /// Its calls to the API server, within the term.
    pub fn calls(&self, actor: &'static str) -> Calls {
        Calls::new(self.client(), self.env.for_actor(actor), Some(self.term.clone()))
    }

    /// Lets time pass.
    pub async fn pass(&self, seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// Answer of an actor to `Observe`.
    pub async fn state<A>(&self, actor: &Addr<A>) -> ActorState
    where
        A: Actor<Context = Context<A>> + Handler<Observe>,
    {
        actor.send(Observe).await.expect("the actor lives")
    }

    /// Waits until something holds; answers how long that took.
    pub async fn until(&self, seconds: u64, holds: impl Fn() -> bool) -> Duration {
        let begun = self.clock.monotonic();
        while !holds() {
            let passed = self.clock.monotonic() - begun;
            let lines = || self.told.lines().join("\n");
            assert!(
                passed < Duration::from_secs(seconds),
                "it never came to that; heard {:?}\n{}",
                self.heard.names(),
                lines()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.clock.monotonic() - begun
    }

    /// The Kubernetes events of a reason that were asked for: whose, and what they say.
    pub fn records(&self, reason: &str) -> Vec<(String, String)> {
        let all = self.heard.all::<Record>();
        let meant = all.iter().filter(|record| record.reason == reason);
        meant.map(|record| (record.object.name.clone().unwrap_or_default(), record.message.clone())).collect()
    }
}

/// A trace that a test begins.
pub fn trace(seed: u64) -> TraceContext {
    TraceContext::root(&mut fastrand::Rng::with_seed(seed))
}

/// A number of seconds.
pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
