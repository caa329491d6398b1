//! CapacityQuota, `autoscaling.x-k8s.io`: the same fields in v1beta1 and v1alpha1.

use serde_json::{Value, json};

use super::parts::{self, object, rule, with};
use super::root;

/// Most resources of a quota.
const MOST_RESOURCES: usize = 20;
/// An amount that is written as text: a whole number, with a unit or an exponent that leaves it one.
const AMOUNT: &str = r"^\+?[0-9]+([kMGTPE]|[KMGTPE]i|[eE]\+?[0-9]+)?$";

/// The schema of the object.
pub fn schema() -> Value {
    let amount = json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
        "minimum": 0, "pattern": AMOUNT,
    });
    let limits = json!({"type": "object", "additionalProperties": amount, "maxProperties": MOST_RESOURCES,
    "x-kubernetes-validations": [
        rule("self.all(key, size(key) <= 63)", "Resource names must be 63 characters or less."),
    ]});
    let spec = object(
        json!({
            "selector": selector(),
            "limits": object(json!({"resources": limits}), &["resources"]),
        }),
        &["limits"],
    );
    let status = object(
        json!({
            "used": object(json!({"resources": parts::resource_list()}), &["resources"]),
            "conditions": parts::conditions_by_type(true),
            "observedGeneration": {"type": "integer", "format": "int64"},
        }),
        &[],
    );
    root("CapacityQuota limits what nodes with certain labels have together", spec, status)
}

/// A label selector of the API.
fn selector() -> Value {
    let expression = object(
        json!({
            "key": {"type": "string"},
            "operator": {"type": "string"},
            "values": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        }),
        &["key", "operator"],
    );
    let all = object(
        json!({
            "matchLabels": parts::text_map(),
            "matchExpressions": {"type": "array", "items": expression, "x-kubernetes-list-type": "atomic"},
        }),
        &[],
    );
    with(all, json!({"x-kubernetes-map-type": "atomic"}))
}
