//! Names in log events.

use std::fmt;

use serde::Serialize;

/// Names, at most some of them, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Names {
    /// The first names.
    pub named: Vec<String>,
    /// Number of further names.
    #[serde(skip_serializing_if = "is_zero")]
    pub others: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Names {
    /// At most `most` of the names.
    pub fn first<S: Into<String>>(most: usize, names: impl IntoIterator<Item = S>) -> Self {
        let mut names = names.into_iter();
        let named = names.by_ref().take(most).map(Into::into).collect();
        Self { named, others: names.count() }
    }

    /// The names after these words; nothing where there are none.
    pub fn after(&self, words: &str) -> String {
        if self.named.is_empty() { String::new() } else { format!("{words}{self}") }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.named.join(", "))?;
        if self.others > 0 { write!(f, " and {} other(s)", self.others) } else { Ok(()) }
    }
}
