//! Destinations of log events: the log in production, the timeline of a simulation, the terminal of a sandbox.

use serde::Serialize;

use crate::telemetry::log_event::{Level, LogEvent};
use crate::telemetry::measure::Measure;
use crate::telemetry::span::Span;

/// One log event with its context.
#[derive(Clone, Debug, Serialize)]
pub struct JournalEntry {
    /// Actor that emits it.
    pub actor: &'static str,
    /// The event.
    #[serde(flatten)]
    pub log_event: LogEvent,
    /// Trace that it belongs to, 32 hex digits; empty when to none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trace_id: String,
    /// The leader's term, 0 on a standby.
    #[serde(skip_serializing_if = "is_zero")]
    pub term: u64,
}

fn is_zero(term: &u64) -> bool {
    *term == 0
}

/// Takes log events; must not wait.
pub trait Journal: Send + Sync {
    /// Records an event.
    fn record(&self, entry: &JournalEntry);

    /// True if spans are exported; otherwise none is made.
    fn traces(&self) -> bool {
        false
    }

    /// Takes a span that has ended; must not wait.
    fn span(&self, _: Span) {}

    /// Takes something that was counted or measured; must not wait.
    fn measure(&self, _: &Measure<'_>) {}
}

/// The log: one line a happening, its fields as JSON in `fields`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogJournal;

impl Journal for LogJournal {
    fn record(&self, entry: &JournalEntry) {
        let fields = serde_json::to_string(&entry.log_event).unwrap_or_default();
        let (logger, message) = (entry.actor, entry.log_event.to_string());
        let (event, trace_id, term) = (entry.log_event.event(), &entry.trace_id, entry.term);
        match entry.log_event.level() {
            Level::Debug => tracing::debug!(logger, event, term, %trace_id, %fields, "{message}"),
            Level::Info => tracing::info!(logger, event, term, %trace_id, %fields, "{message}"),
            Level::Warn => tracing::warn!(logger, event, term, %trace_id, %fields, "{message}"),
            Level::Error => tracing::error!(logger, event, term, %trace_id, %fields, "{message}"),
        }
    }
}

/// Keeps everything; for tests.
#[derive(Debug, Default)]
pub struct MemoryJournal(std::sync::Mutex<Vec<JournalEntry>>, std::sync::Mutex<Vec<Span>>);

impl MemoryJournal {
    /// Events recorded so far.
    pub fn entries(&self) -> Vec<JournalEntry> {
        self.0.lock().map(|entries| entries.clone()).unwrap_or_default()
    }

    /// The spans that have ended so far.
    pub fn spans(&self) -> Vec<Span> {
        self.1.lock().map(|spans| spans.clone()).unwrap_or_default()
    }

    /// Number of times that an event was recorded.
    pub fn count(&self, event: &str) -> usize {
        self.entries().iter().filter(|entry| entry.log_event.event() == event).count()
    }
}

impl Journal for MemoryJournal {
    fn record(&self, entry: &JournalEntry) {
        if let Ok(mut entries) = self.0.lock() {
            entries.push(entry.clone());
        }
    }

    fn traces(&self) -> bool {
        true
    }

    fn span(&self, span: Span) {
        if let Ok(mut spans) = self.1.lock() {
            spans.push(span);
        }
    }
}
