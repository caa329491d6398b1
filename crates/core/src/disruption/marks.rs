//! Marks on claims about their pods: `lastPodEventTime` and the condition Consolidatable (core spec 4, 5.5).

use dovetail_api::names::conditions::{CONSOLIDATABLE, DISRUPTION_REASON, TRUE};
use dovetail_api::v1::{NewCondition, NodeClaim, set_condition};
use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::machines::NodeAndClaim;
use super::pools::DisruptionPool;
use crate::clock::at_the_latest;
use crate::disruption::claim_status::with_status;

/// Minimum time between two writes of `lastPodEventTime` (core spec 4).
const PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// The status that a claim should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusMark {
    /// The claim's name.
    pub claim: String,
    /// The claim's uid: another claim may have had the name before.
    pub uid: String,
    pub consolidatable: bool,
    /// The last pod event, where it is to be written.
    pub last_pod_event: Option<Timestamp>,
    /// True if it says that a command holds it which nobody carries on (core spec 5.1). A mark that a command has written since
    /// is left alone.
    pub left_behind: bool,
}

impl StatusMark {
    /// The claim with the mark on it. Another claim of its name is left alone.
    #[must_use]
    pub fn on(&self, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
        with_status(claim, &self.uid, |status, generation| {
            if self.consolidatable {
                set_condition(&mut status.conditions, NewCondition::new(CONSOLIDATABLE, TRUE), generation, now);
            } else {
                status.conditions.retain(|condition| condition.type_ != CONSOLIDATABLE);
            }
            if self.left_behind {
                status.conditions.retain(|condition| condition.type_ != DISRUPTION_REASON);
            }
            if let Some(event) = self.last_pod_event
                && status.last_pod_event_time.as_ref().is_none_or(|written| written.0 < event)
            {
                status.last_pod_event_time = Some(Time(event));
            }
        })
    }
}

/// Time at which a machine becomes consolidatable; `None` for pools that do not consolidate.
pub fn consolidatable_from(machine: &NodeAndClaim<'_>, view: &DisruptionPool<'_>) -> Option<Timestamp> {
    let initialized = machine.claim.initialized?;
    let after = view.after?;
    let counted = if after.is_zero() { initialized } else { at_the_latest(initialized) };
    machine.last_pod_event().unwrap_or(counted).checked_add(after).ok()
}

/// True if anything would come of a claim's being Consolidatable: nodes with pods go only where the pool's policy says so.
fn consolidates(machine: &NodeAndClaim<'_>, view: &DisruptionPool<'_>) -> bool {
    machine.empty() || view.moves_pods()
}

/// The mark to be written on a machine's claim, if any, and the time to look again.
pub fn mark(
    machine: &NodeAndClaim<'_>,
    view: &DisruptionPool<'_>,
    now: Timestamp,
) -> (Option<StatusMark>, Option<Timestamp>) {
    let claim = machine.claim;
    let from = consolidatable_from(machine, view);
    let consolidatable = consolidates(machine, view) && from.is_some_and(|from| from <= now);
    let mut again = from.filter(|from| *from > now);
    let mut last_pod_event = None;
    if let Some(event) = machine.moves.and_then(|moves| moves.event).map(whole_seconds)
        && claim.last_pod_event.is_none_or(|written| written < event)
    {
        match claim.last_pod_event.and_then(|written| written.checked_add(PAUSE).ok()).filter(|free| *free > now) {
            Some(free) => again = Some(again.map_or(free, |again| again.min(free))),
            None => last_pod_event = Some(event),
        }
    }
    let left_behind = claim.disruption_reason;
    let differs = consolidatable != claim.consolidatable || left_behind || last_pod_event.is_some();
    let (name, uid) = (claim.name.clone(), claim.uid.clone());
    let mark = differs.then_some(StatusMark { claim: name, uid, consolidatable, last_pod_event, left_behind });
    (mark, again)
}

/// A time cut to whole seconds, as the API writes it.
fn whole_seconds(time: Timestamp) -> Timestamp {
    let rounding = jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Floor);
    time.round(rounding).unwrap_or(time)
}
