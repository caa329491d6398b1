//! Mistakes that a schema finds.

use std::fmt;

use super::FieldPath;

/// The sort of a mistake; an API server makes the cause's reason of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// A field is missing.
    Required,
    /// A field is not known here.
    Unknown,
    /// A value has another type.
    Type,
    /// A value is not one of those listed.
    NotSupported,
    /// A value has another form or size.
    Invalid,
    /// An item stands twice in a set or under one key.
    Duplicate,
    /// A CEL rule says no.
    Rule,
}

impl ErrorKind {
    /// The reason of a `StatusCause` in a 422 answer.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Type => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Unknown | Self::Invalid | Self::Rule => "FieldValueInvalid",
        }
    }
}

/// One mistake in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// Path of the field.
    pub path: FieldPath,
    /// Sort of the mistake.
    pub kind: ErrorKind,
    /// A sentence that says what is wrong.
    pub what: String,
    /// Values that would be right; empty when the rule says it all.
    pub allowed: String,
}

impl SchemaError {
    /// A mistake.
    pub fn new(path: FieldPath, kind: ErrorKind, what: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { path, kind, what: what.into(), allowed: allowed.into() }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)?;
        if self.allowed.is_empty() { Ok(()) } else { write!(f, " (allowed: {})", self.allowed) }
    }
}
