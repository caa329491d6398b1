//! The latest log entries of a replica, for its console.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use dovetail_actors::JournalEntry;
use jiff::Timestamp;

use super::console::LogLine;

/// Most entries that are kept.
const MOST: usize = 200;

/// The latest entries, each with its time. Clones share them.
#[derive(Clone, Default)]
pub struct LatestEntries(Arc<Mutex<VecDeque<(Timestamp, JournalEntry)>>>);

impl LatestEntries {
    /// Adds an entry; the oldest goes if there are too many. No line is written out before somebody asks.
    pub fn add(&self, when: Timestamp, entry: &JournalEntry) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MOST {
            kept.pop_front();
        }
        kept.push_back((when, entry.clone()));
    }

    /// The kept entries as lines, oldest first.
    pub fn lines(&self) -> Vec<LogLine> {
        let kept: Vec<_> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        let line = |(when, entry): (Timestamp, JournalEntry)| LogLine {
            when: when.strftime("%H:%M:%SZ").to_string(),
            seconds: when.as_microsecond() as f64 / 1e6,
            actor: entry.actor.to_owned(),
            event: entry.log_event.event().to_owned(),
            text: entry.log_event.to_string(),
            level: format!("{:?}", entry.log_event.level()),
            trace: entry.trace_id,
            fields: super::particulars(&entry.log_event).into(),
        };
        kept.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use dovetail_actors::LogEvent;

    #[test]
    fn the_latest_are_kept_with_their_particulars() {
        let told = LatestEntries::default();
        let when: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        for number in 0..MOST + 5 {
            let log_event = LogEvent::Elected { lease: format!("lease-{number}") };
            told.add(when, &JournalEntry { actor: "leader", log_event, trace_id: String::new(), term: 1 });
        }
        let lines = told.lines();
        assert_eq!((lines.len(), lines[0].fields["lease"].as_str()), (MOST, Some("lease-5")));
        assert_eq!((lines[0].when.as_str(), lines[0].event.as_str()), ("12:00:00Z", "elected"));
        assert!(lines[0].text.contains("lease-5") && lines[0].fields.get("event").is_none());
    }
}
