//! The scheduling queue: pods to try now, pods that wait out their back-off, and pods that nothing has changed for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_core::pause::DoublingPause;
use tokio::time::Instant;

use super::state::ClassId;
use crate::cluster::cache::Key;

/// kube-scheduler's `podInitialBackoffSeconds` and `podMaxBackoffSeconds`.
const BACKOFF: DoublingPause = DoublingPause { first: Duration::from_secs(1), longest: Duration::from_secs(10) };
/// Time after which an unschedulable pod is tried again whatever happens (`podMaxInUnschedulablePodsDuration`).
pub(crate) const FLUSH_AFTER: Duration = Duration::from_secs(300);

/// A pod without a node.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub uid: String,
    pub class: ClassId,
    pub priority: i32,
    arrival: u64,
    attempts: u32,
    tried: Option<Instant>,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Active,
    Backoff(Instant),
    Unschedulable,
    /// Taken out to be scheduled.
    InHand,
}

/// Pending pods: those to be scheduled now, those that back off, and those that wait for a change.
#[derive(Debug, Default)]
pub(crate) struct SchedulingQueue {
    pods: BTreeMap<Key, Pending>,
    active: BTreeSet<(Reverse<i32>, u64, Key)>,
    backoff: BTreeSet<(Instant, u64, Key)>,
    unschedulable: BTreeMap<ClassId, BTreeSet<(u64, Key)>>,
    arrivals: u64,
}

impl SchedulingQueue {
    /// Takes a pod in, or follows a change of its class or priority.
    pub(crate) fn put(&mut self, key: &Key, uid: &str, class: ClassId, priority: i32) {
        if let Some(known) = self.pods.get(key) {
            if known.uid == uid && known.class == class && known.priority == priority {
                return;
            }
            self.remove(key);
        }
        self.arrivals += 1;
        let arrival = self.arrivals;
        let pod =
            Pending { uid: uid.to_owned(), class, priority, arrival, attempts: 0, tried: None, place: Place::Active };
        self.pods.insert(key.clone(), pod);
        self.active.insert((Reverse(priority), arrival, key.clone()));
    }

    /// Forgets a pod.
    pub(crate) fn remove(&mut self, key: &Key) {
        if self.pods.contains_key(key) {
            self.lift(key);
            self.pods.remove(key);
        }
    }

    /// A pod in the queue, wherever in it.
    pub(crate) fn get(&self, key: &Key) -> Option<&Pending> {
        self.pods.get(key)
    }

    /// The pod whose turn it is: the highest priority, then the longest wait.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Key> {
        while let Some((at, _, key)) = self.backoff.first().cloned()
            && at <= now
        {
            self.activate(&key);
        }
        let (_, _, key) = self.active.pop_first()?;
        if let Some(pod) = self.pods.get_mut(&key) {
            pod.place = Place::InHand;
        }
        Some(key)
    }

    /// Time at which the next pod can be tried, if one can.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        if self.active.is_empty() { self.backoff.first().map(|(at, _, _)| *at) } else { Some(now) }
    }

    /// Puts a pod that fits nowhere aside until something changes for it.
    pub(crate) fn park(&mut self, key: &Key, now: Instant) {
        self.lift(key);
        let Some(pod) = self.pods.get_mut(key) else { return };
        pod.attempts += 1;
        pod.tried = Some(now);
        pod.place = Place::Unschedulable;
        self.unschedulable.entry(pod.class).or_default().insert((pod.arrival, key.clone()));
    }

    /// Lets a pod be tried again once its back-off is over.
    pub(crate) fn retry(&mut self, key: &Key, now: Instant) {
        let Some(pod) = self.pods.get(key) else { return };
        let ready = pod.tried.map_or(now, |tried| tried + backoff(pod.attempts));
        if ready <= now {
            self.activate(key);
        } else {
            self.lift(key);
            if let Some(pod) = self.pods.get_mut(key) {
                pod.place = Place::Backoff(ready);
                self.backoff.insert((ready, pod.arrival, key.clone()));
            }
        }
    }

    /// Lets the unschedulable pods of the classes that `may` now fit be tried again.
    pub(crate) fn wake(&mut self, now: Instant, mut may: impl FnMut(ClassId) -> bool) {
        let classes: Vec<ClassId> = self.unschedulable.keys().copied().filter(|class| may(*class)).collect();
        for class in classes {
            let pods = self.unschedulable.remove(&class).unwrap_or_default();
            pods.iter().for_each(|(_, key)| self.retry(key, now));
        }
    }

    /// True if some pod waits for a change.
    pub(crate) fn has_unschedulable(&self) -> bool {
        !self.unschedulable.is_empty()
    }

    /// Lets pods be tried again that have waited for five minutes. Answers when the next will have.
    pub(crate) fn flush(&mut self, now: Instant) -> Option<Instant> {
        let waiting = self.unschedulable.values().flatten().map(|(_, key)| key.clone());
        let since = |key: Key| self.pods.get(&key).and_then(|p| p.tried).map(|tried| (tried, key));
        let (over, rest): (Vec<_>, Vec<_>) =
            waiting.filter_map(since).partition(|(tried, _)| *tried + FLUSH_AFTER <= now);
        over.iter().for_each(|(_, key)| self.activate(key));
        rest.iter().map(|(tried, _)| *tried + FLUSH_AFTER).min()
    }

    fn activate(&mut self, key: &Key) {
        self.lift(key);
        if let Some(pod) = self.pods.get_mut(key) {
            pod.place = Place::Active;
            self.active.insert((Reverse(pod.priority), pod.arrival, key.clone()));
        }
    }

    /// Takes a pod out of the part of the queue that it is in.
    fn lift(&mut self, key: &Key) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        match pod.place {
            Place::Active => {
                self.active.remove(&(Reverse(pod.priority), pod.arrival, key.clone()));
            }
            Place::Backoff(at) => {
                self.backoff.remove(&(at, pod.arrival, key.clone()));
            }
            Place::Unschedulable => {
                if let Some(set) = self.unschedulable.get_mut(&pod.class) {
                    set.remove(&(pod.arrival, key.clone()));
                    if set.is_empty() {
                        self.unschedulable.remove(&pod.class);
                    }
                }
            }
            Place::InHand => {}
        }
        pod.place = Place::InHand;
    }
}

/// 1 s after the first attempt, doubled with each, 10 s at most.
fn backoff(attempts: u32) -> Duration {
    BACKOFF.length_of_nth(attempts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    fn after(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn higher_priority_goes_first_then_the_longer_wait() {
        let mut queue = SchedulingQueue::default();
        for (name, priority) in [("a", 0), ("b", 10), ("c", 0)] {
            queue.put(&key(name), name, 0, priority);
        }
        let order: Vec<String> = std::iter::from_fn(|| queue.pop(after(0))).map(|k| k.name).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn woken_pod_waits_out_a_back_off_doubling_to_ten_seconds() {
        let mut queue = SchedulingQueue::default();
        queue.put(&key("a"), "a", 0, 0);
        let mut waits = Vec::new();
        let mut now = after(0);
        for _ in 0..6 {
            assert_eq!(queue.pop(now), Some(key("a")));
            queue.park(&key("a"), now);
            queue.wake(now, |_| true);
            let next = queue.next(now).unwrap();
            waits.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn unschedulable_pod_is_retried_only_after_five_minutes() {
        let mut queue = SchedulingQueue::default();
        queue.put(&key("a"), "a", 0, 0);
        queue.pop(after(0)).unwrap();
        queue.park(&key("a"), after(0));
        assert_eq!(queue.flush(after(299)), Some(after(300)));
        assert_eq!(queue.pop(after(299)), None);
        assert_eq!(queue.flush(after(300)), None);
        assert_eq!(queue.pop(after(300)), Some(key("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_classes_that_may_fit_are_woken() {
        let mut queue = SchedulingQueue::default();
        for (name, class) in [("a", 1), ("b", 2)] {
            queue.put(&key(name), name, class, 0);
            queue.pop(after(0)).unwrap();
            queue.park(&key(name), after(0));
        }
        queue.wake(after(5), |class| class == 2);
        assert_eq!((queue.pop(after(5)), queue.pop(after(5))), (Some(key("b")), None));
        assert!(queue.has_unschedulable());
    }
}
