//! What a pool is asked to carry: so many pods of a class by one of its requirement sets.

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
    /// So many.
    pub fn new(count: u32) -> Self {
        Self(count)
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.0
    }

    /// Whether all have their places.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// So many have got their places.
    pub fn placed(&mut self, count: u32) {
        self.0 -= count;
    }

    /// No more are asked for than this.
    pub fn bound(&mut self, most: u32) {
        self.0 = self.0.min(most);
    }
}

/// Pods of one class that go to one pool.
#[derive(Debug, Clone)]
pub(crate) struct Item<'c> {
    pub class: ClassId,
    pub set: SetId,
    /// What the set leaves of the pool.
    pub selection: &'c Selection,
    /// What rules between pods chose for them.
    pub candidate: Candidate,
    /// The ways of buying that the set and the place leave.
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
