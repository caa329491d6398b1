//! The thread that sends spans.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Counters, ExportedSpan, Item, OtlpProtocol, Resource, Sampler, TraceSettings, Value};

/// Sets the exporter up and starts the thread.
pub fn start(
    settings: TraceSettings,
    resource: Resource,
    waiting: mpsc::Receiver<Item>,
    counters: Arc<Counters>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exporter = {
        // The exporter's connections live on the runtime that it is made in.
        let _inside = runtime.enter();
        let mut exporter = exporter(&settings)?;
        exporter.set_resource(&of_resource(resource));
        exporter
    };
    let sampler = Sampler::new(settings.ratio);
    let sending = Sending { settings, exporter, sampler, counters, batch: Vec::new(), failing: false };
    thread::Builder::new().name("traces".into()).spawn(move || runtime.block_on(sending.run(waiting)))?;
    Ok(())
}

fn exporter(settings: &TraceSettings) -> io::Result<SpanExporter> {
    let builder = SpanExporter::builder();
    let built = match (settings.protocol, settings.endpoint.clone()) {
        (OtlpProtocol::Grpc, None) => builder.with_tonic().build(),
        (OtlpProtocol::Grpc, Some(endpoint)) => builder.with_tonic().with_endpoint(endpoint).build(),
        (OtlpProtocol::Http, None) => builder.with_http().build(),
        (OtlpProtocol::Http, Some(endpoint)) => builder.with_http().with_endpoint(endpoint).build(),
    };
    built.map_err(io::Error::other)
}

fn of_resource(own: Resource) -> opentelemetry_sdk::Resource {
    // OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME win over our own values.
    let said = opentelemetry_sdk::Resource::builder().build();
    let unknown = |key: &str| match said.get(&key.to_owned().into()) {
        Some(value) => key == "service.name" && value.as_str().starts_with("unknown_service"),
        None => true,
    };
    let own = own.into_iter().filter(|(key, _)| unknown(key)).map(|(key, value)| KeyValue::new(key, value));
    let own: Vec<_> = own.collect();
    opentelemetry_sdk::Resource::builder().with_attributes(own).build()
}

struct Sending {
    settings: TraceSettings,
    exporter: SpanExporter,
    sampler: Sampler,
    counters: Arc<Counters>,
    batch: Vec<SpanData>,
    /// The last request failed, which has been told.
    failing: bool,
}

impl Sending {
    /// Sends until nobody tells spans any more.
    async fn run(mut self, mut waiting: mpsc::Receiver<Item>) {
        let mut due = None;
        loop {
            let next = async {
                match due {
                    Some(due) => tokio::select! {
                        biased;
                        item = waiting.recv() => Some(item),
                        () = sleep_until(due) => None,
                    },
                    None => Some(waiting.recv().await),
                }
            };
            match next.await {
                Some(Some(Item::Span(span))) => {
                    self.queue(span);
                    if self.batch.len() >= self.settings.batch {
                        self.send().await;
                        due = None;
                    } else if due.is_none() && !self.batch.is_empty() {
                        due = Some(Instant::now() + self.settings.delay);
                    }
                }
                Some(Some(Item::Flush(done))) => {
                    self.flushed(done).await;
                    due = None;
                }
                Some(None) => return self.send().await,
                None => {
                    self.send().await;
                    due = None;
                }
            }
        }
    }

    fn queue(&mut self, span: ExportedSpan) {
        self.batch.extend(self.sampler.sample(span).into_iter().map(of_span));
        self.counters.unsampled.store(self.sampler.forgotten(), Ordering::Relaxed);
    }

    async fn flushed(&mut self, done: oneshot::Sender<()>) {
        self.send().await;
        let _ = done.send(());
    }

    /// Sends the batch. Spans that the collector does not take in time are lost and counted: to keep them would cost memory for
    /// ever.
    async fn send(&mut self) {
        while !self.batch.is_empty() {
            let rest = self.batch.split_off(self.batch.len().min(self.settings.batch));
            let batch = std::mem::replace(&mut self.batch, rest);
            let count = batch.len() as u64;
            let error = match timeout(self.settings.timeout, self.exporter.export(batch)).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer within {:?}", self.settings.timeout)),
            };
            let counter = if error.is_none() { &self.counters.exported } else { &self.counters.failed };
            counter.fetch_add(count, Ordering::Relaxed);
            self.report(error);
        }
    }

    /// Says once that the collector is away, and once that it is back.
    fn report(&mut self, error: Option<String>) {
        let was = std::mem::replace(&mut self.failing, error.is_some());
        match error {
            Some(error) if !was => {
                tracing::error!(logger = "traces", error, "the collector takes no spans; they are lost until it does");
            }
            None if was => tracing::info!(logger = "traces", "the collector takes spans again"),
            _ => {}
        }
    }
}

fn time(nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos)
}

fn context(trace: u128, span: u64, remote: bool) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes(trace.to_be_bytes()), SpanId::from_bytes(span.to_be_bytes()));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, remote, TraceState::NONE)
}

fn of_span(span: ExportedSpan) -> SpanData {
    let attributes = span.attributes.into_iter().map(|(key, value)| match value {
        Value::Text(text) => KeyValue::new(key, text),
        Value::Number(number) => KeyValue::new(key, number),
        Value::Real(number) => KeyValue::new(key, number),
    });
    let mut links = SpanLinks::default();
    links.links = span.links.into_iter().map(|(trace, span)| Link::with_context(context(trace, span, true))).collect();
    SpanData {
        span_context: context(span.trace, span.span, false),
        parent_span_id: SpanId::from_bytes(span.parent.to_be_bytes()),
        parent_span_is_remote: false,
        span_kind: if span.remote { SpanKind::Client } else { SpanKind::Internal },
        name: span.name.into(),
        start_time: time(span.begun),
        end_time: time(span.ended),
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder(span.scope).build(),
    }
}
