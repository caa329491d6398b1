//! Each write in the event log: who, what, how it ended, and what it changed.
use crate::apiserver::ApiServer;
use crate::apiserver::http::handler::Reply;
use crate::apiserver::http::request::ResourcePath;
use crate::log::Caller;
use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Fields of an object that the log shows: enough to recompute the report, and no more.
const SHOWN: [&str; 4] = ["metadata", "spec", "status", "target"];

/// Parts of an answer that the log needs; the rest is passed over.
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

/// Fields that name an object.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    name: Value,
    uid: Value,
    resource_version: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Lease {
    spec: Held,
}

/// Holder and term of a Lease.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Held {
    holder_identity: Value,
    lease_transitions: Value,
}

/// As much of an answer as `T` has; nothing where it is no such thing.
fn read_answer<T: Default + DeserializeOwned>(answer: &Bytes) -> T {
    serde_json::from_slice(answer).unwrap_or_default()
}

pub struct Request<'a> {
    /// Method, path and headers of the request.
    pub parts: &'a Parts,
    pub body: &'a Bytes,
    /// Time at which it was sent, in seconds since the log was opened.
    pub at: f64,
}

/// Time at which the caller hears how a write has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerTiming {
    /// As it ends.
    Now,
    /// Once a delayed answer has come.
    Later,
    /// Never: the answer is lost.
    Lost,
}

/// Notes a write, also one whose answer is lost. Reads and dry runs are not noted. Answers the term in which the caller
/// acts once it hears of the write, where that comes later.
pub fn note(server: &ApiServer, who: &Caller, asked: &Request<'_>, reply: &Reply, heard: AnswerTiming) -> Option<i64> {
    let (parts, body) = (asked.parts, asked.body);
    let log = server.settings().log.as_ref()?;
    let verb = verb(&parts.method)?;
    let path = ResourcePath::parse(parts.uri.path())?;
    if parts.uri.query().is_some_and(|query| query.contains("dryRun=All")) {
        return None;
    }
    let Reply::Json(code, answer, _) = reply else { return None };
    let of_lease = path.resource == "leases";
    // A holder that does not learn of it does not act in the new term.
    let term = if of_lease && *code < 300 { lease_term(&read_answer::<Lease>(answer).spec) } else { None };
    if let (AnswerTiming::Now, Some(replica), Some(term)) = (heard, who.replica, term) {
        log.set_term(replica, term);
    }
    let (text, answer) = (answer, read_answer::<Answer>(answer));
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
    if heard == AnswerTiming::Lost {
        fields.push(("answerLost", json!(true)));
    }
    if of_lease {
        fields.push(("asked", json!(asked.at)));
    }
    fields.push(("sent", sent(body)));
    log.append("api", who, fields);
    term.filter(|_| heard == AnswerTiming::Later)
}

/// The uid of the object that an answer is, or that a status is about.
fn uid(answer: &Answer, text: &Bytes) -> Value {
    let of_object = &answer.metadata.uid;
    if of_object.is_null() { read_answer::<Status>(text).details.uid } else { of_object.clone() }
}

/// A NodeClaim as it stands after a write; null when it is gone.
fn claim(server: &ApiServer, name: &str) -> Value {
    let gvr = crate::apiserver::Gvr::new("karpenter.sh", "v1", "nodeclaims");
    server.get(&gvr, "", name).map_or(Value::Null, |claim| claim_summary(&claim))
}

/// Summary of a NodeClaim for the log.
pub fn claim_summary(claim: &Value) -> Value {
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

/// The term of a Lease that is held: who has written itself as its holder acts in it from now on.
fn lease_term(lease: &Held) -> Option<i64> {
    let held = lease.holder_identity.as_str().is_some_and(|holder| !holder.is_empty());
    // One of term 0 is vacant: it has been created, and nobody leads by it.
    lease.lease_transitions.as_i64().filter(|term| held && *term > 0)
}

/// The request's body, without managed fields.
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
