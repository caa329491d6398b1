//! The pace of a claim's writes: what is due shortly after another write is joined with it, as the API server's writes are what bounds
//! a burst of nodes.

use std::time::Duration;

use dovetail_api::v1::NodeClaim;

use super::{Writes, stage};

/// Minimum time between two writes of a claim.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);
/// Minimum time from a write of a claim to one that only says what else it waits for: before long that may be nothing.
const BEFORE_REASON: Duration = Duration::from_secs(10);

/// Times of a claim's last write by whoever takes it through its stages, and of its last change by anybody. Monotonic.
#[derive(Clone, Copy, Debug, Default)]
pub struct WritePace {
    written: Option<Duration>,
    changed: Option<Duration>,
}

impl WritePace {
    pub fn written(&mut self, now: Duration) {
        self.written = Some(now);
    }

    /// The claim is there as it is `now`, and was as it was `before`; if it is launched by that, the launcher has just written on it.
    pub fn observe(&mut self, before: Option<&NodeClaim>, claim: &NodeClaim, now: Duration) {
        let Some(before) = before else { return };
        if before.metadata.resource_version != claim.metadata.resource_version {
            self.changed = Some(now);
        }
        if stage(before).is_none() && stage(claim).is_some() {
            self.written = Some(now);
        }
    }

    /// Time until these writes are due; they are made as the claim and its Node are by then.
    #[must_use]
    pub fn wait(&self, writes: &Writes, now: Duration) -> Option<Duration> {
        let pause = if writes.is_reason() { BEFORE_REASON } else { BETWEEN_WRITES };
        left(self.written, pause, now)
    }

    /// True if nobody has changed the claim lately: a write that is not urgent may follow.
    #[must_use]
    pub fn is_quiet(&self, now: Duration) -> bool {
        [self.written, self.changed].into_iter().all(|last| left(last, BETWEEN_WRITES, now).is_none())
    }
}

fn left(last: Option<Duration>, pause: Duration, now: Duration) -> Option<Duration> {
    (last? + pause).checked_sub(now).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::fixtures::{claim, launched_claim};

    #[test]
    fn a_stage_waits_for_a_second_and_a_reason_for_ten() {
        let mut pace = WritePace::default();
        let reason = Writes::of_reason(launched_claim("a"));
        let stage = Writes { passes: &[crate::lifecycle::ClaimStage::Initialized], ..reason.clone() };
        let wait = |pace: WritePace, now: f64| {
            [&stage, &reason]
                .map(|writes| pace.wait(writes, Duration::from_secs_f64(now)).map(|left| left.as_secs_f64()))
        };
        assert_eq!((wait(pace, 0.0), pace.is_quiet(Duration::ZERO)), ([None, None], true));
        pace.written(Duration::from_secs(100));
        assert_eq!(wait(pace, 100.5), [Some(0.5), Some(9.5)]);
        assert!(!pace.is_quiet(Duration::from_millis(100_999)) && pace.is_quiet(Duration::from_secs(101)));
        let (before, mut changed) = (launched_claim("a"), launched_claim("a"));
        changed.metadata.resource_version = Some("2".into());
        pace.observe(Some(&before), &changed, Duration::from_secs(101));
        assert!(!pace.is_quiet(Duration::from_millis(101_500)) && pace.is_quiet(Duration::from_secs(102)));
        assert_eq!(wait(pace, 101.0), [None, Some(9.0)], "others may change it without end");
        assert_eq!(wait(pace, 110.0), [None, None]);
    }

    #[test]
    fn a_claim_is_written_when_it_is_launched() {
        let now = Duration::from_secs(5);
        let mut pace = WritePace::default();
        pace.observe(None, &launched_claim("a"), now);
        assert!(pace.is_quiet(now), "another leader has launched it");
        pace.observe(Some(&claim("a")), &launched_claim("a"), now);
        assert_eq!(pace.wait(&Writes::of_reason(launched_claim("a")), now), Some(Duration::from_secs(10)));
    }
}
