//! Instances of the account that are not this cluster's: they take of its commitments too. They grow and shrink as they like, so
//! what they have had lately is not offered to launches and moves. Else two clusters would chase one another's gaps.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use super::Uses;

/// Time for which what others once had counts as theirs.
const KEPT: SignedDuration = SignedDuration::from_hours(3);
/// Time for which the last answer counts where no other follows.
const ANSWER_COUNTS: SignedDuration = SignedDuration::from_hours(24);
/// Most answers that are kept: one every ten minutes, and some.
const MOST_ANSWERS: usize = 24;

/// Instances of others that take of commitments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherUses {
    /// Those that run.
    pub now: Uses,
    /// Those beyond that which ran in the last hours, and may come back.
    pub lately: Uses,
}

/// Answers about the instances of others, of the last hours.
#[derive(Clone, Debug, Default)]
pub struct OthersSeen(VecDeque<(Timestamp, Uses)>);

impl OthersSeen {
    pub fn learn(&mut self, uses: Uses, now: Timestamp) {
        self.0.retain(|(at, _)| now.duration_since(*at) < KEPT);
        self.0.truncate(MOST_ANSWERS - 1);
        self.0.push_front((now, uses));
    }

    /// Those that count. Without an answer in a day, none.
    #[must_use]
    pub fn counted(&self, now: Timestamp) -> OtherUses {
        let fresh = |at: &Timestamp, age: SignedDuration| now.duration_since(*at) < age;
        let Some((_, last)) = self.0.front().filter(|(at, _)| fresh(at, ANSWER_COUNTS)) else {
            return OtherUses::default();
        };
        let mut most = last.clone();
        self.0.iter().filter(|(at, _)| fresh(at, KEPT)).for_each(|(_, uses)| most.raise_to(uses));
        OtherUses { now: last.clone(), lately: most.beyond(last) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Usage;
    use super::*;

    fn uses(counts: &[(&str, u32)]) -> Uses {
        let mut uses = Uses::default();
        for (name, count) in counts {
            uses.add(Usage { instance_type: (*name).into(), zone: "a".into(), price: 0.1, linux: true }, *count);
        }
        uses
    }

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    #[test]
    fn what_others_had_counts_as_theirs_for_three_hours() {
        let mut seen = OthersSeen::default();
        seen.learn(uses(&[("m5.large", 5), ("c5.large", 1)]), at(0));
        seen.learn(uses(&[("m5.large", 2)]), at(10));
        let counted = seen.counted(at(10));
        assert_eq!(
            (counted.now, counted.lately),
            (uses(&[("m5.large", 2)]), uses(&[("m5.large", 3), ("c5.large", 1)]))
        );
        seen.learn(uses(&[("m5.large", 7)]), at(20));
        let counted = seen.counted(at(20));
        assert_eq!((counted.now, counted.lately), (uses(&[("m5.large", 7)]), uses(&[("c5.large", 1)])));
        seen.learn(uses(&[]), at(190));
        assert_eq!(seen.counted(at(190)).lately, uses(&[("m5.large", 7)]));
        assert_eq!(seen.counted(at(200)), OtherUses::default());
    }

    #[test]
    fn the_last_answer_counts_for_a_day() {
        let mut seen = OthersSeen::default();
        assert_eq!(seen.counted(at(0)), OtherUses::default());
        seen.learn(uses(&[("m5.large", 5)]), at(0));
        assert_eq!(seen.counted(at(24 * 60 - 1)).now, uses(&[("m5.large", 5)]));
        assert_eq!(seen.counted(at(24 * 60)), OtherUses::default());
    }

    #[test]
    fn a_clock_that_goes_back_keeps_few_answers() {
        let mut seen = OthersSeen::default();
        (0..100).for_each(|n| seen.learn(uses(&[("m5.large", n)]), at(1000 - i64::from(n))));
        assert_eq!(seen.0.len(), MOST_ANSWERS);
        assert_eq!(seen.counted(at(901)).now, uses(&[("m5.large", 99)]));
    }
}
