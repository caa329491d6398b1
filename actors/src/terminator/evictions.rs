//! Which pods are being evicted, and when a refused one is tried again: 100 ms to 10 s later (core spec 5.9). What is to
//! be done with a pod is judged anew at each attempt; here stands only when the next one may be.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::context::backoff::Backoff;
use crate::kube::evict::EvictionOutcome;

/// Attempts that run at the same time.
const AT_ONCE: usize = 100;
/// First and longest pause after a refusal.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// After this long a pod that should be going and is not seen to go is tried again.
const UNSEEN: Duration = Duration::from_secs(5);

/// See the module. By the pods' uids.
#[derive(Default)]
pub struct Evictions {
    known: BTreeMap<String, Entry>,
    running: usize,
}

struct Entry {
    backoff: Backoff,
    not_before: Duration,
    running: bool,
    /// Its last attempt was a deletion.
    forced: bool,
    refused: bool,
}

impl Evictions {
    /// Whether an attempt may begin now; if so it counts as running. A deletion does not wait for an eviction's pause.
    pub fn begins(&mut self, uid: &str, forced: bool, now: Duration, rng: impl FnOnce() -> fastrand::Rng) -> bool {
        if self.running >= AT_ONCE {
            return false;
        }
        let entry = self.known.entry(uid.to_owned()).or_insert_with(|| Entry {
            backoff: Backoff::new(PAUSES.0, PAUSES.1, rng()),
            not_before: Duration::ZERO,
            running: false,
            forced,
            refused: false,
        });
        let presses = forced && !entry.forced;
        if entry.running || (now < entry.not_before && !presses) {
            return false;
        }
        (entry.running, entry.forced) = (true, forced);
        self.running += 1;
        true
    }

    /// An attempt has ended. Answers after which time to look at the pod again, and whether this is its first refusal.
    pub fn ended(&mut self, uid: &str, outcome: &EvictionOutcome, now: Duration) -> (Duration, bool) {
        self.running = self.running.saturating_sub(1);
        let Some(entry) = self.known.get_mut(uid) else { return (PAUSES.0, false) };
        entry.running = false;
        let pause = match outcome {
            EvictionOutcome::Going | EvictionOutcome::Gone => UNSEEN,
            EvictionOutcome::Refused(_) | EvictionOutcome::Failed(_) => entry.backoff.pause(),
        };
        entry.not_before = now + pause;
        let first = matches!(outcome, EvictionOutcome::Refused(_)) && !std::mem::replace(&mut entry.refused, true);
        (pause, first)
    }

    /// Forgets pods that are no longer there.
    pub fn retain(&mut self, there: impl Fn(&str) -> bool) {
        self.known.retain(|uid, entry| entry.running || there(uid));
    }

    /// How many attempts run.
    pub fn running(&self) -> usize {
        self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rng() -> fastrand::Rng {
        fastrand::Rng::with_seed(1)
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_refused_pod_waits_longer_each_time_up_to_ten_seconds() {
        let mut evictions = Evictions::default();
        let mut now = seconds(100);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert!(evictions.begins("a", false, now, rng));
            assert!(!evictions.begins("a", false, now, rng), "one attempt at a time");
            let (pause, _) = evictions.ended("a", &EvictionOutcome::Refused(String::new()), now);
            assert!(!evictions.begins("a", false, now + pause / 2, rng));
            now += pause;
            pauses.push(pause);
        }
        assert!(pauses[0] <= PAUSES.0 && pauses[11] >= PAUSES.1 / 2 && pauses[11] <= PAUSES.1, "{pauses:?}");
    }

    #[test]
    fn a_deletion_does_not_wait_for_the_pause_of_an_eviction() {
        let mut evictions = Evictions::default();
        assert!(evictions.begins("a", false, seconds(1), rng));
        assert!(evictions.ended("a", &EvictionOutcome::Refused(String::new()), seconds(1)).1);
        assert!(evictions.begins("a", true, seconds(1), rng));
        let (pause, first) = evictions.ended("a", &EvictionOutcome::Going, seconds(1));
        assert_eq!((pause, first), (UNSEEN, false));
        assert!(!evictions.begins("a", true, seconds(2), rng));
    }

    #[test]
    fn no_more_than_a_hundred_run_at_a_time() {
        let mut evictions = Evictions::default();
        let begun = (0..150).filter(|n| evictions.begins(&n.to_string(), false, seconds(1), rng)).count();
        assert_eq!((begun, evictions.running()), (100, 100));
        evictions.ended("0", &EvictionOutcome::Going, seconds(1));
        assert!(evictions.begins("149", false, seconds(1), rng));
    }
}
