//! Cells that many kinds have.
use super::age;
use jiff::Timestamp;
use serde_json::{Value, json};

pub fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

/// The time since its creation.
pub fn age(object: &Value, now: Timestamp) -> Value {
    json!(age::since(object["metadata"]["creationTimestamp"].as_str().unwrap_or_default(), now))
}

/// The number at a JSON pointer, 0 for none.
pub fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The text at a JSON pointer, or something else for none.
pub fn text_or(object: &Value, pointer: &str, none: &str) -> Value {
    json!(text(object, pointer).unwrap_or(none))
}

/// The text at a JSON pointer, when it is there and says something.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The value at a JSON pointer in words (a number or a percentage), or something else for none.
pub fn written_or(object: &Value, pointer: &str, none: &str) -> Value {
    match object.pointer(pointer) {
        None | Some(Value::Null) => json!(none),
        Some(Value::String(text)) => json!(text),
        Some(other) => json!(other.to_string()),
    }
}

/// Names and images of a pod template's containers, and the selector: the last columns of workloads.
pub fn template(object: &Value) -> Vec<Value> {
    let mut cells = containers(&object["spec"]["template"]["spec"]);
    cells.push(json!(selector(&object["spec"]["selector"])));
    cells
}

/// Names and images of containers.
pub fn containers(spec: &Value) -> Vec<Value> {
    let of = |field: &str| -> Value {
        let list = spec["containers"].as_array().into_iter().flatten();
        json!(list.filter_map(|c| c[field].as_str()).collect::<Vec<_>>().join(","))
    };
    vec![of("name"), of("image")]
}

/// A label selector, or the plain map of a Service or a ReplicationController.
pub fn selector(selector: &Value) -> String {
    let structured = selector["matchLabels"].is_object() || selector["matchExpressions"].is_array();
    let text =
        if structured { crate::apiserver::ListSelector::of_labels(selector).to_string() } else { labels(selector) };
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// Labels in a row.
pub fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>().join(",")
}

/// Number of entries of several maps together.
pub fn entries(object: &Value, fields: &[&str]) -> Value {
    json!(fields.iter().map(|field| object[*field].as_object().map_or(0, serde_json::Map::len)).sum::<usize>())
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let list = object["status"]["conditions"].as_array()?;
    list.iter().find(|c| c["type"] == kind)?["status"].as_str()
}
