//! The end of a node: taint, drain in order, volumes, instance, finalizers (core spec 4, "NodeClaim deletion" and "Node
//! deletion", and 5.9).
//!
//! ```text
//! Node   deleting ─► claim deleted too ─► cordon ─► places ─► drain (5 s at least) ─► volumes ─► instance ─► finalizer off
//! claim  deleting ─► deadline written ─► its Nodes deleted, until they are gone ─► instance ─► finalizer off
//! ```
//!
//! Two total functions, one for each object: its known state gives the next step, and that its [`RemovalPhase`]. All of that
//! state stands in the API server or in EC2, so that a successor continues where a killed leader stopped.

pub mod announced;
pub mod answer;
pub mod claim;
pub mod drain;
pub mod evictions;
pub mod guard;
pub mod held;
pub mod home;
pub mod instance;
pub mod node;
pub mod phase;
pub mod places;
#[cfg(test)]
mod random;
pub mod reports;
pub mod rollout;
pub mod volumes;

pub use announced::AnnouncedEnd;
pub use answer::LastAnswer;
pub use drain::Drain;
pub use held::{HeldPod, HoldReason, held};
pub use instance::InstanceObservation;
pub use phase::RemovalPhase;
pub use places::{Awaiting, Patience, PlaceWait, SuccessorPlace};
pub use volumes::Attachment;

use dovetail_api::v1::{NewCondition, NodeClaim, condition, set_condition};
use jiff::Timestamp;

pub use crate::lifecycle::deadline;

/// A condition to be written on the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimCondition {
    /// The type of the condition, by which an earlier one is replaced.
    pub condition: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason; empty for the type's own name.
    pub reason: &'static str,
}

impl ClaimCondition {
    /// True if the claim has this condition already.
    #[must_use]
    pub fn stands(&self, claim: &NodeClaim) -> bool {
        let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        condition(conditions, self.condition)
            .is_some_and(|there| there.status == self.status && (self.reason.is_empty() || there.reason == self.reason))
    }
}

/// The claim with these conditions.
#[must_use]
pub fn with(claim: &NodeClaim, said: &[ClaimCondition], now: Timestamp) -> NodeClaim {
    let mut claim = claim.clone();
    let generation = claim.metadata.generation;
    let conditions = &mut claim.status.get_or_insert_default().conditions;
    for one in said {
        set_condition(
            conditions,
            NewCondition::new(one.condition, one.status).because(one.reason, ""),
            generation,
            now,
        );
    }
    claim
}

/// Conditions of `wanted` that the claim does not have yet.
fn unsaid(claim: Option<&NodeClaim>, wanted: &[ClaimCondition]) -> Vec<ClaimCondition> {
    let Some(claim) = claim else { return Vec::new() };
    wanted.iter().filter(|one| !one.stands(claim)).copied().collect()
}
