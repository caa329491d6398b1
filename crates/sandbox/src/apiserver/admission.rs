//! The hook that policies use: called on every create and update before it is stored.
use super::error::Result;
use super::registry::ResourceDef;
use serde_json::Value;
use std::fmt::Debug;

/// A write on its way into the store.
#[derive(Debug)]
pub struct Review<'a> {
    /// The kind that is written.
    pub def: &'a ResourceDef,
    /// `status`, `scale`, … or empty.
    pub subresource: &'a str,
    /// The stored object; none for a create.
    pub old: Option<&'a Value>,
    /// Name of the user who writes.
    pub user: &'a str,
}

/// Changes or refuses writes.
pub trait Admission: Debug + Send {
    /// Looks at the new object; may change it.
    ///
    /// # Errors
    /// The refusal that the client gets.
    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<()>;
}
