//! The cloud's last answer about an instance on its way out. An answer that repeats the one before it is good for twice as long.

use std::time::Duration;

use jiff::Timestamp;

use super::InstanceObservation;
use crate::pause::DoublingPause;

/// Time that an answer is good for: the first of its kind, and those that repeat it (aws spec 4.5). The first is a little less
/// than the second between two ticks.
const GOOD_FOR: DoublingPause = DoublingPause { first: Duration::from_millis(900), longest: Duration::from_secs(5) };

/// The last answer about one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastAnswer {
    /// State of the instance.
    pub seen: InstanceObservation,
    /// Time of the question by the wall clock.
    pub asked: Timestamp,
    /// Time of the question. Monotonic.
    when: Duration,
    /// Answers in a row before it that were the same.
    repeats: u32,
}

impl LastAnswer {
    /// The answer that comes after `before`, to a question of `asked` by the wall clock and `when` by the monotonic one.
    #[must_use]
    pub fn after(before: Option<Self>, seen: InstanceObservation, asked: Timestamp, when: Duration) -> Self {
        let same = before.filter(|before| before.seen == seen);
        Self { seen, asked, when, repeats: same.map_or(0, |before| before.repeats.saturating_add(1)) }
    }

    /// True while nobody asks again: for 0.9 s, then 1.8 s, 3.6 s and 5 s.
    #[must_use]
    pub fn is_fresh(self, now: Duration) -> bool {
        now.saturating_sub(self.when) < GOOD_FOR.length_after(self.repeats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds that each of these answers is good for, given one after the other.
    fn good_for(seen: &[InstanceObservation]) -> Vec<u128> {
        let mut last = None;
        let answers = seen.iter().map(|seen| {
            let answer = LastAnswer::after(last, *seen, Timestamp::UNIX_EPOCH, Duration::ZERO);
            last = Some(answer);
            let fresh = |millis: &u64| answer.is_fresh(Duration::from_millis(*millis));
            (0..10_000).take_while(fresh).count() as u128
        });
        answers.collect()
    }

    #[test]
    fn repeated_answer_is_good_for_longer_and_a_new_one_is_not() {
        use InstanceObservation::{Alive, Ending, Terminated};
        assert_eq!(good_for(&[Ending; 5]), [900, 1800, 3600, 5000, 5000]);
        assert_eq!(good_for(&[Alive, Alive, Ending, Ending, Terminated]), [900, 1800, 900, 1800, 900]);
    }
}
