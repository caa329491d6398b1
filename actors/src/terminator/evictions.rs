//! Evictions under way, and the times at which refused ones are tried again: 100 ms to 10 s later (core spec 5.9). What is to
//! be done with a pod is judged anew at each attempt; here stands only when the next one may be. Where no budget stands against it
//! but the API server will not have it, the pauses grow to a minute, and it is said by count.
//!
//! Of the pods of one PodDisruptionBudget few are evicted at a time. Each eviction writes to the budget; where many do at once
//! the API server holds each loser up for half a second, and again, up to ten seconds in all.
//!
//! An example: nodes n1 to n5 go, each with a pod of `web`, whose budget allows one disruption.
//! 1. n1 and n2 begin; n3, n4 and n5 queue under the budget.
//! 2. n1's eviction is accepted. Two nodes are looked at, n3 and n4: one may begin, the other queues again, behind n5.
//! 3. n2's is refused. Its pod pauses for about 100 ms, n5 and n4 are looked at, and so on until the budget allows the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::PodEntry;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::steps::StepEnv;
use super::{Key, SETTLING_TIME, Terminator};
use crate::context::backoff::Backoff;
use crate::context::refusals::is_said;
use crate::context::traces;
use crate::kube::evict::{self, EvictionOutcome};
use crate::messages::Record;
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;
use crate::telemetry::span::names;

/// Attempts that run at the same time.
const AT_ONCE: usize = 100;
/// Evictions at once for pods of one PodDisruptionBudget: while one is held up, the other continues.
const AT_ONCE_UNDER_A_BUDGET: usize = 2;
/// First and longest pause after a refusal.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// The longest pause where the API server will not have it, which has nothing to do with who else is there.
const LONGEST_DENIED: Duration = Duration::from_secs(60);
/// Time after which the eviction of a pod that should be going, and is not seen to go, is tried again.
const UNSEEN: Duration = Duration::from_secs(5);

/// See the module. By the pods' uids.
#[derive(Default)]
pub struct Evictions {
    known: BTreeMap<String, Entry>,
    running: usize,
    /// By the budget's name.
    budgets: BTreeMap<String, UnderBudget>,
}

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

struct Entry {
    backoff: Backoff,
    denials: Backoff,
    not_before: Duration,
    running: bool,
    /// Its last attempt was a deletion.
    forced: bool,
    refused: bool,
    /// The budget that its running attempt is under.
    budget: Option<String>,
}

impl Evictions {
    /// True if an attempt may begin now; it then counts as running. A deletion does not wait for an eviction's pause.
    pub fn begins(&mut self, pod: &Candidate<'_>, now: Duration, rng: impl FnOnce() -> fastrand::Rng) -> bool {
        let Candidate { uid, forced, .. } = *pod;
        if self.running >= AT_ONCE {
            return false;
        }
        let new = || {
            let rng = rng();
            let denials = Backoff::new(PAUSES.0, LONGEST_DENIED, rng.clone());
            let backoff = Backoff::new(PAUSES.0, PAUSES.1, rng);
            let (not_before, running, refused, budget) = (Duration::ZERO, false, false, None);
            Entry { backoff, denials, not_before, running, forced, refused, budget }
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
            return Ended { pause: PAUSES.0, first_refusal: false, denials: 0, next: Vec::new() };
        };
        entry.running = false;
        let next = entry.budget.take().map(|budget| next_under(&mut self.budgets, &budget)).unwrap_or_default();
        let pause = match outcome {
            // Accepted: the watch will show the pod going. Only where it does not is there anything to repeat.
            EvictionOutcome::Going | EvictionOutcome::Gone => UNSEEN,
            EvictionOutcome::Refused(_) | EvictionOutcome::Failed(_) => entry.backoff.pause(),
            EvictionOutcome::Denied(_) => entry.denials.pause(),
        };
        if !matches!(outcome, EvictionOutcome::Denied(_)) {
            entry.denials.reset();
        }
        entry.not_before = now + pause;
        let first_refusal =
            matches!(outcome, EvictionOutcome::Refused(_)) && !std::mem::replace(&mut entry.refused, true);
        Ended { pause, first_refusal, denials: entry.denials.failures(), next }
    }

    /// Forgets pods that are no longer there.
    pub fn retain(&mut self, there: impl Fn(&str) -> bool) {
        // A running one stays, or its end would free a slot that it does not have.
        self.known.retain(|uid, entry| entry.running || there(uid));
    }

    /// Number of attempts under way.
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

/// A pod that leaves its node now.
pub(super) struct EvictedPod {
    pub pod: Arc<PodEntry>,
    /// The PodDisruptionBudget that an eviction asks; none for a deletion.
    pub budget: Option<String>,
    /// Seconds that the pod has to end, where it is deleted because its node's time is up; none for an eviction.
    pub grace: Option<u32>,
}

/// An eviction or deletion that was sent.
struct EvictionAttempt<'a> {
    pod: &'a PodEntry,
    /// Time at which it was sent.
    begun: Timestamp,
    /// True for a deletion, which asks no budget.
    forced: bool,
}

impl Terminator {
    /// Evicts or deletes a pod, unless that is under way.
    pub(super) fn send_away(
        &mut self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        evicted: EvictedPod,
        ctx: &mut Context<Self>,
    ) {
        let EvictedPod { pod, budget, grace } = evicted;
        let (uid, now) = (pod.pod.uid.clone(), self.env.now());
        let env = self.env.clone();
        let (name, budget) = (node.name_any(), budget.as_deref());
        let candidate = Candidate { uid: &uid, node: &name, forced: grace.is_some(), budget };
        if !self.evictions.begins(&candidate, now, || env.rng(&uid)) {
            return;
        }
        let begun = self.env.wall();
        let (calls, target) = (self.links.calls.clone(), pod.clone());
        // A deletion that asks no budget has to rest on current facts.
        let (claim, going) = (self.own_claims(node).first().cloned(), step_env.clone());
        let attempt = async move {
            let Some(seconds) = grace else { return evict::evict(&calls, &target.pod).await };
            let stands = match &claim {
                Some(claim) => going.still_goes(claim).await,
                None => Ok(()),
            };
            match stands {
                Ok(()) => evict::delete(&calls, &target.pod, seconds).await,
                Err(error) => EvictionOutcome::Failed(error.to_string()),
            }
        };
        let (step_env, node) = (step_env.clone(), node.clone());
        ctx.spawn(attempt.into_actor(self).map(move |outcome, terminator, ctx| {
            let attempt = EvictionAttempt { pod: &pod, begun, forced: grace.is_some() };
            terminator.sent_away(&step_env, &node, &attempt, &outcome, ctx);
        }));
    }

    fn sent_away(
        &mut self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        attempt: &EvictionAttempt<'_>,
        outcome: &EvictionOutcome,
        ctx: &mut Context<Self>,
    ) {
        let EvictionAttempt { pod, forced, .. } = *attempt;
        let (name, full) = (node.name_any(), format!("{}/{}", pod.pod.namespace, pod.pod.name));
        let goes = matches!(outcome, EvictionOutcome::Going | EvictionOutcome::Gone);
        let Ended { pause, first_refusal, denials, next } = self.evictions.ended(&pod.pod.uid, outcome, self.env.now());
        next.into_iter().for_each(|node| self.touch(Key::Node(node), ctx));
        self.tell_sent_away(step_env, node, attempt, outcome, first_refusal);
        match outcome {
            EvictionOutcome::Going => {
                self.count(if forced { "deleted" } else { "evicted" });
                if let Some(progress) = self.progress(&name) {
                    if forced { &mut progress.deleted } else { &mut progress.evicted }.push(full);
                }
                let (reason, message) = match forced {
                    true => (
                        "Disrupted",
                        format!("Deleted the pod to accommodate the terminationGracePeriod of node {name}"),
                    ),
                    false => ("Evicted", format!("Evicted pod: node {name} is being terminated")),
                };
                step_env.record(Record::normal(object::pod(&pod.pod), reason, message));
            }
            EvictionOutcome::Refused(error) => {
                let message = format!("evicting pod {full}: {error}");
                step_env.record(Record::warning(object::node(node), "FailedDraining", message));
                // A budget may refuse a pod for hours: the log has the first, the event says that it goes on.
                if first_refusal {
                    let (pod, error) = (full, error.clone());
                    step_env.emit(LogEvent::EvictionRefused { pod, node: name.clone(), error });
                }
            }
            EvictionOutcome::Denied(error) if is_said(denials) => {
                let what = format!("{} pod {full} of node {name}", if forced { "deleting" } else { "evicting" });
                let (error, seconds) = (error.clone(), pause.as_secs_f64());
                step_env.emit(LogEvent::StillRefused { what, error, times: denials, seconds });
            }
            EvictionOutcome::Gone | EvictionOutcome::Failed(_) | EvictionOutcome::Denied(_) => {}
        }
        let (key, again) = (Key::Node(name), if goes { SETTLING_TIME } else { pause });
        ctx.run_later(again, move |terminator, ctx| terminator.touch(key, ctx));
    }

    /// Tells an attempt as a span: one that was accepted, or the first that was refused.
    fn tell_sent_away(
        &self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        attempt: &EvictionAttempt<'_>,
        outcome: &EvictionOutcome,
        first_refusal: bool,
    ) {
        let (pod, forced) = (&attempt.pod.pod, attempt.forced);
        let code = match outcome {
            EvictionOutcome::Going => 201,
            EvictionOutcome::Gone => 404,
            EvictionOutcome::Refused(_) => 429,
            EvictionOutcome::Denied(_) => 403,
            EvictionOutcome::Failed(_) => 500,
        };
        if !forced {
            self.env.measure(&Measure::EvictionAnswered { code });
        }
        let claim = self.own_claims(node).first().cloned();
        if matches!(outcome, EvictionOutcome::Going) {
            let decided = claim.as_ref().and_then(|claim| self.decision(&claim.name_any()));
            // Nobody of us has decided it: its deletion was asked for.
            let reason = decided.map_or("deletion_asked", |(reason, _)| reason.label());
            self.env.measure(&Measure::PodDrained { reason: if forced { "Forceful Termination" } else { reason } });
        }
        let (Some(cause), Some(claim)) = (step_env.trace, claim) else { return };
        let inside = traces::of_removal(cause, &claim.name_any());
        let span =
            |key: &str| self.env.span(inside, if forced { "delete pod" } else { "evict" }, key).since(attempt.begun);
        let span = match outcome {
            EvictionOutcome::Going => span(&pod.uid),
            EvictionOutcome::Refused(why) if first_refusal => {
                span(&format!("{} refused", pod.uid)).failed("429", why.as_str())
            }
            EvictionOutcome::Refused(_)
            | EvictionOutcome::Gone
            | EvictionOutcome::Failed(_)
            | EvictionOutcome::Denied(_) => return,
        };
        let span = span.remote().with(names::POD, &*pod.name).with(names::NAMESPACE, &*pod.namespace);
        span.with(names::NODE, node.name_any()).with(names::CLAIM, claim.name_any()).end();
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
    fn denied_eviction_waits_up_to_a_minute_and_is_counted() {
        let (mut evictions, mut now, mut last) = (Evictions::default(), seconds(100), Duration::ZERO);
        for times in 1..=14 {
            assert!(evictions.begins(&pod("a", false), now, rng));
            let ended = evictions.ended("a", &EvictionOutcome::Denied("422".into()), now);
            assert_eq!((ended.denials, ended.first_refusal), (times, false));
            (last, now) = (ended.pause, now + ended.pause);
        }
        assert!(last >= LONGEST_DENIED / 2 && last <= LONGEST_DENIED, "{last:?}");
        assert!(evictions.begins(&pod("a", false), now, rng));
        assert_eq!(evictions.ended("a", &EvictionOutcome::Refused(String::new()), now).denials, 0);
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
    fn two_evictions_run_per_budget_others_queue_deletion_does_not() {
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
