//! Calls that wait for the cloud's tokens: it lets an account launch so many instances at once, and then so many a second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dovetail_cloud::LaunchPace;

use crate::context::brakes::repeats::Repeats;
use crate::telemetry::log_event::LogEvent;

/// Least wait that is said.
const WORTH_SAYING: Duration = Duration::from_secs(10);

/// A line on the pace at which `count` instances are launched for a pool, if they wait for long and it was not said lately.
pub fn launches_paced(
    reported: &Mutex<Repeats>,
    node_pool: String,
    count: usize,
    pace: LaunchPace,
    now: Duration,
) -> Option<LogEvent> {
    let LaunchPace { wait, at_once, per_second } = pace;
    let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = wait >= WORTH_SAYING && reported.are_reported([format!("launches of {node_pool} are paced")], now);
    is_due.then_some(LogEvent::LaunchesPaced { node_pool, count, at_once, per_second, seconds: wait.as_secs() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_are_said_once_in_five_minutes_for_each_pool() {
        let reported = Mutex::default();
        let said = |pool: &str, wait, at| {
            let pace = LaunchPace { wait: Duration::from_secs(wait), at_once: 1000.0, per_second: 2.0 };
            launches_paced(&reported, pool.to_owned(), 5000, pace, Duration::from_secs(at)).is_some()
        };
        let all = [("a", 9, 0), ("a", 10, 0), ("a", 100, 299), ("b", 100, 299), ("a", 100, 301), ("a", 9, 2000)];
        let all = all.map(|(pool, wait, at)| said(pool, wait, at));
        assert_eq!(all, [false, true, false, true, true, false]);
    }
}
