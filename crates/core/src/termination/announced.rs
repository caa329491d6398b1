//! The announced end of an instance whose claim is there: until its deletion is seen that is ordered, again after refusals.

use std::time::Duration;

use jiff::Timestamp;

use crate::interruption::InterruptionNotice;
use crate::pause::DoublingPause;

/// Pause between two orders to delete a claim whose deletion is refused. It stays short: a warning leaves two minutes.
const REFUSED_AGAIN: DoublingPause = DoublingPause { first: Duration::from_secs(1), longest: Duration::from_secs(10) };

/// The end of a claim's instance, as announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncedEnd {
    /// The announcement, as it counts.
    pub notice: InterruptionNotice,
    /// Time at which this replica received it.
    pub since: Timestamp,
    /// Its deletion was ordered, or somebody else's is seen: what follows is the drain's.
    ordered: bool,
    /// True once the claim is being deleted.
    goes: bool,
    /// Number of deletions ordered in vain, and the time before which none is ordered. Monotonic.
    failures: u32,
    not_before: Duration,
}

impl AnnouncedEnd {
    /// An end that is heard of now, and nothing is ordered.
    #[must_use]
    pub fn new(notice: InterruptionNotice, since: Timestamp) -> Self {
        Self { notice, since, ordered: false, goes: false, failures: 0, not_before: Duration::ZERO }
    }

    /// The claim has changed: `written` is on it now, and `goes` if it is being deleted. Returns true if the end has to be
    /// written on it again, as a backup shows it as it was before.
    pub fn observe(&mut self, written: Option<InterruptionNotice>, goes: bool) -> bool {
        // One that is not being deleted any more is ordered anew.
        self.ordered = goes || (self.ordered && !self.goes);
        self.goes = goes;
        self.notice = written.unwrap_or(self.notice);
        written.is_none() && !goes
    }

    /// True if its deletion may be ordered now; while it waits out a refusal the answer would be the same.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        !self.ordered && self.not_before <= now
    }

    /// Its deletion is ordered. Returns true the first time: a repeated order is no news.
    pub fn order(&mut self) -> bool {
        self.ordered = true;
        self.failures == 0
    }

    /// The claim could not be deleted: that is ordered again, after 1 s, 2 s, 4 s, 8 s and then every 10 s.
    pub fn not_deleted(&mut self, now: Duration) {
        self.ordered = self.goes;
        self.not_before = now + REFUSED_AGAIN.length_after(self.failures);
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn notice(at: &str) -> InterruptionNotice {
        InterruptionNotice::parse(&format!("spot_interrupted {at}")).unwrap()
    }

    fn announced() -> AnnouncedEnd {
        AnnouncedEnd::new(notice("2026-03-02T10:02:00Z"), Timestamp::UNIX_EPOCH)
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn deletion_is_ordered_once_and_again_after_each_refusal() {
        let mut end = announced();
        assert!(end.is_due(at(0)) && end.order() && !end.is_due(at(99)));
        let mut now = at(100);
        for pause in [1, 2, 4, 8, 10, 10] {
            end.not_deleted(now);
            assert!(!end.is_due(now + at(pause) - Duration::from_millis(1)) && end.is_due(now + at(pause)), "{pause}");
            now += at(pause);
            assert!(!end.order(), "no news");
        }
    }

    #[test]
    fn a_claim_that_is_back_from_a_backup_is_ordered_anew() {
        let mut end = announced();
        end.order();
        assert!(!end.observe(Some(end.notice), false) && !end.is_due(at(9)), "the watch is only late");
        assert!(!end.observe(None, true) && !end.is_due(at(9)));
        end.not_deleted(at(9));
        assert!(!end.is_due(at(99)), "somebody else's deletion is seen");
        assert!(end.observe(None, false) && end.is_due(at(99)), "and the end is written again");
    }

    #[test]
    fn end_that_is_written_on_the_claim_counts() {
        let (mut end, sooner) = (announced(), notice("2026-03-02T10:01:00Z"));
        end.observe(Some(sooner), false);
        assert_eq!(end.notice, sooner);
        end.observe(None, false);
        assert_eq!(end.notice, sooner, "it stays known");
    }
}
