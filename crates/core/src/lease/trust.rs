//! Limits of the trust in a Lease: whoever may write it can put any number there, by mistake or not.
//!
//! A term that no leader can have had is not counted: one write of `2147483647` would otherwise be the last term for ever.
//! It is safe to do without it, as nobody leads by it: no Dovetail acquires such a term, and the fence compares for equality.
//! A holder that honours its own duration stops at its renew deadline, which lies before that duration; client-go renews
//! every few seconds until then. A Lease that has stood unchanged for [`LONGEST_WAIT`] is not renewed by anybody, and one that
//! no Dovetail has led by for [`STRANGERS_WAIT`].

use std::time::Duration;

use super::{Election, LeaseView, MOST_FIRST_TERM, TermOrigin, is_plausible_term};

/// Longest time for which a Lease that nobody renews is respected, whatever duration it gives. A replica whose own
/// `LEADER_ELECTION_LEASE_DURATION` is longer respects that.
pub const LONGEST_WAIT: Duration = Duration::from_secs(10 * 60);

/// Longest time for which a stranger's Lease that nobody renews is respected: one without Dovetail's mark, or with a duration
/// longer than [`LONGEST_WAIT`], which no Dovetail writes whose own is shorter. Karpenter's lasts 15 seconds.
pub const STRANGERS_WAIT: Duration = Duration::from_secs(60);

/// Margin above both the Lease's resourceVersion and the highest known term up to which a term is believed. A leader's own term
/// is not above the first, or at most one above the second (decision 011).
const LEAP: u64 = 1 << 20;

/// The reason that a replica does not go by a Lease as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Distrust {
    /// No leader can have had its term. The Lease is made vacant, and taken when it has stood for its duration.
    Term {
        /// The Lease's term, `leaseTransitions`.
        term: u64,
    },
    /// It is not renewed, and its duration is longer than the longest wait.
    Duration {
        /// Identity of its holder.
        holder: String,
        /// The Lease's duration, `leaseDurationSeconds`.
        duration: Duration,
        /// Time for which it has to stand unchanged until it is acquired.
        wait: Duration,
        /// End of that time on CLOCK_BOOTTIME, unless it is renewed before.
        until: Duration,
    },
    /// The next term would be one that no leader can have. Only an operator can help.
    TermsUsedUp {
        /// The term that would be next.
        term: u64,
    },
}

impl Election {
    /// The reason that this replica does not go by the Lease as it last read it; `None` if it does.
    #[must_use]
    pub fn distrust(&self) -> Option<&Distrust> {
        self.distrust.as_ref()
    }

    /// The highest term known that a leader can have had.
    #[must_use]
    pub fn highest_term(&self) -> u64 {
        self.highest
    }

    /// True if a leader can have written that term.
    pub(super) fn believes(&self, lease: &LeaseView) -> bool {
        let known = match lease.version() {
            Some(version) if version <= MOST_FIRST_TERM => version.max(self.highest).saturating_add(LEAP),
            _ => u64::MAX,
        };
        lease.term <= known && is_plausible_term(lease.term)
    }

    /// Time for which a Lease that is seen unchanged is respected: not shorter than our own, as client-go shortens the
    /// duration when it releases, and not longer than [`LONGEST_WAIT`], a stranger's than [`STRANGERS_WAIT`], or our own.
    pub(super) fn respected(&self, lease: &LeaseView) -> Duration {
        let own = self.settings.duration;
        let strange = lease.origin == TermOrigin::Foreign || lease.duration > LONGEST_WAIT;
        lease.duration.clamp(own, own.max(if strange { STRANGERS_WAIT } else { LONGEST_WAIT }))
    }

    /// The fault in a Lease that was just read.
    pub(super) fn distrusts(&self, lease: &LeaseView, now: Duration) -> Option<Distrust> {
        if !self.believes(lease) {
            return Some(Distrust::Term { term: lease.term });
        }
        let respected = self.respected(lease);
        // A holder that renews the Lease may give any duration.
        let still = self.seen.as_ref().filter(|seen| seen.lease.is_still(lease));
        let since = still.map(|seen| seen.since).filter(|since| now >= *since + self.settings.duration)?;
        let (holder, duration) = (lease.holder.clone(), lease.duration);
        (duration > respected).then(|| Distrust::Duration {
            holder,
            duration,
            wait: respected,
            until: since + respected,
        })
    }
}
