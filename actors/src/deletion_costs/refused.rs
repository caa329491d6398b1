//! Writes that the API server refuses: left alone ever longer, behind all others, and said once a minute at most.

use std::collections::VecDeque;
use std::time::Duration;

use dovetail_core::deletion_costs::CostWrite;

use crate::context::brakes::Brakes;

/// Minimum time between two events about refused writes.
pub(super) const REPEAT_INTERVAL: Duration = Duration::from_secs(900);
/// Minimum time between two lines about refused writes, and the longest: it doubles until a pod is written that was refused.
const LINES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// The first pause after a pod was refused, and the longest: a policy may deny a namespace with hundreds of pods.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Key of the account's brake.
const ACCOUNT: &str = "";

/// Pods, by uid, whose writes are refused.
pub(super) struct RefusedWrites {
    pods: Brakes,
    /// Holds all pods while the account may not write any: up to a minute at a time.
    account: Brakes,
    /// Number of refusals that no line has counted yet.
    unsaid: usize,
    /// Time of the last line, and the pause after it. Monotonic.
    last_line: Option<(Duration, Duration)>,
}

impl Default for RefusedWrites {
    fn default() -> Self {
        let pods = Brakes::new(PAUSES.0, PAUSES.1);
        Self { pods, account: Brakes::default(), unsaid: 0, last_line: None }
    }
}

impl RefusedWrites {
    /// True if a pod must not be written now.
    pub(super) fn holds(&self, uid: &str, now: Duration) -> bool {
        self.account.hold(ACCOUNT, None, now) || self.pods.hold(uid, None, now)
    }

    /// Brings writes into their order: those of pods that were refused come last, and so use up no pace that others need.
    pub(super) fn put_last(&self, writes: Vec<CostWrite>) -> VecDeque<CostWrite> {
        let (refused, mut all): (Vec<_>, Vec<_>) = writes.into_iter().partition(|write| self.pods.is_known(&write.uid));
        all.extend(refused);
        all.into()
    }

    /// Notes a refusal. Answers the number of refusals to be said now, if a line is due.
    pub(super) fn note(&mut self, uid: &str, is_forbidden: bool, now: Duration, rng: fastrand::Rng) -> Option<usize> {
        let (brakes, key) = if is_forbidden { (&mut self.account, ACCOUNT) } else { (&mut self.pods, uid) };
        // The first refusal stands for all writes that were under way with it.
        if !brakes.hold(key, None, now) {
            brakes.failed(key, None, now, || rng);
        }
        self.unsaid += 1;
        let pause = match self.last_line {
            Some((said, pause)) if now < said + pause => return None,
            Some((_, pause)) => (pause * 2).min(LINES.1),
            None => LINES.0,
        };
        self.last_line = Some((now, pause));
        Some(std::mem::take(&mut self.unsaid))
    }

    /// Notes that a pod was written.
    pub(super) fn done(&mut self, uid: &str) {
        let was_refused = self.account.is_known(ACCOUNT) || self.pods.is_known(uid);
        self.account.forget(ACCOUNT);
        self.pods.forget(uid);
        if let Some((_, pause)) = self.last_line.as_mut().filter(|_| was_refused) {
            *pause = LINES.0;
        }
    }

    /// Forgets pods that are gone.
    pub(super) fn retain(&mut self, there: impl Fn(&str) -> bool) {
        self.pods.retain(there);
    }
}

#[cfg(test)]
mod tests {
    use dovetail_core::deletion_costs::CostChange;

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
            .filter_map(|second| refused.note("a", false, at(second), rng()).map(|refusals| (second, refusals)))
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

    #[test]
    fn lines_begin_anew_once_a_refused_pod_is_written() {
        let mut refused = RefusedWrites::default();
        let said = |refused: &mut RefusedWrites, second| refused.note("a", false, at(second), rng());
        let lines: Vec<_> = [0, 60, 180].map(|second| said(&mut refused, second)).into();
        assert_eq!(lines, [Some(1); 3]);
        refused.done("another");
        assert_eq!(said(&mut refused, 300), None, "others can be written all the while");
        refused.done("a");
        assert_eq!((said(&mut refused, 239), said(&mut refused, 240)), (None, Some(3)), "a minute after the last");
    }

    #[test]
    fn denied_namespace_leaves_the_pace_to_others() {
        let write = |uid: String| CostWrite {
            uid,
            namespace: "n".into(),
            name: "p".into(),
            version: Some(7),
            node: "node".into(),
            pool: "pool".into(),
            change: CostChange::Remove,
        };
        let mut refused = RefusedWrites::default();
        let mut tried: Vec<u64> = Vec::new();
        for pod in 0..300 {
            refused.note(&format!("denied-{pod}"), false, at(0), rng());
        }
        for second in (0..4 * 3600).step_by(10) {
            let all = (0..300).map(|pod| write(format!("denied-{pod}"))).chain([write("good".into())]);
            let queue = refused.put_last(all.collect());
            assert_eq!(queue[0].uid, "good");
            for pod in queue.iter().skip(1).filter(|pod| !refused.holds(&pod.uid, at(second))).collect::<Vec<_>>() {
                refused.note(&pod.uid, false, at(second), rng());
                tried.push(second);
            }
        }
        let last_hour = tried.iter().filter(|second| **second >= 3 * 3600).count();
        assert!((1..=1200).contains(&last_hour), "each is tried a few times an hour: {last_hour}");
    }
}
