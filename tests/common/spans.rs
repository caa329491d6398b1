//! Spans as a test looks at them, from what the binary writes (OTLP/JSON) or from what Jaeger answers.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A span.
#[derive(Clone, Debug)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub name: String,
    pub begun: u64,
    pub ended: u64,
    pub error: String,
    /// The traces that it points to.
    pub links: Vec<String>,
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    /// An attribute as text; empty without it.
    pub fn has(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    /// The term of the leader that told it.
    pub fn term(&self) -> u64 {
        self.has("dovetail.term").parse().unwrap()
    }
}

/// All spans that there are of one or several traces.
#[derive(Debug)]
pub struct Traces(pub Vec<Span>);

/// As OTLP/JSON has it.
fn of_otlp(span: &Value) -> Span {
    let text = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
    let attributes = span["attributes"].as_array().unwrap().iter().map(|one| {
        let value = one["value"].as_object().unwrap().values().next().unwrap();
        (one["key"].as_str().unwrap().to_owned(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    });
    Span {
        trace: text("traceId"),
        id: text("spanId"),
        parent: text("parentSpanId"),
        name: text("name"),
        begun: text("startTimeUnixNano").parse().unwrap(),
        ended: text("endTimeUnixNano").parse().unwrap(),
        error: if span["status"]["code"] == 2 { span["status"]["message"].to_string() } else { String::new() },
        links: list(&span["links"]).map(|link| link["traceId"].as_str().unwrap().to_owned()).collect(),
        attributes: attributes.collect(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// As Jaeger's API has it: tags instead of attributes and status, references instead of a parent and links.
fn of_jaeger(span: &Value) -> Span {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let tags = list(&span["tags"]).map(|tag| (text(&tag["key"]), text(&tag["value"])));
    let attributes: BTreeMap<String, String> = tags.collect();
    let to = |kind: &str| -> Vec<&Value> { list(&span["references"]).filter(|one| one["refType"] == kind).collect() };
    let failed = attributes.get("error").is_some_and(|error| error == "true");
    let why = attributes.get("otel.status_description").cloned().unwrap_or_default();
    let begun = span["startTime"].as_u64().unwrap() * 1000;
    Span {
        trace: text(&span["traceID"]),
        id: text(&span["spanID"]),
        parent: to("CHILD_OF").first().map(|parent| text(&parent["spanID"])).unwrap_or_default(),
        name: text(&span["operationName"]),
        begun,
        ended: begun + span["duration"].as_u64().unwrap() * 1000,
        error: if failed { format!("error: {why}") } else { String::new() },
        links: to("FOLLOWS_FROM").into_iter().map(|link| text(&link["traceID"])).collect(),
        attributes,
    }
}

impl Traces {
    /// Spans of an OTLP/JSON document.
    pub fn of_otlp(document: &Value) -> Self {
        let scopes = list(&document["resourceSpans"]).flat_map(|resource| list(&resource["scopeSpans"]));
        Self(scopes.flat_map(|scope| list(&scope["spans"])).map(of_otlp).collect())
    }

    /// Spans of an answer of Jaeger's `/api/traces`.
    pub fn of_jaeger(answer: &Value) -> Self {
        Self(list(&answer["data"]).flat_map(|trace| list(&trace["spans"])).map(of_jaeger).collect())
    }

    /// Those of a name.
    pub fn named(&self, name: &str) -> Vec<&Span> {
        self.0.iter().filter(|span| span.name == name).collect()
    }

    /// The trace of a span, whole: one root, every parent there, every id once.
    pub fn whole(&self, of: &Span) -> Self {
        let spans: Vec<Span> = self.0.iter().filter(|span| span.trace == of.trace).cloned().collect();
        let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
        assert_eq!(ids.len(), spans.len(), "ids are there twice: {:#?}", spans);
        let roots: Vec<_> = spans.iter().filter(|span| span.parent.is_empty()).collect();
        assert_eq!(roots.len(), 1, "{roots:#?}");
        for span in spans.iter().filter(|span| !span.parent.is_empty()) {
            assert!(ids.contains(span.parent.as_str()), "the parent of {span:#?} is not there");
            assert!(span.begun <= span.ended, "{span:#?}");
        }
        Self(spans)
    }

    /// The names of what the spans of a name lie in.
    pub fn parents(&self, name: &str) -> BTreeSet<&str> {
        let by_id: BTreeMap<&str, &Span> = self.0.iter().map(|span| (span.id.as_str(), span)).collect();
        self.named(name).iter().map(|span| by_id.get(span.parent.as_str()).map_or("", |parent| &parent.name)).collect()
    }

    /// All of a name lie in one of that other name.
    pub fn lies_in(&self, name: &str, parent: &str) {
        assert_eq!(self.parents(name), BTreeSet::from([parent]), "{name}");
    }

    /// Replicas that told spans of a name.
    pub fn is_proportional(&self, name: &str) -> BTreeSet<&str> {
        self.named(name).iter().map(|span| span.has("dovetail.replica")).collect()
    }
}

/// From waiting to bound, as it lies in one another.
pub fn the_way_up(trace: &Traces) {
    trace.lies_in("solve", "pack");
    trace.lies_in("nodeclaim", "pack");
    trace.lies_in("launch", "nodeclaim");
    trace.lies_in("create NodeClaim", "launch");
    trace.lies_in("CreateFleet", "launch");
    trace.lies_in("register", "nodeclaim");
    trace.lies_in("initialize", "nodeclaim");
}
