//! Strategic merge patches: merge patches that know which lists are maps.
use crate::apiserver::writing::shape::{ListType, SchemaPosition};
use serde_json::{Map, Value};

/// Merges `patch` into `live`.
pub fn merge(live: &mut Value, patch: &Value, shape: SchemaPosition<'_>) {
    let Value::Object(patch) = patch else {
        *live = patch.clone();
        return;
    };
    if patch.get("$patch").is_some_and(|d| d == "replace") {
        *live = plain(&Value::Object(patch.clone()));
        return;
    }
    if !live.is_object() {
        *live = Value::Object(Map::new());
    }
    let Value::Object(map) = live else { return };
    if let Some(keys) = patch.get("$retainKeys").and_then(Value::as_array) {
        map.retain(|field, _| keys.iter().any(|k| k == field));
    }
    for (field, value) in patch {
        match field.split_once('/') {
            Some(("$deleteFromPrimitiveList", of)) => drop_values(map.get_mut(of), value),
            _ if field.starts_with('$') => {}
            _ => merge_field(map, field, value, shape.field(field)),
        }
    }
    for (field, order) in patch {
        if let Some(("$setElementOrder", of)) = field.split_once('/') {
            reorder(map.get_mut(of), order, &shape.field(of).list());
        }
    }
}

fn merge_field(map: &mut Map<String, Value>, field: &str, value: &Value, shape: SchemaPosition<'_>) {
    match value {
        Value::Null => drop(map.remove(field)),
        Value::Object(inner) if inner.get("$patch").is_some_and(|d| d == "delete") => drop(map.remove(field)),
        Value::Object(_) => merge(map.entry(field).or_insert(Value::Null), value, shape),
        Value::Array(items) => merge_list(map.entry(field).or_insert(Value::Null), items, shape),
        scalar => drop(map.insert(field.to_owned(), scalar.clone())),
    }
}

fn merge_list(live: &mut Value, items: &[Value], shape: SchemaPosition<'_>) {
    let kind = shape.list();
    let replaces = items.iter().any(|item| item.is_object() && item["$patch"] == "replace");
    if !live.is_array() || replaces || kind == ListType::Atomic {
        // Deletions of items have nothing to delete from here.
        *live = items.iter().filter(|item| !item.is_object() || item["$patch"].is_null()).map(plain).collect();
        return;
    }
    let Value::Array(list) = live else { return };
    for item in items {
        let ListType::Map(keys) = &kind else {
            if !list.contains(item) {
                list.push(item.clone());
            }
            continue;
        };
        let Some(key) = keys.first() else { continue };
        let place = list.iter().position(|there| there[key] == item[key]);
        match (place, item["$patch"] == "delete") {
            (Some(at), true) => drop(list.remove(at)),
            (None, true) => {}
            (Some(at), false) => merge(&mut list[at], item, shape.item()),
            (None, false) => list.push(plain(item)),
        }
    }
}

/// A patch's value without directives.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(field, value)| !field.starts_with('$') && !value.is_null());
            Value::Object(kept.map(|(field, value)| (field.clone(), plain(value))).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        scalar => scalar.clone(),
    }
}

fn drop_values(list: Option<&mut Value>, values: &Value) {
    let Some(list) = list.and_then(Value::as_array_mut) else { return };
    list.retain(|item| !values.as_array().is_some_and(|values| values.contains(item)));
}

/// Brings a list into the order that the patch names; items it does not name come last, as they stood.
fn reorder(list: Option<&mut Value>, order: &Value, kind: &ListType) {
    let (Some(list), Some(order)) = (list.and_then(Value::as_array_mut), order.as_array()) else { return };
    let place = |item: &Value| {
        let same = |wanted: &Value| match kind {
            ListType::Map(keys) => keys.first().is_some_and(|key| wanted[key] == item[key]),
            _ => wanted == item,
        };
        order.iter().position(same).unwrap_or(usize::MAX)
    };
    list.sort_by_key(place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(live: Value, patch: Value) -> Value {
        let mut live = live;
        merge(&mut live, &patch, SchemaPosition::Builtin("Pod", ""));
        live
    }

    #[test]
    fn containers_merge_by_name_and_their_ports_by_number() {
        let live = json!({"spec": {"containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}, {"name": "b"}]}});
        let patch = json!({"spec": {"containers": [{"name": "a", "image": "2", "ports": [{"containerPort": 81}]}, {"name": "c"}]}});
        let expected = json!({"spec": {"containers": [
            {"name": "a", "image": "2", "ports": [{"containerPort": 80}, {"containerPort": 81}]}, {"name": "b"}, {"name": "c"}]}});
        assert_eq!(merged(live, patch), expected);
    }

    #[test]
    fn conditions_merge_by_type_and_taints_are_replaced() {
        let live = json!({"spec": {"taints": [{"key": "a"}]}, "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "True"}]}});
        let patch = json!({"spec": {"taints": [{"key": "b"}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let expected = json!({"spec": {"taints": [{"key": "b"}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "True"}]}});
        assert_eq!(merged(live, patch), expected);
    }

    #[test]
    fn directives_delete_replace_retain_and_order() {
        let live = json!({"metadata": {"finalizers": ["x", "y"]}, "spec": {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "v"}], "strategy": {"type": "R", "rolling": 1}}});
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["z"]},
            "spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}], "containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}],
                "volumes": [{"$patch": "replace"}, {"name": "w"}], "strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        let expected = json!({"metadata": {"finalizers": ["y", "z"]}, "spec": {"containers": [{"name": "c"}, {"name": "b"}], "volumes": [{"name": "w"}], "strategy": {"type": "Recreate"}}});
        assert_eq!(merged(live, patch), expected);
    }
}
