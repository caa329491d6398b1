//! The time that a leader may act: its term and the deadline that its last renewal bought. The leader
//! actor moves the deadline; everything that writes looks at it first, so that a replica that was paused past its
//! deadline writes nothing, whichever of its actors wakes first.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use dovetail_core::clock::Clock;
use tokio::sync::Notify;

use crate::messages::Term;

/// The deadline of a term that was ended.
const ENDED: u64 = 0;

/// Shortest pause between two looks at the deadline.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);

/// A term and its deadline. Clones share the deadline.
#[derive(Clone)]
pub struct LeaderTerm {
    term: Term,
    until: Arc<AtomicU64>,
    ended: Arc<Notify>,
    clock: Arc<dyn Clock>,
}

impl LeaderTerm {
    /// A term that lasts until a moment of the monotonic clock.
    pub fn new(term: Term, until: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { term, until: Arc::new(AtomicU64::new(nanos(until))), ended: Arc::default(), clock }
    }

    /// Number of the leader's term, as the Lease counts it.
    pub fn term(&self) -> Term {
        self.term
    }

    /// True while the leader may still act.
    pub fn holds(&self) -> bool {
        nanos(self.clock.monotonic()) < self.until.load(Ordering::Relaxed)
    }

    /// True if it was ended before its deadline. That is for good.
    pub fn has_ended(&self) -> bool {
        self.until.load(Ordering::Relaxed) == ENDED
    }

    /// A renewal has moved the deadline. A term that was ended stays so.
    pub fn extend(&self, until: Duration) {
        let until = nanos(until).max(ENDED + 1);
        let _ = self.until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now != ENDED).then_some(until));
    }

    /// Goes on with an effect only while the term lasts, whatever it waits for on its way (its turn, a connection, a
    /// repetition): nothing of it is sent after the deadline. `None` when the term is over.
    pub async fn while_holds<T>(&self, effect: impl Future<Output = T>) -> Option<T> {
        let mut effect = pin!(effect);
        poll_fn(|cx| if self.holds() { effect.as_mut().poll(cx).map(Some) } else { Poll::Ready(None) }).await
    }

    pub fn end(&self) {
        self.until.store(ENDED, Ordering::Relaxed);
        self.ended.notify_waiters();
    }

    /// Waits until the term is over.
    pub async fn over(&self) {
        loop {
            let ended = self.ended.notified();
            let (now, until) = (nanos(self.clock.monotonic()), self.until.load(Ordering::Relaxed));
            if now >= until {
                return;
            }
            // By then a renewal may have moved the deadline.
            let _ = tokio::time::timeout(Duration::from_nanos(until - now).max(SHORTEST_WAIT), ended).await;
        }
    }
}

/// The term in which this replica leads, for who acts in it and is there also without one. Clones share it.
#[derive(Clone, Default)]
pub struct Office(Rc<RefCell<Option<LeaderTerm>>>);

impl Office {
    /// A term has begun, or none is left.
    pub fn set(&self, leader_term: Option<LeaderTerm>) {
        *self.0.borrow_mut() = leader_term;
    }

    /// The term, while it holds.
    pub fn held(&self) -> Option<LeaderTerm> {
        self.0.borrow().clone().filter(LeaderTerm::holds)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_core::clock::Clock;

    use super::*;

    /// A clock that is set by hand, in seconds.
    #[derive(Default)]
    struct Set(AtomicU64);

    impl Clock for Set {
        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }

        fn wall(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
    }

    #[test]
    fn ended_term_is_not_revived_by_a_late_renewal() {
        let leader_term = LeaderTerm::new(Term(3), Duration::from_secs(10), Arc::new(Set::default()));
        leader_term.extend(Duration::from_secs(12));
        assert!(leader_term.holds() && !leader_term.has_ended());
        leader_term.end();
        leader_term.extend(Duration::from_secs(20));
        assert!(!leader_term.holds() && leader_term.has_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_end_of_a_term_is_told_at_once() {
        let leader_term = LeaderTerm::new(Term(3), Duration::from_secs(10), Arc::new(Set::default()));
        let begun = tokio::time::Instant::now();
        let ends = async {
            tokio::time::sleep(Duration::from_secs(7)).await;
            leader_term.end();
        };
        tokio::join!(leader_term.over(), ends);
        assert_eq!(begun.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test]
    async fn an_effect_that_waits_past_the_deadline_is_not_gone_on_with() {
        let clock = Arc::new(Set::default());
        let leader_term = LeaderTerm::new(Term(3), Duration::from_secs(10), clock.clone());
        assert_eq!(leader_term.while_holds(async { 1 }).await, Some(1));
        let (mut sent, waited) = (false, tokio::sync::Notify::new());
        let effect = async {
            waited.notified().await;
            sent = true;
        };
        let late = async {
            clock.0.store(10, Ordering::Relaxed);
            waited.notify_one();
        };
        let (outcome, ()) = tokio::join!(leader_term.while_holds(effect), late);
        assert_eq!((outcome, sent), (None, false));
    }
}
