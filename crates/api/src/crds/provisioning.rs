//! ProvisioningRequest, `autoscaling.x-k8s.io`: the same fields in v1 and v1beta1.

use serde_json::{Value, json};

use super::parts::{self, object, rule, with};
use super::root;

/// A name of an object or a class.
const NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Longest name.
const LONGEST_NAME: u32 = 253;
/// Longest value of a parameter.
const LONGEST_PARAMETER: u32 = 255;
/// Longest value of a detail.
const LONGEST_DETAIL: u32 = 32_768;
/// Most groups of pods of a request.
const MOST_POD_SETS: u32 = 32;
/// Most parameters of a request.
const MOST_PARAMETERS: u32 = 100;
/// Most details of a status.
const MOST_DETAILS: u32 = 64;

/// The schema of the object.
pub fn schema() -> Value {
    let fixed = json!({"x-kubernetes-validations": [rule("self == oldSelf", "Value is immutable")]});
    let name = json!({"type": "string", "maxLength": LONGEST_NAME, "pattern": NAME});
    let set = object(
        json!({
            "podTemplateRef": object(json!({"name": name}), &["name"]),
            "count": {"type": "integer", "format": "int32", "minimum": 1},
        }),
        &["count", "podTemplateRef"],
    );
    let texts = |longest: u32, most: u32| {
        json!({"type": "object", "maxProperties": most,
            "additionalProperties": {"type": "string", "maxLength": longest}})
    };
    let spec = object(
        json!({
            "podSets": with(json!({"type": "array", "items": set, "minItems": 1, "maxItems": MOST_POD_SETS}), fixed.clone()),
            "provisioningClassName": with(name, fixed.clone()),
            "parameters": with(texts(LONGEST_PARAMETER, MOST_PARAMETERS), fixed),
        }),
        &["podSets", "provisioningClassName"],
    );
    let status = object(
        json!({
            "conditions": parts::conditions_by_type(true),
            "provisioningClassDetails": texts(LONGEST_DETAIL, MOST_DETAILS),
        }),
        &[],
    );
    root("ProvisioningRequest asks for room for all pods of a group, or for none", spec, status)
}
