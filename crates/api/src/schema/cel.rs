//! CEL rules (`x-kubernetes-validations`), evaluated by kube-cel with Kubernetes' functions.

use std::{fmt, sync::LazyLock};

use kube_cel::{CompiledSchema, ErrorKind as CelKind, Validator};
use serde_json::Value;

use super::{CompileError, ErrorKind, Path, Schema, SchemaError};

/// Holds Kubernetes' functions; the same for every schema.
static VALIDATOR: LazyLock<Validator> = LazyLock::new(Validator::new);

/// The compiled rules of a schema.
pub(super) struct Rules(CompiledSchema);

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    /// Compiles the rules; `None` when there are none.
    pub fn compile(openapi: &Value) -> Result<Option<Self>, CompileError> {
        if !mentions_rules(openapi) {
            return Ok(None);
        }
        let compiled = kube_cel::compile_schema(openapi);
        first_error(&compiled).map_or(Ok(Some(Self(compiled))), Err)
    }
}

fn mentions_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => object.contains_key("x-kubernetes-validations") || object.values().any(mentions_rules),
        Value::Array(items) => items.iter().any(mentions_rules),
        _ => false,
    }
}

fn first_error(schema: &CompiledSchema) -> Option<CompileError> {
    if let Some(error) = schema.compilation_errors().first() {
        return Some(CompileError { path: String::new(), what: format!("rule: {error}") });
    }
    let inner =
        schema.properties.values().chain(schema.items.as_deref()).chain(schema.additional_properties.as_deref());
    inner.filter_map(first_error).min_by(|a, b| a.what.cmp(&b.what))
}

impl Schema {
    /// Evaluates the CEL rules of an object that [`Schema::validate`] found nothing wrong with; `old` is what was stored
    /// before, for transition rules. Sorted by path.
    pub fn check_rules(&self, object: &Value, old: Option<&Value>) -> Vec<SchemaError> {
        let Some(Rules(compiled)) = &self.rules else { return Vec::new() };
        let Err(failures) = VALIDATOR.validate_compiled(compiled, object, old) else { return Vec::new() };
        let mut errors: Vec<SchemaError> = failures
            .into_vec()
            .into_iter()
            .map(|failure| {
                let what = match failure.kind {
                    CelKind::ValidationFailure => failure.message,
                    _ => format!("rule {:?} cannot be evaluated: {}", failure.rule, failure.message),
                };
                SchemaError::new(Path::parse(&failure.field_path), ErrorKind::Rule, what, "")
            })
            .collect();
        errors.sort_by(|a, b| (&a.path, &a.what).cmp(&(&b.path, &b.what)));
        errors.dedup();
        errors
    }
}
