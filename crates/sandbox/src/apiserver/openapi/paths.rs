//! The paths of a resource: which verbs there are, with which parameters, and which kinds of patch.
use super::Served;
use crate::apiserver::registry::api_version;
use serde_json::{Map, Value, json};

pub fn resource_paths(one: &Served) -> Map<String, Value> {
    let root = if one.group.is_empty() { "/api" } else { "/apis" };
    let base = format!("{root}/{}", api_version(&one.group, &one.version.name));
    let space = if one.def.namespaced { "/namespaces/{namespace}" } else { "" };
    let list = format!("{base}{space}/{}", one.def.plural);
    let named = format!("{list}/{{name}}");
    let mut paths = Map::new();
    if one.def.review {
        paths.insert(list, json!({"post": operation(one, "post")}));
        return paths;
    }
    if one.def.namespaced {
        paths.insert(format!("{base}/{}", one.def.plural), json!({"get": operation(one, "list")}));
    }
    let verbs = |verbs: &[(&str, &str)]| -> Value {
        Value::Object(verbs.iter().map(|(verb, action)| ((*verb).to_owned(), operation(one, action))).collect())
    };
    paths.insert(list, verbs(&[("get", "list"), ("post", "post"), ("delete", "deletecollection")]));
    let each = [("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete")];
    paths.insert(named.clone(), verbs(&each));
    if one.version.status {
        paths.insert(format!("{named}/status"), verbs(&each[..3]));
    }
    paths
}

fn operation(one: &Served, action: &str) -> Value {
    let writes = matches!(action, "post" | "put" | "patch");
    let mut parameters = vec!["pretty"];
    if writes {
        parameters.extend(["dryRun", "fieldManager", "fieldValidation"]);
    }
    match action {
        "patch" => parameters.push("force"),
        "delete" | "deletecollection" => parameters.extend(["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
        "list" => {
            parameters.extend(["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"])
        }
        _ => {}
    }
    let parameters: Vec<Value> = parameters
        .into_iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": kind(name)}}))
        .collect();
    let mut operation = json!({
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": one.group, "version": one.version.name, "kind": one.def.kind},
    });
    if writes {
        let content: Map<String, Value> = bodies(one, action)
            .iter()
            .map(|kind| ((*kind).to_owned(), json!({"schema": {"type": "object"}})))
            .collect();
        operation["requestBody"] = json!({"content": content, "required": true});
    }
    operation
}

fn kind(parameter: &str) -> &'static str {
    match parameter {
        "force" | "watch" => "boolean",
        "limit" | "gracePeriodSeconds" => "integer",
        _ => "string",
    }
}

fn bodies(one: &Served, action: &str) -> &'static [&'static str] {
    const PATCHES: [&str; 4] = [
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
    match (action, one.def.custom) {
        ("patch", false) => &PATCHES,
        ("patch", true) => &PATCHES[1..],
        _ => &["application/json", "application/yaml"],
    }
}
