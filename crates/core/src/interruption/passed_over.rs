//! Messages that ask for nothing: one line for each reason, and then ever so many messages a line.

use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum time between two reports of one reason.
const REPEAT_INTERVAL: Duration = Duration::from_secs(600);

/// By reason: the time of the last report, monotonic, and the number of messages since.
#[derive(Clone, Debug, Default)]
pub struct PassedOver(BTreeMap<&'static str, (Option<Duration>, u64)>);

impl PassedOver {
    /// A message is passed over. Answers the number of those to be reported, if a report is due.
    pub fn note(&mut self, reason: &'static str, now: Duration) -> Option<u64> {
        let (last, since) = self.0.entry(reason).or_default();
        *since += 1;
        if last.is_some_and(|last| now.saturating_sub(last) < REPEAT_INTERVAL) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_reported_at_once_and_every_ten_minutes() {
        let mut over = PassedOver::default();
        let mut note = |reason, second| over.note(reason, Duration::from_secs(second));
        assert_eq!(
            [note("late", 0), note("late", 1), note("odd", 2), note("late", 599)],
            [Some(1), None, Some(1), None]
        );
        assert_eq!([note("late", 600), note("late", 601)], [Some(3), None]);
    }
}
