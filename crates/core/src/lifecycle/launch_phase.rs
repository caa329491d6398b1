//! Phases of an order for a NodeClaim, or of a claim that is there and is to be launched.
//!
//! ```text
//! order ─► Queued ─► Pricing ─► Launching ─► Launched ─► shown without an instance: Queued, after a pause
//!            ▲         │ may not begin now
//!            │         ▼
//!            └─────── Held ─► the order is given up: its pods are planned anew
//!
//! left over ─► TakenBack ─► needed: Queued
//! late ──────► TakenBack ─► deleted
//! ```
//!
//! A price is asked for where a ceiling counts dollars. An order that is refused or waits for others is held without a price, and
//! one that no pod needs any more is given up while it is queued.

use dovetail_api::v1::NodeClaim;

use super::{is_deleting, stage};

/// The phase of an order or a claim that the launcher has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaunchPhase {
    /// It waits for its turn.
    Queued,
    /// Its cost is being found out.
    Pricing,
    /// It may not be launched yet.
    Held,
    /// Its launch goes on.
    Launching,
    /// Its launch ended well, not long ago.
    Launched,
    /// It is looked at if anybody needs it, or it is being deleted as nobody does.
    TakenBack,
}

impl LaunchPhase {
    /// True while something is done about it, or about to be: a claim that changes meanwhile is looked at afterwards.
    #[must_use]
    pub fn is_under_way(self) -> bool {
        self != Self::Launched
    }
}

/// The step that follows when a claim is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedStep {
    /// Note it for whatever is under way.
    Note,
    /// No launch: it has its instance, or goes.
    Settle,
    /// It was launched before, and has to wait before it is launched again.
    Wait,
    /// An earlier leader left it over: look first if pods need it.
    LookWhetherNeeded,
    /// Go on with its launch where it stopped.
    Adopt,
}

/// The step for a claim as it is shown. `waits`: its last launch ended well a short time ago; `left_over`: its pods may have been
/// planned elsewhere.
#[must_use]
pub fn observed_step(claim: &NodeClaim, phase: Option<LaunchPhase>, waits: bool, left_over: bool) -> ObservedStep {
    // One that was launched here is shown unlaunched by a restored API server, or by what was on its way: its launch begins with a
    // look at it.
    if phase.is_some_and(LaunchPhase::is_under_way) {
        ObservedStep::Note
    } else if is_deleting(claim) || stage(claim).is_some() {
        ObservedStep::Settle
    } else if waits {
        ObservedStep::Wait
    } else if left_over {
        ObservedStep::LookWhetherNeeded
    } else {
        ObservedStep::Adopt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::fixtures::{claim, launched_claim};

    #[test]
    fn a_shown_claim_is_launched_once_and_only_without_an_instance() {
        let (new, there) = (claim("a"), launched_claim("a"));
        let mut goes = claim("a");
        goes.metadata.deletion_timestamp.clone_from(&goes.metadata.creation_timestamp);
        for phase in [
            LaunchPhase::Queued,
            LaunchPhase::Pricing,
            LaunchPhase::Held,
            LaunchPhase::Launching,
            LaunchPhase::TakenBack,
        ] {
            for claim in [&new, &there, &goes] {
                assert_eq!(observed_step(claim, Some(phase), true, true), ObservedStep::Note, "{phase:?}");
            }
        }
        for phase in [None, Some(LaunchPhase::Launched)] {
            assert!(
                [&there, &goes].iter().all(|claim| observed_step(claim, phase, true, true) == ObservedStep::Settle)
            );
            assert_eq!(observed_step(&new, phase, true, true), ObservedStep::Wait);
            assert_eq!(observed_step(&new, phase, false, true), ObservedStep::LookWhetherNeeded);
            assert_eq!(observed_step(&new, phase, false, false), ObservedStep::Adopt);
        }
    }
}
