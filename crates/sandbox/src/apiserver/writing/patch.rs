//! The patch kinds, by content type.
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::gvr::Key;
use crate::apiserver::http::handler::RoutedRequest;
use crate::apiserver::store::StoreState;
use crate::apiserver::writing::shape::SchemaPosition;
use crate::apiserver::writing::write::{FieldValidation, WriteResult};
use crate::apiserver::{custom::schema, meta, writing::apply, writing::strategic};
use serde_json::Value;

type TableChange = Box<dyn FnOnce(Value) -> Result<Value>>;

/// Applies the patch in a request's body to an object.
///
/// # Errors
/// 415 for a content type that is no patch, 400 for one that cannot be read, 422 for one that does not fit.
pub(in crate::apiserver) fn patch(
    state: &mut StoreState,
    call: &mut RoutedRequest<'_>,
    key: &Key,
) -> Result<WriteResult> {
    if matches!(call.content_type.as_str(), "application/apply-patch+yaml" | "application/apply-patch+json") {
        return apply::apply(state, call, key);
    }
    let (view, validation) = (call.view.clone(), call.options.validation);
    call.options.patched = true;
    let (change, def) = (change(call)?, call.found.def.clone());
    state.modify(call.found, key, &call.options, move |old| {
        let (new, unknown) = view.to_stored(change(view.patched(old))?, true)?;
        if !unknown.is_empty() && validation == FieldValidation::Strict {
            let why = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect::<Vec<_>>().join(", ");
            return Err(schema::undecodable(&def, &format!("strict decoding error: {why}")));
        }
        let uid = meta::text(&new, "uid");
        if !uid.is_empty() && uid != meta::text(old, "uid") {
            let cause = StatusCause::invalid("metadata.uid", format!("Invalid value: {uid:?}: field is immutable"));
            return Err(ApiError::invalid(&def.group, &def.kind, meta::text(old, "name"), vec![cause]));
        }
        Ok(new)
    })
}

/// Applies the patch to something that is no stored object (a scale).
///
/// # Errors
/// As [`patch`].
pub(in crate::apiserver) fn plain(call: &mut RoutedRequest<'_>, old: &Value) -> Result<Value> {
    change(call)?(old.clone())
}

fn change(call: &mut RoutedRequest<'_>) -> Result<TableChange> {
    let body = std::mem::take(&mut call.body);
    let unreadable = |e: String| ApiError::bad_request(format!("the patch cannot be read: {e}"));
    match call.content_type.as_str() {
        "application/json-patch+json" => {
            if !body.is_array() {
                return Err(unreadable("it is no list".to_owned()));
            }
            let patch: json_patch::Patch = serde_json::from_value(body)
                .map_err(|e| ApiError::new(422, "Invalid", format!("the patch cannot be read: {e}")))?;
            Ok(Box::new(move |mut new| {
                // About no field and no object, as in kube-apiserver.
                let misfit = |e| ApiError::new(422, "Invalid", format!("the patch does not fit: {e}"));
                json_patch::patch(&mut new, &patch).map_err(misfit)?;
                Ok(new)
            }))
        }
        "application/merge-patch+json" if !body.is_object() => Err(unreadable("it is no object".to_owned())),
        "application/merge-patch+json" => Ok(Box::new(move |mut new| {
            json_patch::merge(&mut new, &body);
            Ok(new)
        })),
        "application/strategic-merge-patch+json" if !call.found.def.custom => {
            let found = call.found.clone();
            Ok(Box::new(move |mut new| {
                strategic::merge(&mut new, &body, SchemaPosition::from_resource(&found));
                Ok(new)
            }))
        }
        _ => {
            let strategic = if call.found.def.custom { "" } else { "application/strategic-merge-patch+json, " };
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, {strategic}application/apply-patch+yaml"
            );
            Err(ApiError::new(415, "UnsupportedMediaType", message))
        }
    }
}
