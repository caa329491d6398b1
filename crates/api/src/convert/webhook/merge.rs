//! A merge of two changes of one object, field by field.

use serde_json::{Map, Value};

/// `theirs` with the change from `base` to `ours` made to it. Lists are changed as a whole.
///
/// `base` and `ours` are two states of an object in a form that holds less than `theirs` does: where they agree, nothing
/// was changed, and what `theirs` says of it stays.
pub(super) fn merged(base: Option<&Value>, ours: Option<&Value>, theirs: Option<&Value>) -> Option<Value> {
    if base == ours {
        return theirs.cloned();
    }
    let (Some(Value::Object(ours)), Some(Value::Object(theirs))) = (ours, theirs) else { return ours.cloned() };
    let none = Map::new();
    let base = base.and_then(Value::as_object).unwrap_or(&none);
    let mut fields = Map::new();
    for name in ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name))) {
        if let Some(value) = merged(base.get(name), ours.get(name), theirs.get(name)) {
            fields.insert(name.clone(), value);
        }
    }
    Some(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(base: &Value, ours: &Value, theirs: &Value) -> Value {
        merged(Some(base), Some(ours), Some(theirs)).unwrap()
    }

    #[test]
    fn what_was_not_changed_stays_as_the_richer_form_has_it() {
        let theirs = json!({"limits": {"cpu": "10"}, "budgets": [{"nodes": "1", "reasons": ["Empty"]}]});
        let base = json!({"limits": {"cpu": "10"}, "budgets": [{"nodes": "1"}]});
        assert_eq!(of(&base, &base, &theirs), theirs);
        let ours = json!({"limits": {"cpu": "20"}, "budgets": [{"nodes": "1"}]});
        assert_eq!(of(&base, &ours, &theirs)["budgets"], theirs["budgets"]);
        assert_eq!(of(&base, &ours, &theirs)["limits"]["cpu"], "20");
    }

    #[test]
    fn removed_field_goes_and_what_only_richer_form_holds_stays() {
        let theirs = json!({"weight": 3, "replicas": 2});
        let base = json!({"weight": 3});
        assert_eq!(of(&base, &json!({}), &theirs), json!({"replicas": 2}));
    }
}
