//! Pods that a pool is asked to carry: a number of a class by one of its requirement sets.

use super::context::{Context, Selection};
use super::ids::{ClassId, PoolId, SetId};
use super::kinds::NodeKind;
use super::offers::Mask;
use crate::pack::place::planned_node::Candidate;

/// Pods that have no place yet: a count that only falls, and never by more than there are. A plan that places more than it was
/// asked to would assign pods that do not exist; it panics here, where it goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodsLeft(u32);

impl PodsLeft {
    /// A count of pods without a place.
    pub fn new(count: u32) -> Self {
        Self(count)
    }

    /// Number of pods that have no place yet.
    pub fn count(self) -> u32 {
        self.0
    }

    /// True if all have their places.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Takes pods off that have got their places.
    pub fn placed(&mut self, count: u32) {
        self.0 -= count;
    }

    /// Lowers the count to at most `most`.
    pub fn bound(&mut self, most: u32) {
        self.0 = self.0.min(most);
    }
}

/// Pods of one class that go to one pool.
#[derive(Debug, Clone)]
pub(crate) struct Item<'c> {
    pub class: ClassId,
    pub set: SetId,
    /// The part of the pool that the set leaves.
    pub selection: &'c Selection,
    /// The candidate that rules between pods chose for them.
    pub candidate: Candidate,
    /// The offerings by which the set and the place allow a node to be bought.
    pub offering_bits: Mask,
    /// Pods not placed yet.
    pub left: PodsLeft,
}

impl Item<'_> {
    /// The kind of a pool's nodes that are for it alone.
    pub fn kind(&self, context: &Context<'_>, pool: PoolId) -> NodeKind {
        context.kind(pool, self.selection.absent, self.offering_bits)
    }
}
