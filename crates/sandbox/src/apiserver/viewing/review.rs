//! Access reviews (`kubectl auth can-i`, `auth whoami`): in the sandbox everybody may do everything.
use crate::apiserver::error::{ApiError, Result};
use crate::apiserver::http::handler::{Reply, RoutedRequest};
use bytes::Bytes;
use http::Method;
use serde_json::json;

/// Answers a review, which is created but not stored.
///
/// # Errors
/// 405 for anything but a create.
pub(in crate::apiserver) fn answer(call: &mut RoutedRequest<'_>, method: &Method) -> Result<Reply> {
    if *method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let mut review = std::mem::take(&mut call.body);
    if !review.is_object() {
        return Err(ApiError::bad_request("the object provided is no JSON object"));
    }
    review["kind"] = json!(call.found.def.kind);
    review["apiVersion"] = json!(call.found.def.api_version());
    review["status"] = match call.found.def.kind.as_str() {
        "SelfSubjectReview" => {
            json!({"userInfo": {"username": "dovetail:sandbox", "groups": ["system:masters", "system:authenticated"]}})
        }
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true, "reason": "the sandbox knows no roles"}),
    };
    Ok(Reply::Json(201, Bytes::from(review.to_string()), Vec::new()))
}
