//! The Lease object as the election reads and writes it.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseView {
    /// Identity of its holder; empty if it was released.
    pub holder: String,
    /// `leaseTransitions`: the term; 0 when it is new.
    pub term: u64,
    /// Duration of the Lease, `leaseDurationSeconds`.
    pub duration: Duration,
    /// `metadata.resourceVersion`: changes with every write.
    pub resource_version: String,
    /// Origin of its count of terms.
    pub origin: TermOrigin,
    /// True if its `renewTime` is longer ago than [`super::LeaseSettings::duration`] by the reader's wall clock, or ahead of it
    /// by more than [`super::AHEAD`], so that the clock does not show its age: it may be out of a backup. A clock that is wrong
    /// costs a wait.
    pub stale: bool,
}

/// Origin of a Lease's count of terms: told by a mark on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TermOrigin {
    /// Created vacant by a Dovetail, and not acquired yet.
    Vacant,
    /// Taken by a Dovetail once: its count is above every earlier term.
    Led,
    /// Created by other software, or by a release that set no mark: its count may have begun anew.
    Foreign,
}

impl LeaseView {
    pub(super) fn is_vacant(&self) -> bool {
        self.origin == TermOrigin::Vacant
    }

    /// Its version as a number. Versions that are no numbers cannot be compared by age.
    pub(super) fn version(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }

    /// True if it has not been written in between.
    pub(super) fn is_still(&self, other: &Self) -> bool {
        Self { stale: self.stale, ..other.clone() } == *self
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseWrite {
    /// The resourceVersion it rests on; `None` creates the Lease.
    pub resource_version: Option<String>,
    /// The term, `leaseTransitions`.
    pub term: u64,
    /// True if it acquires the Lease rather than renews it: `acquireTime` is then set.
    pub acquires: bool,
}

impl LeaseWrite {
    /// The mark that is written with it.
    #[must_use]
    pub fn origin(&self) -> TermOrigin {
        if self.term == 0 { TermOrigin::Vacant } else { TermOrigin::Led }
    }
}
