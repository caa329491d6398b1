//! NodeOverlay, `karpenter.sh/v1alpha1` (core spec 1.3).

use serde_json::{Value, json};

use super::parts::{self, object, rule, text, with};
use super::pool::OPERATORS;
use super::root;
use crate::overlays::RESTRICTED_RESOURCES;

/// Prices, dollars an hour.
const PRICE: &str = r"^\d+(\.\d+)?$";
/// Signed dollars an hour, or a signed percentage of at least -100.
const ADJUSTMENT: &str = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";

/// The schema of the object.
pub fn schema() -> Value {
    let restricted = RESTRICTED_RESOURCES.map(|name| format!("'{name}'")).join(", ");
    let capacity = with(
        parts::resource_list(),
        json!({"x-kubernetes-validations": [
            rule(&format!("self.all(x, !(x in [{restricted}]))"), "invalid resource restricted"),
        ]}),
    );
    let spec = object(
        json!({
            "requirements": requirements(),
            "price": text(PRICE),
            "priceAdjustment": text(ADJUSTMENT),
            "capacity": capacity,
            "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10_000},
        }),
        &["requirements"],
    );
    let rules = json!({"x-kubernetes-validations": [
        rule("!has(self.price) || !has(self.priceAdjustment)", "cannot set both 'price' and 'priceAdjustment'"),
    ]});
    let conditions =
        with(parts::conditions(true), json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}));
    let status = object(json!({"conditions": conditions}), &[]);
    let about = "NodeOverlay changes the prices and adds to the resources that instance types have for scheduling";
    root(about, with(spec, rules), status)
}

/// Requirements as a claim may have them; NotIn needs a value too.
fn requirements() -> Value {
    let mut schema = parts::requirements(&OPERATORS, false, false, &[]);
    if let Some(rules) = schema["items"]["x-kubernetes-validations"].as_array_mut() {
        rules.push(rule(
            "self.operator != 'NotIn' || (has(self.values) && self.values.size() != 0)",
            "requirements with operator 'NotIn' must have a value defined",
        ));
    }
    schema
}
