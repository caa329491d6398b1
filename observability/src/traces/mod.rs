//! Traces by OTLP: spans come in ended, wait in a bounded queue and are sent by a thread of their own. Whoever tells a span
//! never waits: what finds the queue full is dropped and counted, and a collector that is away costs nothing but that.
//!
//! tracing's own spans are entered and left on one thread and get their ids from a library; ours last across actors,
//! replicas and restarts and have ids that follow from what they are about (docs/decisions/013).

mod export;
mod json;
mod sampling;
mod settings;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

pub use json::document;
pub use sampling::{SLOW, Sampler};
pub use settings::{OtlpProtocol, RefusedVariable, TraceSettings};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
    /// A number with a fraction.
    Real(f64),
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedSpan {
    /// The trace's id.
    pub trace: u128,
    /// Its own id in it.
    pub span: u64,
    /// The id of the span that it lies in; 0 for none.
    pub parent: u64,
    /// Its name, one of few.
    pub name: &'static str,
    /// Actor that makes it: the instrumentation scope.
    pub scope: &'static str,
    /// Start, nanoseconds since 1970.
    pub begun: u64,
    /// End, nanoseconds since 1970.
    pub ended: u64,
    /// True for a call to another system.
    pub remote: bool,
    /// Attributes by name.
    pub attributes: Vec<(&'static str, Value)>,
    /// Traces and spans that led to it, too.
    pub links: Vec<(u128, u64)>,
    /// Error, if the span failed.
    pub error: Option<String>,
}

/// Attributes of the resource, the process that sends.
pub type Resource = Vec<(&'static str, String)>;

/// Numbers of spans by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Accepted by the collector.
    pub exported: u64,
    /// Dropped, as the queue was full.
    pub dropped: u64,
    /// Lost, as the collector did not take them.
    pub failed: u64,
    /// Left out by sampling.
    pub unsampled: u64,
}

#[derive(Debug, Default)]
struct Counters {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    unsampled: AtomicU64,
}

/// Items that wait to be sent.
#[allow(clippy::large_enum_variant)]
enum Item {
    Span(ExportedSpan),
    /// Send all there is, and say when that is done.
    Flush(oneshot::Sender<()>),
}

/// The way of spans to the collector. Clones share it.
#[derive(Clone)]
pub struct Traces {
    queue: mpsc::Sender<Item>,
    counters: Arc<Counters>,
}

impl Traces {
    /// Starts the thread that sends.
    ///
    /// # Errors
    /// The thread cannot be made, or the exporter not be set up from what the environment says.
    pub fn start(settings: &TraceSettings, resource: Resource) -> io::Result<Self> {
        let (queue, waiting) = mpsc::channel(settings.queue);
        let counters = Arc::new(Counters::default());
        export::start(settings.clone(), resource, waiting, counters.clone())?;
        Ok(Self { queue, counters })
    }

    /// Takes a span; never waits.
    pub fn send(&self, span: ExportedSpan) {
        if self.queue.try_send(Item::Span(span)).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all spans taken so far are sent, at most for the time `within`.
    pub async fn flush(&self, within: Duration) {
        let (done, sent) = oneshot::channel();
        let flush = async {
            if self.queue.send(Item::Flush(done)).await.is_ok() {
                let _ = sent.await;
            }
        };
        let _ = tokio::time::timeout(within, flush).await;
    }

    /// Numbers of spans by their outcome so far.
    pub fn counts(&self) -> TraceCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TraceCounts {
            exported: of(&self.counters.exported),
            dropped: of(&self.counters.dropped),
            failed: of(&self.counters.failed),
            unsampled: of(&self.counters.unsampled),
        }
    }
}
