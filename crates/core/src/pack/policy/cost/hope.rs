//! Keys of a heap in which the most hopeful candidate is tried first.

use std::cmp::Ordering;

/// The most that a candidate may be worth, divided by its cost.
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
