//! Writes that the API server refuses: left alone ever longer, and said once a minute at most.

use std::time::Duration;

use crate::context::brakes::Brakes;

/// Minimum time between two events about refused writes.
pub(super) const REPEAT_INTERVAL: Duration = Duration::from_secs(900);
/// Minimum time between two lines about refused writes, and the longest: it doubles while nothing is written.
const LINES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// In the place of a pod's uid: all pods, as the account may not write any.
const ALL: &str = "";

/// Pods, by uid, whose writes are refused.
#[derive(Default)]
pub(super) struct RefusedWrites {
    brakes: Brakes,
    /// Number of refusals that no line has counted yet.
    unsaid: usize,
    /// Time from which the next line may come, and the pause after it. Monotonic.
    next_line: Option<(Duration, Duration)>,
}

impl RefusedWrites {
    /// True if a pod must not be written now.
    pub(super) fn holds(&self, uid: &str, now: Duration) -> bool {
        self.brakes.hold(ALL, None, now) || self.brakes.hold(uid, None, now)
    }

    /// Notes a refusal. Answers the number of refusals to be said now, if a line is due.
    pub(super) fn note(&mut self, uid: &str, is_forbidden: bool, now: Duration, rng: fastrand::Rng) -> Option<usize> {
        let key = if is_forbidden { ALL } else { uid };
        // The first refusal stands for all writes that were under way with it.
        if !self.brakes.hold(key, None, now) {
            self.brakes.failed(key, None, now, || rng);
        }
        self.unsaid += 1;
        let (due, pause) = self.next_line.unwrap_or((now, LINES.0));
        if now < due {
            return None;
        }
        self.next_line = Some((now + pause, (pause * 2).min(LINES.1)));
        Some(std::mem::take(&mut self.unsaid))
    }

    /// Notes that a pod was written.
    pub(super) fn done(&mut self, uid: &str) {
        self.brakes.forget(ALL);
        self.brakes.forget(uid);
    }

    /// Forgets pods that are gone.
    pub(super) fn retain(&mut self, there: impl Fn(&str) -> bool) {
        self.brakes.retain(|uid| uid == ALL || there(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn rng() -> fastrand::Rng {
        fastrand::Rng::with_seed(7)
    }

    #[test]
    fn refusals_are_said_at_once_then_ever_more_seldom() {
        let mut refused = RefusedWrites::default();
        let said: Vec<(u64, usize)> = (0..4000)
            .filter_map(|second| refused.note("a", false, at(second), rng()).map(|pods| (second, pods)))
            .collect();
        assert_eq!(said, [(0, 1), (60, 60), (180, 120), (420, 240), (900, 480), (1860, 960), (3780, 1920)]);
    }

    #[test]
    fn denied_pod_is_left_alone_and_a_forbidden_account_writes_none() {
        let mut refused = RefusedWrites::default();
        refused.note("a", false, at(10), rng());
        assert!(refused.holds("a", at(10)) && !refused.holds("b", at(10)));
        refused.note("b", true, at(10), rng());
        assert!(refused.holds("c", at(10)), "no pod may be written");
        assert!(!refused.holds("c", at(80)), "it is tried again");
        refused.done("c");
        assert!(!refused.holds("c", at(10)) && refused.holds("a", at(10)));
        refused.retain(|_| false);
        assert!(!refused.holds("a", at(10)));
    }
}
