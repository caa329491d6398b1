//! How long a term lasts and how often it is renewed.

use std::time::Duration;

/// A standby's pauses are up to this much longer, so that many do not look in step (client-go's jitter).
pub const JITTER: f64 = 0.2;

/// The durations of an election; the defaults are client-go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseSettings {
    /// How long others respect a lease that is not renewed; written on the Lease.
    pub duration: Duration,
    /// How long a leader acts after the request that last renewed it was sent. Shorter than `duration`.
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

    /// Longest time between two looks that both were answered, and none between them was to be. After a longer one the API
    /// server may have been away and come back with a backup (decision 025).
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

/// Clocks that are kept right differ by less.
pub const AHEAD: Duration = Duration::from_secs(1);
