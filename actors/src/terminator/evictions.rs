//! Which pods are being evicted, and when a refused one is tried again: 100 ms to 10 s later (core spec 5.9). What is to
//! be done with a pod is judged anew at each attempt; here stands only when the next one may be.
//!
//! Of the pods of one PodDisruptionBudget few are evicted at a time. Each eviction writes to the budget; where many do at once
//! the API server holds each loser up for half a second, and again, up to ten seconds in all.
//!
//! An example: nodes n1 to n5 go, each with a pod of `web`, whose budget allows one disruption.
//! 1. n1 and n2 begin; n3, n4 and n5 queue under the budget.
//! 2. n1's eviction is accepted. Two nodes are looked at, n3 and n4: one may begin, the other queues again, behind n5.
//! 3. n2's is refused. Its pod pauses for about 100 ms, n5 and n4 are looked at, and so on until the budget allows the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::context::backoff::Backoff;
use crate::kube::evict::EvictionOutcome;

/// Attempts that run at the same time.
const AT_ONCE: usize = 100;
/// Of these for pods of one PodDisruptionBudget: while one is held up, the other goes on.
const AT_ONCE_UNDER_A_BUDGET: usize = 2;
/// First and longest pause after a refusal.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// After this long a pod that should be going and is not seen to go is tried again.
const UNSEEN: Duration = Duration::from_secs(5);

/// See the module. By the pods' uids.
#[derive(Default)]
pub struct Evictions {
    known: BTreeMap<String, Entry>,
    running: usize,
    /// By the budget's name.
    budgets: BTreeMap<String, UnderBudget>,
}

/// The evictions under one budget.
#[derive(Default)]
struct UnderBudget {
    running: usize,
    /// Nodes with a pod that may not be evicted yet, in the order in which they asked.
    waiting: VecDeque<String>,
    known: BTreeSet<String>,
}

impl UnderBudget {
    fn wait(&mut self, node: &str) {
        if self.known.insert(node.to_owned()) {
            self.waiting.push_back(node.to_owned());
        }
    }

    fn next(&mut self) -> Option<String> {
        let node = self.waiting.pop_front()?;
        self.known.remove(&node);
        Some(node)
    }
}

/// A pod that is to go.
pub struct Candidate<'a> {
    /// By which its attempts are known.
    pub uid: &'a str,
    /// The node that it is on.
    pub node: &'a str,
    /// It is deleted, whatever budgets say.
    pub forced: bool,
    /// The budget that it is under.
    pub budget: Option<&'a str>,
}

/// What follows from an attempt that has ended.
pub struct Ended {
    /// After this the pod is looked at again.
    pub pause: Duration,
    /// It is the pod's first refusal.
    pub first_refusal: bool,
    /// Nodes whose pods have waited for it.
    pub next: Vec<String>,
}

struct Entry {
    backoff: Backoff,
    not_before: Duration,
    running: bool,
    /// Its last attempt was a deletion.
    forced: bool,
    refused: bool,
    /// The budget that its running attempt is under.
    budget: Option<String>,
}

impl Evictions {
    /// Whether an attempt may begin now; if so it counts as running. A deletion does not wait for an eviction's pause.
    pub fn begins(&mut self, pod: &Candidate<'_>, now: Duration, rng: impl FnOnce() -> fastrand::Rng) -> bool {
        let Candidate { uid, forced, .. } = *pod;
        if self.running >= AT_ONCE {
            return false;
        }
        let entry = self.known.entry(uid.to_owned()).or_insert_with(|| Entry {
            backoff: Backoff::new(PAUSES.0, PAUSES.1, rng()),
            not_before: Duration::ZERO,
            running: false,
            forced,
            refused: false,
            budget: None,
        });
        // The node's time is up since the last attempt: what an eviction's refusals have cost is forgotten.
        let presses = forced && !entry.forced;
        if entry.running || (now < entry.not_before && !presses) {
            return false;
        }
        // A deletion writes to no budget, so that it neither waits for others nor keeps them waiting.
        entry.budget = pod.budget.filter(|_| !forced).map(str::to_owned);
        if let Some(name) = &entry.budget {
            let budget = self.budgets.entry(name.clone()).or_default();
            if budget.running >= AT_ONCE_UNDER_A_BUDGET {
                // The node queues rather than the pod: which of its pods goes next is judged anew when its turn comes.
                budget.wait(pod.node);
                return false;
            }
            budget.running += 1;
        }
        (entry.running, entry.forced) = (true, forced);
        self.running += 1;
        true
    }

    /// An attempt has ended.
    pub fn ended(&mut self, uid: &str, outcome: &EvictionOutcome, now: Duration) -> Ended {
        self.running = self.running.saturating_sub(1);
        let Some(entry) = self.known.get_mut(uid) else {
            return Ended { pause: PAUSES.0, first_refusal: false, next: Vec::new() };
        };
        entry.running = false;
        let next = entry.budget.take().map(|budget| next_under(&mut self.budgets, &budget)).unwrap_or_default();
        let pause = match outcome {
            // Accepted: the watch will show the pod going. Only where it does not is there anything to repeat.
            EvictionOutcome::Going | EvictionOutcome::Gone => UNSEEN,
            EvictionOutcome::Refused(_) | EvictionOutcome::Failed(_) => entry.backoff.pause(),
        };
        entry.not_before = now + pause;
        let first_refusal =
            matches!(outcome, EvictionOutcome::Refused(_)) && !std::mem::replace(&mut entry.refused, true);
        Ended { pause, first_refusal, next }
    }

    /// Forgets pods that are no longer there.
    pub fn retain(&mut self, there: impl Fn(&str) -> bool) {
        // A running one stays, or its end would free a slot that it does not have.
        self.known.retain(|uid, entry| entry.running || there(uid));
    }

    /// How many attempts run.
    pub fn running(&self) -> usize {
        self.running
    }
}

/// One attempt less under a budget: the nodes that are looked at now. One more than there is room for, as the pod that has waited
/// may have gone meanwhile.
fn next_under(budgets: &mut BTreeMap<String, UnderBudget>, name: &str) -> Vec<String> {
    let Some(budget) = budgets.get_mut(name) else { return Vec::new() };
    budget.running = budget.running.saturating_sub(1);
    let next = std::iter::from_fn(|| budget.next()).take(AT_ONCE_UNDER_A_BUDGET).collect();
    if budget.running == 0 && budget.waiting.is_empty() {
        budgets.remove(name);
    }
    next
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

    fn pod(uid: &str, forced: bool) -> Candidate<'_> {
        Candidate { uid, node: "n", forced, budget: None }
    }

    #[test]
    fn a_refused_pod_waits_longer_each_time_up_to_ten_seconds() {
        let mut evictions = Evictions::default();
        let mut now = seconds(100);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert!(evictions.begins(&pod("a", false), now, rng));
            assert!(!evictions.begins(&pod("a", false), now, rng), "one attempt at a time");
            let Ended { pause, .. } = evictions.ended("a", &EvictionOutcome::Refused(String::new()), now);
            assert!(!evictions.begins(&pod("a", false), now + pause / 2, rng));
            now += pause;
            pauses.push(pause);
        }
        assert!(pauses[0] <= PAUSES.0 && pauses[11] >= PAUSES.1 / 2 && pauses[11] <= PAUSES.1, "{pauses:?}");
    }

    #[test]
    fn a_deletion_does_not_wait_for_the_pause_of_an_eviction() {
        let mut evictions = Evictions::default();
        assert!(evictions.begins(&pod("a", false), seconds(1), rng));
        assert!(evictions.ended("a", &EvictionOutcome::Refused(String::new()), seconds(1)).first_refusal);
        assert!(evictions.begins(&pod("a", true), seconds(1), rng));
        let Ended { pause, first_refusal, .. } = evictions.ended("a", &EvictionOutcome::Going, seconds(1));
        assert_eq!((pause, first_refusal), (UNSEEN, false));
        assert!(!evictions.begins(&pod("a", true), seconds(2), rng));
    }

    #[test]
    fn no_more_than_a_hundred_run_at_a_time() {
        let mut evictions = Evictions::default();
        let begun = (0..150).filter(|n| evictions.begins(&pod(&n.to_string(), false), seconds(1), rng)).count();
        assert_eq!((begun, evictions.running()), (100, 100));
        evictions.ended("0", &EvictionOutcome::Going, seconds(1));
        assert!(evictions.begins(&pod("149", false), seconds(1), rng));
    }

    #[test]
    fn two_run_under_one_budget_the_others_wait_in_their_order_and_a_deletion_does_not() {
        let mut evictions = Evictions::default();
        let under = |uid, node, forced| Candidate { uid, node, forced, budget: Some("default/web") };
        let mut begins = |pod: Candidate<'_>| evictions.begins(&pod, seconds(1), rng);
        assert!(begins(under("a", "1", false)) && begins(under("b", "2", false)));
        for (uid, node) in [("c", "3"), ("d", "0"), ("e", "5"), ("c", "3")] {
            assert!(!begins(under(uid, node, false)), "{uid}");
        }
        assert!(begins(under("f", "6", true)), "a deletion asks no budget");
        assert!(begins(Candidate { uid: "g", node: "7", forced: false, budget: Some("default/db") }));
        let next = evictions.ended("a", &EvictionOutcome::Going, seconds(1)).next;
        assert_eq!(next, ["3", "0"]);
        assert!(evictions.begins(&under("c", "3", false), seconds(1), rng));
        assert!(!evictions.begins(&under("d", "0", false), seconds(1), rng));
        assert_eq!(evictions.ended("f", &EvictionOutcome::Going, seconds(1)).next, Vec::<String>::new());
        assert_eq!(evictions.ended("b", &EvictionOutcome::Refused(String::new()), seconds(1)).next, ["5", "0"]);
        evictions.ended("c", &EvictionOutcome::Going, seconds(1));
        evictions.ended("g", &EvictionOutcome::Going, seconds(1));
        assert!(evictions.budgets.is_empty() && evictions.running() == 0);
    }
}
