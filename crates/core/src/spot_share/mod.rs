//! Split of a workload's replicas between spot nodes and all others (docs/decisions/092): a base that is on no spot node in any
//! case, and above it the largest part that may be on spot. It is asked for by annotation, on a pod or on a NodePool.
//!
//! Nothing is remembered: who is where is counted from the cluster each time, so a new leader splits as the one before it.
//!
//! 1. No replica is put on spot where that would be more than the split allows, neither of its workload nor, during a rollout,
//!    of its own template.
//! 2. A replica may always be off spot, whether it was refused there or something else is cheaper: the split bounds spot alone.
//! 3. At most one node of a workload goes back to spot at a time, and none within [`BACK_AFTER`] of its youngest replica.

mod split;
#[cfg(test)]
mod tests;
mod written;

use std::fmt;

use jiff::SignedDuration;

pub use split::Replicas;
pub use written::WrittenShare;

/// Minimum age of a workload's youngest replica before replicas that are off spot may go back to it.
pub const BACK_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// Minimum age of a workload's youngest replica before a node is replaced because too many of its replicas are on spot.
pub const MEND_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Time after which another node is chosen, so that one that may not go does not keep all others.
const TURN_SECONDS: i64 = 600;

/// The split that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpotShare {
    /// Number of replicas that are on no spot node in any case.
    pub base: u32,
    /// Largest part of the replicas above the base that is on spot, 0 to 100 percent.
    pub percent: u8,
}

impl SpotShare {
    /// Largest number of so many replicas that may be on spot, rounded down.
    #[must_use]
    pub fn most_on_spot(self, replicas: usize) -> usize {
        let above = replicas.saturating_sub(usize::try_from(self.base).unwrap_or(usize::MAX));
        let percent = usize::from(self.percent.min(100));
        // In two parts: a product of any number does not overflow so.
        above / 100 * percent + above % 100 * percent / 100
    }
}

impl fmt::Display for SpotShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {}% of its replicas above {} on spot", self.percent, self.base)
    }
}

/// The one of so many nodes whose turn it is at a time; 0 where there is none.
#[must_use]
pub fn turn(nodes: usize, now: jiff::Timestamp) -> usize {
    let slot = usize::try_from(now.as_second().div_euclid(TURN_SECONDS)).unwrap_or_default();
    slot.checked_rem(nodes).unwrap_or_default()
}
