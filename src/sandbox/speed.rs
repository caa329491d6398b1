//! `--speed`: the sandbox's time runs so many times as fast as the machine's.
//!
//! Tokio's clock is paused and a ticker moves it on by what has passed, multiplied. As long as the ticker's thread lives,
//! the clock does not move by itself. The thread that serves the API has tokio's other clock, so what time it is here is
//! kept beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use dovetail_core::clock::Clock;
use dovetail_sandbox::clock::BOOTED_BEFORE;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc::{Receiver, channel, error::TrySendError};

/// Interval at which the clock is moved on.
const CLOCK_STEP: Duration = Duration::from_millis(4);
/// The farthest that it is moved in one go, so that what is due earlier comes before what is due later.
const STEP: Duration = Duration::from_millis(20);

/// The sandbox's time, for all threads: a little ahead of tokio's while that is moved on, never behind it.
struct Paced {
    start: Timestamp,
    /// Nanoseconds since the start.
    passed: AtomicU64,
}

impl Clock for Paced {
    fn wall(&self) -> Timestamp {
        let passed = SignedDuration::from_nanos(i64::try_from(self.passed.load(Relaxed)).unwrap_or(i64::MAX));
        self.start.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        BOOTED_BEFORE + Duration::from_nanos(self.passed.load(Relaxed))
    }
}

/// True if a speed differs from the machine's.
pub fn differs(speed: f64) -> bool {
    (speed - 1.0).abs() > f64::EPSILON
}

/// Starts the ticker and answers with the clock, which shows the machine's time now. In a runtime whose clock is paused.
#[allow(clippy::disallowed_methods, reason = "the one place where the live sandbox's time is made from the machine's")]
pub fn start(speed: f64) -> Arc<dyn Clock> {
    let (tick, ticks) = channel(1);
    tokio::task::spawn_blocking(move || {
        loop {
            std::thread::sleep(CLOCK_STEP);
            if let Err(TrySendError::Closed(())) = tick.try_send(()) {
                return;
            }
        }
    });
    let clock = Arc::new(Paced { start: Timestamp::now(), passed: AtomicU64::new(0) });
    tokio::task::spawn_local(move_on(clock.clone(), ticks, speed));
    clock
}

#[allow(clippy::disallowed_methods, reason = "the one place where the live sandbox's time is made from the machine's")]
async fn move_on(clock: Arc<Paced>, mut ticks: Receiver<()>, speed: f64) {
    let mut last = std::time::Instant::now();
    while ticks.recv().await.is_some() {
        let now = std::time::Instant::now();
        let mut due = (now - last).mul_f64(speed);
        last = now;
        while !due.is_zero() {
            let step = due.min(STEP);
            clock.passed.fetch_add(u64::try_from(step.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            tokio::time::advance(step).await;
            due -= step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_by_the_factor_and_never_by_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let passed = tokio::task::LocalSet::new().block_on(&runtime, async {
            let clock = start(50.0);
            let before = clock.monotonic();
            #[allow(clippy::disallowed_methods)]
            let real = std::time::Instant::now();
            tokio::time::sleep(Duration::from_secs(10)).await;
            (clock.monotonic() - before, real.elapsed())
        });
        runtime.shutdown_background();
        assert!(passed.0 >= Duration::from_secs(10), "{passed:?}");
        // Ten seconds take a fiftieth of themselves, or more on a busy machine, but never nothing.
        assert!(passed.1 >= Duration::from_millis(190), "{passed:?}");
    }
}
