//! Refused requests that have to be repeated: after growing pauses with jitter, up to a bound; reported the first time and then
//! ever more seldom, with their number.

use std::time::Duration;

use crate::context::brakes::Brakes;
use crate::context::env::Env;
use crate::telemetry::log_event::LogEvent;

/// Time after its pause at which a request that was not repeated is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Things that are refused, by what they are in words: `cordoning node NAME`.
#[derive(Default)]
pub struct Refusals(Brakes);

impl Refusals {
    /// True while the request must not be repeated.
    pub fn hold(&self, what: &str, now: Duration) -> bool {
        self.0.hold(what, None, now)
    }

    /// Notes a refusal. Returns the time until it may be repeated.
    pub fn refused(&mut self, what: &str, error: &str, env: &Env) -> Duration {
        let now = env.now();
        self.0.forget_before(now.saturating_sub(FORGOTTEN));
        let pause = self.0.failed(what, None, now, || env.rng(what));
        let times = self.0.failures(what);
        if is_said(times) {
            let (what, error, seconds) = (what.to_owned(), error.to_owned(), pause.as_secs_f64());
            env.emit(LogEvent::StillRefused { what, error, times, seconds });
        }
        pause
    }

    /// Notes that it was done; reported if it was refused before.
    pub fn done(&mut self, what: &str, env: &Env) {
        let times = self.0.failures(what);
        if times > 0 {
            self.0.forget(what);
            env.emit(LogEvent::Recovered { what: what.to_owned(), attempts: times + 1 });
        }
    }
}

/// True if the refusal of this number is reported: the first, the tenth, the hundredth and so on.
pub fn is_said(times: u32) -> bool {
    times.checked_ilog10().is_some_and(|zeros| 10_u32.pow(zeros) == times)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{Arc, Mutex};

    use dovetail_core::clock::Clock;

    use super::*;
    use crate::settings::Settings;
    use crate::telemetry::journal::MemoryJournal;

    /// A clock that is set by hand.
    #[derive(Default)]
    struct Set(Mutex<Duration>);

    impl Clock for Set {
        fn monotonic(&self) -> Duration {
            *self.0.lock().unwrap()
        }

        fn wall(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
    }

    #[test]
    fn refusal_for_two_hours_is_retried_less_and_said_three_times() {
        let (clock, journal) = (Arc::new(Set::default()), Arc::new(MemoryJournal::default()));
        let env = Env::new("r", Settings::default(), clock.clone(), journal.clone(), 1);
        let (mut refusals, what, mut tries) = (Refusals::default(), "cordoning node a", 0);
        for second in 0..7200 {
            *clock.0.lock().unwrap() = Duration::from_secs(second);
            if !refusals.hold(what, env.now()) {
                tries += 1;
                assert!(refusals.refused(what, "422 no", &env) <= Duration::from_secs(60));
            }
        }
        assert!((120..=300).contains(&tries), "{tries}");
        refusals.done("cordoning node b", &env);
        refusals.done(what, &env);
        assert!(!refusals.hold(what, env.now()));
        let lines: Vec<String> = journal.entries().iter().map(|entry| entry.log_event.to_string()).collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[1].starts_with("cordoning node a was refused 10 times"), "{lines:?}");
        assert_eq!(lines[3], format!("cordoning node a succeeded at attempt {}", tries + 1));
    }

    #[test]
    fn what_nobody_asks_for_any_more_does_not_add_up() {
        let clock = Arc::new(Set::default());
        let env = Env::new("r", Settings::default(), clock.clone(), Arc::new(MemoryJournal::default()), 1);
        let mut refusals = Refusals::default();
        for number in 0..10_000 {
            *clock.0.lock().unwrap() = Duration::from_secs(number);
            refusals.refused(&format!("cordoning node {number}"), "no", &env);
        }
        assert!(refusals.0.len() <= 700, "{}", refusals.0.len());
    }
}
