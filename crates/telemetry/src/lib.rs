//! The link from the actors' reports to an operator's view: spans to traces, measures and states to metrics. The one place
//! that knows both sides.

pub mod console;
pub mod latest_entries;
pub mod measures;
pub mod process;
pub mod state;
pub mod stopwatch;

use std::sync::{Arc, Mutex, PoisonError};

use dovetail_actors::telemetry::span::AttributeValue;
use dovetail_actors::{LogEvent, Settings, Span};
use dovetail_input::{Failure, Mistake};
use dovetail_observability::Metrics;
use dovetail_observability::traces::{self, RefusedVariable, Resource, TraceSettings, Traces};

use state::Latest;

/// The destination of spans.
#[derive(Clone)]
pub enum Spans {
    /// Sent to a collector.
    Sent(Traces),
    /// Kept in memory, with the replica that reported each.
    Kept(Arc<Mutex<Vec<(Resource, traces::ExportedSpan)>>>),
}

impl Spans {
    /// Sends to the collector that the environment names; `None` if it names none.
    ///
    /// # Errors
    /// A variable is not understood, or the exporter cannot be made of these.
    pub fn of_environment(resource: Resource) -> Result<Option<Self>, Failure> {
        let read = TraceSettings::of_environment(|name| std::env::var(name).ok());
        let Some(settings) = read.map_err(refused)? else { return Ok(None) };
        let started = Traces::start(&settings, resource);
        started
            .map(|traces| Some(Self::Sent(traces)))
            .map_err(|why| Failure::System(format!("OTEL_EXPORTER_OTLP_*: {why}")))
    }

    /// Keeps spans in memory.
    pub fn kept() -> Self {
        Self::Kept(Arc::default())
    }

    /// Takes a span of a replica.
    pub fn record(&self, replica: &str, span: Span) {
        match self {
            Self::Sent(traces) => traces.send(of_span(replica, span)),
            Self::Kept(kept) => {
                let of = resource(replica, "");
                kept.lock().unwrap_or_else(PoisonError::into_inner).push((of, of_span(replica, span)));
            }
        }
    }

    /// The spans that are kept, as one OTLP/JSON document.
    pub fn document(&self) -> serde_json::Value {
        match self {
            Self::Sent(_) => traces::document([]),
            Self::Kept(kept) => {
                let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                traces::document(kept.iter().map(|(of, span)| (of, span)))
            }
        }
    }

    /// The exporter, if spans are sent.
    pub fn sent(&self) -> Option<&Traces> {
        match self {
            Self::Sent(traces) => Some(traces),
            Self::Kept(_) => None,
        }
    }
}

/// The fields of a log event, by name.
pub fn particulars(log_event: &LogEvent) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(log_event) {
        Ok(serde_json::Value::Object(mut fields)) => {
            // The name is written apart from the fields.
            fields.remove("event");
            fields
        }
        _ => serde_json::Map::new(),
    }
}

fn refused(why: RefusedVariable) -> Failure {
    let mistake = Mistake::of_file(why.name, format!("{:?} is not understood", why.value));
    mistake.allowing(why.allowed).into()
}

/// Metrics of everything that `latest` knows, and of the process.
pub fn metrics(latest: &Latest, spans: Option<Spans>) -> Metrics {
    let metrics = Metrics::new(VERSION, COMMIT);
    let state = latest.state();
    metrics.show(Arc::new(move |page| {
        state(page);
        let counts = spans.as_ref().and_then(Spans::sent).map(Traces::counts);
        process::write(page, counts.unwrap_or_default());
    }));
    metrics
}

/// Dovetail's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of the build, if the build names one.
pub const COMMIT: &str = match option_env!("DOVETAIL_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The resource of a replica, by OpenTelemetry's conventions.
pub fn resource(identity: &str, cluster: &str) -> Resource {
    let all = [
        ("service.name", "dovetail"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", identity),
        ("k8s.cluster.name", cluster),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.to_owned())).collect()
}

/// The resource of a process that runs one replica.
pub fn resource_of(settings: &Settings, identity: &str) -> Resource {
    resource(identity, &settings.cluster_name)
}

fn of_span(replica: &str, span: Span) -> traces::ExportedSpan {
    let nanos = |time: jiff::Timestamp| u64::try_from(time.as_nanosecond()).unwrap_or_default();
    let value = |value| match value {
        AttributeValue::Text(text) => traces::Value::Text(text),
        AttributeValue::Number(number) => traces::Value::Number(number),
        AttributeValue::Real(number) => traces::Value::Real(number),
    };
    let mut attributes = Vec::with_capacity(span.attributes.len() + 2);
    attributes.extend(span.attributes.into_iter().map(|(name, own)| (name, value(own))));
    attributes.push(("dovetail.replica", traces::Value::Text(replica.to_owned())));
    attributes.push(("dovetail.term", traces::Value::Number(i64::try_from(span.term).unwrap_or(i64::MAX))));
    traces::ExportedSpan {
        trace: span.context.trace(),
        span: span.context.span(),
        parent: span.parent.map_or(0, |parent| parent.span()),
        name: span.name,
        scope: span.actor,
        begun: nanos(span.begun),
        ended: nanos(span.ended),
        remote: span.remote,
        attributes,
        links: span.links.into_iter().map(|link| (link.trace(), link.span())).collect(),
        error: span.error,
    }
}
