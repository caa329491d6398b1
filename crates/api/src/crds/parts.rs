//! Pieces that several schemas share.

use serde_json::{Map, Value, json};

use crate::names::labels;
use crate::validation::MOST_REQUIREMENTS;

pub use super::patterns::*;

/// Types of conditions.
const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// Reasons of conditions.
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// An object with these properties.
pub fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = Map::from_iter([("type".to_string(), json!("object")), ("properties".to_string(), properties)]);
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    Value::Object(schema)
}

/// Adds keywords to a schema.
pub fn with(mut schema: Value, keywords: Value) -> Value {
    if let (Some(schema), Value::Object(keywords)) = (schema.as_object_mut(), keywords) {
        schema.extend(keywords);
    }
    schema
}

/// A CEL rule with what it says when it fails.
pub fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// Text of this form.
pub fn text(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}

/// A list that is replaced as a whole.
pub fn atomic(items: Value, max: usize) -> Value {
    json!({"type": "array", "items": items, "maxItems": max, "x-kubernetes-list-type": "atomic"})
}

/// A time.
pub fn time() -> Value {
    json!({"type": "string", "format": "date-time", "pattern": TIME})
}

/// A map of text to text.
pub fn text_map() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// A quantity: an integer or text.
pub fn quantity() -> Value {
    json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": true})
}

/// Resource names to quantities.
pub fn resource_list() -> Value {
    json!({"type": "object", "additionalProperties": quantity()})
}

/// Schema of a list of taints.
pub fn taints() -> Value {
    let taint = object(
        json!({
            "key": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": KEY},
            "value": {"type": "string", "maxLength": 63, "pattern": LABEL_VALUE},
            "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
            "timeAdded": time(),
        }),
        &["effect", "key"],
    );
    json!({"type": "array", "items": taint, "x-kubernetes-list-type": "atomic"})
}

/// Rules against keys that a pool or a claim may not write: `value` is the CEL name of the key.
fn restricted(value: &str, pool: bool, older: &[&str]) -> Vec<Value> {
    // The class's name is no well-known label, but the control plane writes it into every claim.
    let ours = [labels::EC2_NODE_CLASS];
    let aws: Vec<String> =
        labels::AWS_WELL_KNOWN.iter().chain(older).chain(&ours).map(|key| format!("{key:?}")).collect();
    let mut rules = vec![
        rule(
            &format!(
                r#"{value} in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !{value}.find("^([^/]+)").endsWith("karpenter.sh")"#
            ),
            "label domain \"karpenter.sh\" is restricted",
        ),
        rule(&format!(r#"{value} != "kubernetes.io/hostname""#), "label \"kubernetes.io/hostname\" is restricted"),
        rule(
            &format!(r#"{value} in [{}] || !{value}.find("^([^/]+)").endsWith("karpenter.k8s.aws")"#, aws.join(", ")),
            "label domain \"karpenter.k8s.aws\" is restricted",
        ),
    ];
    if pool {
        rules.push(rule(
            &format!(r#"{value} != "karpenter.sh/nodepool""#),
            "label \"karpenter.sh/nodepool\" is restricted",
        ));
    }
    rules
}

/// Labels of a template.
pub fn template_labels() -> Value {
    let rules: Vec<Value> = restricted("x", true, &[])
        .into_iter()
        .map(|mut rule| {
            let written = rule["rule"].as_str().unwrap_or_default().to_string();
            rule["rule"] = json!(format!("self.all(x, {written})"));
            rule
        })
        .collect();
    json!({
        "type": "object",
        "maxProperties": 100,
        "additionalProperties": {"type": "string", "maxLength": 63, "pattern": LABEL_VALUE},
        "x-kubernetes-validations": rules,
    })
}

/// Requirements of a pool (`pool`) or a claim, with the operators of that version and the labels that only it knows.
pub fn requirements(operators: &[&str], pool: bool, min_values: bool, older: &[&str]) -> Value {
    let mut properties = json!({
        "key": {"type": "string", "maxLength": LONGEST_KEY, "pattern": KEY, "x-kubernetes-validations": restricted("self", pool, older)},
        "operator": {"type": "string", "enum": operators},
        "values": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
    });
    let mut rules = vec![
        rule(
            "self.operator != 'In' || (has(self.values) && self.values.size() != 0)",
            "requirements with operator 'In' must have a value defined",
        ),
        rule(
            "!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && self.values.size() == 1 && int(self.values[0]) >= 0)",
            "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single value, an integer that is not negative",
        ),
    ];
    if min_values {
        properties["minValues"] = json!({"type": "integer", "minimum": 1, "maximum": 50});
        rules.push(rule(
            "self.operator != 'In' || !has(self.minValues) || (has(self.values) && self.values.size() >= self.minValues)",
            "requirements with 'minValues' must have at least that many values",
        ));
    }
    let item = with(object(properties, &["key", "operator"]), json!({"x-kubernetes-validations": rules}));
    atomic(item, MOST_REQUIREMENTS)
}

/// Conditions of which there is one of each type: appliers own them by type, and the API server refuses a second one.
pub fn conditions_by_type(reason: bool) -> Value {
    let by_type = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]});
    with(conditions(reason), by_type)
}

/// Conditions; `reason` says whether each needs one.
pub fn conditions(reason: bool) -> Value {
    let mut properties = json!({
        "lastTransitionTime": time(),
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {"type": "string", "maxLength": 1024, "minLength": 1, "pattern": CONDITION_REASON},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {"type": "string", "maxLength": 316, "pattern": CONDITION_TYPE},
    });
    let mut required = vec!["lastTransitionTime", "message", "status", "type"];
    if reason {
        required.push("reason");
    } else {
        properties["reason"] =
            json!({"type": "string", "maxLength": 1024, "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"});
        required = vec!["lastTransitionTime", "status", "type"];
    }
    json!({"type": "array", "items": object(properties, &required)})
}
