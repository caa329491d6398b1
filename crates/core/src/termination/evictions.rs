//! Evictions under way, and the times at which refused ones are tried again: 100 ms to 10 s later (core spec 5.9). What is to
//! be done with a pod is judged anew at each attempt; here stands only when the next one may be. Where no budget stands against it
//! but the API server will not have it, the pauses grow to a minute.
//!
//! Few pods of one PodDisruptionBudget are evicted at a time. Each eviction writes to the budget; where many do at once
//! the API server holds each loser up for half a second, and again, up to ten seconds in all.
//!
//! An example: nodes n1 to n5 go, each with a pod of `web`, whose budget allows one disruption.
//! 1. n1 and n2 begin; n3, n4 and n5 queue under the budget.
//! 2. n1's eviction is accepted. Two nodes are looked at, n3 and n4: one may begin, the other queues again, behind n5.
//! 3. n2's is refused. Its pod pauses for about 100 ms, n5 and n4 are looked at, and so on until the budget allows the next.

use std::collections::BTreeMap;
use std::time::Duration;

use indexmap::IndexSet;

use crate::pause::DoublingPause;

/// Attempts that run at the same time.
const AT_ONCE: usize = 100;
/// Evictions at once for pods of one PodDisruptionBudget: while one is held up, the other continues.
const AT_ONCE_UNDER_A_BUDGET: usize = 2;
/// Pause after a refusal by a budget, or a failure.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_millis(100), longest: Duration::from_secs(10) };
/// Pause where the API server will not have it, which has nothing to do with who else is there.
const DENIED: DoublingPause = DoublingPause { first: Duration::from_millis(100), longest: Duration::from_secs(60) };
/// Time after which the eviction of a pod that should be going, and is not seen to go, is tried again.
const UNSEEN: Duration = Duration::from_secs(5);

/// Outcome of an attempt to evict or delete a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The pod goes or is gone.
    Accepted,
    /// A PodDisruptionBudget stands against it now.
    OverBudget,
    /// The API server did not do it now.
    Failed,
    /// The API server will not have it.
    Denied,
}

/// Attempts by the pods' uids. `D` draws numbers from 0 to 1, which spread the pauses.
pub struct Evictions<D> {
    known: BTreeMap<String, Entry<D>>,
    running: usize,
    /// Queues of budgets, by name.
    budgets: BTreeMap<String, UnderBudget>,
}

impl<D> Default for Evictions<D> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), running: 0, budgets: BTreeMap::new() }
    }
}

#[derive(Default)]
struct UnderBudget {
    running: usize,
    /// Nodes with a pod that may not be evicted yet, in the order in which they asked.
    waiting: IndexSet<String>,
}

/// A pod that is to go.
pub struct Candidate<'a> {
    /// Key of its attempts.
    pub uid: &'a str,
    pub node: &'a str,
    /// True if it is deleted whatever budgets say.
    pub forced: bool,
    pub budget: Option<&'a str>,
}

/// Consequences of an attempt that has ended.
pub struct Ended {
    /// Pause before the pod is looked at again.
    pub pause: Duration,
    pub first_refusal: bool,
    /// Number of times in a row that the API server refused it for other reasons than a budget.
    pub denials: u32,
    /// Nodes whose pods have waited for it.
    pub next: Vec<String>,
}

struct Entry<D> {
    /// Refusals and failures so far, and the draws of their pauses.
    failures: (u32, D),
    /// Denials in a row, and the draws of their pauses.
    denials: (u32, D),
    not_before: Duration,
    running: bool,
    /// Its last attempt was a deletion.
    forced: bool,
    refused: bool,
    /// The budget that its running attempt is under.
    budget: Option<String>,
}

impl<D: FnMut() -> f64> Evictions<D> {
    /// True if an attempt may begin now; it then counts as running. A deletion does not wait for an eviction's pause. `draws` gives
    /// a new pod its draws.
    pub fn begin_attempt(&mut self, pod: &Candidate<'_>, now: Duration, draws: impl Fn() -> D) -> bool {
        let Candidate { uid, forced, .. } = *pod;
        if self.running >= AT_ONCE {
            return false;
        }
        let new = || Entry {
            failures: (0, draws()),
            denials: (0, draws()),
            not_before: Duration::ZERO,
            running: false,
            forced,
            refused: false,
            budget: None,
        };
        let entry = self.known.entry(uid.to_owned()).or_insert_with(new);
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
                budget.waiting.insert(pod.node.to_owned());
                return false;
            }
            budget.running += 1;
        }
        (entry.running, entry.forced) = (true, forced);
        self.running += 1;
        true
    }

    /// Takes the end of an attempt.
    pub fn end_attempt(&mut self, uid: &str, end: AttemptEnd, now: Duration) -> Ended {
        self.running = self.running.saturating_sub(1);
        let Some(entry) = self.known.get_mut(uid) else {
            return Ended { pause: PAUSE.first, first_refusal: false, denials: 0, next: Vec::new() };
        };
        entry.running = false;
        let next = entry.budget.take().map(|budget| next_under(&mut self.budgets, &budget)).unwrap_or_default();
        let pause = match end {
            // The watch will show the pod going. Only where it does not is there anything to repeat.
            AttemptEnd::Accepted => UNSEEN,
            AttemptEnd::OverBudget | AttemptEnd::Failed => drawn(PAUSE, &mut entry.failures),
            AttemptEnd::Denied => drawn(DENIED, &mut entry.denials),
        };
        if end != AttemptEnd::Denied {
            entry.denials.0 = 0;
        }
        entry.not_before = now + pause;
        let first_refusal = end == AttemptEnd::OverBudget && !std::mem::replace(&mut entry.refused, true);
        Ended { pause, first_refusal, denials: entry.denials.0, next }
    }

    /// Forgets pods that are no longer there.
    pub fn retain_pods(&mut self, there: impl Fn(&str) -> bool) {
        // A running one stays, or its end would free a slot that it does not have.
        self.known.retain(|uid, entry| entry.running || there(uid));
    }

    /// Number of attempts under way.
    #[must_use]
    pub fn running_count(&self) -> usize {
        self.running
    }
}

/// The next pause, where `times` counts those before it.
fn drawn<D: FnMut() -> f64>(pause: DoublingPause, (times, draw): &mut (u32, D)) -> Duration {
    let length = pause.drawn_after(*times, draw());
    *times = times.saturating_add(1);
    length
}

/// One attempt less under a budget: the nodes that are looked at now. One more than there is room for, as the pod that has waited
/// may have gone meanwhile.
fn next_under(budgets: &mut BTreeMap<String, UnderBudget>, name: &str) -> Vec<String> {
    let Some(budget) = budgets.get_mut(name) else { return Vec::new() };
    budget.running = budget.running.saturating_sub(1);
    let first = ..budget.waiting.len().min(AT_ONCE_UNDER_A_BUDGET);
    let next = budget.waiting.drain(first).collect();
    if budget.running == 0 && budget.waiting.is_empty() {
        budgets.remove(name);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws() -> fn() -> f64 {
        || 0.5
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
            assert!(evictions.begin_attempt(&pod("a", false), now, draws));
            assert!(!evictions.begin_attempt(&pod("a", false), now, draws), "one attempt at a time");
            let Ended { pause, .. } = evictions.end_attempt("a", AttemptEnd::OverBudget, now);
            assert!(!evictions.begin_attempt(&pod("a", false), now + pause / 2, draws));
            now += pause;
            pauses.push(pause);
        }
        assert_eq!((pauses[0], pauses[11]), (PAUSE.first * 3 / 4, PAUSE.longest * 3 / 4), "{pauses:?}");
    }

    #[test]
    fn denied_eviction_waits_up_to_a_minute_and_is_counted() {
        let (mut evictions, mut now, mut last) = (Evictions::default(), seconds(100), Duration::ZERO);
        for times in 1..=14 {
            assert!(evictions.begin_attempt(&pod("a", false), now, draws));
            let ended = evictions.end_attempt("a", AttemptEnd::Denied, now);
            assert_eq!((ended.denials, ended.first_refusal), (times, false));
            (last, now) = (ended.pause, now + ended.pause);
        }
        assert_eq!(last, DENIED.longest * 3 / 4);
        assert!(evictions.begin_attempt(&pod("a", false), now, draws));
        assert_eq!(evictions.end_attempt("a", AttemptEnd::OverBudget, now).denials, 0);
    }

    #[test]
    fn a_deletion_does_not_wait_for_the_pause_of_an_eviction() {
        let mut evictions = Evictions::default();
        assert!(evictions.begin_attempt(&pod("a", false), seconds(1), draws));
        assert!(evictions.end_attempt("a", AttemptEnd::OverBudget, seconds(1)).first_refusal);
        assert!(evictions.begin_attempt(&pod("a", true), seconds(1), draws));
        let Ended { pause, first_refusal, .. } = evictions.end_attempt("a", AttemptEnd::Accepted, seconds(1));
        assert_eq!((pause, first_refusal), (UNSEEN, false));
        assert!(!evictions.begin_attempt(&pod("a", true), seconds(2), draws));
    }

    #[test]
    fn no_more_than_a_hundred_run_at_a_time() {
        let mut evictions = Evictions::default();
        let begun =
            (0..150).filter(|n| evictions.begin_attempt(&pod(&n.to_string(), false), seconds(1), draws)).count();
        assert_eq!((begun, evictions.running_count()), (100, 100));
        evictions.end_attempt("0", AttemptEnd::Accepted, seconds(1));
        assert!(evictions.begin_attempt(&pod("149", false), seconds(1), draws));
    }

    #[test]
    fn two_evictions_run_per_budget_others_queue_deletion_does_not() {
        let mut evictions = Evictions::default();
        let under = |uid, node, forced| Candidate { uid, node, forced, budget: Some("default/web") };
        let mut begins = |pod: Candidate<'_>| evictions.begin_attempt(&pod, seconds(1), draws);
        assert!(begins(under("a", "1", false)) && begins(under("b", "2", false)));
        for (uid, node) in [("c", "3"), ("d", "0"), ("e", "5"), ("c", "3")] {
            assert!(!begins(under(uid, node, false)), "{uid}");
        }
        assert!(begins(under("f", "6", true)), "a deletion asks no budget");
        assert!(begins(Candidate { uid: "g", node: "7", forced: false, budget: Some("default/db") }));
        let next = evictions.end_attempt("a", AttemptEnd::Accepted, seconds(1)).next;
        assert_eq!(next, ["3", "0"]);
        assert!(evictions.begin_attempt(&under("c", "3", false), seconds(1), draws));
        assert!(!evictions.begin_attempt(&under("d", "0", false), seconds(1), draws));
        assert_eq!(evictions.end_attempt("f", AttemptEnd::Accepted, seconds(1)).next, Vec::<String>::new());
        assert_eq!(evictions.end_attempt("b", AttemptEnd::OverBudget, seconds(1)).next, ["5", "0"]);
        evictions.end_attempt("c", AttemptEnd::Accepted, seconds(1));
        evictions.end_attempt("g", AttemptEnd::Accepted, seconds(1));
        assert!(evictions.budgets.is_empty() && evictions.running_count() == 0);
    }
}
