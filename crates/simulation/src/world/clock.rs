//! The clock of one replica: the world's, set wrong, running too fast or too slow, and set anew on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dovetail_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};

/// Error of a clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// Wall time is off by so much.
    pub offset: SignedDuration,
    /// Microseconds gained each second, lost where negative.
    pub drift_ppm: i64,
    /// Times since the world's beginning at which wall time is set anew, and by how much.
    pub jumps: Vec<(Duration, SignedDuration)>,
}

/// A replica's own clock.
pub struct OwnClock {
    inner: Arc<dyn Clock>,
    /// The world's beginning, and the replica's.
    begun: Duration,
    since: Duration,
    skew: Skew,
    /// Nanoseconds that the clock has stood still.
    stood: Arc<AtomicU64>,
}

impl OwnClock {
    /// Over the world's clock, which began then; `stood` says how long it has not counted.
    pub fn new(inner: Arc<dyn Clock>, begun: Duration, skew: Skew, stood: Arc<AtomicU64>) -> Self {
        Self { since: inner.monotonic(), begun, inner, skew, stood }
    }

    /// Time that the drift has gained by now.
    fn gained(&self) -> SignedDuration {
        let elapsed = self.inner.monotonic().saturating_sub(self.since);
        let nanos = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX).saturating_mul(self.skew.drift_ppm) / 1000;
        SignedDuration::from_nanos(nanos)
    }

    /// Sum of the changes by which wall time was set anew so far.
    fn jumped(&self) -> SignedDuration {
        let elapsed = self.inner.monotonic().saturating_sub(self.begun);
        let jumps = self.skew.jumps.iter().filter(|(at, _)| *at <= elapsed);
        jumps.fold(SignedDuration::ZERO, |sum, (_, by)| sum.saturating_add(*by))
    }
}

impl Clock for OwnClock {
    fn wall(&self) -> Timestamp {
        let off = self.skew.offset.saturating_add(self.gained()).saturating_add(self.jumped());
        let shown = self.inner.wall().saturating_add(off);
        shown.unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        let shown = SignedDuration::try_from(self.inner.monotonic()).unwrap_or(SignedDuration::MAX);
        let shown = Duration::try_from(shown.saturating_add(self.gained())).unwrap_or(Duration::ZERO);
        shown.saturating_sub(Duration::from_nanos(self.stood.load(Ordering::Relaxed)))
    }
}
