//! A mistake in a user's file.

use std::fmt;

use thiserror::Error;

/// One mistake: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct InputError {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The field (`spec.template.spec.requirements[2].operator`); empty when the file itself is wrong.
    pub field: String,
    /// A sentence that says what is wrong.
    pub what: String,
    /// Values that would be right; empty when `what` says it.
    pub allowed: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.what)?;
        if self.allowed.is_empty() { Ok(()) } else { write!(f, " (allowed: {})", self.allowed) }
    }
}
