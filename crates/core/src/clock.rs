//! Time as a seam: decisions are handed the time, so that a simulation can set it and replicas can disagree about it.

mod server_time;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use server_time::{ClockSkew, ServerTime};

/// The most that a replica's wall clock may differ from the clocks of EC2's and the API server's times. A time that is reckoned
/// from both and must not be forgotten early counts as this much more recent: a minute, and the clocks' drift meanwhile.
pub const CLOCKS_APART: Duration = Duration::from_secs(90);

/// The source of the time.
pub trait Clock: Send + Sync {
    /// Wall time of this moment.
    fn wall(&self) -> jiff::Timestamp;

    /// Time since an arbitrary origin that never goes back and counts while the machine sleeps (CLOCK_BOOTTIME).
    fn monotonic(&self) -> Duration;
}

/// The latest time that the API may have dated so: Kubernetes keeps whole seconds and cuts off the rest. A duration that has
/// to last in full counts from there.
#[must_use]
pub fn at_the_latest(written: Timestamp) -> Timestamp {
    let whole = written.subsec_nanosecond() == 0;
    if whole { written.checked_add(SignedDuration::from_secs(1)).unwrap_or(written) } else { written }
}

/// A duration as a signed one, which can be subtracted; saturates at the longest.
#[must_use]
pub fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The time `by` later; saturates at the last one.
#[must_use]
pub fn later(then: Timestamp, by: SignedDuration) -> Timestamp {
    then.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_is_dated_in_whole_seconds_may_have_been_until_the_next() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(at_the_latest(at("2026-01-01T00:00:07Z")), at("2026-01-01T00:00:08Z"));
        assert_eq!(at_the_latest(at("2026-01-01T00:00:07.25Z")), at("2026-01-01T00:00:07.25Z"), "that is exact");
        assert_eq!(at_the_latest(Timestamp::MAX), Timestamp::MAX);
    }
}
