//! Lines of the log that would repeat themselves: each is told at first, then after five minutes, ten, twenty, and once an hour.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_core::pause::DoublingPause;

/// Time between two reports of one line.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(300), longest: Duration::from_secs(3600) };
/// Time since its last occurrence after which a line is forgotten once its pause is over; it is then reported as a new one.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Most lines that are remembered.
const MOST: usize = 20_000;

/// Reported lines, each with the time from which it may be reported again.
#[derive(Debug, Default)]
pub struct Repeats {
    lines: BTreeMap<String, Reported>,
    /// Number of lines above which those that are forgotten are looked for, if it is more than half of [`MOST`].
    crowded: usize,
}

#[derive(Debug)]
struct Reported {
    /// Number of reports in a row.
    times: u32,
    until: Duration,
    seen: Duration,
}

impl Repeats {
    /// True if any of these is to be reported now; then all of them are.
    pub fn are_reported(&mut self, what: impl IntoIterator<Item = String>, now: Duration) -> bool {
        if self.lines.len() > self.crowded.max(MOST / 2) {
            self.lines.retain(|_, one| now < one.until.max(one.seen + FORGOTTEN));
            // While most of them stay, it is not looked again for each line of a large cluster.
            self.crowded = (2 * self.lines.len()).min(MOST);
        }
        if self.lines.len() > MOST {
            self.lines.clear();
        }
        let all: Vec<String> = what.into_iter().collect();
        let due = all.iter().any(|one| self.lines.get(one).is_none_or(|one| one.is_due(now)));
        for one in all {
            let known = self.lines.entry(one).or_insert(Reported { times: 0, until: now, seen: now });
            if now >= known.until.max(known.seen + FORGOTTEN) {
                known.times = 0;
            }
            known.seen = now;
            if due {
                known.until = now + PAUSE.length_after(known.times);
                known.times = known.times.saturating_add(1);
            }
        }
        due
    }
}

impl Reported {
    fn is_due(&self, now: Duration) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of reports from second `from` to second `to`, at two attempts a minute.
    fn count_reported(repeats: &mut Repeats, what: &[&str], from: u64, to: u64) -> usize {
        let times = (from..to).step_by(30).map(Duration::from_secs);
        times.filter(|now| repeats.are_reported(what.iter().map(|one| (*one).to_owned()), *now)).count()
    }

    #[test]
    fn what_repeats_for_six_hours_is_told_ten_times_at_most() {
        let mut repeats = Repeats::default();
        let count = count_reported(&mut repeats, &["a"], 0, 6 * 3600);
        assert!((6..=10).contains(&count), "{count}");
        assert_eq!(count_reported(&mut repeats, &["b"], 6 * 3600, 6 * 3600 + 300), 1, "another is told at once");
        assert_eq!(count_reported(&mut repeats, &["a", "c"], 6 * 3600, 6 * 3600 + 300), 1, "and so is one beside it");
    }

    #[test]
    fn what_was_over_for_long_is_told_as_at_first() {
        let mut repeats = Repeats::default();
        count_reported(&mut repeats, &["a"], 0, 4000);
        assert_eq!(count_reported(&mut repeats, &["a"], 12_000, 12_600), 2);
    }

    #[test]
    fn no_more_than_its_bound_is_remembered() {
        let mut repeats = Repeats::default();
        for nth in 0..50_000_u64 {
            repeats.are_reported([nth.to_string()], Duration::from_secs(nth / 1000));
        }
        assert!(repeats.lines.len() <= MOST + 1);
    }
}
