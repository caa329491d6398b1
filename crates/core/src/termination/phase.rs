//! Phases of a claim and of its Node on their way out, for each the steps that belong to it.
//!
//! ```text
//! Node              ┌► Tainted ─► Draining ⇄ Detaching ─► Ending ─► Releasing ─► gone
//! claim  Announced ─┴► Tainted ─► Draining ─────────────► Ending ─► Releasing ─► gone
//! ```
//!
//! Announced: the cloud takes the instance away, and the claim stays until its pods have places. The others are of objects that
//! are being deleted. A new leader begins at Tainted, and is where the last one was after a look: a phase follows from the step.

use super::claim::ClaimStep;
use super::node::{self, NodeStep};

/// Phase of an object on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalPhase {
    /// Claim: its instance ends, and it is not being deleted yet.
    Announced,
    /// It is being deleted: a Node is tainted, a claim takes its Nodes along.
    Tainted,
    /// Pods leave the Node; a claim waits for its Nodes.
    Draining,
    /// Node: its volumes are detached.
    Detaching,
    /// The instance ends.
    Ending,
    /// Nothing is left: the finalizer goes.
    Releasing,
}

impl RemovalPhase {
    /// The phase's name in states.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Announced => "announced",
            Self::Tainted => "tainted",
            Self::Draining => "draining",
            Self::Detaching => "detaching",
            Self::Ending => "ending",
            Self::Releasing => "releasing",
        }
    }

    /// True if the object is being deleted.
    #[must_use]
    pub fn is_going(self) -> bool {
        self > Self::Announced
    }

    /// Phase of a Node with this next step; `None` for one that stays.
    #[must_use]
    pub fn of_node(step: &NodeStep) -> Option<Self> {
        Some(match step {
            NodeStep::NotOurs => return None,
            NodeStep::DeleteClaim | NodeStep::Ask | NodeStep::Cordon(_) => Self::Tainted,
            NodeStep::Drain(_) | NodeStep::Settle => Self::Draining,
            NodeStep::Say(said) if node::is_draining(said) => Self::Draining,
            NodeStep::Say(said) if node::is_ending(said) => Self::Ending,
            NodeStep::Say(_) | NodeStep::AwaitVolumes(_) => Self::Detaching,
            NodeStep::Terminate => Self::Ending,
            NodeStep::Release => Self::Releasing,
        })
    }

    /// Phase of a claim with this next step; `None` for one that stays.
    #[must_use]
    pub fn of_claim(step: &ClaimStep) -> Option<Self> {
        Some(match step {
            ClaimStep::NotOurs => return None,
            ClaimStep::SetDeadline(_) | ClaimStep::DeleteNodes(_) => Self::Tainted,
            ClaimStep::AwaitNodes => Self::Draining,
            ClaimStep::Terminate | ClaimStep::Say(_) => Self::Ending,
            ClaimStep::Release => Self::Releasing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::claim::TERMINATING;
    use super::super::node::DRAINING;
    use super::*;

    #[test]
    fn only_an_announced_end_leaves_its_claim_undeleted() {
        assert!(!RemovalPhase::Announced.is_going() && RemovalPhase::Tainted.is_going());
        assert_eq!(RemovalPhase::of_node(&NodeStep::NotOurs), None);
        assert_eq!(RemovalPhase::of_claim(&ClaimStep::NotOurs), None);
    }

    #[test]
    fn conditions_belong_to_the_phase_that_they_tell_of() {
        let phase = |said: &[super::super::ClaimCondition]| RemovalPhase::of_node(&NodeStep::Say(said.to_vec()));
        assert_eq!(phase(&DRAINING), Some(RemovalPhase::Draining));
        assert_eq!(phase(&[node::IS_DRAINED]), Some(RemovalPhase::Detaching));
        assert_eq!(phase(&TERMINATING), Some(RemovalPhase::Ending));
    }
}
