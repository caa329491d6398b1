//! Changes that a conversion makes to an object, a line each.

use std::collections::BTreeSet;

use serde_json::Value;

use super::paths::{ManifestPart, Mapping, PartField, value_at};
use crate::{
    convert::Converted,
    manifest::tree::{Content, YamlNode},
    schema::FieldPath,
};

/// Longest value that an explanation quotes, in characters.
const LONGEST_VALUE: usize = 120;

/// A change: the line of the file that it is about, and what it says.
type LineChange = (usize, String);

/// The objects that a manifest becomes, in the order in which they are written.
pub(super) struct Parts(pub Vec<(ManifestPart, Value)>);

impl Parts {
    pub fn from_converted(converted: &Converted) -> Self {
        let pool = converted.node_pool.as_ref().map(|one| (ManifestPart::Pool, serde_json::to_value(one)));
        let class = converted.node_class.as_ref().map(|one| (ManifestPart::Class, serde_json::to_value(one)));
        let claim = converted.node_claim.as_ref().map(|one| (ManifestPart::Claim, serde_json::to_value(one)));
        let all = [pool, class, claim].into_iter().flatten();
        // Types with string keys always become JSON.
        Self(all.filter_map(|(part, value)| Some((part, tidied(value.ok()?)))).collect())
    }

    pub fn get(&self, part: ManifestPart) -> Option<&Value> {
        self.0.iter().find(|(own, _)| *own == part).map(|(_, value)| value)
    }

    /// The objects' kinds and names.
    pub fn named(&self) -> Vec<String> {
        let name = |(_, value): &(ManifestPart, Value)| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text(&value["apiVersion"]), text(&value["kind"]), text(&value["metadata"]["name"]))
        };
        self.0.iter().map(name).collect()
    }
}

/// The object without an empty `metadata` in its template, which says nothing.
fn tidied(mut object: Value) -> Value {
    if let Some(template) = object.pointer_mut("/spec/template").and_then(Value::as_object_mut)
        && template.get("metadata").is_some_and(|metadata| metadata.as_object().is_some_and(serde_json::Map::is_empty))
    {
        template.remove("metadata");
    }
    object
}

/// Everything that differs between an object as it is written and what it becomes.
pub(super) fn changes(node: &YamlNode, parts: &Parts, mapping: &Mapping) -> Vec<LineChange> {
    let mut found = Found { parts, mapping, changes: Vec::new(), covered: BTreeSet::new() };
    found.walk(node, node.line, &FieldPath::root(), None);
    found.add(node.line);
    found.changes
}

struct Found<'a> {
    parts: &'a Parts,
    mapping: &'a Mapping,
    changes: Vec<LineChange>,
    /// Fields of the new objects that the old one says.
    covered: BTreeSet<PartField>,
}

impl Found<'_> {
    fn walk(&mut self, node: &YamlNode, line: usize, path: &FieldPath, expected: Option<PartField>) {
        if is_own(path) || node.is_null() {
            return;
        }
        let target = self.mapping.target(path);
        let there = target.as_ref().and_then(|field| value_at(self.parts.get(field.part)?, &field.path));
        let (Some(target), Some(there)) = (&target, there) else {
            if !path.0.is_empty() {
                self.changes.push((line, format!("{path} is left out")));
            }
            return;
        };
        self.covered.insert(target.clone());
        let moved = expected.is_none_or(|expected| expected != *target) && target.path != *path;
        if is_same(&node.to_value(), there) {
            if moved {
                self.changes.push((line, format!("{path} is now {}", self.shown(target))));
            }
            return self.cover(target, there);
        }
        match (&node.content, there) {
            (Content::Mapping(entries), Value::Object(_)) => {
                // Fields are listed one by one where a block becomes a whole object or its spec.
                let whole = target.path.0.is_empty() || target.path == FieldPath::from_fields(&["spec"]);
                if moved && !whole {
                    self.changes.push((line, format!("{path} is now {}", self.shown(target))));
                }
                for entry in entries {
                    let next = (!moved || !whole).then(|| target.key(&entry.key));
                    self.walk(&entry.value, entry.line, &path.key(&entry.key), next);
                }
            }
            (Content::List(items), Value::Array(_)) => {
                if moved {
                    self.changes.push((line, format!("{path} is now {}", self.shown(target))));
                }
                for (index, item) in items.iter().enumerate() {
                    let own = path.index(index);
                    let next = self.mapping.target(&own);
                    self.walk(item, item.line, &own, next);
                }
            }
            _ => {
                let of = if moved { format!("is now {}", self.shown(target)) } else { "is now".to_owned() };
                let colon = if moved { ":" } else { "" };
                self.changes.push((line, format!("{path} {of}{colon} {}", quoted(there))));
                self.cover(target, there);
            }
        }
    }

    /// A field of a new object as people call it.
    fn shown(&self, field: &PartField) -> String {
        let path = &field.path;
        let kind = self.parts.get(field.part).and_then(|object| object["kind"].as_str()).unwrap_or_default();
        if self.parts.0.len() > 1 { format!("{path} of the {kind}") } else { path.to_string() }
    }

    fn cover(&mut self, field: &PartField, value: &Value) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, inner)| self.cover(&field.key(key), inner)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, inner)| self.cover(&field.index(index), inner));
            }
            _ => {}
        }
        self.covered.insert(field.clone());
    }

    /// Names what the new objects say and the old one does not.
    fn add(&mut self, line: usize) {
        for (part, object) in &self.parts.0 {
            self.added(line, &PartField { part: *part, path: FieldPath::root() }, object);
        }
    }

    fn added(&mut self, line: usize, field: &PartField, value: &Value) {
        let path = &field.path;
        if is_own(path) || *path == FieldPath::from_fields(&["metadata", "name"]) {
            return;
        }
        let lies_over = |covered: &PartField| covered.part == field.part && covered.path.0.starts_with(&path.0);
        let open = path.0.len() < 2 || self.covered.iter().any(lies_over);
        match value {
            Value::Object(map)
                if open || matches!(path.last_key(), Some("metadata" | "template" | "spec" | "disruption")) =>
            {
                for (key, inner) in map {
                    self.added(line, &field.key(key), inner);
                }
            }
            Value::Array(items) if open => {
                for (index, inner) in items.iter().enumerate() {
                    self.added(line, &field.index(index), inner);
                }
            }
            _ if open => {}
            _ => self.changes.push((line, format!("adds {}: {}", self.shown(field), quoted(value)))),
        }
    }
}

/// True for fields that every conversion changes, which is said once in other words.
fn is_own(path: &FieldPath) -> bool {
    *path == FieldPath::from_fields(&["apiVersion"]) || *path == FieldPath::from_fields(&["kind"])
}

/// True if two values mean the same: a quantity is a number or a text.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, inner)| b.get(key).is_some_and(|other| is_same(inner, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Number(number), Value::String(text)) => number.to_string() == *text,
        _ => a == b,
    }
}

/// A value as an explanation quotes it.
fn quoted(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= LONGEST_VALUE {
        return text.replace('\n', "\\n");
    }
    let begin: String = text.chars().take(LONGEST_VALUE).collect();
    format!("{}…", begin.replace('\n', "\\n"))
}
