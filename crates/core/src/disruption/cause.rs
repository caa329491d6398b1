//! The causes of removals, each with the reason that it comes under.

use jiff::SignedDuration;

use super::RemovalReason;

/// The cause of a removal, as exactly as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisruptionCause {
    /// Vacant for that many seconds, in a pool with a TTL.
    Ttl(i64),
    /// Empty, where the budgets allow it.
    Empty,
    /// Expired: its time is over.
    Expired,
    /// Drifted: it is no longer what is asked for, its pods have places, and the budgets allow it.
    Drifted,
    /// Unhealthy: its Node has had a condition for too long.
    Unhealthy {
        /// `type` of the condition.
        condition: &'static str,
        /// Time that the drain may take; `None` leaves it to the claim, zero forces it.
        grace: Option<SignedDuration>,
    },
}

impl DisruptionCause {
    /// The reason that the cause comes under.
    #[must_use]
    pub fn reason(self) -> RemovalReason {
        match self {
            Self::Ttl(_) | Self::Empty => RemovalReason::Empty,
            Self::Expired => RemovalReason::Expired,
            Self::Drifted => RemovalReason::Drifted,
            Self::Unhealthy { .. } => RemovalReason::Unhealthy,
        }
    }

    /// Time that the drain may take, where the cause bounds it.
    #[must_use]
    pub fn grace(self) -> Option<SignedDuration> {
        match self {
            Self::Unhealthy { grace, .. } => grace,
            Self::Ttl(_) | Self::Empty | Self::Expired | Self::Drifted => None,
        }
    }
}
