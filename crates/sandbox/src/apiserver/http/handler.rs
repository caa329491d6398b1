//! From an HTTP request to the store and back.
use crate::apiserver::error::{ApiError, Result};
use crate::apiserver::gvr::Key;
use crate::apiserver::http::request::{Query, ResourcePath};
use crate::apiserver::registry::FoundResource;
use crate::apiserver::store::{StoreState, StoredObject};
use crate::apiserver::subresource;
use crate::apiserver::viewing::list;
use crate::apiserver::viewing::podlog::Reading;
use crate::apiserver::viewing::view::{ResourceView, ResponseForm};
use crate::apiserver::viewing::watch::Watch;
use crate::apiserver::writing::delete::DeleteOptions;
use crate::apiserver::writing::patch;
use crate::apiserver::writing::write::{WriteOptions, WriteResult};
use crate::apiserver::{ApiServer, meta};
use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug)]
pub enum Reply {
    /// JSON at once, with `Warning` headers.
    Json(u16, Bytes, Vec<String>),
    /// Something of another content type than JSON's.
    Typed(&'static str, Bytes),
    Text(&'static str),
    Watch(Box<Watch>),
    Log(Box<Reading>),
}

/// A request, and what its path stands for.
pub(in crate::apiserver) struct RoutedRequest<'a> {
    pub(in crate::apiserver) found: &'a FoundResource,
    pub(in crate::apiserver) path: &'a ResourcePath,
    pub(in crate::apiserver) query: &'a Query,
    pub(in crate::apiserver) view: ResourceView,
    pub(in crate::apiserver) body: Value,
    pub(in crate::apiserver) content_type: String,
    pub(in crate::apiserver) options: WriteOptions,
}

impl RoutedRequest<'_> {
    /// The object that the path names.
    pub(in crate::apiserver) fn key(&self) -> Result<Key> {
        let name = self.path.name.as_deref().ok_or_else(ApiError::method_not_allowed)?;
        Ok(Key::new(self.path.namespace.as_deref().unwrap_or_default(), name))
    }
}

/// Answers a request by `user`; after so many seconds it may be tried again, where that is said.
pub fn handle(server: &ApiServer, user: &str, parts: &Parts, body: &Bytes) -> (Reply, Option<u32>) {
    match answer(server, user, parts, body) {
        Ok(reply) => (reply, None),
        Err(error) => (refused(&error), error.refusal().retry_after),
    }
}

/// A refusal as an answer.
pub fn refused(error: &ApiError) -> Reply {
    Reply::Json(error.code(), Bytes::from(error.status().to_string()), Vec::new())
}

fn answer(server: &ApiServer, user: &str, parts: &Parts, body: &Bytes) -> Result<Reply> {
    let Some(path) = ResourcePath::parse(parts.uri.path()).filter(|p| !p.resource.is_empty()) else {
        return crate::apiserver::viewing::discovery::answer(server, parts);
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default())?;
    let header = |name| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let content_type = header(http::header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_owned();
    let sent = crate::apiserver::http::body::read_body(body, &content_type, query.twice)?;
    let mut state = server.lock();
    let found = state.registry.find(&path.group, &path.version, &path.resource)?;
    if path.namespace.is_some() && !found.def.namespaced {
        return Err(ApiError::no_such_path());
    }
    let view =
        ResourceView::new(&found, ResponseForm::from_accept(header(http::header::ACCEPT), query.include), state.now);
    let agent = header(http::header::USER_AGENT).split(['/', ' ']).next().unwrap_or_default();
    let manager =
        query.manager.clone().unwrap_or_else(|| if agent.is_empty() { "unknown".to_owned() } else { agent.to_owned() });
    let options = WriteOptions {
        dry_run: query.dry_run,
        manager: Some(manager),
        validation: query.validation,
        user: user.to_owned(),
        subresource: path.subresource.clone(),
        applied: false,
        duplicates: sent.duplicates,
        unknown: Vec::new(),
        sent: body.len(),
        patched: false,
    };
    // From here on it is about what is stored; the view alone knows in which version that is asked for.
    let found = found.in_storage();
    let mut call =
        RoutedRequest { found: &found, path: &path, query: &query, view, body: sent.value, content_type, options };
    if found.def.review {
        return crate::apiserver::viewing::review::answer(&mut call, &parts.method);
    }
    if !path.subresource.is_empty() {
        return subresource::handle(&mut state, &mut call, &parts.method);
    }
    if parts.method == Method::GET && (query.watch || path.name.is_none()) {
        call.query.selector.known(&found.def)?;
        return read_many(server, &mut state, &call);
    }
    one(&mut state, &mut call, &parts.method)
}

fn read_many(server: &ApiServer, state: &mut StoreState, call: &RoutedRequest<'_>) -> Result<Reply> {
    let namespace = call.path.namespace.as_deref();
    let named;
    let query = match &call.path.name {
        // A watch of one object by its path is a watch with a selector.
        Some(name) => {
            let mut query = call.query.clone();
            query.selector =
                crate::apiserver::viewing::select::ListSelector::parse(None, Some(&format!("metadata.name={name}")))?;
            named = query;
            &named
        }
        None => call.query,
    };
    if call.query.watch {
        return Ok(Reply::Watch(Box::new(Watch::open(
            server,
            state,
            call.found,
            namespace,
            query,
            call.view.clone(),
        )?)));
    }
    Ok(Reply::Json(200, list::list(state, call.found, namespace, query, &call.view)?, Vec::new()))
}

fn one(state: &mut StoreState, call: &mut RoutedRequest<'_>, method: &Method) -> Result<Reply> {
    match *method {
        Method::GET => {
            let key = call.key()?;
            let def = &call.found.def;
            let object = state
                .get(call.found.rid, &key)
                .ok_or_else(|| ApiError::not_found(&def.group, &def.plural, &key.name))?;
            Ok(Reply::Json(200, call.view.json(object), Vec::new()))
        }
        Method::POST if call.path.name.is_none() => {
            let object = written(call)?;
            let namespace = namespace_for_create(call)?;
            let done = state.create(call.found, &namespace, object, &call.options)?;
            Ok(stored(call, &done))
        }
        Method::PUT => {
            let (key, object) = (call.key()?, written(call)?);
            let done = put(state, call, &key, object)?;
            Ok(stored(call, &done))
        }
        Method::PATCH => {
            let key = call.key()?;
            let done = patch::patch(state, call, &key)?;
            Ok(stored(call, &done))
        }
        Method::DELETE if call.path.name.is_none() => delete_many(state, call),
        Method::DELETE => {
            let (key, options) = (call.key()?, delete_options(call)?);
            let done = state.delete(call.found, &key, &options)?;
            // Pods and namespaces are answered with the object, the others with a status once they are gone.
            if done.gone && !matches!(call.found.def.kind.as_str(), "Pod" | "Namespace") {
                return Ok(Reply::Json(200, Bytes::from(success(call, &done.object).to_string()), Vec::new()));
            }
            Ok(Reply::Json(200, call.view.json(&done.object), Vec::new()))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// The object in the body, checked for its kind and brought into its stored form.
pub(in crate::apiserver) fn written(call: &mut RoutedRequest<'_>) -> Result<Value> {
    stored_form(call, true)
}

/// The same of a part of an object.
pub(in crate::apiserver) fn written_in_part(call: &mut RoutedRequest<'_>) -> Result<Value> {
    stored_form(call, false)
}

fn stored_form(call: &mut RoutedRequest<'_>, whole: bool) -> Result<Value> {
    let body = std::mem::take(&mut call.body);
    let (version, kind) = (&body["apiVersion"], &body["kind"]);
    let expected = call.view.api_version();
    if kind.as_str().is_some_and(|k| k != call.found.def.kind) || version.as_str().is_some_and(|v| v != expected) {
        let message = format!(
            "the object provided is unrecognized: {version}, Kind={kind}; expected {expected}, Kind={}",
            call.found.def.kind
        );
        return Err(ApiError::bad_request(message));
    }
    let (object, unknown) = call.view.to_stored(body, whole)?;
    call.options.unknown = unknown;
    Ok(object)
}

fn namespace_for_create(call: &RoutedRequest<'_>) -> Result<String> {
    match (&call.path.namespace, call.found.def.namespaced) {
        (Some(namespace), true) => Ok(namespace.clone()),
        (None, true) => Err(ApiError::method_not_allowed()),
        _ => Ok(String::new()),
    }
}

/// Replaces an object by the one sent.
pub(in crate::apiserver) fn put(
    state: &mut StoreState,
    call: &RoutedRequest<'_>,
    key: &Key,
    object: Value,
) -> Result<WriteResult> {
    let def = &call.found.def;
    if def.needs_version
        && meta::text(&object, "resourceVersion").is_empty()
        && state.get(call.found.rid, key).is_some()
    {
        let cause = crate::apiserver::error::StatusCause::invalid(
            "metadata.resourceVersion",
            "Invalid value: 0: must be specified for an update",
        );
        // By the resource, as kube-apiserver names it here.
        return Err(ApiError::invalid(&def.group, &def.plural, &key.name, vec![cause]));
    }
    state.modify(call.found, key, &call.options, |_| Ok(object))
}

fn delete_options(call: &RoutedRequest<'_>) -> Result<DeleteOptions> {
    let mut body = call.body.clone();
    if !body.is_object() {
        body = json!({});
    }
    if let Some(seconds) = call.query.grace_period_seconds {
        body["gracePeriodSeconds"] = json!(seconds);
    }
    if let Some(policy) = &call.query.propagation {
        body["propagationPolicy"] = json!(policy);
    }
    let mut options = DeleteOptions::from_body(&body)?;
    options.dry_run |= call.query.dry_run;
    Ok(options)
}

fn delete_many(state: &mut StoreState, call: &RoutedRequest<'_>) -> Result<Reply> {
    let options = delete_options(call)?;
    let objects = list::current(state, call.found, call.path.namespace.as_deref(), call.query);
    for object in &objects {
        match state.delete(call.found, &object.key, &options) {
            // It may have gone with an owner that was deleted a moment ago.
            Err(error) if error.code() == 404 => {}
            done => drop(done?),
        }
    }
    let (version, kind) = call.view.list_meta();
    let items: Vec<Value> = objects.iter().map(|o| call.view.convert(&o.value)).collect();
    let body = json!({"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": state.rv.to_string()}, "items": items});
    Ok(Reply::Json(200, Bytes::from(body.to_string()), Vec::new()))
}

fn success(call: &RoutedRequest<'_>, object: &Arc<StoredObject>) -> Value {
    let def = &call.found.def;
    let mut details = json!({"name": object.key.name, "kind": def.plural, "uid": object.value["metadata"]["uid"]});
    if !def.group.is_empty() {
        details["group"] = json!(def.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// A stored object as an answer.
pub(in crate::apiserver) fn stored(call: &RoutedRequest<'_>, done: &WriteResult) -> Reply {
    Reply::Json(if done.created { 201 } else { 200 }, call.view.json(&done.object), done.warnings.clone())
}
