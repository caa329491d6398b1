//! The control plane's log events: every replica's entries and a scenario's steps, in order, for the report, the event log and the terminal.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dovetail_actors::messages::ReplicaState;
use dovetail_actors::telemetry::journal::{Journal, JournalEntry};
use dovetail_actors::telemetry::log_event::Level;
use dovetail_actors::{Measure, Span};
use dovetail_observability::Metrics;
use dovetail_sandbox::log::{Caller, EventLog};
use dovetail_telemetry::{Spans, measures, particulars, state};
use serde_json::{Map, Value};

#[derive(Clone, Debug)]
pub struct JournalLine {
    /// Seconds since the start.
    pub seconds: f64,
    /// The replica that says so; none where it is a step of the scenario.
    pub replica: Option<u32>,
    /// Its actor; `operator` for a step.
    pub actor: &'static str,
    /// Severity of the event.
    pub level: Level,
    /// The event's stable name.
    pub event: &'static str,
    /// The same as a sentence.
    pub text: String,
    /// Further fields of the event, by the names of docs/events.md.
    pub fields: Map<String, Value>,
    /// The trace that it belongs to, 32 hex digits; empty when to none.
    pub trace_id: String,
}

/// Hears every line as it is said.
pub type Watcher = Arc<dyn Fn(&JournalLine) + Send + Sync>;

struct Kept {
    lines: VecDeque<JournalLine>,
    most: usize,
}

/// All lines so far, or the latest of them. Clones share them.
#[derive(Clone)]
pub struct Timeline {
    lines: Arc<Mutex<Kept>>,
    log: EventLog,
    watcher: Option<Watcher>,
    spans: Arc<OnceLock<Spans>>,
    metrics: Arc<OnceLock<Metrics>>,
}

impl Timeline {
    /// An empty one that also writes into the event log.
    pub fn new(log: EventLog, watcher: Option<Watcher>) -> Self {
        let kept = Kept { lines: VecDeque::new(), most: usize::MAX };
        Self { lines: Arc::new(Mutex::new(kept)), log, watcher, spans: Arc::default(), metrics: Arc::default() }
    }

    /// From now on only so many of the latest lines are kept, for runs that last.
    pub fn keep_latest(&self, most: usize) {
        self.kept().most = most;
    }

    /// Sends spans there from now on; without it they go nowhere.
    pub fn trace_to(&self, spans: Spans) {
        // Said once, before any replica starts.
        let _ = self.spans.set(spans);
    }

    /// Counts everything there from now on.
    pub fn count_in(&self, metrics: Metrics) {
        // Said once, before any replica starts.
        let _ = self.metrics.set(metrics);
    }

    /// Passes on the state that the leader's actors report.
    pub fn saw(&self, actors: &ReplicaState) {
        if let Some(metrics) = self.metrics.get() {
            metrics.saw(state::seen(actors));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn journal(&self, replica: u32) -> Arc<dyn Journal> {
        Arc::new(OfReplica { timeline: self.clone(), replica })
    }

    pub fn lines(&self) -> Vec<JournalLine> {
        self.kept().lines.iter().cloned().collect()
    }

    /// A step of the scenario.
    pub fn step(&self, what: &str) {
        self.add(JournalLine {
            seconds: self.seconds(),
            replica: None,
            actor: "operator",
            level: Level::Info,
            event: "step",
            text: what.to_owned(),
            fields: Map::from_iter([("what".to_owned(), what.into())]),
            trace_id: String::new(),
        });
    }

    /// Microseconds, as everywhere in the event log.
    fn seconds(&self) -> f64 {
        (self.log.seconds() * 1e6).round() / 1e6
    }

    fn add(&self, line: JournalLine) {
        let mut fields: Vec<(String, Value)> =
            vec![("actor".to_owned(), line.actor.into()), ("event".to_owned(), line.event.into())];
        fields.extend(line.fields.iter().map(|(name, value)| (name.clone(), value.clone())));
        let who = line.replica.map_or_else(|| Caller::named(""), |replica| Caller::replica(replica, ""));
        self.log.append("story", &who, fields);
        if let Some(watcher) = &self.watcher {
            watcher(&line);
        }
        let mut kept = self.kept();
        kept.lines.push_back(line);
        while kept.lines.len() > kept.most {
            kept.lines.pop_front();
        }
    }
}

struct OfReplica {
    timeline: Timeline,
    replica: u32,
}

impl Journal for OfReplica {
    fn measure(&self, measure: &Measure<'_>) {
        if let Some(metrics) = self.timeline.metrics.get() {
            measures::record_measure(metrics, measure);
        }
    }

    fn traces(&self) -> bool {
        self.timeline.spans.get().is_some()
    }

    fn span(&self, span: Span) {
        if let Some(spans) = self.timeline.spans.get() {
            spans.record(&format!("dovetail-{}", self.replica), span);
        }
    }

    fn record(&self, entry: &JournalEntry) {
        if let Some(metrics) = self.timeline.metrics.get() {
            metrics.happened(entry.actor, entry.log_event.event());
        }
        self.timeline.add(JournalLine {
            seconds: self.timeline.seconds(),
            replica: Some(self.replica),
            actor: entry.actor,
            level: entry.log_event.level(),
            event: entry.log_event.event(),
            text: entry.log_event.to_string(),
            fields: particulars(&entry.log_event),
            trace_id: entry.trace_id.clone(),
        });
    }
}
