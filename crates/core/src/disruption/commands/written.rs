//! Marks of a command on the claims that it holds, so that a successor finishes or undoes it from the API alone: the condition
//! DisruptionReason, with the replacements in its message.

use dovetail_api::names::conditions::{DISRUPTION_REASON, TRUE};
use dovetail_api::v1::{NewCondition, NodeClaim, condition, set_condition};
use jiff::Timestamp;

use super::WantedRemoval;
use super::queue::Running;
use crate::cluster_state::Snapshot;
use crate::disruption::RemovalReason;
use crate::disruption::claim_status::with_status;
use crate::disruption::look::DisruptedClaim;

/// Prefix of the condition's message before the names of replacements.
const REPLACED_BY: &str = "to be removed once these nodeclaims are initialized: ";

/// The mark on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// The claim's name.
    pub claim: String,
    /// The claim's uid: another claim may have had the name before.
    pub uid: String,
    pub reason: RemovalReason,
    /// The claims that are launched in its stead, by name.
    pub replacements: Vec<String>,
}

impl HeldClaim {
    /// The claim with the condition. Another claim of its name is left alone.
    #[must_use]
    pub fn on(&self, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
        with_status(claim, &self.uid, |status, generation| {
            let message = format!("{REPLACED_BY}{}", self.replacements.join(", "));
            let reason = self.reason.budget_key().unwrap_or("Disrupted");
            set_condition(
                &mut status.conditions,
                NewCondition::new(DISRUPTION_REASON, TRUE).because(reason, &message),
                generation,
                now,
            );
        })
    }

    /// The mark on a claim, with the time at which it was written.
    fn from_claim(claim: &NodeClaim) -> Option<(Self, Timestamp)> {
        let status = claim.status.as_ref()?;
        let written = condition(&status.conditions, DISRUPTION_REASON).filter(|one| one.status == TRUE)?;
        let names = written.message.strip_prefix(REPLACED_BY)?.split(", ").map(str::to_owned).collect();
        let reason = RemovalReason::from_budget_key(&written.reason)?;
        match reason {
            RemovalReason::Underutilized | RemovalReason::Drifted | RemovalReason::Empty => {}
            // No command has these: a repair goes on by the claim's Node.
            RemovalReason::Unhealthy
            | RemovalReason::Expired
            | RemovalReason::Interrupted
            | RemovalReason::GarbageCollected
            | RemovalReason::Overprovisioned => return None,
        }
        let (name, uid) = (claim.metadata.name.clone()?, claim.metadata.uid.clone()?);
        Some((Self { claim: name, uid, reason, replacements: names }, written.last_transition_time.0))
    }
}

/// The commands of earlier leaders, as the claims that they hold say them: those with the same replacements go together.
#[must_use]
pub fn held_by_commands(snapshot: &Snapshot) -> Vec<Running> {
    let mut all: Vec<Running> = Vec::new();
    for entry in snapshot.claims.values().filter(|entry| entry.facts.disruption_reason && !entry.facts.deleting) {
        let Some((held, since)) = HeldClaim::from_claim(&entry.claim) else { continue };
        let disrupted = DisruptedClaim::from_facts(&entry.facts, snapshot);
        match all.iter_mut().find(|running| running.replacements == held.replacements) {
            Some(running) => running.wanted.claims.push(disrupted),
            None => all.push(Running::restored(
                WantedRemoval { reason: held.reason, method: "restored", claims: vec![disrupted] },
                held.replacements,
                since,
            )),
        }
    }
    all
}
