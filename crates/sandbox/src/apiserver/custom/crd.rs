//! From a CustomResourceDefinition to a served resource.
use crate::apiserver::custom::schema;
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::meta;
use crate::apiserver::registry::{ResourceDef, ScalePaths, ServedVersion};
use serde_json::{Value, json};
use std::sync::Arc;

/// The resource that a definition describes.
///
/// # Errors
/// 422 with each field that is missing or contradicts another, or a schema that cannot be compiled.
pub fn resource(definition: &Value) -> Result<ResourceDef> {
    let causes = mistakes(definition);
    let name = meta::text(definition, "name");
    let refuse = |causes| ApiError::invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, causes);
    if !causes.is_empty() {
        return Err(refuse(causes));
    }
    let spec = &definition["spec"];
    let empty = Vec::new();
    let written = spec["versions"].as_array().unwrap_or(&empty);
    let versions = written
        .iter()
        .enumerate()
        .map(|(at, v)| version(at, v).map(Arc::new))
        .collect::<std::result::Result<Vec<_>, _>>();
    let versions = versions.map_err(|cause| refuse(vec![cause]))?;
    let names = &spec["names"];
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    Ok(ResourceDef {
        group: spec["group"].as_str().unwrap_or_default().to_owned(),
        plural: names["plural"].as_str().unwrap_or_default().to_owned(),
        singular: names["singular"].as_str().map_or_else(|| kind.to_lowercase(), str::to_owned),
        list_kind: names["listKind"].as_str().map_or_else(|| format!("{kind}List"), str::to_owned),
        kind,
        short_names: meta::strings(&names["shortNames"]).into_iter().map(str::to_owned).collect(),
        categories: meta::strings(&names["categories"]).into_iter().map(str::to_owned).collect(),
        namespaced: spec["scope"] == "Namespaced",
        storage: written.iter().position(|v| v["storage"] == true).unwrap_or_default(),
        versions,
        generation: true,
        custom: true,
        orphans: false,
        needs_version: true,
        review: false,
    })
}

fn version(at: usize, written: &Value) -> std::result::Result<ServedVersion, StatusCause> {
    let subresources = &written["subresources"];
    let scale = subresources["scale"].is_object().then(|| ScalePaths {
        spec: pointer(&subresources["scale"]["specReplicasPath"]),
        status: pointer(&subresources["scale"]["statusReplicasPath"]),
        selector: subresources["scale"]["labelSelectorPath"]
            .as_str()
            .map(|_| pointer(&subresources["scale"]["labelSelectorPath"])),
    });
    let schema = &written["schema"]["openAPIV3Schema"];
    let compiled = if schema.is_object() {
        let field = format!("spec.versions[{at}].schema.openAPIV3Schema");
        Some(schema::compile(schema).map_err(|e| StatusCause::invalid(&field, e))?)
    } else {
        None
    };
    Ok(ServedVersion {
        name: written["name"].as_str().unwrap_or_default().to_owned(),
        served: written["served"] == true,
        status: subresources["status"].is_object(),
        scale,
        openapi: compiled.as_ref().map(|one| one.openapi.clone()),
        schema: compiled.map(|one| one.schema),
        columns: crate::apiserver::columns::of_definition(written),
    })
}

/// `.spec.replicas` as a JSON pointer.
fn pointer(path: &Value) -> String {
    path.as_str().unwrap_or_default().replace('.', "/")
}

fn mistakes(definition: &Value) -> Vec<StatusCause> {
    let spec = &definition["spec"];
    let mut causes = Vec::new();
    for field in ["/group", "/names/plural", "/names/kind", "/scope"] {
        if spec.pointer(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            causes.push(StatusCause::required(&format!("spec{}", field.replace('/', "."))));
        }
    }
    let expected = format!(
        "{}.{}",
        spec["names"]["plural"].as_str().unwrap_or_default(),
        spec["group"].as_str().unwrap_or_default()
    );
    if causes.is_empty() && meta::text(definition, "name") != expected {
        causes.push(StatusCause::invalid("metadata.name", "must be spec.names.plural+\".\"+spec.group"));
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if versions.is_empty() {
        causes.push(StatusCause::required("spec.versions"));
    }
    if versions.iter().filter(|v| v["storage"] == true).count() != 1 {
        causes.push(StatusCause::invalid("spec.versions", "must have exactly one version marked as storage version"));
    }
    causes
}

/// The definition with the defaults and the status that the API server gives it at once.
pub fn established(mut definition: Value, now: &str) -> Value {
    let spec = meta::member(&mut definition, "spec");
    let kind = spec.get("names").and_then(|n| n["kind"].as_str()).unwrap_or_default().to_owned();
    let versions = spec.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        names.entry("singular").or_insert_with(|| json!(kind.to_lowercase()));
        names.entry("listKind").or_insert_with(|| json!(format!("{kind}List")));
    }
    let names = definition["spec"]["names"].clone();
    let stored: Vec<&Value> = versions.iter().filter(|v| v["storage"] == true).map(|v| &v["name"]).collect();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now});
    definition["status"] = json!({
        "acceptedNames": names,
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
    definition
}
