//! The patch kinds, by content type.
use super::error::{ApiError, Cause, Result};
use super::gvr::Key;
use super::handler::Call;
use super::shape::Shape;
use super::store::State;
use super::write::Written;
use super::{apply, strategic};
use serde_json::Value;

type Change = Box<dyn FnOnce(&Value) -> Result<Value>>;

/// Applies the patch in a request's body to an object.
///
/// # Errors
/// 415 for a content type that is no patch, 400 for one that cannot be read, 422 for one that does not fit.
pub(super) fn patch(state: &mut State, call: &mut Call<'_>, key: &Key) -> Result<Written> {
    if matches!(call.content_type.as_str(), "application/apply-patch+yaml" | "application/apply-patch+json") {
        return apply::apply(state, call, key);
    }
    let view = call.view.clone();
    let change = change(call, &key.name)?;
    state.modify(call.found, key, &call.options, move |old| Ok(view.to_stored(change(&view.patched(old))?)))
}

/// Applies the patch to something that is no stored object (a scale).
///
/// # Errors
/// As [`patch`].
pub(super) fn plain(call: &mut Call<'_>, old: &Value) -> Result<Value> {
    let name = call.key()?.name;
    change(call, &name)?(old)
}

fn change(call: &mut Call<'_>, name: &str) -> Result<Change> {
    let body = std::mem::take(&mut call.body);
    let unreadable = |e: String| ApiError::bad_request(format!("the patch cannot be read: {e}"));
    match call.content_type.as_str() {
        "application/json-patch+json" => {
            let (group, kind, name) = (call.found.def.group.clone(), call.found.def.kind.clone(), name.to_owned());
            let patch: json_patch::Patch = serde_json::from_value(body).map_err(|e| unreadable(e.to_string()))?;
            Ok(Box::new(move |old| {
                let mut new = old.clone();
                let misfit = |e| {
                    ApiError::invalid(
                        &group,
                        &kind,
                        &name,
                        vec![Cause::invalid("", format!("the patch does not fit: {e}"))],
                    )
                };
                json_patch::patch(&mut new, &patch).map_err(misfit)?;
                Ok(new)
            }))
        }
        "application/merge-patch+json" if !body.is_object() => Err(unreadable("it is no object".to_owned())),
        "application/merge-patch+json" => Ok(Box::new(move |old| {
            let mut new = old.clone();
            json_patch::merge(&mut new, &body);
            Ok(new)
        })),
        "application/strategic-merge-patch+json" if !call.found.def.custom => {
            let found = call.found.clone();
            Ok(Box::new(move |old| {
                let mut new = old.clone();
                strategic::merge(&mut new, &body, Shape::of(&found));
                Ok(new)
            }))
        }
        other => {
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, and for built-in kinds application/strategic-merge-patch+json; got {other:?}"
            );
            Err(ApiError::new(415, "UnsupportedMediaType", message))
        }
    }
}
