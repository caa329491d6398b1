//! Spans of traces: what took time, inside what, and how it came out. Actors tell them as
//! they emit log events, when they are over. An id follows from the name and from what it lies in (see
//! [`TraceContext::inner`]): what one actor or replica has begun another can end.

use std::sync::Arc;

use dovetail_core::clock::Clock;
use jiff::Timestamp;

use crate::messages::TraceContext;
use crate::telemetry::journal::Journal;

/// Names of attributes: OpenTelemetry's where it has one, else ours.
pub mod names {
    /// A pod's name, without its namespace.
    pub const POD: &str = "k8s.pod.name";
    /// A pod's uid.
    pub const POD_UID: &str = "k8s.pod.uid";
    /// A pod's namespace.
    pub const NAMESPACE: &str = "k8s.namespace.name";
    /// A Node's name.
    pub const NODE: &str = "k8s.node.name";
    /// A NodeClaim's name.
    pub const CLAIM: &str = "dovetail.nodeclaim";
    /// A NodePool's name.
    pub const POOL: &str = "dovetail.nodepool";
    /// An instance's id.
    pub const INSTANCE: &str = "dovetail.instance.id";
    /// An instance type.
    pub const INSTANCE_TYPE: &str = "dovetail.instance.type";
    /// `spot` or `on-demand`.
    pub const CAPACITY_TYPE: &str = "dovetail.capacity_type";
    /// Zone.
    pub const ZONE: &str = "cloud.availability_zone";
    /// Number of pods concerned.
    pub const PODS: &str = "dovetail.pods";
    /// Number of claims concerned.
    pub const CLAIMS: &str = "dovetail.nodeclaims";
    /// Reason.
    pub const REASON: &str = "dovetail.reason";
    /// Stable name of the error.
    pub const ERROR: &str = "error.type";
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
    /// A number with a fraction.
    Real(f64),
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<usize> for AttributeValue {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// Something that took time and is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Trace and span id.
    pub context: TraceContext,
    /// Enclosing span; none for a trace's first.
    pub parent: Option<TraceContext>,
    /// Its name, one of few.
    pub name: &'static str,
    /// Actor that makes it.
    pub actor: &'static str,
    /// The leader's term, 0 on a standby.
    pub term: u64,
    /// Start of the span.
    pub begun: Timestamp,
    /// End of the span.
    pub ended: Timestamp,
    /// True for a call to another system: the API server, the cloud.
    pub remote: bool,
    /// Attributes; each name occurs once.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Other traces that led to it.
    pub links: Vec<TraceContext>,
    /// Error, if the span failed.
    pub error: Option<String>,
}

type Recording = Box<(Span, Arc<dyn Journal>, Arc<dyn Clock>)>;

/// A span that has begun. It is emitted when it ends; one that is dropped before is not emitted.
#[must_use = "a span is told by end()"]
pub struct OpenSpan {
    context: TraceContext,
    recording: Option<Recording>,
}

impl OpenSpan {
    /// `told`: the span, and to whom by which clock; none where nobody wants spans.
    pub(crate) fn new(context: TraceContext, recording: Option<Recording>) -> Self {
        Self { context, recording }
    }

    /// Its context, for what lies in it.
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// True if somebody records it: costly attributes need not be computed otherwise.
    pub fn is_wanted(&self) -> bool {
        self.recording.is_some()
    }

    fn change(mut self, change: impl FnOnce(&mut Span)) -> Self {
        if let Some(recording) = &mut self.recording {
            change(&mut recording.0);
        }
        self
    }

    /// Sets an earlier start.
    pub fn since(self, begun: Timestamp) -> Self {
        self.change(|span| span.begun = begun)
    }

    /// Sets an earlier start, if known.
    pub fn since_some(self, begun: Option<Timestamp>) -> Self {
        match begun {
            Some(begun) => self.since(begun),
            None => self,
        }
    }

    /// Marks a call to another system.
    pub fn remote(self) -> Self {
        self.change(|span| span.remote = true)
    }

    /// With an attribute; one without a value is left out.
    pub fn with(self, name: &'static str, value: impl Into<AttributeValue>) -> Self {
        if self.recording.is_none() {
            return self;
        }
        let value = value.into();
        self.change(|span| {
            if value != AttributeValue::Text(String::new()) {
                span.attributes.push((name, value));
            }
        })
    }

    /// With attributes that a function computes, called only if spans are exported.
    pub fn with_all(self, attributes: impl FnOnce() -> Vec<(&'static str, AttributeValue)>) -> Self {
        self.change(|span| span.attributes.extend(attributes()))
    }

    /// Links another trace that has led to it.
    pub fn link(self, to: TraceContext) -> Self {
        self.change(|span| span.links.push(to))
    }

    /// Marks a failure.
    pub fn failed(self, kind: &str, why: impl Into<String>) -> Self {
        let why = why.into();
        self.with(names::ERROR, kind).change(|span| span.error = Some(why))
    }

    /// Ends the span now.
    pub fn end(self) {
        let Some(now) = self.recording.as_ref().map(|recording| recording.2.wall()) else { return };
        self.end_at(now);
    }

    /// Ends the span at that time.
    pub fn end_at(self, ended: Timestamp) {
        if let Some(recording) = self.recording {
            let (mut span, journal, _) = *recording;
            span.ended = ended.max(span.begun);
            journal.span(span);
        }
    }
}
