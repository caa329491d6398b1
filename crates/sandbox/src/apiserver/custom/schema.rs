//! Effects of a kind's schema on an object that is written: pruning, defaults, checks, CEL rules.
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::kinds::typed;
use crate::apiserver::registry::{FoundResource, ResourceDef};
use dovetail_api::schema::{ErrorKind, FieldPath, Schema, SchemaError, UnknownFields, schema_for};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Schemas that are kept compiled; a cluster of ours has a handful, and a process may play thousands of clusters.
const KEPT: usize = 32;

/// A schema as it is written, and compiled.
#[derive(Clone, Debug)]
pub struct ResourceSchema {
    /// The `openAPIV3Schema`.
    pub openapi: Arc<Value>,
    /// The same, compiled.
    pub schema: Arc<Schema>,
}

/// Compiles an `openAPIV3Schema`, once a process for the same one.
///
/// # Errors
/// What is wrong with the schema, and where.
pub fn compile(schema: &Value) -> std::result::Result<ResourceSchema, String> {
    static COMPILED: Mutex<Vec<ResourceSchema>> = Mutex::new(Vec::new());
    let kept = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept().iter().find(|known| *known.openapi == *schema) {
        return Ok(known.clone());
    }
    let meant = Schema::compile(schema).map_err(|e| e.to_string())?;
    let compiled = ResourceSchema { openapi: Arc::new(schema.clone()), schema: Arc::new(meant) };
    let mut kept = kept();
    if kept.len() < KEPT {
        kept.push(compiled.clone());
    }
    Ok(compiled)
}

/// Takes out what the kind does not have; returns the paths taken out.
///
/// # Errors
/// 400 when a field of a built-in kind has the wrong type (a custom kind's are checked later, and all are named).
pub fn prune(found: &FoundResource, object: &mut Value) -> Result<Vec<String>> {
    let paths = |paths: Vec<FieldPath>| paths.iter().map(FieldPath::to_string).collect();
    if let Some(schema) = &found.version.schema {
        return Ok(paths(schema.prune(object)));
    }
    let def = &found.def;
    let Some(schema) = schema_for(&def.api_version(), &def.kind).filter(|_| !def.custom) else { return Ok(Vec::new()) };
    if let Some(wrong) = schema.validate(object, UnknownFields::Ignore).iter().find(|e| e.kind == ErrorKind::Type) {
        return Err(undecodable(def, &wrong.to_string()));
    }
    Ok(paths(schema.prune(object)))
}

/// Brings an object to the form in which it is stored.
///
/// # Errors
/// 400 when a value of a built-in kind is none of its field.
pub fn decode(found: &FoundResource, object: &mut Value) -> Result<()> {
    if found.def.custom {
        typed::integers(object);
        return Ok(());
    }
    typed::decode(&found.def, object).map_err(|why| undecodable(&found.def, &why))
}

/// The refusal of a body that is no object of the kind.
pub fn undecodable(def: &ResourceDef, why: &str) -> ApiError {
    let version = &def.stored().name;
    ApiError::bad_request(format!("{} in version \"{version}\" cannot be handled as a {}: {why}", def.kind, def.kind))
}

/// Violations of a custom kind's schema and rules by an object; `old` is the object that it replaces.
pub fn check(found: &FoundResource, object: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let Some(schema) = &found.version.schema else { return Vec::new() };
    let mut errors = schema.validate_change(object, old, UnknownFields::Ignore);
    // Rules may assume that the types are right, and that what is required is there.
    if errors.iter().all(|error| error.kind == ErrorKind::Invalid) {
        errors.extend(schema.check_rules(object, old));
    }
    errors.iter().map(cause).collect()
}

fn cause(error: &SchemaError) -> StatusCause {
    let hint = if error.allowed.is_empty() { String::new() } else { format!(" (allowed: {})", error.allowed) };
    let head = match error.kind {
        ErrorKind::Required => "Required value",
        ErrorKind::NotSupported => "Unsupported value",
        ErrorKind::Duplicate => "Duplicate value",
        _ => "Invalid value",
    };
    let field = error.path.to_string();
    StatusCause::new(
        error.kind.reason(),
        if field.is_empty() { "<nil>" } else { &field },
        format!("{head}: {}{hint}", error.what),
    )
}
