//! The condition on a claim that says that its node is being repaired: DisruptionReason, as commands write it.

use dovetail_api::names::conditions::{DISRUPTION_REASON, TRUE};
use dovetail_api::v1::{NewCondition, NodeClaim, set_condition};
use jiff::Timestamp;

use crate::disruption::RemovalReason;
use crate::disruption::claim_status::with_status;
use crate::disruption::look::DisruptedClaim;

/// A repair that is to be written on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairMark {
    /// The node that is being repaired, with its claim.
    pub disrupted: DisruptedClaim,
    /// `type` of the condition that it is repaired for.
    pub condition: &'static str,
}

impl RepairMark {
    /// The claim with the condition. Another claim of its name is left alone.
    #[must_use]
    pub fn on(&self, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
        with_status(claim, &self.disrupted.uid, |status, generation| {
            let message = format!("its node is replaced because of its condition {}", self.condition);
            let reason = RemovalReason::Unhealthy.budget_key().unwrap_or_default();
            let condition = NewCondition::new(DISRUPTION_REASON, TRUE).because(reason, &message);
            set_condition(&mut status.conditions, condition, generation, now);
        })
    }
}
