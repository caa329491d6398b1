//! How much may be collected, and in what time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Subject;

/// The time in which no more than the bound is collected.
pub const WINDOW: Duration = Duration::from_secs(600);
/// What is always allowed.
const FEW: usize = 5;

/// The most that may be collected in ten minutes of a cluster of that size: five, or 5 %.
#[must_use]
pub fn bound(size: usize) -> usize {
    FEW.max(size / 20)
}

/// What was collected of late, each subject once, at the time of its first collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RecentCollections(BTreeMap<Subject, Duration>);

impl RecentCollections {
    /// Forgets what is long enough ago.
    pub fn forget(&mut self, now: Duration) {
        self.0.retain(|_, when| now.saturating_sub(*when) < WINDOW);
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds this one.
    pub fn has(&self, subject: &Subject) -> bool {
        self.0.contains_key(subject)
    }

    /// It has come to pass only now.
    pub fn put_off(&mut self, subject: Subject, now: Duration) {
        let when = self.0.entry(subject).or_insert(now);
        *when = now.max(*when);
    }

    /// Notes a collection.
    pub fn add(&mut self, subject: Subject, now: Duration) {
        self.0.entry(subject).or_insert(now);
    }
}
