//! How long a leader may act: its term and the deadline that its last renewal bought (design, "Safety" 1). The leader
//! actor moves the deadline; everything that writes looks at it first, so that a replica that was paused past its
//! deadline writes nothing, whichever of its actors wakes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dovetail_core::clock::Clock;

use crate::messages::Term;

/// A term and its deadline. Clones share the deadline.
#[derive(Clone)]
pub struct Tenure {
    term: Term,
    until: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
}

impl Tenure {
    /// A term that lasts until a moment of the monotonic clock.
    pub fn new(term: Term, until: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { term, until: Arc::new(AtomicU64::new(nanos(until))), clock }
    }

    /// The term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Whether the leader may still act.
    pub fn holds(&self) -> bool {
        nanos(self.clock.monotonic()) < self.until.load(Ordering::Relaxed)
    }

    /// A renewal has moved the deadline.
    pub fn extend(&self, until: Duration) {
        self.until.store(nanos(until), Ordering::Relaxed);
    }

    /// The term is over.
    pub fn end(&self) {
        self.until.store(0, Ordering::Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
