//! Checks of one object: first its schema, then what no schema can say, then its CEL rules. A mistake is told once: a later
//! step's finding at a place where an earlier one found something is its echo, and left out.

mod class;
mod enums;
mod foreign;
mod identity;
mod pods;
mod pool;

use std::borrow::Cow;

use serde_json::Value;

use super::{read::MOST_MISTAKES, tree::YamlNode};
use crate::names::syntax as names;
use crate::schema::{ErrorKind, FieldPath, SchemaError, UnknownFields, schema_for};
use crate::validation::Wrong;

pub(super) use identity::{ObjectIdentity, identify};

/// The mistakes of one object.
#[derive(Debug, Default)]
pub(super) struct Findings(pub Vec<SchemaError>);

impl Findings {
    /// Adds a mistake, whatever there is already.
    pub fn push(&mut self, path: FieldPath, what: impl Into<String>, allowed: impl Into<String>) {
        // More are not told, and each is held against those that are known.
        if self.0.len() > MOST_MISTAKES {
            return;
        }
        self.0.push(SchemaError::new(path, ErrorKind::Invalid, what, allowed));
    }

    /// Adds what a rule of fields has found, if anything.
    pub fn add_wrong(&mut self, wrong: Option<Wrong>, path: impl FnOnce() -> FieldPath) {
        if let Some(Wrong { what, allowed }) = wrong {
            self.add(path(), what, allowed);
        }
    }

    /// Adds a mistake unless one is known on the way to it or below it.
    pub fn add(&mut self, path: FieldPath, what: impl Into<String>, allowed: impl Into<String>) {
        if !self.0.iter().any(|known| known.path.is_related(&path)) {
            self.push(path, what, allowed);
        }
    }
}

/// All mistakes of an object of a known kind.
pub(super) fn object(node: &YamlNode, object: &Value, identity: &ObjectIdentity) -> Findings {
    let mut findings = Findings::default();
    let misplaced = identity::metadata(node, object, identity, &mut findings);
    let Some(schema) = schema_for(&identity.api_version, &identity.kind) else { return findings };
    for error in schema.validate(object, UnknownFields::Refuse).into_iter().take(MOST_MISTAKES + 1) {
        let is_reported = matches!(error.path.0.as_slice(), [step] if misplaced.iter().any(|key| FieldPath::root().key(key).0[0] == *step));
        if !is_reported && !findings.0.iter().any(|known| known.path == error.path) {
            findings.0.push(error);
        }
    }
    match identity.kind.as_str() {
        "NodePool" | "NodeClaim" | "Provisioner" => pool::check(object, &identity.kind, &mut findings),
        "EC2NodeClass" | "AWSNodeTemplate" => class::check(object, &mut findings),
        _ => {
            enums::check(object, identity, &mut findings);
            pods::check(object, identity, &mut findings);
        }
    }
    if identity.kind == "Provisioner" {
        class::check_provider(object, &mut findings);
    }
    let clean = findings.0.is_empty();
    // A null is a field that is not there, for rules as for the API server.
    let mut without_nulls = Cow::Borrowed(object);
    if has_null(object) {
        schema.default(without_nulls.to_mut());
    }
    for error in schema.check_rules(&without_nulls, None) {
        if clean || !error.what.starts_with("rule ") {
            findings.add(error.path, error.what, error.allowed);
        }
    }
    findings
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(object) => object.values().any(has_null),
        _ => false,
    }
}

/// Values of a list at a path of fields.
fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    value_at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Text entries of a map at a path of fields.
fn texts<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = value_at(object, path).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// The value at a path of fields.
fn value_at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

/// Text in a field.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}
