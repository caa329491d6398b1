//! What a pool is asked to carry: so many pods of a class by one of its requirement sets.

use super::context::Selection;

/// Pods of one class that go to one pool.
#[derive(Debug, Clone)]
pub(crate) struct Item<'c> {
    pub class: u32,
    pub set: u32,
    /// What the set leaves of the pool.
    pub selection: &'c Selection,
    /// Pods not placed yet.
    pub left: u32,
}
