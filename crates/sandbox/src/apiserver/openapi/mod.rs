//! OpenAPI: what kubectl explains, and by which lists it merges what is applied.
//!
//! Version 3 is one document a group and version; version 2 is everything in one. Built-in kinds have the schemas of
//! k8s-openapi, custom kinds those of their definitions.
mod paths;
mod protobuf;
mod schemas;
mod v2;

use super::error::{ApiError, Result};
use super::http::handler::Reply;
use super::registry::{ResourceDef, ServedVersion, api_version};
use super::store::StoreState;
use bytes::Bytes;
use md5::{Digest, Md5};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A kind that is served in a group's version.
struct Served {
    group: String,
    def: Arc<ResourceDef>,
    version: Arc<ServedVersion>,
}

/// Served kinds by the path of their document: `api/v1`, `apis/GROUP/VERSION`.
fn served(state: &StoreState) -> BTreeMap<String, Vec<Served>> {
    let mut documents: BTreeMap<String, Vec<Served>> = BTreeMap::new();
    for (group, def) in state.registry.all() {
        for version in def.versions.iter().filter(|version| version.served) {
            let prefix = if group.is_empty() { "api" } else { "apis" };
            let path = format!("{prefix}/{}", api_version(group, &version.name));
            let one = Served { group: group.to_owned(), def: def.clone(), version: version.clone() };
            documents.entry(path).or_default().push(one);
        }
    }
    documents
}

/// Answers a path below `/openapi/v3`.
///
/// # Errors
/// 404 for a group and version that is not served.
pub fn v3(state: &StoreState, path: &str) -> Result<Reply> {
    let documents = served(state);
    let Some(asked) = path.strip_prefix("/openapi/v3/") else {
        let index: Map<String, Value> = documents
            .iter()
            .map(|(path, kinds)| {
                let url = format!("/openapi/v3/{path}?hash={}", fingerprint(kinds));
                (path.clone(), json!({"serverRelativeURL": url}))
            })
            .collect();
        return Ok(Reply::Json(200, Bytes::from(json!({"paths": index}).to_string()), Vec::new()));
    };
    let kinds = documents.get(asked).ok_or_else(ApiError::no_such_path)?;
    Ok(Reply::Json(200, document(asked, kinds), Vec::new()))
}

/// The content type of version 2 as protobuf.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers `/openapi/v2`, in the first form that the client names and that is known.
///
/// # Errors
/// 406 for a client that reads neither JSON nor protobuf.
pub fn v2(state: &StoreState, accept: &str) -> Result<Reply> {
    let form = accept.split(',').map(str::trim).find_map(|form| match form.split(';').next().unwrap_or_default() {
        "" | "*/*" | "application/*" | "application/json" => Some(false),
        // Written with an `@` by clients of old.
        known if known.replace('@', ".") == PROTOBUF => Some(true),
        _ => None,
    });
    let Some(protobuf) = form else {
        let why = format!("only application/json and {PROTOBUF} are served here");
        return Err(ApiError::new(406, "NotAcceptable", why));
    };
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for (at, kinds) in served(state) {
        let document: Value = serde_json::from_slice(&document(&at, &kinds)).unwrap_or_default();
        paths.extend(members(&document["paths"]));
        schemas.extend(members(&document["components"]["schemas"]));
    }
    let document = v2::document(info(), paths, schemas);
    Ok(match protobuf {
        true => Reply::Typed(PROTOBUF, Bytes::from(protobuf::document(&document))),
        false => Reply::Json(200, Bytes::from(document.to_string()), Vec::new()),
    })
}

fn members(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.33.0-dovetail"})
}

/// A short hash of everything that a document's text depends on.
fn fingerprint(kinds: &[Served]) -> String {
    let mut digest = Md5::new();
    for one in kinds {
        digest.update(one.def.kind.as_bytes());
        if let Some(schema) = &one.version.openapi {
            digest.update(schema.to_string().as_bytes());
        }
    }
    digest.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The document of a group and version. Documents of built-in kinds alone are made once.
fn document(path: &str, kinds: &[Served]) -> Bytes {
    static MADE: LazyLock<Mutex<BTreeMap<String, Bytes>>> = LazyLock::new(Mutex::default);
    let custom = kinds.iter().any(|one| one.def.custom);
    if !custom && let Some(made) = MADE.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
        return made.clone();
    }
    let (mut schemas, mut all_paths) = (Map::new(), Map::new());
    for one in kinds {
        schemas::add(&mut schemas, one);
        all_paths.extend(paths::resource_paths(one));
    }
    let body = json!({"openapi": "3.0.0", "info": info(), "paths": all_paths, "components": {"schemas": schemas}});
    let made = Bytes::from(body.to_string());
    if !custom {
        MADE.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), made.clone());
    }
    made
}
