//! Durations of a leader's term and of its renewal.

use std::time::Duration;

/// Share by which a standby's pauses may be longer, so that many do not look in step (client-go's jitter).
pub const JITTER: f64 = 0.2;

/// The durations of an election; the defaults are client-go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseSettings {
    /// Time for which others respect a lease that is not renewed; written on the Lease.
    pub duration: Duration,
    /// Time for which a leader acts after the request that last renewed it was sent. Shorter than `duration`.
    pub renew_deadline: Duration,
    /// Pause between two looks.
    pub retry: Duration,
}

impl LeaseSettings {
    /// Longest wait for one answer: two of them and a pause fit into the deadline.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.renew_deadline.saturating_sub(self.retry) / 2
    }

    /// Longest time between two looks that were both answered with no look in between. After a longer one the API server may
    /// have been away and come back with a backup (decision 025).
    #[must_use]
    pub fn unwatched(&self) -> Duration {
        self.retry.mul_f64(1.0 + JITTER) + self.patience()
    }
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// The most by which clocks that are kept right differ.
pub const AHEAD: Duration = Duration::from_secs(1);
