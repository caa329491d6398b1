//! The number of pods that are written a minute: changes of the order come in bursts, and the API server has other work.

use std::time::Duration;

/// Writes that may come at once.
const MOST_AT_ONCE: u32 = 300;
/// Time after which there is one more: 300 a minute.
const INTERVAL: Duration = Duration::from_millis(200);

/// Allowance of writes; at most [`WritePace::MOST_A_MINUTE`] in any minute. Times are monotonic.
#[derive(Clone, Debug, Default)]
pub struct WritePace {
    /// Time by which all that was used is there again.
    full_at: Duration,
}

impl WritePace {
    /// Most writes within any minute.
    pub const MOST_A_MINUTE: usize = 600;

    /// Takes one write off; false if there is none left.
    pub fn take_write(&mut self, now: Duration) -> bool {
        let full_at = self.full_at.max(now) + INTERVAL;
        let is_left = full_at <= now + INTERVAL * MOST_AT_ONCE;
        if is_left {
            self.full_at = full_at;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn burst_is_bounded_and_refilled_within_a_minute() {
        let (mut pace, hour) = (WritePace::default(), Duration::from_secs(3600));
        assert_eq!((0..1000).filter(|_| pace.take_write(hour)).count(), 300);
        assert_eq!((0..1000).filter(|_| pace.take_write(hour + Duration::from_secs(1))).count(), 5);
        assert_eq!((0..1000).filter(|_| pace.take_write(hour + Duration::from_secs(120))).count(), 300);
    }

    proptest! {
        #[test]
        fn no_minute_has_more_writes_than_it_may(pauses in proptest::collection::vec(0u64..400, 1..4000)) {
            let (mut pace, mut now, mut written) = (WritePace::default(), 0, Vec::new());
            for pause in pauses {
                now += pause;
                if pace.take_write(Duration::from_millis(now)) {
                    written.push(now);
                }
            }
            let most = written.iter().map(|from| written.iter().filter(|at| (*from..from + 60_000).contains(*at)).count());
            prop_assert!(most.max().unwrap_or_default() <= WritePace::MOST_A_MINUTE);
        }
    }
}
