//! Validation of a value against its schema. CEL rules are apart ([`Schema::check_rules`]).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    ErrorKind, Schema, SchemaError,
    compile::{CountRange, SchemaNode, Type},
    hints,
    path::Trail,
};

/// Treatment of a field that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// Nothing; pruning takes it away.
    Ignore,
    /// That it is a mistake.
    Refuse,
}

impl Schema {
    /// All mistakes, in the order of the schema's walk. A null is a field that is not there, unless it is nullable. Fields
    /// of `metadata` are those of ObjectMeta.
    pub fn validate(&self, object: &Value, unknown: UnknownFields) -> Vec<SchemaError> {
        self.validate_change(object, None, unknown)
    }

    /// The same of an object that replaces `old`: fields of the root that did not change are not looked into, as what is
    /// stored need not be right again (Kubernetes' validation ratcheting).
    pub fn validate_change(&self, object: &Value, old: Option<&Value>, unknown: UnknownFields) -> Vec<SchemaError> {
        let mut walk = Walk { errors: Vec::new(), unknown, old };
        walk.node(&self.root, object, &Trail::default(), true);
        walk.errors
    }
}

struct Walk<'a> {
    errors: Vec<SchemaError>,
    unknown: UnknownFields,
    /// The object that the root replaces.
    old: Option<&'a Value>,
}

impl Walk<'_> {
    fn fail(&mut self, path: &Trail<'_>, kind: ErrorKind, what: String, allowed: String) {
        self.errors.push(SchemaError { path: path.path(), kind, what, allowed });
    }

    fn node(&mut self, node: &SchemaNode, value: &Value, path: &Trail<'_>, root: bool) {
        if value.is_null() && (node.nullable || node.type_.is_none()) {
            return;
        }
        if !self.has_type(node, value, path) {
            return;
        }
        let before = self.errors.len();
        if !node.enumeration.is_empty() && !node.enumeration.contains(value) {
            let what = format!("{} is not supported", hints::value(value));
            self.fail(path, ErrorKind::NotSupported, what, hints::values(&node.enumeration));
        }
        match value {
            Value::String(text) => self.text(node, text, path),
            Value::Number(number) => self.number(node, number.as_f64().unwrap_or(f64::NAN), value, path),
            Value::Array(items) => self.array(node, items, path),
            Value::Object(object) => self.object(node, object, path, root),
            _ => {}
        }
        if self.errors.len() == before {
            self.combinations(node, value, path);
        }
    }

    fn has_type(&mut self, node: &SchemaNode, value: &Value, path: &Trail<'_>) -> bool {
        let integer = value.is_i64() || value.is_u64();
        let right = if node.quantity {
            value.is_number() || value.is_string()
        } else if node.int_or_string {
            integer || value.is_string()
        } else {
            match node.type_ {
                None => true,
                Some(Type::Object) => value.is_object(),
                Some(Type::Array) => value.is_array(),
                Some(Type::String) => value.is_string(),
                Some(Type::Integer) => integer,
                Some(Type::Number) => value.is_number(),
                Some(Type::Boolean) => value.is_boolean(),
            }
        };
        if !right {
            let quote = node.type_ == Some(Type::String) && (value.is_number() || value.is_boolean());
            let hint = if quote { ", in quotes" } else { "" };
            let what = format!("is {}", hints::value(value));
            self.fail(path, ErrorKind::Type, what, format!("{}{hint}", hints::allowed(node)));
        }
        right
    }

    fn text(&mut self, node: &SchemaNode, text: &str, path: &Trail<'_>) {
        let count = text.chars().count() as u64;
        if node.length.least.is_some_and(|least| count < least) {
            let what = if text.is_empty() { "is empty".into() } else { format!("{text:?} is too short") };
            return self.fail(
                path,
                ErrorKind::Invalid,
                what,
                format!("{} characters or more", node.length.least.unwrap_or(0)),
            );
        }
        if node.length.most.is_some_and(|most| count > most) {
            let what = format!("has {count} characters");
            return self.fail(
                path,
                ErrorKind::Invalid,
                what,
                format!("{} characters at most", node.length.most.unwrap_or(0)),
            );
        }
        let quantity = node.quantity && !crate::quantity::is_quantity(text);
        let mismatch = node.pattern.as_ref().is_some_and(|pattern| !pattern.regex.is_match(text));
        if quantity || mismatch {
            let space = text.trim() != text;
            let what = format!(
                "{} is not valid{}",
                hints::value(&text.into()),
                if space { ": it begins or ends with a space" } else { "" }
            );
            return self.fail(path, ErrorKind::Invalid, what, hints::allowed(node));
        }
        if node.format.as_deref() == Some("date-time") && text.parse::<jiff::Timestamp>().is_err() {
            let what = format!("{text:?} is not a time");
            self.fail(path, ErrorKind::Invalid, what, "RFC 3339, such as 2026-01-02T15:04:05Z".into());
        }
    }

    fn number(&mut self, node: &SchemaNode, number: f64, value: &Value, path: &Trail<'_>) {
        let range = match node.format.as_deref() {
            Some("int32") if value.as_i64().is_none_or(|number| i32::try_from(number).is_err()) => {
                Some("an integer of 32 bits")
            }
            Some("int64") if value.as_i64().is_none() && node.type_ == Some(Type::Integer) => {
                Some("an integer of 64 bits")
            }
            _ => None,
        };
        if let Some(range) = range {
            return self.fail(path, ErrorKind::Invalid, format!("{value} is out of range"), range.into());
        }
        let below = node.minimum.is_some_and(|(bound, exclusive)| number < bound || exclusive && number <= bound);
        let above = node.maximum.is_some_and(|(bound, exclusive)| number > bound || exclusive && number >= bound);
        if below || above {
            let allowed = match (node.minimum, node.maximum) {
                (Some((least, _)), Some((most, _))) => format!("{least} to {most}"),
                (Some((least, _)), None) => format!("{least} or more"),
                (_, Some((most, _))) => format!("{most} at most"),
                _ => String::new(),
            };
            self.fail(path, ErrorKind::Invalid, format!("is {value}"), allowed);
        }
    }

    fn array(&mut self, node: &SchemaNode, items: &[Value], path: &Trail<'_>) {
        self.count(node.item_count, items.len(), "items", path);
        if let Some(inner) = &node.items {
            for (index, item) in items.iter().enumerate() {
                self.node(inner, item, &path.index(index), false);
            }
        }
        if node.set || node.unique || !node.map_keys.is_empty() {
            self.duplicates(node, items, path);
        }
    }

    fn duplicates(&mut self, node: &SchemaNode, items: &[Value], path: &Trail<'_>) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let key = if node.map_keys.is_empty() {
                item.to_string()
            } else {
                node.map_keys
                    .iter()
                    .map(|key| item.get(key).unwrap_or(&Value::Null).to_string())
                    .collect::<Vec<_>>()
                    .join(",")
            };
            if !seen.insert(key.clone()) {
                let allowed = if node.map_keys.is_empty() {
                    "each value once".into()
                } else {
                    format!("each {} once", node.map_keys.join(" and "))
                };
                self.fail(&path.index(index), ErrorKind::Duplicate, format!("{key} is there already"), allowed);
            }
        }
    }

    fn object(&mut self, node: &SchemaNode, object: &Map<String, Value>, path: &Trail<'_>, root: bool) {
        self.count(node.property_count, object.len(), "entries", path);
        for name in &node.required {
            if object.get(name).is_none_or(Value::is_null) {
                let allowed = node.properties.get(name).map(hints::allowed).unwrap_or_default();
                self.fail(&path.key(name), ErrorKind::Required, "is required".into(), allowed);
            }
        }
        let typed = root || node.embedded;
        for (name, value) in object {
            let known = node.properties.get(name).or(node.additional.as_deref());
            match known {
                _ if typed && matches!(name.as_str(), "apiVersion" | "kind") => {}
                _ if value.is_null() => {}
                _ if root && self.old.is_some_and(|old| old.get(name) == Some(value)) => {}
                Some(known) if typed && name == "metadata" && known.properties.is_empty() => self.metadata(value, path),
                Some(known) => self.node(known, value, &path.key(name), false),
                None if typed && name == "metadata" => self.metadata(value, path),
                None if node.preserve_unknown || (node.type_.is_none() && node.properties.is_empty()) => {}
                None => self.unknown_field(node, name, path),
            }
        }
    }

    fn metadata(&mut self, value: &Value, path: &Trail<'_>) {
        if let Some(schema) = super::kinds::object_meta() {
            self.node(&schema.root, value, &path.key("metadata"), false);
        }
    }

    fn unknown_field(&mut self, node: &SchemaNode, name: &str, path: &Trail<'_>) {
        if self.unknown == UnknownFields::Ignore {
            return;
        }
        let (near, all) = hints::fields(node.properties.keys().map(String::as_str), name);
        let what =
            near.map_or_else(|| "unknown field".to_string(), |near| format!("unknown field; did you mean {near}?"));
        self.fail(&path.key(name), ErrorKind::Unknown, what, if all.is_empty() { "no fields".into() } else { all });
    }

    fn count(&mut self, allowed: CountRange, count: usize, of: &str, path: &Trail<'_>) {
        let CountRange { least, most } = allowed;
        let count = count as u64;
        if least.is_some_and(|least| count < least) {
            let what = if count == 0 { "is empty".into() } else { format!("has {count} {of}") };
            self.fail(path, ErrorKind::Invalid, what, format!("{} {of} or more", least.unwrap_or(0)));
        } else if most.is_some_and(|most| count > most) {
            self.fail(
                path,
                ErrorKind::Invalid,
                format!("has {count} {of}"),
                format!("{} {of} at most", most.unwrap_or(0)),
            );
        }
    }

    /// allOf, anyOf, oneOf and not; in a structural schema they only narrow values, so they know no unknown fields.
    fn combinations(&mut self, node: &SchemaNode, value: &Value, path: &Trail<'_>) {
        let passes = |inner: &SchemaNode| {
            let mut walk = Walk { errors: Vec::new(), unknown: UnknownFields::Ignore, old: None };
            walk.node(inner, value, path, false);
            walk.errors.is_empty()
        };
        for inner in &node.all_of {
            let mut walk = Walk { errors: Vec::new(), unknown: UnknownFields::Ignore, old: None };
            walk.node(inner, value, path, false);
            self.errors.append(&mut walk.errors);
        }
        let any = node.any_of.is_empty() || node.any_of.iter().any(passes);
        let one = node.one_of.is_empty() || node.one_of.iter().filter(|inner| passes(inner)).count() == 1;
        let not = node.not.as_deref().is_some_and(passes);
        if !any || !one || not {
            let what = format!("{} is none of what is allowed here", hints::value(value));
            self.fail(path, ErrorKind::Invalid, what, hints::allowed(node));
        }
    }
}
