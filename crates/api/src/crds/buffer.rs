//! CapacityBuffer, `autoscaling.x-k8s.io` (core spec 1.4): the same fields in v1beta1 and v1alpha1.

use serde_json::{Value, json};

use super::parts::{self, object, rule, with};
use super::root;

/// The schema of the object.
pub fn schema() -> Value {
    let name = json!({"type": "string", "minLength": 1});
    let count = json!({"type": "integer", "format": "int32", "minimum": 0});
    let spec = object(
        json!({
            "provisioningStrategy": {"type": "string", "default": crate::autoscaling::ACTIVE_CAPACITY},
            "podTemplateRef": object(json!({"name": name}), &["name"]),
            "scalableRef": object(json!({"apiGroup": {"type": "string"}, "kind": name, "name": name}), &["kind", "name"]),
            "replicas": count,
            "percentage": count,
            "limits": parts::resource_list(),
        }),
        &[],
    );
    let rules = json!({"x-kubernetes-validations": [
        rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "with podTemplateRef, replicas or limits must be set",
        ),
        rule("!has(self.podTemplateRef) || !has(self.scalableRef)", "podTemplateRef and scalableRef exclude each other"),
    ]});
    let status = object(
        json!({
            "replicas": {"type": "integer", "format": "int32"},
            "podTemplateRef": object(json!({"name": {"type": "string"}}), &["name"]),
            "podTemplateGeneration": {"type": "integer", "format": "int64"},
            "provisioningStrategy": {"type": "string"},
            "conditions": parts::conditions_by_type(true),
        }),
        &[],
    );
    root("CapacityBuffer keeps room on nodes for pods that do not exist yet", with(spec, rules), status)
}
