//! Version 2: everything in one document, in the older form. Clients of before OpenAPI 3 read it, mostly as protobuf.
use serde_json::{Map, Value, json};

/// The document, from the paths and schemas of version 3.
pub fn document(info: Value, paths: Map<String, Value>, schemas: Map<String, Value>) -> Value {
    let mut document = json!({"swagger": "2.0", "info": info, "paths": paths, "definitions": schemas});
    for operations in members(&mut document["paths"]) {
        members(operations).for_each(operation);
    }
    members(&mut document["definitions"]).for_each(schema);
    document
}

fn members(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_object_mut().into_iter().flat_map(|map| map.values_mut())
}

/// A parameter's type stands in the parameter, and the body is one of them.
fn operation(operation: &mut Value) {
    for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
        let kind = parameter["schema"]["type"].take();
        if let Some(map) = parameter.as_object_mut() {
            map.remove("schema");
            map.insert("type".to_owned(), kind);
        }
    }
    let Some(body) = operation.as_object_mut().and_then(|map| map.remove("requestBody")) else { return };
    let kinds: Vec<&String> = body["content"].as_object().into_iter().flat_map(Map::keys).collect();
    operation["consumes"] = json!(kinds);
    if let Some(parameters) = operation["parameters"].as_array_mut() {
        parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": {"type": "object"}}));
    }
}

/// A reference points among the definitions and stands where fields are, and a schema has one type.
fn schema(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(schema),
        Value::Object(map) => {
            map.values_mut().for_each(schema);
            if let Some(Value::String(target)) = map.get_mut("$ref") {
                *target = target.replace("#/components/schemas/", "#/definitions/");
            }
            if let Some(kind) = map.get("type").and_then(Value::as_array).and_then(|kinds| one_of(kinds)) {
                map.insert("type".to_owned(), kind);
            }
            let alone = map.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
            if let Some(target) = alone.and_then(|all| all[0].get("$ref")).cloned() {
                map.remove("allOf");
                map.insert("$ref".to_owned(), target);
            }
        }
        _ => {}
    }
}

/// The type besides `null`.
fn one_of(kinds: &[Value]) -> Option<Value> {
    kinds.iter().find(|kind| *kind != "null").cloned()
}
