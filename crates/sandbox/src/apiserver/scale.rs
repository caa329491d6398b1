//! The scale subresource: the replicas of any scalable kind, as `autoscaling/v1` Scale.
use super::error::{ApiError, Result, StatusCause};
use super::gvr::Key;
use super::http::handler::{Reply, RoutedRequest};
use super::registry::ScalePaths;
use super::store::StoreState;
use super::subresource::there;
use super::viewing::select::ListSelector;
use super::{meta, writing::patch};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

/// Answers a request on an object's scale.
///
/// # Errors
/// 404, 409 when a resourceVersion is sent that is not the stored one, 422 for a number below 0.
pub(super) fn handle(state: &mut StoreState, call: &mut RoutedRequest<'_>, method: &Method) -> Result<Reply> {
    let paths = call.found.version.scale.clone().ok_or_else(ApiError::no_such_path)?;
    let key = call.key()?;
    let now = scale(&there(state, call.found, &key)?.value, &paths);
    let wanted = match *method {
        Method::GET => return Ok(reply(&now)),
        Method::PUT => std::mem::take(&mut call.body),
        Method::PATCH => patch::plain(call, &now)?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    set(state, call, &key, &paths, &wanted)
}

fn set(
    state: &mut StoreState,
    call: &RoutedRequest<'_>,
    key: &Key,
    paths: &ScalePaths,
    wanted: &Value,
) -> Result<Reply> {
    let replicas = match &wanted["spec"]["replicas"] {
        Value::Null => 0,
        number => number.as_i64().filter(|n| *n >= 0).ok_or_else(|| {
            let message = format!("Invalid value: {number}: must be greater than or equal to 0");
            ApiError::invalid("autoscaling", "Scale", &key.name, vec![StatusCause::invalid("spec.replicas", message)])
        })?,
    };
    let version = meta::text(wanted, "resourceVersion").to_owned();
    let mut options = call.options.clone();
    options.subresource = String::new();
    let done = state.modify(call.found, key, &options, |old| {
        let mut new = old.clone();
        if !version.is_empty() {
            meta::set(&mut new, "resourceVersion", Some(json!(version)));
        }
        put_at(&mut new, &paths.spec, json!(replicas));
        Ok(new)
    })?;
    Ok(reply(&scale(&done.object.value, paths)))
}

fn reply(scale: &Value) -> Reply {
    Reply::Json(200, Bytes::from(scale.to_string()), Vec::new())
}

fn scale(object: &Value, paths: &ScalePaths) -> Value {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut status = json!({"replicas": number(&paths.status)});
    match paths.selector.as_deref().and_then(|path| object.pointer(path)) {
        Some(Value::String(text)) => status["selector"] = json!(text),
        Some(selector) if selector.is_object() => {
            status["selector"] = json!(ListSelector::of_labels(selector).to_string())
        }
        _ => {}
    }
    // Nothing wanted is not written: `omitempty`.
    let spec = match number(&paths.spec) {
        0 => json!({}),
        replicas => json!({"replicas": replicas}),
    };
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn put_at(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for field in pointer.split('/').filter(|p| !p.is_empty()) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[field];
    }
    *at = value;
}
