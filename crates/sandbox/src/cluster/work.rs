//! Work to be done next, and later: one queue for everything, so that the order of a run is a function of the seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::cache::Key;
use super::kind::Kind;

/// Nothing is put off for longer: a user may write any number of seconds on a pod, and means for ever.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A piece of work. Asked for twice before it is done, it is done once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// Reconcile an object.
    Sync(Kind, Key),
    /// Let the scheduler look at its next pod.
    Schedule,
    /// Move pods that have waited for five minutes.
    FlushUnschedulable,
    /// An instance's kubelet registers its Node.
    Join(String),
    /// An instance's machine has restarted.
    Booted(String),
    /// A Node's kubelet says that it is ready.
    NodeReady(String),
    /// A Node's drivers publish its devices.
    PublishDevices(String),
    /// An agent takes the taint off a Node with which it has joined.
    TakeTaintOff(String),
    /// A pod's containers run.
    StartPod(Key, String),
    /// A pod's kubelet takes the next step of its resize.
    ResizePod(Key, String),
    /// A pod's containers end by themselves.
    FinishPod(Key, String),
    /// A pod that is being deleted has ended.
    EndPod(Key, String),
    /// A Node's kubelet has been silent for too long.
    Silent(String),
    /// See whether a silent Node's instance still exists.
    CheckInstance(String),
    /// Collect the pods of a Node that is gone.
    CollectPods(String),
    /// A volume has been made for a claim.
    Provision(Key),
    /// A volume is attached to its node.
    Attach(String),
    /// A volume is detached from its node.
    Detach(String),
    /// A pod's toleration of a taint has run out.
    Evict(Key, String),
    /// See which zones are down.
    Heartbeat,
}

/// Work that is due now, in its order, and work that is due later.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    now: VecDeque<Work>,
    waiting_now: BTreeSet<Work>,
    later: BTreeSet<(Instant, u64, Work)>,
    due: BTreeMap<Work, (Instant, u64)>,
    sequence: u64,
}

impl WorkQueue {
    /// To be done as soon as what is queued before it is done.
    pub(crate) fn push(&mut self, work: Work) {
        self.forget(&work);
        if self.waiting_now.insert(work.clone()) {
            self.now.push_back(work);
        }
    }

    /// To be done after a while; if it is already to be done before that, then at that time.
    pub(crate) fn push_after(&mut self, delay: Duration, work: Work) {
        self.push_at(Instant::now() + delay.min(LONGEST), work);
    }

    /// To be done at a time; if it is already to be done before that, then at that time.
    pub(crate) fn push_at(&mut self, at: Instant, work: Work) {
        if self.waiting_now.contains(&work) || self.due.get(&work).is_some_and(|(due, _)| *due <= at) {
            return;
        }
        self.forget(&work);
        self.sequence += 1;
        self.due.insert(work.clone(), (at, self.sequence));
        self.later.insert((at, self.sequence, work));
    }

    /// No longer to be done later.
    pub(crate) fn forget(&mut self, work: &Work) {
        if let Some((at, sequence)) = self.due.remove(work) {
            self.later.remove(&(at, sequence, work.clone()));
        }
    }

    /// The next work that is due now.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Work> {
        while let Some((at, _, _)) = self.later.first()
            && *at <= now
            && let Some((_, _, work)) = self.later.pop_first()
        {
            self.due.remove(&work);
            if self.waiting_now.insert(work.clone()) {
                self.now.push_back(work);
            }
        }
        let work = self.now.pop_front()?;
        self.waiting_now.remove(&work);
        Some(work)
    }

    /// Time at which the next later work is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.later.first().map(|(at, _, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_asked_for_twice_is_done_once_at_the_earlier_time() {
        let mut queue = WorkQueue::default();
        queue.push_after(Duration::from_secs(5), Work::Schedule);
        queue.push_after(Duration::from_secs(2), Work::Schedule);
        queue.push_after(Duration::from_secs(9), Work::Schedule);
        assert_eq!(queue.next(), Some(Instant::now() + Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(queue.pop(Instant::now()), Some(Work::Schedule));
        assert_eq!((queue.pop(Instant::now()), queue.next()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_put_off_for_ever_is_late_and_nothing_breaks() {
        let mut queue = WorkQueue::default();
        queue.push_after(Duration::MAX, Work::Schedule);
        queue.push_after(Duration::from_secs(u64::MAX), Work::Heartbeat);
        assert!(queue.next().is_some() && queue.pop(Instant::now()).is_none());
    }
}
