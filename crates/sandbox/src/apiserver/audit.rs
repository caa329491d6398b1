//! Each write in the event log: who, what, how it ended, and what it changed.
use super::ApiServer;
use super::handler::Reply;
use super::request::Path;
use crate::log::Caller;
use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Fields of an object that the log shows: enough to recompute the report, and no more.
const SHOWN: [&str; 4] = ["metadata", "spec", "status", "target"];

/// What the log needs of an answer; the rest is passed over.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    metadata: Named,
    reason: Value,
}

/// A status, and what it is about.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    details: Named,
}

/// What names an object.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    name: Value,
    uid: Value,
    resource_version: Value,
}

/// A Lease.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Lease {
    spec: Held,
}

/// Who holds a Lease, and by which term.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Held {
    holder_identity: Value,
    lease_transitions: Value,
}

/// As much of an answer as `T` has; nothing where it is no such thing.
fn read<T: Default + DeserializeOwned>(answer: &Bytes) -> T {
    serde_json::from_slice(answer).unwrap_or_default()
}

/// Notes a write, also one whose answer is lost. Reads and dry runs are not noted.
pub fn note(server: &ApiServer, who: &Caller, parts: &Parts, body: &Bytes, reply: &Reply, lost: bool) {
    let Some(log) = &server.settings().log else { return };
    let Some(verb) = verb(&parts.method) else { return };
    let Some(path) = Path::parse(parts.uri.path()) else { return };
    if parts.uri.query().is_some_and(|query| query.contains("dryRun=All")) {
        return;
    }
    let Reply::Json(code, answer, _) = reply else { return };
    // A holder that does not learn of it does not act in the new term.
    if !lost && path.resource == "leases" && *code < 300 {
        lease_term(log, who, &read::<Lease>(answer).spec);
    }
    let (text, answer) = (answer, read::<Answer>(answer));
    let name = path.name.clone().or_else(|| answer.metadata.name.as_str().map(str::to_owned)).unwrap_or_default();
    let or_null = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    let mut fields = vec![
        ("verb", json!(verb)),
        ("resource", json!(path.resource)),
        ("subresource", or_null(&path.subresource)),
        ("namespace", path.namespace.as_deref().map_or(Value::Null, or_null)),
        ("name", json!(name)),
        ("uid", uid(&answer, text)),
        ("code", json!(code)),
    ];
    if *code >= 400 {
        fields.push(("reason", answer.reason.clone()));
    } else {
        fields.push(("resourceVersion", answer.metadata.resource_version.clone()));
    }
    if path.resource == "nodeclaims" && *code < 300 {
        fields.push(("claim", claim(server, &name)));
    }
    if lost {
        fields.push(("answerLost", json!(true)));
    }
    fields.push(("sent", sent(body)));
    log.append("api", who, fields);
}

/// The uid of the object that an answer is, or that a status is about.
fn uid(answer: &Answer, text: &Bytes) -> Value {
    let of_object = &answer.metadata.uid;
    if of_object.is_null() { read::<Status>(text).details.uid } else { of_object.clone() }
}

/// A NodeClaim as it stands after a write; null when it is gone.
fn claim(server: &ApiServer, name: &str) -> Value {
    let gvr = super::Gvr::new("karpenter.sh", "v1", "nodeclaims");
    let Some(claim) = server.get(&gvr, "", name) else { return Value::Null };
    let (metadata, annotations) = (&claim["metadata"], &claim["metadata"]["annotations"]);
    json!({
        "nodePool": metadata["labels"]["karpenter.sh/nodepool"],
        "token": annotations["dovetail.dev/launch-token"],
        "term": annotations["dovetail.dev/term"],
        "providerID": claim["status"]["providerID"],
        "requests": claim["spec"]["resources"]["requests"],
    })
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
fn lease_term(log: &crate::log::EventLog, who: &Caller, lease: &Held) {
    let held = lease.holder_identity.as_str().is_some_and(|holder| !holder.is_empty());
    // One of term 0 is vacant: it has been created, and nobody leads by it.
    let term = lease.lease_transitions.as_i64().filter(|term| held && *term > 0);
    if let (Some(replica), Some(term)) = (who.replica, term) {
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
