//! The bound on collection within ten minutes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Subject;

/// The time in which no more than the bound is collected.
pub const WINDOW: Duration = Duration::from_secs(600);
/// The number that is always allowed.
const FEW: usize = 5;

/// The most that may be collected in ten minutes of a cluster of that size: five, or 5 %.
#[must_use]
pub fn bound(size: usize) -> usize {
    FEW.max(size / 20)
}

/// Subjects collected within the window, each at the time of its first collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RecentCollections(BTreeMap<Subject, Duration>);

impl RecentCollections {
    /// Forgets collections from before the window.
    pub fn forget(&mut self, now: Duration) {
        self.0.retain(|_, when| now.saturating_sub(*when) < WINDOW);
    }

    /// Number of subjects that it holds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn has(&self, subject: &Subject) -> bool {
        self.0.contains_key(subject)
    }

    /// Moves a collection to the later time at which it really happened.
    pub fn put_off(&mut self, subject: Subject, now: Duration) {
        let when = self.0.entry(subject).or_insert(now);
        *when = now.max(*when);
    }

    /// Notes a collection at that time; an earlier one of the subject stands.
    pub fn add(&mut self, subject: Subject, now: Duration) {
        self.0.entry(subject).or_insert(now);
    }
}
