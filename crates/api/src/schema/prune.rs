//! Taking away what the schema does not know.

use serde_json::Value;

use super::{FieldPath, Schema, compile::SchemaNode, path::Trail};

impl Schema {
    /// Takes unknown fields away; answers where they were (for the warnings of `fieldValidation=Warn`). `apiVersion`,
    /// `kind` and `metadata` stay.
    pub fn prune(&self, object: &mut Value) -> Vec<FieldPath> {
        let mut dropped = Vec::new();
        walk(&self.root, object, &Trail::default(), true, &mut dropped);
        dropped
    }
}

fn walk(node: &SchemaNode, value: &mut Value, path: &Trail<'_>, root: bool, dropped: &mut Vec<FieldPath>) {
    match value {
        Value::Object(object) => {
            let typed = root || node.embedded;
            let kept = |name: &str| typed && matches!(name, "apiVersion" | "kind" | "metadata");
            let open = node.preserve_unknown
                || node.additional.is_some()
                || (node.type_.is_none() && node.properties.is_empty());
            if !open {
                object.retain(|name, _| {
                    let known = kept(name) || node.properties.contains_key(name);
                    if !known {
                        dropped.push(path.key(name).path());
                    }
                    known
                });
            }
            for (name, inner) in object.iter_mut().filter(|(name, _)| !kept(name)) {
                if let Some(known) = node.properties.get(name).or(node.additional.as_deref()) {
                    walk(known, inner, &path.key(name), false, dropped);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &node.items {
                for (index, item) in items.iter_mut().enumerate() {
                    walk(inner, item, &path.index(index), false, dropped);
                }
            }
        }
        _ => {}
    }
}
