//! Each write in the event log: who, what, how it ended, and what it changed.
use super::ApiServer;
use super::handler::Reply;
use super::request::Path;
use crate::log::Caller;
use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde_json::{Value, json};

/// Fields of an object that the log shows: enough to recompute the report, and no more.
const SHOWN: [&str; 4] = ["metadata", "spec", "status", "target"];

/// Notes a write. Reads are not noted.
pub fn note(server: &ApiServer, who: &Caller, parts: &Parts, body: &Bytes, reply: &Reply) {
    let Some(log) = &server.settings().log else { return };
    let Some(verb) = verb(&parts.method) else { return };
    let Some(path) = Path::parse(parts.uri.path()) else { return };
    let Reply::Json(code, answer, _) = reply else { return };
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    lease_term(log, who, &path, *code, &answer);
    let name = path.name.clone().or_else(|| answer["metadata"]["name"].as_str().map(str::to_owned)).unwrap_or_default();
    let object = path.namespace.as_ref().map_or_else(|| name.clone(), |ns| format!("{ns}/{name}"));
    let mut resource = path.resource.clone();
    if !path.subresource.is_empty() {
        resource = format!("{resource}/{}", path.subresource);
    }
    let mut fields = vec![
        ("verb", json!(verb)),
        ("group", json!(path.group)),
        ("resource", json!(resource)),
        ("object", json!(object)),
        ("code", json!(code)),
    ];
    if *code >= 400 {
        fields.push(("reason", answer["reason"].clone()));
    } else {
        fields.push(("resourceVersion", answer["metadata"]["resourceVersion"].clone()));
    }
    fields.push(("sent", sent(body)));
    log.append("api", who, fields);
}

fn verb(method: &Method) -> Option<&'static str> {
    match *method {
        Method::POST => Some("create"),
        Method::PUT => Some("update"),
        Method::PATCH => Some("patch"),
        Method::DELETE => Some("delete"),
        _ => None,
    }
}

/// A replica that writes itself as the holder of a Lease acts in that term from now on.
fn lease_term(log: &crate::log::EventLog, who: &Caller, path: &Path, code: u16, answer: &Value) {
    let Some(replica) = who.replica.filter(|_| path.resource == "leases" && code < 300) else { return };
    let spec = &answer["spec"];
    let held = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
    if let Some(term) = spec["leaseTransitions"].as_i64().filter(|_| held) {
        log.set_term(replica, term);
    }
}

/// What was sent, without managed fields.
fn sent(body: &Bytes) -> Value {
    let mut body: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(map) = body.as_object_mut().filter(|map| map.keys().any(|k| SHOWN.contains(&k.as_str()))) else {
        return body;
    };
    if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    body
}
