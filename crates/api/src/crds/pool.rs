//! NodePool v1 (core spec 1.1).

use serde_json::{Value, json};

use super::{
    parts::{self, object, rule, text, with},
    root,
};

/// The operators of v1.
pub const OPERATORS: [&str; 8] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];

/// The schema of the object.
pub fn schema() -> Value {
    let properties = json!({
        "template": object(
            json!({
                "metadata": object(
                    json!({"labels": parts::template_labels(), "annotations": parts::text_map()}),
                    &[],
                ),
                "spec": template_spec(),
            }),
            &["spec"],
        ),
        "disruption": disruption(),
        "limits": parts::resource_list(),
        "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100},
        "replicas": {"type": "integer", "format": "int64", "minimum": 0},
    });
    let rules = json!({"x-kubernetes-validations": [
        rule("has(self.replicas) == has(oldSelf.replicas)", "replicas can be neither added nor removed after creation"),
        rule(
            "!has(self.replicas) || !has(self.limits) || self.limits.size() == 0 || (self.limits.size() == 1 && 'nodes' in self.limits)",
            "with replicas, limits may hold nothing but nodes",
        ),
        rule("!has(self.replicas) || !has(self.weight)", "weight is not allowed with replicas"),
    ]});
    root("NodePool says which nodes may be made", with(object(properties, &["template"]), rules), status(true))
}

fn template_spec() -> Value {
    let node_class_ref = with(
        node_class_ref(),
        json!({"x-kubernetes-validations": [
            rule("self.group == oldSelf.group", "group is immutable"),
            rule("self.kind == oldSelf.kind", "kind is immutable"),
        ]}),
    );
    object(
        json!({
            "requirements": parts::requirements(&OPERATORS, true, true, &[]),
            "taints": parts::taints(),
            "startupTaints": parts::taints(),
            "nodeClassRef": node_class_ref,
            "terminationGracePeriod": text(parts::DURATION),
            "expireAfter": with(text(parts::DURATION_OR_NEVER), json!({"default": "720h"})),
        }),
        &["nodeClassRef", "requirements"],
    )
}

/// A reference to a node class.
pub fn node_class_ref() -> Value {
    object(
        json!({
            "group": {"type": "string", "minLength": 1, "pattern": "^[^/]*$"},
            "kind": {"type": "string", "minLength": 1},
            "name": {"type": "string", "minLength": 1},
        }),
        &["group", "kind", "name"],
    )
}

fn disruption() -> Value {
    let schema = object(
        json!({
            "consolidateAfter": with(text(parts::DURATION_OR_NEVER), json!({"default": "0s"})),
            "consolidationPolicy": {
                "type": "string",
                "enum": ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"],
                "default": "WhenEmptyOrUnderutilized",
            },
            "budgets": budgets(true),
        }),
        &["consolidateAfter"],
    );
    with(schema, json!({"default": {"consolidateAfter": "0s"}}))
}

/// Budgets, with `reasons` from v1 on.
pub fn budgets(reasons: bool) -> Value {
    let mut properties = json!({
        "nodes": with(text(parts::BUDGET_NODES), json!({"default": "10%"})),
        "schedule": text(parts::SCHEDULE),
        "duration": text(parts::BUDGET_DURATION),
    });
    if reasons {
        properties["reasons"] = json!({
            "type": "array",
            "maxItems": 50,
            "items": {"type": "string", "enum": ["Underutilized", "Empty", "Drifted", "Unhealthy"]},
            "x-kubernetes-list-type": "set",
        });
    }
    let budget = with(
        object(properties, &["nodes"]),
        json!({"x-kubernetes-validations": [
            rule("has(self.schedule) == has(self.duration)", "'schedule' must be set with 'duration'"),
        ]}),
    );
    with(parts::atomic(budget, 50), json!({"default": [{"nodes": "10%"}]}))
}

/// Schema of the status, in every version the same fields: of one that a version does not declare the API server cannot keep
/// track, and forgets the managers of all fields of the object. `reason` says whether each condition needs one.
pub fn status(reason: bool) -> Value {
    object(
        json!({
            "resources": parts::resource_list(),
            "nodes": {"type": "integer", "format": "int64", "default": 0},
            "nodeClassObservedGeneration": {"type": "integer", "format": "int64"},
            "conditions": parts::conditions_by_type(reason),
        }),
        &[],
    )
}
