//! Which nodes are to go by our own decision, and why (core spec 5).
//!
//! ```text
//! snapshot, offers, time ──► look ──► marks on claims (Consolidatable, lastPodEventTime)
//!                             │  ▲    the TTL on Nodes of pools converted from Provisioners
//!                          memory     removals: empty, expired, drifted, unhealthy
//!                                     what would have been removed, what is held and by what
//!                                     when to look again
//! ```
//!
//! Everything here is pure. What a term's [`Memory`] holds can be lost: a successor derives it from the API.

mod blocked;
mod budgets;
pub mod commands;
mod cost;
pub mod drift;
mod emptiness;
mod expiry;
mod look;
mod machines;
mod marks;
mod memory;
pub mod methods;
mod misread;
mod pools;
mod price;
pub mod repair;
mod schedule;
#[cfg(test)]
mod tests;
mod ttl;
mod usage;

use serde::Serialize;

pub use blocked::Blocked;
pub use budgets::{Allowed, allowed};
pub use commands::Wanted;
pub use cost::eviction_cost;
pub use look::{Cause, Decision, Doomed, Exhausted, Nonsense, Offers, Removal, look};
pub use marks::Mark;
pub use memory::Memory;
pub use misread::open_outside;
pub use pools::Observing;
pub use schedule::Schedule;
pub use ttl::TtlMark;
pub use usage::{PoolUsage, usage};

/// Why a claim goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No pod that would have to be moved is on it.
    Empty,
    /// It has reached its pool's `expireAfter`.
    Expired,
    /// It is no longer what its pool or class asks for.
    Drifted,
    /// Its pods fit elsewhere, or on something cheaper.
    Underutilized,
    /// The cloud takes its instance away.
    Interrupted,
    /// Its instance is gone.
    GarbageCollected,
    /// Its Node has been unwell for too long.
    Unhealthy,
}

impl Reason {
    /// As metrics and logs say it (core spec 7.1, `nodeclaims_disrupted_total`).
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Expired => "expired",
            Self::Drifted => "drifted",
            Self::Underutilized => "underutilized",
            Self::Interrupted => "interrupted",
            Self::GarbageCollected => "garbage_collected",
            Self::Unhealthy => "unhealthy",
        }
    }

    /// As budgets name it, those reasons that budgets know.
    #[must_use]
    pub fn budget_key(self) -> Option<&'static str> {
        match self {
            Self::Empty => Some("Empty"),
            Self::Drifted => Some("Drifted"),
            Self::Underutilized => Some("Underutilized"),
            Self::Expired | Self::Interrupted | Self::GarbageCollected | Self::Unhealthy => None,
        }
    }
}
