//! Subresources: status, scale, binding, eviction; `resize` has a file of its own.
use super::error::{ApiError, Result, StatusCause};
use super::gvr::Key;
use super::http::handler::{Reply, RoutedRequest, put, stored, written};
use super::registry::FoundResource;
use super::store::{StoreState, StoredObject};
use super::writing::write::{WriteOptions, WriteResult};
use super::{meta, resize, scale, viewing::podlog, writing::evict, writing::patch};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers a request on a subresource.
///
/// # Errors
/// 404 for a subresource that the resource does not have, and what the write refuses.
pub(super) fn handle(state: &mut StoreState, call: &mut RoutedRequest<'_>, method: &Method) -> Result<Reply> {
    let pod = call.found.def.kind == "Pod" && call.found.def.group.is_empty();
    match (call.path.subresource.as_str(), method) {
        ("status", _) if call.found.version.status => status(state, call, method),
        ("scale", _) if call.found.version.scale.is_some() => scale::handle(state, call, method),
        ("binding", &Method::POST) if pod => binding(state, call),
        ("eviction", &Method::POST) if pod => evict::handle(state, call),
        ("log", &Method::GET) if pod => podlog::answer(state, call),
        ("exec" | "attach" | "portforward" | "proxy" | "ephemeralcontainers", _) if pod => {
            let what = &call.path.subresource;
            let why = format!("{what}: the sandbox runs no containers, its pods only say that they run");
            Err(ApiError::new(501, "NotImplemented", why))
        }
        (resize::RESIZE, _) if pod => resize::handle(state, call, method),
        ("binding" | "eviction" | "log", _) if pod => Err(ApiError::method_not_allowed()),
        _ => Err(ApiError::no_such_path()),
    }
}

fn status(state: &mut StoreState, call: &mut RoutedRequest<'_>, method: &Method) -> Result<Reply> {
    let key = call.key()?;
    match *method {
        Method::GET => Ok(Reply::Json(200, call.view.json(there(state, call.found, &key)?), Vec::new())),
        Method::PUT => {
            let object = written(call)?;
            let done = put(state, call, &key, object)?;
            Ok(stored(call, &done))
        }
        Method::PATCH => {
            let done = patch::patch(state, call, &key)?;
            Ok(stored(call, &done))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// The object, or 404.
pub(super) fn there<'a>(state: &'a StoreState, found: &FoundResource, key: &Key) -> Result<&'a Arc<StoredObject>> {
    state.get(found.rid, key).ok_or_else(|| ApiError::not_found(&found.def.group, &found.def.plural, &key.name))
}

fn binding(state: &mut StoreState, call: &mut RoutedRequest<'_>) -> Result<Reply> {
    let key = call.key()?;
    let node = call.body["target"]["name"].as_str().unwrap_or_default().to_owned();
    let uid = call.body["metadata"]["uid"].as_str().map(str::to_owned);
    if node.is_empty() {
        return Err(ApiError::invalid("", "Binding", &key.name, vec![StatusCause::required("target.name")]));
    }
    bind(state, call.found, &key, &node, uid.as_deref(), &call.options)?;
    Ok(success(201))
}

/// A plain success.
pub(super) fn success(code: u16) -> Reply {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code});
    Reply::Json(code, Bytes::from(body.to_string()), Vec::new())
}

/// Binds a pod to a node and says so in its conditions.
///
/// # Errors
/// 404 for the pod, 409 when it is bound, being deleted, gated, or another one than `uid`.
pub(super) fn bind(
    state: &mut StoreState,
    found: &FoundResource,
    key: &Key,
    node: &str,
    uid: Option<&str>,
    options: &WriteOptions,
) -> Result<WriteResult> {
    let pod = there(state, found, key)?.clone();
    let refuse = |why: String| Err(ApiError::conflict("", "pods/binding", &key.name, &why));
    let bound = pod.value["spec"]["nodeName"].as_str().unwrap_or_default();
    if !bound.is_empty() {
        return refuse(format!("pod {} is already assigned to node \"{bound}\"", key.name));
    }
    if meta::deleting(&pod.value) {
        return refuse(format!("pod {} is being deleted, cannot be assigned to a host", key.name));
    }
    if pod.value["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return refuse(format!("pod {} has non-empty .spec.schedulingGates", key.name));
    }
    let own = meta::text(&pod.value, "uid");
    if let Some(uid) = uid.filter(|uid| !uid.is_empty() && *uid != own) {
        return refuse(format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"));
    }
    if options.dry_run {
        return Ok(WriteResult { object: pod, warnings: Vec::new(), created: false });
    }
    let mut new = Value::clone(&pod.value);
    new["spec"]["nodeName"] = json!(node);
    // A nomination means nothing any more once the pod is bound (Kubernetes 1.35).
    meta::member(&mut new, "status").remove("nominatedNodeName");
    scheduled(&mut new, &meta::seconds(state.now));
    let object = state.put(found.rid, key.clone(), new);
    Ok(WriteResult { object, warnings: Vec::new(), created: false })
}

/// Sets the condition PodScheduled.
fn scheduled(pod: &mut Value, now: &str) {
    let conditions = meta::member(pod, "status").entry("conditions").or_insert_with(|| json!([]));
    let fresh = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    if let Some(list) = conditions.as_array_mut() {
        match list.iter_mut().find(|c| c["type"] == "PodScheduled") {
            Some(condition) => *condition = fresh,
            None => list.push(fresh),
        }
    }
}
