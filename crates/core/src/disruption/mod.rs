//! Disruption: nodes that go by our own decision, and the reasons (core spec 5).
//!
//! ```text
//! snapshot, offers, time ──► look ──► marks on claims (Consolidatable, lastPodEventTime)
//!                             │  ▲    the TTL on Nodes of pools converted from Provisioners
//!                          memory     removals: empty, expired, drifted, unhealthy
//!                                     what would have been removed, what is held and by what
//!                                     when to look again
//! ```
//!
//! Everything here is pure. The contents of a term's [`Memory`] can be lost: a successor derives them from the API, where
//! what cannot be derived otherwise stands as annotations of pools ([`PoolNote`]).

pub(crate) mod blocked;
mod cause;
mod claim_status;
pub mod commands;
pub mod drift;
pub(crate) mod emptiness;
mod expiry;
mod look;
pub(crate) mod machines;
pub(crate) mod marks;
mod memory;
pub mod methods;
mod misread;
pub mod own_slot;
mod pool_notes;
pub(crate) mod pools;
pub(crate) mod price;
pub mod repair;
pub mod succession;
#[cfg(test)]
mod tests;
mod ttl;
mod usage;

pub use blocked::Blocked;
pub use cause::DisruptionCause;
pub use commands::WantedRemoval;
pub use expiry::expiring_from;
pub use look::{DisruptedClaim, DisruptionDecision, Exhausted, Nonsense, OffersByClass, Removal, decide_disruption};
pub use marks::StatusMark;
pub use memory::Memory;
pub use misread::open_outside;
pub use pool_notes::PoolNote;
pub use pools::{Observing, pools_in_zone};
pub use ttl::TtlMark;
pub use usage::{PoolUsage, nodes_using_budgets, usage};

pub use crate::budgets::{Allowed, RemovalReason, allowed};
