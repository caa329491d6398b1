//! The machine's clocks: the one place where production reads them.

use std::time::Duration;

use dovetail_core::clock::Clock;
use rustix::time::{ClockId, clock_gettime};

/// Wall time, and CLOCK_BOOTTIME: a leader whose machine slept wakes up deposed.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place
    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        let time = clock_gettime(ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_counts_from_boot_and_never_goes_back() {
        let times: Vec<_> = (0..100).map(|_| SystemClock.monotonic()).collect();
        assert!(times.is_sorted() && times[0] > Duration::ZERO);
    }
}
