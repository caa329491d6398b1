//! What a pool is asked to carry: so many pods of a class by one of its requirement sets.

use super::context::Selection;
use super::draft::Spot;
use super::offers::Mask;

/// Pods of one class that go to one pool.
#[derive(Debug, Clone)]
pub(crate) struct Item<'c> {
    pub class: u32,
    pub set: u32,
    /// What the set leaves of the pool.
    pub selection: &'c Selection,
    /// What rules between pods chose for them.
    pub spot: Spot,
    /// The ways of buying that the set and the place leave.
    pub cells: Mask,
    /// Pods not placed yet.
    pub left: u32,
}
