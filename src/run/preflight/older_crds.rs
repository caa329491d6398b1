//! Checks that the installed CRDs know every field that this version reads and writes: the API server drops others without a
//! word, so that a field that somebody has set has no effect. The check reads the OpenAPI documents, which every account may
//! read.

use std::collections::BTreeMap;

use dovetail_api::crds::schema_of;
use kube::Client;
use serde_json::Value;

use super::NEEDED;
use super::ask::{Asker, NoAnswer};

/// Most fields of one CRD that a warning names.
const MOST_NAMED: usize = 5;

/// Warns of CRDs that are older than this version, or somebody else's.
pub async fn warn_of(asker: &Asker, client: &Client, warn: impl Fn(&str)) {
    let mut documents = BTreeMap::new();
    for (version, ..) in NEEDED {
        if documents.contains_key(version) {
            continue;
        }
        match document(asker, client, version).await {
            Ok(found) => documents.insert(version, found),
            Err(why) => return warn(&format!("whether the installed CRDs have every field cannot be seen: {why}")),
        };
    }
    let older: Vec<String> = NEEDED
        .into_iter()
        .filter_map(|(version, kind, name)| {
            let served = kind_in(documents.get(version)?, kind)?;
            lacks(name, &missing(&schema_of(version, kind)?, served))
        })
        .collect();
    if !older.is_empty() {
        warn(&format!(
            "the installed CRDs are older than this version: {}; the API server drops such fields without a word; install \
             ours: dovetail crds | kubectl apply --server-side -f - (or upgrade the chart dovetail-crd)",
            older.join("; ")
        ));
    }
}

/// The OpenAPI document of a group and version.
async fn document(asker: &Asker, client: &Client, version: &str) -> Result<Value, NoAnswer> {
    let path = format!("/openapi/v3/apis/{version}");
    asker
        .api(&format!("GET {path}"), || {
            let request = http::Request::get(&path).header("accept", "application/json").body(Vec::new());
            let client = client.clone();
            async move {
                match client.request::<Value>(request.map_err(kube::Error::HttpError)?).await {
                    // Definitions that have just come are not published yet.
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
                    answer => answer,
                }
            }
        })
        .await
}

/// The schema of a kind in a document.
fn kind_in<'a>(document: &'a Value, kind: &str) -> Option<&'a Value> {
    let schemas = document["components"]["schemas"].as_object()?;
    let is = |schema: &&Value| schema["x-kubernetes-group-version-kind"][0]["kind"] == kind;
    schemas.values().find(is)
}

/// Warning about a CRD that lacks fields.
fn lacks(name: &str, fields: &[String]) -> Option<String> {
    let named = fields.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match fields.len().saturating_sub(MOST_NAMED) {
        _ if fields.is_empty() => None,
        0 => Some(format!("{name} has no {named}")),
        more => Some(format!("{name} has no {named} and {more} more")),
    }
}

/// Paths of fields of `spec` and `status` that one schema has and another has not. What lies below a missing field is not
/// named, nor anything where the other keeps fields that it does not know.
fn missing(ours: &Value, served: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["spec", "status"] {
        compare(&ours["properties"][part], &served["properties"][part], part, &mut found);
    }
    found
}

fn compare(ours: &Value, served: &Value, path: &str, found: &mut Vec<String>) {
    if ours.is_null() || served["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    if served.is_null() {
        found.push(path.to_owned());
        return;
    }
    if let Some(fields) = ours["properties"].as_object() {
        for (name, field) in fields {
            compare(field, &served["properties"][name], &format!("{path}.{name}"), found);
        }
    }
    if ours["items"].is_object() {
        compare(&ours["items"], &served["items"], path, found);
    }
    if ours["additionalProperties"].is_object() {
        compare(&ours["additionalProperties"], &served["additionalProperties"], path, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"properties": {"metadata": {}, "spec": {"properties": {
            "weight": {"type": "integer"},
            "terms": {"items": {"properties": {"id": {}, "name": {}}}},
            "limits": {"additionalProperties": {"type": "string"}},
        }}, "status": {"properties": {"nodes": {}}}}})
    }

    #[test]
    fn what_is_there_twice_lacks_nothing() {
        assert!(missing(&schema(), &schema()).is_empty());
        for (version, kind, name) in NEEDED {
            let own = schema_of(version, kind).unwrap_or_default();
            assert!(own["properties"]["spec"].is_object() && missing(&own, &own).is_empty(), "{name}");
        }
    }

    #[test]
    fn fields_are_named_by_their_path_and_once() {
        let mut older = schema();
        let spec = &mut older["properties"]["spec"]["properties"];
        spec["terms"]["items"]["properties"] = json!({"id": {}});
        spec.as_object_mut().map(|fields| fields.remove("weight"));
        older["properties"].as_object_mut().map(|parts| parts.remove("status"));
        assert_eq!(missing(&schema(), &older), ["spec.terms.name", "spec.weight", "status"]);
        // More fields than ours are another's business, and so is one that keeps all.
        assert!(missing(&older, &schema()).is_empty());
        older["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = json!(true);
        assert_eq!(missing(&schema(), &older), ["status"]);
    }

    #[test]
    fn a_warning_names_few_fields_and_how_many_more_there_are() {
        let fields: Vec<String> = (0..7).map(|at| format!("spec.f{at}")).collect();
        assert_eq!(lacks("pools", &fields[..0]), None);
        assert_eq!(lacks("pools", &fields[..1]).as_deref(), Some("pools has no spec.f0"));
        let many = lacks("pools", &fields).unwrap_or_default();
        assert!(many.ends_with("spec.f4 and 2 more"), "{many}");
    }

    #[test]
    fn a_kind_is_found_by_its_own_mark() {
        let mark = |kind: &str| json!([{"group": "karpenter.sh", "version": "v1", "kind": kind}]);
        let named = json!({"x-kubernetes-group-version-kind": mark("NodePool"), "a": 1});
        let list = json!({"x-kubernetes-group-version-kind": mark("NodePoolList")});
        let document = json!({"components": {"schemas": {"a": list, "b": named}}});
        assert_eq!(kind_in(&document, "NodePool").map(|found| &found["a"]), Some(&json!(1)));
        assert_eq!(kind_in(&document, "NodeClaim"), None);
    }
}
