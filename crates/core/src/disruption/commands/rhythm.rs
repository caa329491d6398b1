//! Times at which consolidation is asked: soon after changes have come to rest, no more often than in Karpenter in the long
//! run, and now and then while nothing changes, as time alone lets nodes go (decision 049).

use std::time::Duration;

use crate::cluster_state::Moment;

/// Time from the last change to a question: half of a change is not worth an answer.
const SETTLED: Duration = Duration::from_secs(2);
/// Longest time from the first change to a question, however much goes on changing (core spec 5.1).
const LATEST: Duration = Duration::from_secs(10);
/// Time between questions while nothing changes.
const IDLE: Duration = Duration::from_secs(60);
/// Minimum mean time between questions that find nothing (core spec 5.1).
const EVERY: Duration = Duration::from_secs(10);
/// Number of questions that may be asked sooner than that.
const AHEAD: u32 = 3;
/// Rest after an answer, as a multiple of the time that it took; after a failure it is the longest rest.
const REST: u32 = 10;
const LONGEST_REST: Duration = Duration::from_secs(300);

/// Changes that no question has been asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changes {
    first: Duration,
    last: Duration,
}

/// Schedule of questions to consolidation. All of it is monotonic time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rhythm {
    changes: Option<Changes>,
    /// The last answer was a command: there may be more.
    more: bool,
    /// Time of the last question.
    asked: Duration,
    /// End of the time whose questions are used up.
    spent: Duration,
    rests_until: Duration,
}

impl Default for Rhythm {
    /// The schedule of a leader that has asked nothing: all that is there is news.
    fn default() -> Self {
        let zero = Duration::ZERO;
        Self { changes: Some(Changes::default()), more: false, asked: zero, spent: zero, rests_until: zero }
    }
}

impl Rhythm {
    /// Notes a change of the cluster.
    pub fn changed(&mut self, now: Moment) {
        let now = now.monotonic;
        self.changes.get_or_insert(Changes { first: now, last: now }).last = now;
    }

    /// Time at which the next question is due, if nothing changes before.
    #[must_use]
    pub fn due(&self) -> Duration {
        let of_changes = |changes: Changes| (changes.last + SETTLED).min(changes.first + LATEST);
        let wanted = match self.changes {
            _ if self.more => Duration::ZERO,
            changes => changes.map_or(Duration::MAX, of_changes).min(self.asked + IDLE),
        };
        wanted.max(self.rests_until).max(self.spent.saturating_sub(EVERY * (AHEAD - 1)))
    }

    /// Notes a question that is asked now.
    pub fn asks(&mut self, now: Moment) {
        (self.changes, self.more, self.asked) = (None, false, now.monotonic);
        self.spent = self.spent.max(now.monotonic) + EVERY;
    }

    /// Notes that the last answer was a command. It is no question too many: the command waits, and is not found again.
    pub fn found(&mut self) {
        self.spent = self.spent.saturating_sub(EVERY);
        self.more = true;
    }

    /// Notes a question of any kind that was computed from `begun` to now.
    pub fn computed(&mut self, begun: Moment, now: Moment) {
        let took = now.monotonic.saturating_sub(begun.monotonic);
        self.rests_until = now.monotonic + (took * REST).min(LONGEST_REST);
    }

    /// Notes that there was no answer.
    pub fn failed(&mut self, now: Moment) {
        self.rests_until = now.monotonic + LONGEST_REST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment { monotonic: Duration::from_secs(seconds), ..Moment::default() }
    }

    fn due(rhythm: &Rhythm) -> u64 {
        rhythm.due().as_secs()
    }

    /// A schedule whose last question was at that second and has found nothing.
    fn asked(seconds: u64) -> Rhythm {
        let mut rhythm = Rhythm::default();
        rhythm.asks(at(seconds));
        rhythm
    }

    #[test]
    fn question_is_two_seconds_after_last_change_and_ten_at_latest() {
        let mut rhythm = asked(100);
        rhythm.changed(at(120));
        assert_eq!(due(&rhythm), 122);
        for second in 121..140 {
            rhythm.changed(at(second));
            assert_eq!(due(&rhythm), (second + 2).min(130));
        }
        rhythm.asks(at(130));
        rhythm.changed(at(131));
        assert_eq!(due(&rhythm), 133, "what was asked about is done");
    }

    #[test]
    fn while_nothing_changes_it_is_asked_once_a_minute() {
        assert_eq!(due(&asked(100)), 160);
    }

    #[test]
    fn restless_cluster_is_asked_about_every_ten_seconds_at_most() {
        let (mut rhythm, mut count) = (asked(0), 0);
        for second in 1..=600 {
            // Every third second something happens: two seconds of peace between.
            if second % 3 == 0 {
                rhythm.changed(at(second));
            }
            if due(&rhythm) <= second {
                rhythm.asks(at(second));
                count += 1;
            }
        }
        assert!((55..=62).contains(&count), "{count} in ten minutes");
    }

    #[test]
    fn question_after_a_command_comes_at_once_and_costs_nothing() {
        let mut rhythm = asked(100);
        for _ in 0..20 {
            rhythm.asks(at(120));
            rhythm.found();
            assert!(due(&rhythm) <= 120);
        }
        rhythm.asks(at(120));
        assert_eq!(due(&rhythm), 180);
    }

    #[test]
    fn long_answer_rests_ten_times_as_long_and_failure_five_minutes() {
        let mut rhythm = Rhythm::default();
        rhythm.asks(at(100));
        rhythm.computed(at(100), at(103));
        rhythm.found();
        assert_eq!(due(&rhythm), 133);
        rhythm.failed(at(140));
        rhythm.changed(at(141));
        assert_eq!(due(&rhythm), 440);
    }
}
