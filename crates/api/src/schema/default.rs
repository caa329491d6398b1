//! Filling in what is not given, as kube-apiserver does when it decodes.

use serde_json::Value;

use super::{Schema, compile::SchemaNode};

impl Schema {
    /// Fills in defaults. Nulls of fields that are not nullable are taken away first, then get the default.
    pub fn default(&self, object: &mut Value) {
        fill(&self.root, object);
    }
}

/// True if a null is a value, not a field that is not there.
fn may_be_null(node: &SchemaNode) -> bool {
    node.nullable || (node.type_.is_none() && !node.int_or_string)
}

fn fill(node: &SchemaNode, value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (name, property) in &node.properties {
                if object.get(name).is_some_and(Value::is_null) && !may_be_null(property) {
                    object.remove(name);
                }
                if let (false, Some(default)) = (object.contains_key(name), &property.default) {
                    object.insert(name.clone(), default.clone());
                }
                if let Some(inner) = object.get_mut(name) {
                    fill(property, inner);
                }
            }
            if let Some(additional) = &node.additional {
                let stays = |name: &str| node.properties.contains_key(name) || may_be_null(additional);
                object.retain(|name, value| !value.is_null() || stays(name));
                for (_, inner) in object.iter_mut().filter(|(name, _)| !node.properties.contains_key(*name)) {
                    fill(additional, inner);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &node.items {
                items.iter_mut().for_each(|item| fill(inner, item));
            }
        }
        _ => {}
    }
}
