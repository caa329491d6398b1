//! Time as a seam: decisions are handed the time, so that a simulation can set it and replicas can disagree about it.

use std::time::Duration;

/// How far a replica's wall clock may be from the clocks that EC2's and the API server's times come from. What is reckoned
/// from both and must not be forgotten early counts as so much more recent: a minute, and what clocks gain meanwhile.
pub const CLOCKS_APART: Duration = Duration::from_secs(90);

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// Wall time.
    fn wall(&self) -> jiff::Timestamp;

    /// Time since an arbitrary origin that never goes back and counts while the machine sleeps (CLOCK_BOOTTIME).
    fn monotonic(&self) -> Duration;
}
