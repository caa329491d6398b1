//! The error of a packing that has no answer.

use std::any::Any;

use thiserror::Error;

/// The reason why a packing has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PackingError {
    /// The packing takes more work than a problem of its size may.
    #[error("packing takes more than {steps} steps")]
    Bound {
        /// The bound, by the problem's size.
        steps: u64,
    },
    /// The solver panicked, and its caller caught that.
    #[error("packing panics: {message}")]
    Panic { message: String },
}

/// Largest number of characters of a panic's message that are quoted.
const MOST_OF_A_MESSAGE: usize = 200;

impl PackingError {
    /// The error of a panic that was caught, by its payload.
    #[must_use]
    pub fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        Self::Panic { message: text.chars().take(MOST_OF_A_MESSAGE).collect() }
    }

    /// The cause in a word, as metrics name it.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Bound { .. } => "bound",
            Self::Panic { .. } => "panic",
        }
    }
}
