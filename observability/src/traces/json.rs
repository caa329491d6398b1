//! Spans as OTLP/JSON: one document that Jaeger's page and the collector's file receiver read.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::{ExportedSpan, Resource, Value};

/// A document of spans, each with its resource. In the order of resources, then of scopes, then as told.
pub fn document<'a>(spans: impl IntoIterator<Item = (&'a Resource, &'a ExportedSpan)>) -> Json {
    let mut by_resource: BTreeMap<&Resource, BTreeMap<&str, Vec<Json>>> = BTreeMap::new();
    for (resource, span) in spans {
        by_resource.entry(resource).or_default().entry(span.scope).or_default().push(of_span(span));
    }
    let of_scopes = |scopes: BTreeMap<&str, Vec<Json>>| -> Vec<Json> {
        scopes.into_iter().map(|(scope, spans)| json!({"scope": {"name": scope}, "spans": spans})).collect()
    };
    let of_resource = |own: &Resource| -> Vec<Json> {
        own.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect()
    };
    let all: Vec<Json> = by_resource
        .into_iter()
        .map(|(own, scopes)| json!({"resource": {"attributes": of_resource(own)}, "scopeSpans": of_scopes(scopes)}))
        .collect();
    json!({"resourceSpans": all})
}

fn of_span(span: &ExportedSpan) -> Json {
    let attributes: Vec<Json> = span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let link =
        |(trace, span): &(u128, u64)| json!({"traceId": format!("{trace:032x}"), "spanId": format!("{span:016x}")});
    let mut own = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.span),
        "name": span.name,
        "kind": if span.remote { 3 } else { 1 },
        "startTimeUnixNano": span.begun.to_string(),
        "endTimeUnixNano": span.ended.to_string(),
        "attributes": attributes,
    });
    if span.parent != 0 {
        own["parentSpanId"] = format!("{:016x}", span.parent).into();
    }
    if !span.links.is_empty() {
        own["links"] = span.links.iter().map(link).collect();
    }
    if let Some(error) = &span.error {
        own["status"] = json!({"code": 2, "message": error});
    }
    own
}

fn attribute(key: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Real(number) => json!({"doubleValue": number}),
    };
    json!({"key": key, "value": value})
}
