//! The API server's time, as one replica knows it by the dates of the answers that it gets (docs/decisions/054). What the API
//! server stamps (`creationTimestamp`, `deletionTimestamp`) and what replicas write beside it (conditions, the Lease) are
//! times of one clock then, whatever a replica's own wall clock says; between two answers the monotonic clock counts.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{CLOCKS_APART, later, signed};

/// Resolution of a `Date` header: the answer was sent at that second, or up to a second later.
const WHOLE_SECOND: Duration = Duration::from_secs(1);
/// An answer that is no further off than this is followed at once: servers behind one address differ by a little, and the
/// monotonic clock may gain between two answers. A step of the skew ends so much below where it began.
const AGREES_WITHIN: Duration = Duration::from_secs(5);
/// Answers in a row that have to name another time until it is believed. Where servers behind one address differ, that many
/// hardly ever come of one of them alone.
const MOVED_AFTER: u32 = 20;
/// The same for a time that is further off than the rules bear (`CLOCKS_APART`): what the API server stamps by it would count as
/// too old, or as too young.
const MOVED_FAR_AFTER: u32 = 4;
/// Answers in a row that have to show another step of the skew until it is said.
const STEP_AFTER: u32 = 5;
/// Skew from which a replica's clock is reported as wrong.
const SAID_FROM: Duration = Duration::from_secs(30);
/// Skew from which it is reported again.
const SAID_AGAIN_FROM: Duration = Duration::from_secs(5 * 60);
/// Skew from which AWS refuses requests (`RequestExpired`), so that nothing is launched or ended beyond it.
const BORNE: Duration = Duration::from_secs(15 * 60);
/// The step of such a skew.
const BEYOND_AWS: i8 = 3;

/// The API server's time: the moment that was last agreed with it, on the monotonic clock and by its own; and the skew of the
/// replica's own clock, in steps that stay while answers differ for a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerTime {
    agreed: Option<(Duration, Timestamp)>,
    /// Answers in a row that name another time.
    doubts: u32,
    /// Distance of the last of them; they name the same time while it hardly changes.
    doubted: SignedDuration,
    /// The step of the skew that is believed.
    step: i8,
    /// Another step that the last answers show, with the number of these answers.
    next_step: (i8, u32),
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
    /// is as long as it may be that of the answer: a clock that is right is never corrected. One that names quite another time
    /// is believed when others in a row have named it too.
    pub fn answered(&mut self, sent: Duration, now: Duration, own_wall: Timestamp, date: Timestamp) {
        let latest = later(date, signed(now.saturating_sub(sent).saturating_add(WHOLE_SECOND)));
        let time = self.time_at(now, own_wall);
        let nearest = time.clamp(date, latest);
        let first = self.agreed.is_none();
        if first || self.believes(nearest.duration_since(time)) {
            self.agreed = Some((now, nearest));
        }
        let ahead = own_wall.duration_since(self.time_at(now, own_wall));
        self.judge_step(step_of(ahead, self.step), first);
    }

    /// True where the time moves to that of an answer that is so far off.
    fn believes(&mut self, off: SignedDuration) -> bool {
        let needed = match off.unsigned_abs() {
            by if by <= AGREES_WITHIN => 0,
            by if by <= CLOCKS_APART => MOVED_AFTER,
            _ => MOVED_FAR_AFTER,
        };
        if off.saturating_sub(self.doubted).unsigned_abs() > AGREES_WITHIN {
            self.doubts = 0;
        }
        self.doubted = off;
        self.doubts = self.doubts.saturating_add(1);
        let believed = self.doubts >= needed;
        if believed {
            self.doubts = 0;
        }
        believed
    }

    /// Takes over the step that an answer shows: at once from the first, else when others in a row have shown it too.
    fn judge_step(&mut self, shown: i8, first: bool) {
        let (next, answers) = self.next_step;
        let answers = if next == shown { answers.saturating_add(1) } else { 1 };
        self.next_step = (shown, answers);
        if first || answers >= STEP_AFTER {
            self.step = shown;
        }
    }

    /// The skew of a replica's own wall clock; zero while it is not known.
    #[must_use]
    pub fn skew(&self, monotonic: Duration, own_wall: Timestamp) -> ClockSkew {
        let ahead = own_wall.duration_since(self.time_at(monotonic, own_wall));
        ClockSkew { ahead, step: self.step }
    }
}

/// A replica's own wall clock against the API server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSkew {
    /// Time by which it is ahead; negative if it is behind.
    pub ahead: SignedDuration,
    /// The skew in steps; it may lag behind for a moment.
    step: i8,
}

impl ClockSkew {
    /// A skew that several answers have shown.
    #[must_use]
    pub fn settled(ahead: SignedDuration) -> Self {
        Self { ahead, step: step_of(ahead, 0) }
    }

    /// True if instances may be launched and ended with such a clock.
    #[must_use]
    pub fn is_borne(self) -> bool {
        self.ahead.unsigned_abs() < BORNE
    }

    /// The skew in steps: 0 is right. A change is reported, and needs several answers that show it.
    #[must_use]
    pub fn step(self) -> i8 {
        self.step
    }
}

/// The step of a skew, where another one was believed before: one that is left ends a little below where it began.
fn step_of(ahead: SignedDuration, before: i8) -> i8 {
    let same_way = ahead.is_negative() == (before < 0);
    let before = if same_way { before.unsigned_abs() } else { 0 };
    let off = ahead.unsigned_abs();
    let mut step = 0;
    for (number, from) in (1_i8..).zip([SAID_FROM, SAID_AGAIN_FROM, BORNE]) {
        let from = if number.unsigned_abs() <= before { from.saturating_sub(AGREES_WITHIN) } else { from };
        if off >= from {
            step = number;
        }
    }
    if ahead.is_negative() { -step } else { step }
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
        let follows = if self.step().abs() < BEYOND_AWS {
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
        for _ in 0..5 {
            time.answered(seconds(4.0), seconds(4.0), jumped, at("10:00:03"));
        }
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
        let skew = |seconds| ClockSkew::settled(SignedDuration::from_secs(seconds));
        assert!(skew(899).is_borne() && skew(-899).is_borne() && !skew(900).is_borne() && !skew(-3600).is_borne());
        assert_eq!([29, 30, 300, 900, -29, -30].map(|of| skew(of).step()), [0, 1, 2, 3, 0, -1]);
        assert!(skew(901).to_string().contains("nothing is launched or ended"));
    }
    /// Answers of a server that is so many seconds ahead of the truth, one a second, to a replica whose clock is ahead by `own`.
    fn answers(time: &mut ServerTime, from: u32, count: u32, own: i64, server: impl Fn(u32) -> i64) {
        for number in from..from + count {
            let mono = seconds(f64::from(number));
            let by = |ahead| later(at("10:00:00"), SignedDuration::from_secs(i64::from(number) + ahead));
            let before = time.time_at(mono, by(own));
            time.answered(mono, mono, by(own), by(server(number)));
            let moved = time.time_at(mono, by(own)).duration_since(before);
            assert!(number == 0 || moved.abs() < SignedDuration::from_secs(60), "{number}: {moved:?}");
        }
    }

    #[test]
    fn servers_half_a_minute_apart_move_neither_time_nor_step() {
        // Up to eleven answers in a row come of the other.
        for (apart, own) in [(20, 15), (25, 28), (30, 0), (-30, 0), (90, 10)] {
            let mut time = ServerTime::default();
            answers(&mut time, 0, 1, own, |_| 0);
            for number in 1..2000 {
                let other = number % 12 != 0 && number * 7 % 5 < 3 + number / 100 % 3;
                answers(&mut time, number, 1, own, |_| if other { apart } else { 0 });
                let ahead = time.time_at(seconds(f64::from(number)), at("10:00:00")).duration_since(at("10:00:00"));
                let moved = (ahead.as_secs() - i64::from(number)).abs();
                assert!(moved <= 1 && time.step == 0, "{apart}: {ahead:?} after {number} answers, {time:?}");
            }
        }
    }

    #[test]
    fn server_whose_clock_is_set_is_followed_when_that_stays() {
        for (by, after) in [(3, 1), (25, 20), (-25, 20), (50, 20)] {
            let mut time = ServerTime::default();
            answers(&mut time, 0, 10, 0, |_| 0);
            answers(&mut time, 10, after - 1, 0, |_| by);
            let end = seconds(f64::from(10 + after - 1));
            let ahead = |time: &ServerTime| time.time_at(end, at("10:00:00")).duration_since(at("10:00:00")).as_secs();
            assert!((ahead(&time) - i64::from(10 + after - 1)).abs() <= 1, "{by}: too soon");
            answers(&mut time, 10 + after - 1, 1, 0, |_| by);
            assert!((ahead(&time) - i64::from(10 + after - 1) - by).abs() <= 1, "{by}: too late");
        }
    }

    #[test]
    fn one_answer_of_another_hour_is_not_believed_and_four_are() {
        let mut time = ServerTime::default();
        let other = |time: &mut ServerTime, number: f64| {
            time.answered(seconds(number), seconds(number), at("10:00:00"), at("11:00:00"));
            time.time_at(seconds(number), at("10:00:00"))
        };
        time.answered(seconds(0.0), seconds(0.0), at("10:00:00"), at("10:00:00"));
        for number in [1.0, 2.0, 3.0] {
            assert_eq!(other(&mut time, number), later(at("10:00:00"), signed(seconds(number))));
        }
        time.answered(seconds(4.0), seconds(4.0), at("10:00:00"), at("10:00:04"));
        assert_eq!(other(&mut time, 5.0), at("10:00:05"), "those before do not count any more");
        for number in [6.0, 7.0] {
            other(&mut time, number);
        }
        assert_eq!(other(&mut time, 8.0), at("11:00:00"));
    }

    #[test]
    fn answers_that_name_different_times_do_not_add_up() {
        let mut time = ServerTime::default();
        answers(&mut time, 0, 1, 0, |_| 0);
        answers(&mut time, 1, 19, 0, |number| if number < 19 { 25 } else { 3600 });
        for number in 20..40 {
            answers(&mut time, number, 1, 0, |number| i64::from(number) * 1000);
        }
        answers(&mut time, 40, 3, 0, |_| -7200);
        let now = seconds(42.0);
        let ahead = time.time_at(now, at("10:00:42")).duration_since(at("10:00:42"));
        assert!(ahead.abs() <= SignedDuration::from_secs(1), "{ahead:?}");
    }

    #[test]
    fn step_is_said_when_it_has_stayed() {
        let mut time = ServerTime::default();
        let mut next = 0;
        let mut after = |count: u32, own: i64| {
            answers(&mut time, next, count, own, |_| 0);
            next += count;
            time.step
        };
        assert_eq!((after(3, 0), after(4, 40), after(1, 0), after(4, 40), after(1, 40)), (0, 0, 0, 0, 1));
        assert_eq!((after(100, 27), after(4, 23), after(1, 27), after(5, 23)), (1, 1, 1, 0), "it ends 5 s below");
        assert_eq!((after(4, -400), after(1, -400), after(9, -298), after(9, -290)), (0, -2, -2, -1));
        assert_eq!((after(9, 1000), after(1, 0), after(9, 0)), (3, 3, 0));
    }
}
