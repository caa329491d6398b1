//! The conversation of a conversion webhook: a ConversionReview with a request is answered by one with a response.

use serde_json::{Value, json};

use super::{WebhookVersion, converted};

const KIND: &str = "ConversionReview";
const API_VERSION: &str = "apiextensions.k8s.io/v1";

/// Answers a review as it comes over the wire.
///
/// # Errors
/// It is no review that can be answered, and why.
pub fn reply(body: &[u8]) -> Result<Vec<u8>, String> {
    let review: Value = serde_json::from_slice(body).map_err(|why| format!("the body is no JSON: {why}"))?;
    let text = |name: &str| review.get(name).and_then(Value::as_str).unwrap_or_default();
    if (text("apiVersion"), text("kind")) != (API_VERSION, KIND) {
        let (version, kind) = (text("apiVersion"), text("kind"));
        return Err(format!("the body is {version:?} {kind:?}; allowed: {API_VERSION} {KIND}"));
    }
    let uid = review.get("request").and_then(|one| one.get("uid")).and_then(Value::as_str).unwrap_or_default();
    if uid.is_empty() {
        return Err("request.uid is missing: there would be nothing to answer to".into());
    }
    serde_json::to_vec(&answered(&review)).map_err(|why| format!("the answer cannot be written: {why}"))
}

/// Answers a review. One object that is not ours fails it as a whole, as an API server requires, and is named.
pub fn answered(review: &Value) -> Value {
    let request = review.get("request");
    let text = |name: &str| request.and_then(|one| one.get(name)).and_then(Value::as_str).unwrap_or_default();
    let result = match WebhookVersion::from_api_version(text("desiredAPIVersion")) {
        Some(to) => objects(request, to),
        None => Err(format!(
            "desiredAPIVersion {:?} is none of ours; allowed: v1 and v1beta1 of karpenter.sh and karpenter.k8s.aws",
            text("desiredAPIVersion")
        )),
    };
    let response = match result {
        Ok(objects) => {
            json!({"uid": text("uid"), "convertedObjects": objects, "result": {"status": "Success"}})
        }
        Err(why) => {
            json!({"uid": text("uid"), "convertedObjects": [], "result": {"status": "Failure", "message": why}})
        }
    };
    json!({"apiVersion": API_VERSION, "kind": KIND, "response": response})
}

fn objects(request: Option<&Value>, to: WebhookVersion) -> Result<Vec<Value>, String> {
    let objects = request.and_then(|one| one.get("objects")).and_then(Value::as_array);
    let objects = objects.ok_or("request.objects is no list; allowed: the objects to convert")?;
    let named = |object: &Value| {
        let name = object.get("metadata").and_then(|one| one.get("name")).and_then(Value::as_str);
        name.unwrap_or("without a name").to_owned()
    };
    objects.iter().map(|one| converted(one, to).map_err(|why| format!("{}: {why}", named(one)))).collect()
}
