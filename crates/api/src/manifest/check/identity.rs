//! Identity of an object: apiVersion, kind, name, namespace, labels and annotations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Findings, foreign::is_foreign, names, text, texts};
use crate::{
    manifest::tree::YamlNode,
    schema::{ErrorKind, FieldPath, SchemaError, Scope, accepted_kinds, scope_of},
};

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdentity {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: Option<String>,
    /// True if its kind is one that is known here.
    pub known: bool,
}

/// Reads who the object is; a kind that nobody knows is the only mistake told of it.
pub fn identify(object: &Value) -> Result<ObjectIdentity, SchemaError> {
    let field = |name: &str| match object.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(Value::Null) | None => {
            Err(SchemaError::new(FieldPath::from_fields(&[name]), ErrorKind::Required, "is required", accepted()))
        }
        Some(_) => Err(SchemaError::new(FieldPath::from_fields(&[name]), ErrorKind::Type, "is not text", accepted())),
    };
    let api_version = field("apiVersion")?;
    let kind = field("kind")?;
    let scope = scope_of(&api_version, &kind);
    if scope.is_none() && !is_foreign(&api_version, &kind) {
        return Err(unknown(&api_version, &kind));
    }
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let namespace = Some(text(metadata, "namespace")).filter(|text| !text.is_empty()).unwrap_or("default");
    let namespace = (scope != Some(Scope::Cluster)).then(|| namespace.to_string());
    Ok(ObjectIdentity { name: text(metadata, "name").into(), namespace, known: scope.is_some(), api_version, kind })
}

fn unknown(api_version: &str, kind: &str) -> SchemaError {
    let versions: Vec<String> =
        accepted_kinds().filter(|(_, known)| *known == kind).map(|(version, _)| version.to_string()).collect();
    let kinds: Vec<String> =
        accepted_kinds().filter(|(version, _)| *version == api_version).map(|(_, kind)| kind.to_string()).collect();
    let (field, what, allowed) = if !versions.is_empty() {
        ("apiVersion", format!("{kind} has no apiVersion {api_version:?}"), versions)
    } else if !kinds.is_empty() {
        ("kind", format!("{api_version} has no kind {kind:?}"), kinds)
    } else {
        ("apiVersion", format!("{api_version:?} is not known, nor its kind {kind:?}"), vec![accepted()])
    };
    SchemaError::new(FieldPath::from_fields(&[field]), ErrorKind::NotSupported, what, allowed.join(", "))
}

/// The apiVersions that are known.
fn accepted() -> String {
    let versions: BTreeSet<&str> = accepted_kinds().map(|(version, _)| version).collect();
    versions.into_iter().collect::<Vec<_>>().join(", ")
}

/// Checks metadata; answers the keys that stand at the root and belong below it.
pub fn metadata(
    node: &YamlNode,
    object: &Value,
    identity: &ObjectIdentity,
    findings: &mut Findings,
) -> Vec<&'static str> {
    let there = object.get("metadata").is_some_and(|metadata| !metadata.is_null());
    let misplaced: Vec<&'static str> = ["name", "namespace", "labels", "annotations", "generateName"]
        .into_iter()
        .filter(|key| !there && node.entry(key).is_some())
        .collect();
    if let Some(first) = misplaced.first() {
        let what = format!("stands beside metadata, not in it: {}", misplaced.join(", "));
        findings.push(FieldPath::from_fields(&[first]), what, "indented below metadata");
        return misplaced;
    }
    let path = FieldPath::from_fields(&["metadata", "name"]);
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    match metadata.get("name") {
        None | Some(Value::Null) => {
            findings.push(path, "is required", "a name of lower-case letters, digits, '-' and '.'")
        }
        Some(Value::String(name)) if !names::is_subdomain(name) && !identity.kind.contains("Role") => {
            let what = format!("{} is no object's name", names::shown(name));
            findings.push(path, what, "lower-case letters, digits, '-' and '.', first and last a letter or digit");
        }
        _ => {}
    }
    if identity.namespace.is_none() && !text(metadata, "namespace").is_empty() {
        let what = format!("{} lives in no namespace", identity.kind);
        findings.push(FieldPath::from_fields(&["metadata", "namespace"]), what, "no namespace");
    }
    labels(object, &["metadata"], findings);
    misplaced
}

/// Checks labels and annotations of a metadata at a path.
pub fn labels(object: &Value, at: &[&str], findings: &mut Findings) {
    let below = |name: &'static str| at.iter().copied().chain([name]).collect::<Vec<_>>();
    let (labels, annotations) = (below("labels"), below("annotations"));
    for (key, value) in texts(object, &labels) {
        let path = FieldPath::from_fields(&labels).key(key);
        if !names::is_key(key) {
            findings.add(path, format!("{} is no label's key", names::shown(key)), names::KEY);
        } else if !names::is_label_value(value) {
            findings.add(path, format!("{} is no label's value", names::shown(value)), names::LABEL_VALUE);
        }
    }
    for (key, _) in texts(object, &annotations).filter(|(key, _)| !names::is_key(&key.to_ascii_lowercase())) {
        findings.add(
            FieldPath::from_fields(&annotations).key(key),
            format!("{} is no annotation's key", names::shown(key)),
            names::KEY,
        );
    }
}
