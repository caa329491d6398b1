//! Time as a seam: decisions are handed the time, so that a simulation can set it and replicas can disagree about it.

use std::time::Duration;

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// Wall time.
    fn wall(&self) -> jiff::Timestamp;

    /// Time since an arbitrary origin that never goes back and counts while the machine sleeps (CLOCK_BOOTTIME).
    fn monotonic(&self) -> Duration;
}
