//! Kubernetes' protobuf, read: kubectl's typed clients write nothing else. Answers stay JSON, which they read as well.
//!
//! A body is `k8s`, a zero, and an envelope with the kind and the object. `fields.txt` (made by
//! `tools/protobuf_fields.py`) has the numbers of the fields; their names are those of the JSON form, save for members
//! that JSON has in line.
mod wire;

use super::error::{ApiError, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use wire::{FieldReader, FieldValue};

/// First bytes of a body.
const MAGIC: &[u8] = b"k8s\0";
/// Deeper than any object is.
const MOST_LEVELS: u32 = 64;

/// Members that JSON has in line.
const IN_LINE: [&str; 6] = [
    "ephemeralContainerCommon",
    "ingressRuleValue",
    "localObjectReference",
    "persistentVolumeSource",
    "handler",
    "volumeSource",
];

/// Numbers that Go writes as 0 when nobody has set them; elsewhere a 0 is meant.
const UNSET_WHEN_ZERO: [&str; 13] = [
    "hostPort",
    "nodePort",
    "healthCheckNodePort",
    "minReadySeconds",
    "observedGeneration",
    "generation",
    "count",
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "weight",
];

#[derive(Clone, Copy, Debug)]
enum Many {
    One,
    List,
    Map,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    name: &'static str,
    kind: &'static str,
    many: Many,
}

type Message = BTreeMap<u64, Field>;

static MESSAGES: LazyLock<BTreeMap<&'static str, Message>> = LazyLock::new(|| {
    let mut messages: BTreeMap<&str, Message> = BTreeMap::new();
    let mut name = "";
    for line in include_str!("fields.txt").lines() {
        let Some(field) = line.strip_prefix(' ') else {
            name = line;
            messages.insert(name, Message::new());
            continue;
        };
        let mut words = field.split(' ');
        let (Some(number), Some(field), Some(kind)) = (words.next(), words.next(), words.next()) else { continue };
        let (many, kind) = match kind.as_bytes().first() {
            Some(b'*') => (Many::List, &kind[1..]),
            Some(b'%') => (Many::Map, &kind[1..]),
            _ => (Many::One, kind),
        };
        if let (Ok(number), Some(message)) = (number.parse(), messages.get_mut(name)) {
            message.insert(number, Field { name: field, kind, many });
        }
    }
    messages
});

/// Reads a body.
///
/// # Errors
/// 400 for bytes that are no such body, 415 for a kind whose fields are not known.
pub fn decode_body(body: &[u8]) -> Result<Value> {
    let broken = || ApiError::bad_request("the request body is no Kubernetes protobuf");
    let envelope = body.strip_prefix(MAGIC).ok_or_else(broken)?;
    let (mut version, mut kind, mut raw): (String, String, &[u8]) = (String::new(), String::new(), &[]);
    for item in FieldReader::new(envelope) {
        match item.ok_or_else(broken)? {
            (1, FieldValue::Bytes(meta)) => {
                for item in FieldReader::new(meta) {
                    match item.ok_or_else(broken)? {
                        (1, FieldValue::Bytes(text)) => version = text_of(text).ok_or_else(broken)?,
                        (2, FieldValue::Bytes(text)) => kind = text_of(text).ok_or_else(broken)?,
                        _ => {}
                    }
                }
            }
            (2, FieldValue::Bytes(object)) => raw = object,
            _ => {}
        }
    }
    let name = message_name(&version, &kind);
    let Some(message) = MESSAGES.get(name.as_str()) else {
        let why = format!("{version} {kind} is not read as protobuf here; send application/json");
        return Err(ApiError::new(415, "UnsupportedMediaType", why));
    };
    let mut object = object(message, raw, 0).ok_or_else(broken)?;
    object.insert("apiVersion".to_owned(), json!(version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

/// `apps/v1` and `Deployment` are `apps.v1.Deployment`; options of any version are those of `meta.v1`.
fn message_name(version: &str, kind: &str) -> String {
    if kind.ends_with("Options") {
        return format!("meta.v1.{kind}");
    }
    match version.split_once('/') {
        Some((group, version)) => format!("{}.{version}.{kind}", group.split('.').next().unwrap_or_default()),
        None => format!("core.{version}.{kind}"),
    }
}

fn text_of(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn object(message: &Message, bytes: &[u8], level: u32) -> Option<Map<String, Value>> {
    if level > MOST_LEVELS {
        return None;
    }
    let mut map = Map::new();
    for item in FieldReader::new(bytes) {
        let (number, item) = item?;
        // A field of a later version.
        let Some(field) = message.get(&number) else { continue };
        match field.many {
            Many::One => {
                let value = value(field, &item, level)?;
                if IN_LINE.contains(&field.name) {
                    map.extend(value.as_object().cloned().unwrap_or_default());
                } else if is_set(field, &value) {
                    map.insert(field.name.to_owned(), value);
                }
            }
            Many::List => {
                let value = value(field, &item, level)?;
                if let Some(list) = map.entry(field.name).or_insert_with(|| json!([])).as_array_mut() {
                    list.push(value);
                }
            }
            Many::Map => {
                let FieldValue::Bytes(pair) = item else { return None };
                let (mut key, mut of) = (String::new(), None);
                for item in FieldReader::new(pair) {
                    match item? {
                        (1, FieldValue::Bytes(text)) => key = text_of(text)?,
                        (2, item) => of = Some(value(field, &item, level)?),
                        _ => {}
                    }
                }
                if let Some(map) = map.entry(field.name).or_insert_with(|| json!({})).as_object_mut() {
                    map.insert(key, of.unwrap_or_else(|| json!("")));
                }
            }
        }
    }
    Some(map)
}

/// True if a value was set by a client, and is not Go's zero value.
fn is_set(field: &Field, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty() || field.name == "storageClassName",
        Value::Number(number) => number.as_i64() != Some(0) || !UNSET_WHEN_ZERO.contains(&field.name),
        _ => true,
    }
}

fn value(field: &Field, item: &FieldValue<'_>, level: u32) -> Option<Value> {
    match (field.kind, item) {
        ("bool", FieldValue::Number(n)) => Some(json!(*n != 0)),
        ("int32" | "int64", FieldValue::Number(n)) => Some(json!(n.cast_signed())),
        ("uint32" | "uint64", FieldValue::Number(n)) => Some(json!(n)),
        ("double", FieldValue::Eight(bits)) => Some(json!(f64::from_bits(*bits))),
        ("string", FieldValue::Bytes(bytes)) => text_of(bytes).map(Value::String),
        ("bytes", FieldValue::Bytes(bytes)) => Some(json!(STANDARD.encode(bytes))),
        (kind, FieldValue::Bytes(bytes)) => {
            let map = object(MESSAGES.get(kind)?, bytes, level + 1)?;
            special(kind, map)
        }
        _ => None,
    }
}

/// Messages that JSON writes as something simpler.
fn special(kind: &str, map: Map<String, Value>) -> Option<Value> {
    let number = |name: &str| map.get(name).and_then(Value::as_i64).unwrap_or_default();
    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(match kind {
        "meta.v1.Time" | "meta.v1.MicroTime" | "meta.v1.Timestamp" if map.is_empty() => Value::Null,
        "meta.v1.Time" | "meta.v1.Timestamp" => json!(Timestamp::from_second(number("seconds")).ok()?.to_string()),
        "meta.v1.MicroTime" => {
            let time = Timestamp::new(number("seconds"), i32::try_from(number("nanos")).ok()?).ok()?;
            json!(format!("{time:.6}"))
        }
        "api.resource.Quantity" | "api.resource.QuantityValue" => json!(text("string")),
        "util.intstr.IntOrString" if number("type") == 0 => json!(number("intVal")),
        "util.intstr.IntOrString" => json!(text("strVal")),
        "meta.v1.FieldsV1" | "pkg.runtime.RawExtension" => {
            let raw = map.get("Raw").or_else(|| map.get("raw")).and_then(Value::as_str).unwrap_or_default();
            serde_json::from_slice(&STANDARD.decode(raw).ok()?).unwrap_or(Value::Null)
        }
        _ => Value::Object(map),
    })
}

#[cfg(test)]
mod tests;
