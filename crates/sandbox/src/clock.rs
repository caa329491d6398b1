//! The clocks of the sandbox: virtual and real.
//!
//! Both run on tokio's clock, so that a paused runtime (`start_paused`) pauses them too. A replica gets its own
//! clock by [`VirtualClock::skewed`]: its wall clock is set wrong by an offset, and both its clocks run too fast
//! or too slow by a drift.

use std::time::Duration;

use dovetail_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Start of virtual time by default: 2026-01-01T00:00:00Z.
pub const DEFAULT_START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Reading of the monotonic clock at the start: a machine has been up for a while, and code that mistakes "since the start" for
/// "since boot" is found out.
pub const BOOTED_BEFORE: Duration = Duration::from_secs(1_000);

/// A clock over tokio's, started at a given wall time.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    start: Timestamp,
    origin: Instant,
    offset: SignedDuration,
    drift_ppm: i64,
}

impl VirtualClock {
    /// A clock that shows `start` now. To be made within a tokio runtime.
    pub fn new(start: Timestamp) -> Self {
        Self { start, origin: Instant::now(), offset: SignedDuration::ZERO, drift_ppm: 0 }
    }

    /// The same time line seen by a machine whose wall clock is off by `offset` and whose crystal gains `drift_ppm`
    /// microseconds each second (negative: loses).
    pub fn skewed(&self, offset: SignedDuration, drift_ppm: i64) -> Self {
        Self { offset, drift_ppm, ..self.clone() }
    }

    fn elapsed(&self) -> Duration {
        let true_nanos = i128::try_from(self.origin.elapsed().as_nanos()).unwrap_or(i128::MAX);
        let shown = true_nanos + true_nanos * i128::from(self.drift_ppm) / 1_000_000;
        Duration::from_nanos(u64::try_from(shown.max(0)).unwrap_or(u64::MAX))
    }
}

impl Clock for VirtualClock {
    fn wall(&self) -> Timestamp {
        let shown = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX).saturating_add(self.offset);
        self.start.saturating_add(shown).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        BOOTED_BEFORE + self.elapsed()
    }
}

/// The machine's own clock, for the live sandbox.
#[derive(Clone, Debug)]
pub struct RealClock {
    origin: Instant,
}

impl RealClock {
    /// A clock whose monotonic origin is a little before now.
    #[allow(clippy::new_without_default, reason = "reading the clock is an effect; `default` hides it")]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for RealClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where the live sandbox reads the machine's wall clock")]
    fn wall(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        BOOTED_BEFORE + self.origin.elapsed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_moves_only_with_tokio() {
        let clock = VirtualClock::new(DEFAULT_START);
        assert_eq!(clock.wall().to_string(), "2026-01-01T00:00:00Z");
        let before = clock.monotonic();
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.wall().to_string(), "2026-01-01T00:01:30Z");
        assert_eq!(clock.monotonic() - before, Duration::from_secs(90));
    }

    #[tokio::test(start_paused = true)]
    async fn a_skewed_replica_sees_another_wall_clock_and_another_pace() {
        let clock = VirtualClock::new(DEFAULT_START);
        let replica = clock.skewed(SignedDuration::from_secs(-5), 100_000);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(replica.wall(), DEFAULT_START + SignedDuration::from_secs(105));
        assert_eq!(replica.monotonic() - clock.monotonic(), Duration::from_secs(10));
    }
}
