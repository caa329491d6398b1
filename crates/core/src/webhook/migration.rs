//! The objects of one definition that are left to be stored anew: each is written once, in turn, and progress is remembered
//! from one pass to the next. An object that the API server refuses is set aside and keeps no other from being written.
//!
//! ```text
//! List ─► Write, one after the other ─┬─ none refused ─► Done
//!            ▲                        └─ some refused ─► Wait (a minute, doubling to an hour) ─┐
//!            └─────────────────────────────────────────────────────────────────────────────────┘
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use crate::pause::DoublingPause;

/// Pause before refused objects are tried again.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(60), longest: Duration::from_secs(3600) };

/// An object as it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Name of the object; kinds that are migrated have no namespace.
    pub name: String,
    /// Its version. An object that has another by now has been written by somebody, and so stored as v1.
    pub resource_version: Option<String>,
}

/// The next step of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationStep {
    /// List all objects.
    List,
    /// Write this object.
    Write(Listed),
    /// Wait: some objects are refused.
    Wait,
    /// All objects are stored anew; the number of them.
    Done(u64),
}

/// Progress of one definition's migration. Times are of the monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Migration {
    /// The definition's generation when its objects were listed: for another one the list does not hold.
    generation: Option<i64>,
    listed: bool,
    todo: VecDeque<Listed>,
    refused: Vec<Listed>,
    reported: Option<String>,
    count: u64,
    failures: u32,
    until: Duration,
}

impl Migration {
    /// The next step for the definition of this generation.
    pub fn next(&mut self, generation: Option<i64>, now: Duration) -> MigrationStep {
        if !self.listed || self.generation != generation {
            *self = Self { generation, ..Self::default() };
            return MigrationStep::List;
        }
        if self.todo.is_empty() && !self.refused.is_empty() && now >= self.until {
            self.todo = std::mem::take(&mut self.refused).into();
            self.failures = self.failures.saturating_add(1);
        }
        match self.todo.front() {
            Some(one) => MigrationStep::Write(one.clone()),
            None if self.refused.is_empty() => MigrationStep::Done(self.count),
            None => MigrationStep::Wait,
        }
    }

    /// Takes in all existing objects.
    pub fn listed(&mut self, all: impl IntoIterator<Item = Listed>) {
        (self.listed, self.todo) = (true, all.into_iter().collect());
    }

    /// The object that was next is stored anew: it was written, or is gone.
    pub fn written(&mut self) {
        self.count += u64::from(self.todo.pop_front().is_some());
    }

    /// The object that was next is refused: it is tried again after a pause. Answers true if the reason is news.
    pub fn refused(&mut self, why: &str, now: Duration) -> bool {
        let Some(one) = self.todo.pop_front() else { return false };
        self.refused.push(one);
        self.until = now.saturating_add(PAUSE.length_after(self.failures));
        self.reported.replace(why.to_owned()).as_deref() != Some(why)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    fn listed(names: &[&str]) -> Vec<Listed> {
        names.iter().map(|name| Listed { name: (*name).to_owned(), resource_version: Some("1".into()) }).collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The names that are written in one go; `bad` is refused. Answers what comes then.
    fn pass(one: &mut Migration, now: Duration, bad: &str) -> (Vec<String>, MigrationStep) {
        let mut names = Vec::new();
        loop {
            match one.next(Some(1), now) {
                MigrationStep::Write(object) => {
                    names.push(object.name.clone());
                    if object.name == bad {
                        let _ = one.refused("no", now);
                    } else {
                        one.written();
                    }
                }
                other => return (names, other),
            }
        }
    }

    #[test]
    fn each_is_written_once_and_what_was_done_is_not_done_again() {
        let mut one = Migration::default();
        assert_eq!(one.next(Some(1), at(0)), MigrationStep::List);
        assert_eq!(one.next(Some(1), at(0)), MigrationStep::List, "the list has failed");
        one.listed(listed(&["a", "b", "c"]));
        assert!(matches!(one.next(Some(1), at(1)), MigrationStep::Write(object) if object.name == "a"));
        assert!(
            matches!(one.next(Some(1), at(2)), MigrationStep::Write(object) if object.name == "a"),
            "no answer came"
        );
        one.written();
        assert_eq!(pass(&mut one, at(30), ""), (vec!["b".to_owned(), "c".to_owned()], MigrationStep::Done(3)));
        assert_eq!(one.next(Some(2), at(31)), MigrationStep::List, "the definition has changed");
    }

    #[test]
    fn refused_object_delays_no_other_and_is_retried_less_and_less() {
        let mut one = Migration::default();
        let _ = one.next(Some(1), at(0));
        one.listed(listed(&["a", "b", "c"]));
        assert_eq!(pass(&mut one, at(0), "a"), (["a", "b", "c"].map(str::to_owned).to_vec(), MigrationStep::Wait));
        let mut tries = Vec::new();
        for second in 1..=4 * 3600 {
            let (names, next) = pass(&mut one, at(second), "a");
            assert_eq!(next, MigrationStep::Wait);
            if !names.is_empty() {
                assert_eq!(names, ["a"]);
                tries.push(second);
            }
        }
        assert_eq!(tries, [60, 180, 420, 900, 1860, 3780, 7380, 10_980]);
        assert_eq!(pass(&mut one, at(20_000), ""), (vec!["a".to_owned()], MigrationStep::Done(3)));
    }

    #[test]
    fn why_it_is_refused_is_news_once() {
        let mut one = Migration::default();
        let _ = one.next(None, at(0));
        one.listed(listed(&["a", "b"]));
        assert!(one.refused("no", at(0)) && !one.refused("no", at(0)));
        assert!(matches!(one.next(None, at(60)), MigrationStep::Write(_)));
        assert!(one.refused("never", at(60)));
    }
}
