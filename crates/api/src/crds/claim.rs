//! NodeClaim v1 (core spec 1.2).

use serde_json::{Value, json};

use super::{
    parts::{self, object, rule, text, with},
    pool, root,
};

/// The schema of the object.
pub fn schema() -> Value {
    let spec = object(
        json!({
            "requirements": parts::requirements(&pool::OPERATORS, false, true, &[]),
            "resources": object(json!({"requests": parts::resource_list()}), &[]),
            "taints": parts::taints(),
            "startupTaints": parts::taints(),
            "nodeClassRef": pool::node_class_ref(),
            "terminationGracePeriod": text(parts::DURATION),
            "expireAfter": with(text(parts::DURATION_OR_NEVER), json!({"default": "720h"})),
        }),
        &["nodeClassRef", "requirements"],
    );
    let immutable = json!({"x-kubernetes-validations": [rule("self == oldSelf", "spec is immutable")]});
    root("NodeClaim asks for one node", with(spec, immutable), status())
}

/// The status, the same in every version.
pub fn status() -> Value {
    object(
        json!({
            "nodeName": {"type": "string"},
            "providerID": {"type": "string"},
            "imageID": {"type": "string"},
            "capacity": parts::resource_list(),
            "allocatable": parts::resource_list(),
            "conditions": parts::conditions_by_type(false),
            "lastPodEventTime": parts::time(),
        }),
        &[],
    )
}
