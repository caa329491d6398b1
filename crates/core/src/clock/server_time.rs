//! The API server's time, as one replica knows it by the dates of the answers that it gets (docs/decisions/054). What the API
//! server stamps (`creationTimestamp`, `deletionTimestamp`) and what replicas write beside it (conditions, the Lease) are
//! times of one clock then, whatever a replica's own wall clock says; between two answers the monotonic clock counts.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{later, signed};

/// A `Date` header names a second: it was then, or up to a second later.
const WHOLE_SECOND: Duration = Duration::from_secs(1);
/// From here on it is said that a replica's clock is wrong.
const SAID_FROM: Duration = Duration::from_secs(30);
/// A clock that is wrong by this much is said to be so again.
const SAID_AGAIN_FROM: Duration = Duration::from_secs(5 * 60);
/// AWS refuses requests that are dated further away than this (`RequestExpired`), so that nothing is launched or ended beyond it.
const BORNE: Duration = Duration::from_secs(15 * 60);

/// The API server's time: the moment that was last agreed with it, on the monotonic clock and by its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerTime {
    agreed: Option<(Duration, Timestamp)>,
}

impl ServerTime {
    /// The time now. Until an answer has come it is the replica's own.
    #[must_use]
    pub fn time_at(&self, monotonic: Duration, own_wall: Timestamp) -> Timestamp {
        match self.agreed {
            Some((then, time)) => later(time, signed(monotonic.saturating_sub(then))),
            None => own_wall,
        }
    }

    /// An answer dated `date` has come now, to what was sent at `sent`, both on the monotonic clock. The time stays what it
    /// is as long as it may be that of the answer: a clock that is right is never corrected.
    pub fn answered(&mut self, sent: Duration, now: Duration, own_wall: Timestamp, date: Timestamp) {
        let latest = later(date, signed(now.saturating_sub(sent).saturating_add(WHOLE_SECOND)));
        let time = self.time_at(now, own_wall).clamp(date, latest);
        self.agreed = Some((now, time));
    }

    /// How wrong a replica's own wall clock is, if that is known.
    #[must_use]
    pub fn skew(&self, monotonic: Duration, own_wall: Timestamp) -> ClockSkew {
        let ahead = own_wall.duration_since(self.time_at(monotonic, own_wall));
        ClockSkew { ahead }
    }
}

/// A replica's own wall clock against the API server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSkew {
    /// How far it is ahead, or behind where that is negative.
    pub ahead: SignedDuration,
}

impl ClockSkew {
    /// Whether instances may be launched and ended with such a clock.
    #[must_use]
    pub fn is_borne(self) -> bool {
        self.ahead.unsigned_abs() < BORNE
    }

    /// How wrong it is, in steps: 0 is right. It is said when that changes.
    #[must_use]
    pub fn step(self) -> i8 {
        let off = self.ahead.unsigned_abs();
        let step = [SAID_FROM, SAID_AGAIN_FROM, BORNE].iter().filter(|from| off >= **from).count();
        let step = i8::try_from(step).unwrap_or_default();
        if self.ahead.is_negative() { -step } else { step }
    }
}

/// For people: the same words as long as the step is the same, as conditions and events are written anew when they change.
impl fmt::Display for ClockSkew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.step().abs() {
            0 => return f.write_str("the clock agrees with the API server's"),
            1 => "more than 30 s",
            2 => "more than 5 min",
            _ => "more than 15 min",
        };
        let way = if self.ahead.is_negative() { "behind" } else { "ahead of" };
        let follows = if self.is_borne() {
            "Ages are reckoned by the API server's clock meanwhile"
        } else {
            "AWS refuses requests that are dated so, and nothing is launched or ended until it is right"
        };
        write!(f, "{by} {way} the API server's clock. {follows}. Set the time of its machine, for example by chrony")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-01-01T{text}Z").parse().unwrap()
    }

    fn seconds(count: f64) -> Duration {
        Duration::from_secs_f64(count)
    }

    #[test]
    fn clock_that_is_right_is_never_corrected() {
        let mut time = ServerTime::default();
        let begin = at("10:00:00.25");
        for tenth in 0..100 {
            let mono = seconds(f64::from(tenth) / 10.0);
            let own = later(begin, signed(mono));
            let date = Timestamp::from_second(own.as_second()).unwrap();
            time.answered(mono, mono, own, date);
            assert_eq!(time.time_at(mono, own), own);
            assert_eq!(time.skew(mono, own), ClockSkew::default());
        }
    }

    #[test]
    fn one_answer_tells_the_skew_to_a_second() {
        let mut time = ServerTime::default();
        time.answered(seconds(9.9), seconds(10.0), at("10:05:00.5"), at("10:00:00"));
        let found = time.time_at(seconds(10.0), at("10:05:00.5"));
        assert!((at("10:00:00")..=at("10:00:01.1")).contains(&found), "{found}");
        let skew = time.skew(seconds(10.0), at("10:05:00.5"));
        assert!((298..=301).contains(&skew.ahead.as_secs()), "{skew:?}");
        assert_eq!((skew.step(), skew.is_borne()), (1, true));
        assert!(skew.to_string().starts_with("more than 30 s ahead of the API server's clock"));
    }

    #[test]
    fn own_clock_that_jumps_moves_no_age() {
        let mut time = ServerTime::default();
        time.answered(seconds(1.0), seconds(1.0), at("10:00:00"), at("10:00:00"));
        let jumped = at("09:50:03");
        assert_eq!(time.time_at(seconds(4.0), jumped), at("10:00:03"));
        time.answered(seconds(4.0), seconds(4.0), jumped, at("10:00:03"));
        assert_eq!(time.time_at(seconds(5.0), jumped), at("10:00:04"));
        let skew = time.skew(seconds(4.0), jumped);
        assert_eq!((skew.ahead, skew.step()), (SignedDuration::from_secs(-600), -2));
        assert!(skew.to_string().contains("more than 5 min behind"));
    }

    #[test]
    fn clock_that_gains_a_second_a_minute_is_followed() {
        let mut time = ServerTime::default();
        for second in 0..3600 {
            let (truth, own) = (f64::from(second), f64::from(second) * (1.0 + 1.0 / 60.0));
            let wall = later(at("10:00:00"), signed(seconds(own)));
            let date = later(at("10:00:00"), signed(seconds(truth.floor())));
            time.answered(seconds(own), seconds(own), wall, date);
            let off = time.time_at(seconds(own), wall).duration_since(date).as_secs_f64();
            assert!((0.0..=1.01).contains(&off), "{second}: {off}");
        }
    }

    #[test]
    fn slow_answer_proves_only_what_it_can() {
        let mut time = ServerTime::default();
        // Sent 40 s ago, dated when it was served: the time is anything from then on.
        time.answered(seconds(0.0), seconds(40.0), at("10:00:30"), at("10:00:00"));
        assert_eq!(time.time_at(seconds(40.0), at("10:00:30")), at("10:00:30"));
        time.answered(seconds(40.0), seconds(80.0), at("10:00:30"), at("10:00:40"));
        assert_eq!(time.time_at(seconds(80.0), at("10:00:30")), at("10:01:10"));
    }

    #[test]
    fn beyond_a_quarter_of_an_hour_nothing_is_launched() {
        let skew = |seconds| ClockSkew { ahead: SignedDuration::from_secs(seconds) };
        assert!(skew(899).is_borne() && skew(-899).is_borne() && !skew(900).is_borne() && !skew(-3600).is_borne());
        assert_eq!([29, 30, 300, 900, -29, -30].map(|of| skew(of).step()), [0, 1, 2, 3, 0, -1]);
        assert!(skew(901).to_string().contains("nothing is launched or ended"));
    }
}
