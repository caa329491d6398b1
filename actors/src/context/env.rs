//! Environment of every actor: its name, the journal, the time, the settings, its share of the seed.

use std::sync::Arc;
use std::time::Duration;

use dovetail_api::hash::{OFFSET, fnv_from};
use dovetail_cloud::CloudIdentity;
use dovetail_core::clock::{Clock, ClockSkew};
use dovetail_core::cluster_state::{Moment, PlanningInput};
use dovetail_core::ownership::AskingCluster;
use dovetail_core::pack::Options;

use crate::context::cluster_clock::ClusterClock;
use crate::context::outage::Outage;
use crate::messages::{Term, TraceContext};
use crate::settings::Settings;
use crate::telemetry::journal::{Journal, JournalEntry};
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;
use crate::telemetry::span::{OpenSpan, Span};

/// An actor's equipment.
#[derive(Clone)]
pub struct Env {
    /// Name of the actor, as the log and metrics have it.
    pub actor: &'static str,
    /// Name of this replica.
    pub identity: Arc<str>,
    /// Settings of the replica, the same for all of its actors.
    pub settings: Arc<Settings>,
    /// The term it works in; 0 where there is none.
    pub term: Term,
    /// Outages of the API server, the replica's.
    pub outage: Outage,
    clock: ClusterClock,
    journal: Arc<dyn Journal>,
    seed: u64,
}

impl Env {
    /// The replica's own, on a clock that no answers of an API server set.
    pub fn new(
        identity: &str,
        settings: Settings,
        clock: Arc<dyn Clock>,
        journal: Arc<dyn Journal>,
        seed: u64,
    ) -> Self {
        Self::on(ClusterClock::over(clock), identity, settings, journal, seed)
    }

    /// The replica's own.
    pub fn on(clock: ClusterClock, identity: &str, settings: Settings, journal: Arc<dyn Journal>, seed: u64) -> Self {
        let settings = Arc::new(settings);
        let (actor, identity, outage) = ("replica", identity.into(), Outage::default());
        Self { actor, identity, settings, term: Term(0), outage, clock, journal, seed }
    }

    /// The environment of another actor of this replica.
    pub fn for_actor(&self, actor: &'static str) -> Self {
        Self { actor, ..self.clone() }
    }

    /// The same environment in this term.
    pub fn in_term(&self, term: Term) -> Self {
        Self { term, ..self.clone() }
    }

    /// Wall clock and monotonic clock; those of the world in a simulation.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    /// Monotonic time.
    pub fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Wall time, which is the API server's.
    pub fn wall(&self) -> jiff::Timestamp {
        self.clock.wall()
    }

    /// Error of the replica's own wall clock against the API server's.
    pub fn skew(&self) -> ClockSkew {
        self.clock.skew()
    }

    /// This moment on both clocks.
    pub fn moment(&self) -> Moment {
        Moment { monotonic: self.now(), wall: self.wall() }
    }

    /// Input of a plan by the settings; instance types are the caller's.
    pub fn planning_input(&self) -> PlanningInput {
        PlanningInput {
            preferences: self.settings.preferences,
            min_values: self.settings.min_values,
            policy: self.settings.policy,
            daemon_share: self.settings.daemon_share,
            default_spread: self.settings.default_spread.clone(),
            devices: self.settings.devices(),
            now: self.moment(),
            ..PlanningInput::default()
        }
    }

    /// Options of packing by the settings.
    pub fn pack_options(&self) -> Options {
        let (price_per_node, max_option_price) = (self.settings.price_per_node, self.settings.max_option_price);
        Options { price_per_node, max_option_price, ..Options::default() }
    }

    /// Randomness that depends on the replica's seed, the actor, the term and the purpose, and on nothing else.
    pub fn rng(&self, purpose: &str) -> fastrand::Rng {
        let term = self.term.0.to_be_bytes();
        let parts = [self.identity.as_bytes(), self.actor.as_bytes(), purpose.as_bytes(), &term];
        fastrand::Rng::with_seed(fnv_from(self.seed ^ OFFSET, parts.into_iter().flatten().copied()))
    }

    /// The cluster, as instances' tags are compared with it.
    pub fn cluster(&self, cloud: &dyn CloudIdentity) -> AskingCluster {
        AskingCluster {
            name: self.settings.cluster_name.clone(),
            uid: cloud.cluster_uid().to_owned(),
            adopts_karpenter_instances: self.settings.adopt_karpenter_instances,
        }
    }

    /// Tells a happening.
    pub fn emit(&self, log_event: LogEvent) {
        self.emit_in(log_event, None);
    }

    /// Tells a happening of a trace.
    pub fn emit_in(&self, log_event: LogEvent, trace: impl Into<Option<TraceContext>>) {
        let trace_id = trace.into().map(|trace| trace.trace_id()).unwrap_or_default();
        self.journal.record(&JournalEntry { actor: self.actor, log_event, trace_id, term: self.term.0 });
    }

    /// Begins a span inside another. The key tells it apart from others of its name there.
    pub fn span(&self, inside: TraceContext, name: &'static str, key: &str) -> OpenSpan {
        self.open(inside.inner(name, key), Some(inside), name)
    }

    /// Begins a span whose context is known; `inside` is none for a trace's first.
    pub fn open(&self, context: TraceContext, inside: Option<TraceContext>, name: &'static str) -> OpenSpan {
        let recording = self.journal.traces().then(|| {
            let now = self.clock.wall();
            let span = Span {
                context,
                parent: inside,
                name,
                actor: self.actor,
                term: self.term.0,
                begun: now,
                ended: now,
                remote: false,
                attributes: Vec::new(),
                links: Vec::new(),
                error: None,
            };
            Box::new((span, self.journal.clone(), self.clock()))
        });
        OpenSpan::new(context, recording)
    }

    /// Counts or measures something.
    pub fn measure(&self, measure: &Measure<'_>) {
        self.journal.measure(measure);
    }
}
