//! Each field of a schema is one of its type, and each of a type one of its schema.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::schema::OWN_KINDS;
use dovetail_api::{crds, v1, v1alpha1, v1alpha5, v1beta1};
use serde::Deserialize;
use serde_json::Value;

use super::cases::full;
use super::recorder::{Asked, Recorder};

/// The fields that the types ask for of an object that has all of them.
fn asked(api_version: &str, kind: &str, object: &Value) -> BTreeMap<String, BTreeSet<&'static str>> {
    let asked = Asked::default();
    let recorder = Recorder { value: object, path: String::new(), asked: &asked };
    let read = match (api_version, kind) {
        ("karpenter.sh/v1", "NodePool") => v1::NodePool::deserialize(recorder).map(drop),
        ("karpenter.sh/v1", "NodeClaim") => v1::NodeClaim::deserialize(recorder).map(drop),
        ("karpenter.k8s.aws/v1", _) => v1::EC2NodeClass::deserialize(recorder).map(drop),
        ("karpenter.sh/v1beta1", "NodePool") => v1beta1::NodePool::deserialize(recorder).map(drop),
        ("karpenter.sh/v1beta1", "NodeClaim") => v1beta1::NodeClaim::deserialize(recorder).map(drop),
        ("karpenter.k8s.aws/v1beta1", _) => v1beta1::EC2NodeClass::deserialize(recorder).map(drop),
        ("karpenter.sh/v1alpha5", "Machine") => v1alpha5::Machine::deserialize(recorder).map(drop),
        ("karpenter.sh/v1alpha5", _) => v1alpha5::Provisioner::deserialize(recorder).map(drop),
        _ => v1alpha1::AWSNodeTemplate::deserialize(recorder).map(drop),
    };
    read.unwrap_or_else(|why| panic!("{api_version} {kind} with all its fields cannot be read: {why}: {object:#}"));
    asked.into_inner()
}

/// The fields of a schema, by path.
fn known(schema: &Value, path: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    if let Some(properties) = schema["properties"].as_object() {
        found.insert(path.to_owned(), properties.keys().cloned().collect());
        for (name, inner) in properties {
            let dot = if path.is_empty() { "" } else { "." };
            known(inner, &format!("{path}{dot}{name}"), found);
        }
    }
    if schema["items"].is_object() {
        known(&schema["items"], &format!("{path}[]"), found);
    }
}

/// Older versions share types with v1, whose later fields their schemas have not.
fn came_later(api_version: &str, field: &str) -> bool {
    !api_version.ends_with("/v1")
        && matches!(field, "alias" | "ssmParameter" | "reasons" | "minValues" | "rootVolume" | "resources")
}

/// Paths at which no type names fields: what is kept as it is written, and what kube reads of every object.
fn is_open(path: &str) -> bool {
    path.is_empty() || path == "metadata" || path.ends_with("kubelet") || path.ends_with("kubeletConfiguration")
}

#[test]
fn schema_fields_and_type_fields_are_the_same() {
    let mut wrong = Vec::new();
    // AWSNodeTemplate is flattened, which asks for all there is; its edges are walked like all others.
    for (api_version, kind) in OWN_KINDS.iter().copied().filter(|(_, kind)| *kind != "AWSNodeTemplate") {
        let schema = crds::schema_of(api_version, kind).unwrap();
        let mut object = full(&schema);
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"] = serde_json::json!({"name": "x"});
        let asked = asked(api_version, kind, &object);
        let mut fields = BTreeMap::new();
        known(&schema, "", &mut fields);
        for (path, known) in &fields {
            if is_open(path) {
                continue;
            }
            let Some(asked) = asked.get(path) else {
                wrong.push(format!("{api_version} {kind}: no type is read at {path:?}"));
                continue;
            };
            // An inline provider's own kind says nothing that is not known.
            let inline = |field: &str| path == "spec.provider" && matches!(field, "apiVersion" | "kind");
            for field in known.iter().filter(|field| !asked.contains(field.as_str()) && !inline(field)) {
                wrong.push(format!("{api_version} {kind}: the type drops {path}.{field}"));
            }
            for field in asked.iter().filter(|field| !known.contains(**field) && !came_later(api_version, field)) {
                wrong.push(format!("{api_version} {kind}: the schema does not know {path}.{field}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
