//! Time as a seam: decisions are handed the time, so that a simulation can set it and replicas can disagree about it.

mod server_time;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use server_time::{ClockSkew, ServerTime};

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

/// The last moment at which that may have been which the API dates so: Kubernetes keeps whole seconds and cuts off the rest.
/// What has to last for its full time counts from there.
#[must_use]
pub fn at_the_latest(written: Timestamp) -> Timestamp {
    let whole = written.subsec_nanosecond() == 0;
    if whole { written.checked_add(SignedDuration::from_secs(1)).unwrap_or(written) } else { written }
}

/// A duration that may be taken off another; the longest that there is, where it would be longer.
#[must_use]
pub fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// So much later; the last time that there is, where it would be beyond.
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
