//! Findings on quotas as they were reported and written last: what has been said is not said again at every look.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_core::quotas::QuotaVerdict;

/// Minimum time between two events that a quota is not held or exceeded.
pub(super) const REPEAT_INTERVAL: Duration = Duration::from_secs(900);
/// Minimum time between two writes of one finding: where somebody else writes the same status, each would undo the other's.
const REWRITE_INTERVAL: Duration = Duration::from_secs(60);
/// In the place of a quota's name: all beyond those that are held.
pub(super) const BEYOND: &str = "";

/// Kinds of findings on a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Held,
    Exceeded,
    NotHeld,
}

impl Finding {
    /// The kind of a verdict.
    pub(super) fn from_verdict(verdict: &QuotaVerdict) -> Self {
        match verdict {
            QuotaVerdict { held: false, .. } => Self::NotHeld,
            QuotaVerdict { exceeded: true, .. } => Self::Exceeded,
            _ => Self::Held,
        }
    }
}

/// The part of a finding that is to be said now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToSay {
    /// A line in the log.
    pub line: bool,
    /// An event, unless the quota is held.
    pub event: bool,
}

/// Findings as they were reported last, by quota: their kind, the message of one that is not held, and when.
#[derive(Default)]
pub(super) struct Reported(BTreeMap<String, (Finding, String, Duration)>);

impl Reported {
    /// Notes a finding; answers what is to be said of it. That a quota is held goes without saying, unless it was not.
    pub(super) fn note_finding(&mut self, name: &str, finding: Finding, why: &str, now: Duration) -> ToSay {
        // The amount by which a quota is exceeded changes with each node, and is in its status.
        let why = if finding == Finding::NotHeld { why } else { "" };
        let before = self.0.get(name);
        let changed = before.map_or(finding != Finding::Held, |(was, said, _)| *was != finding || said != why);
        let again = before.is_some_and(|(.., at)| now.saturating_sub(*at) >= REPEAT_INTERVAL);
        let event = finding != Finding::Held && (changed || again);
        if before.is_none() || changed || event {
            self.0.insert(name.to_owned(), (finding, why.to_owned(), now));
        }
        ToSay { line: changed, event }
    }

    /// Forgets quotas that are gone.
    pub(super) fn retain_quotas(&mut self, there: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| name == BEYOND || there(name));
    }

    pub(super) fn forget_key(&mut self, name: &str) {
        self.0.remove(name);
    }
}

/// Findings as they were written into statuses last, with the generation and the time.
#[derive(Default)]
pub(super) struct Written(BTreeMap<String, (QuotaVerdict, Option<i64>, Duration)>);

impl Written {
    /// True if this was written lately: somebody else has changed the status since.
    pub(super) fn has_lately(
        &self,
        name: &str,
        verdict: &QuotaVerdict,
        generation: Option<i64>,
        now: Duration,
    ) -> bool {
        self.0.get(name).is_some_and(|(written, of, at)| {
            written == verdict && *of == generation && now.saturating_sub(*at) < REWRITE_INTERVAL
        })
    }

    /// A status was written.
    pub(super) fn note_write(&mut self, name: &str, verdict: QuotaVerdict, generation: Option<i64>, now: Duration) {
        self.0.insert(name.to_owned(), (verdict, generation, now));
    }

    /// Forgets quotas that are gone.
    pub(super) fn retain_quotas(&mut self, there: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn finding_is_said_when_it_changes_and_each_quarter_of_an_hour() {
        let mut reported = Reported::default();
        let (nothing, all) = (ToSay { line: false, event: false }, ToSay { line: true, event: true });
        assert_eq!(reported.note_finding("q", Finding::Held, "it is held", at(0)), nothing, "it goes without saying");
        assert_eq!(reported.note_finding("q", Finding::Exceeded, "6 of 3", at(5)), all);
        assert_eq!(reported.note_finding("q", Finding::Exceeded, "7 of 3", at(10)), nothing);
        assert_eq!(
            reported.note_finding("q", Finding::Exceeded, "7 of 3", at(906)),
            ToSay { line: false, event: true }
        );
        assert_eq!(reported.note_finding("q", Finding::Exceeded, "7 of 3", at(910)), nothing);
        assert_eq!(
            reported.note_finding("q", Finding::Held, "it is held", at(911)),
            ToSay { line: true, event: false }
        );
        assert_eq!(reported.note_finding("q", Finding::NotHeld, "a", at(912)), all);
        assert_eq!(reported.note_finding("q", Finding::NotHeld, "b", at(913)), all, "for another reason");
        assert_eq!(reported.note_finding("new", Finding::NotHeld, "a", at(914)), all);
    }

    #[test]
    fn status_that_somebody_else_writes_is_rewritten_once_a_minute() {
        let mut written = Written::default();
        let verdict =
            |message: &str| QuotaVerdict { held: true, exceeded: false, message: message.to_owned(), used: None };
        assert!(!written.has_lately("q", &verdict("a"), Some(1), at(0)));
        written.note_write("q", verdict("a"), Some(1), at(0));
        assert!(written.has_lately("q", &verdict("a"), Some(1), at(59)));
        assert!(!written.has_lately("q", &verdict("a"), Some(1), at(60)));
        assert!(!written.has_lately("q", &verdict("b"), Some(1), at(5)), "there is something new to say");
        assert!(!written.has_lately("q", &verdict("a"), Some(2), at(5)), "its user has changed it");
        written.retain_quotas(|_| false);
        assert!(!written.has_lately("q", &verdict("a"), Some(1), at(5)));
    }
}
