//! The clock of one replica: the world's, set wrong, and running too fast or too slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dovetail_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};

/// How wrong a clock is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// Wall time is off by so much.
    pub offset: SignedDuration,
    /// Microseconds gained each second, lost where negative.
    pub drift_ppm: i64,
}

/// A replica's own clock.
pub struct OwnClock {
    inner: Arc<dyn Clock>,
    since: Duration,
    skew: Skew,
    /// Nanoseconds that the clock has stood still.
    stood: Arc<AtomicU64>,
}

impl OwnClock {
    /// Over the world's clock; `stood` says how long it has not counted.
    pub fn new(inner: Arc<dyn Clock>, skew: Skew, stood: Arc<AtomicU64>) -> Self {
        Self { since: inner.monotonic(), inner, skew, stood }
    }

    /// What has been gained by now.
    fn gained(&self) -> SignedDuration {
        let elapsed = self.inner.monotonic().saturating_sub(self.since);
        let nanos = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX).saturating_mul(self.skew.drift_ppm) / 1000;
        SignedDuration::from_nanos(nanos)
    }
}

impl Clock for OwnClock {
    fn wall(&self) -> Timestamp {
        let shown = self.inner.wall().saturating_add(self.skew.offset.saturating_add(self.gained()));
        shown.unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        let shown = SignedDuration::try_from(self.inner.monotonic()).unwrap_or(SignedDuration::MAX);
        let shown = Duration::try_from(shown.saturating_add(self.gained())).unwrap_or(Duration::ZERO);
        shown.saturating_sub(Duration::from_nanos(self.stood.load(Ordering::Relaxed)))
    }
}
