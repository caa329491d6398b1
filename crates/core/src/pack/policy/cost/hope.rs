//! What may still come of something, as the key of a heap: the most hopeful is tried first.

use std::cmp::Ordering;

/// What a candidate may be worth for its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hope(pub f64);

impl Eq for Hope {}

impl PartialOrd for Hope {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Hope {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
