//! The schemas of a document: k8s-openapi's and those of definitions, in the form that kubectl reads.
use super::Served;
use crate::apiserver::registry::api_version;
use crate::apiserver::writing::shape::{ListType, merge_keys};
use dovetail_api::schema::written;
use serde_json::{Map, Value, json};

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Adds the schema of a kind, and of all that it refers to.
pub fn add(schemas: &mut Map<String, Value>, one: &Served) {
    let (name, mut schema) = match &one.version.openapi {
        Some(schema) => (custom_name(one), custom(schemas, schema)),
        None => built_in(schemas, one),
    };
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": one.group, "version": one.version.name, "kind": one.def.kind}]);
    schemas.insert(name, schema);
}

/// `sh.karpenter.v1.NodePool`
fn custom_name(one: &Served) -> String {
    let group: Vec<&str> = one.group.split('.').rev().filter(|part| !part.is_empty()).collect();
    format!("{}.{}.{}", group.join("."), one.version.name, one.def.kind)
}

fn custom(schemas: &mut Map<String, Value>, written: &Value) -> Value {
    if !schemas.contains_key(METADATA) {
        built_in_of(schemas, "v1", "ConfigMap");
    }
    let mut schema = written.clone();
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["metadata"] = json!({"description": "Standard object's metadata.", "allOf": [{"$ref": format!("#/components/schemas/{METADATA}")}]});
    for field in ["apiVersion", "kind"] {
        if schema["properties"][field].is_null() {
            schema["properties"][field] = json!({"type": "string"});
        }
    }
    schema
}

fn built_in(schemas: &mut Map<String, Value>, one: &Served) -> (String, Value) {
    let version = api_version(&one.group, &one.version.name);
    built_in_of(schemas, &version, &one.def.kind).unwrap_or_else(|| {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}});
        (custom_name(one), open)
    })
}

/// Name and schema of a built-in kind; what it refers to is added.
fn built_in_of(schemas: &mut Map<String, Value>, version: &str, kind: &str) -> Option<(String, Value)> {
    let mut root = written(version, kind)?;
    let map = root.as_object_mut()?;
    map.remove("$schema");
    let title = map.remove("title")?.as_str()?.to_owned();
    let parts = map.remove("$defs").and_then(|parts| parts.as_object().cloned()).unwrap_or_default();
    for (name, mut part) in parts {
        if !schemas.contains_key(&name) {
            adapt(&name, &mut part);
            schemas.insert(name, part);
        }
    }
    adapt(&title, &mut root);
    Some((title, root))
}

/// Brings a schema of JSON Schema's form into OpenAPI's: where references point, what may stand beside one, and how
/// lists merge.
fn adapt(name: &str, schema: &mut Value) {
    let of = name.rsplit('.').next().unwrap_or_default();
    for (field, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        match merge_keys(of, field) {
            Some(list) if property["type"] == "array" => merges(property, &list, field),
            _ if field == "strategy" && of == "DeploymentSpec" => {
                property["x-kubernetes-patch-strategy"] = json!("retainKeys");
            }
            _ => {}
        }
    }
    references(schema);
}

fn merges(property: &mut Value, list: &ListType, field: &str) {
    let strategy = if field == "volumes" { "merge,retainKeys" } else { "merge" };
    match list {
        ListType::Map(keys) => {
            property["x-kubernetes-list-type"] = json!("map");
            property["x-kubernetes-list-map-keys"] = json!(keys);
            property["x-kubernetes-patch-merge-key"] = json!(keys.first());
            property["x-kubernetes-patch-strategy"] = json!(strategy);
        }
        ListType::Set => {
            property["x-kubernetes-list-type"] = json!("set");
            property["x-kubernetes-patch-strategy"] = json!(strategy);
        }
        ListType::Atomic => {}
    }
}

fn references(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(references),
        Value::Object(map) => {
            map.values_mut().for_each(references);
            let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/")) else {
                return;
            };
            let reference = json!({"$ref": format!("#/components/schemas/{name}")});
            map.remove("$ref");
            // OpenAPI 3.0 knows no field beside a reference.
            match map.is_empty() {
                true => *value = reference,
                false => drop(map.insert("allOf".to_owned(), json!([reference]))),
            }
        }
        _ => {}
    }
}
