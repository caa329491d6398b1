//! Structural schemas as Kubernetes has them: validation, defaults, pruning and CEL rules over JSON values.
//!
//! The same engine reads manifests and serves custom resources in the sandbox's API server. Schemas come from a CRD's
//! OpenAPI, or for Kubernetes' own kinds from k8s-openapi.

mod cel;
mod cel_leaves;
mod compile;
mod default;
mod error;
mod hints;
mod kinds;
mod path;
mod prune;
mod validate;
mod whole;

pub use compile::{CompileError, Schema};
pub use error::{ErrorKind, SchemaError};
pub(crate) use hints::is_near;
pub use kinds::{OWN_KINDS, Scope, accepted_kinds, schema_for, scope_of, written};
pub use path::{FieldPath, PathStep};
pub use validate::UnknownFields;

#[cfg(test)]
mod tests;
