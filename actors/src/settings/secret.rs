//! Texts that no log and no message may show.

use std::fmt;

/// A token that is shorter is guessed.
pub const SHORTEST_TOKEN: usize = 16;

/// A text that is not written anywhere. Empty: none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub(super) String);

impl Secret {
    /// The text, for those who have to know it; `None` without one.
    pub fn revealed(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|text| !text.is_empty())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "hidden" })
    }
}
