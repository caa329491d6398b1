//! Claims whose removal was asked for as their checks fail.

use std::collections::BTreeMap;
use std::time::Duration;

/// A claim goes by then, or was not removed and is asked for again.
const REMOVED_WITHIN: Duration = Duration::from_secs(600);

/// By uid: the time of the request. Monotonic.
#[derive(Clone, Debug, Default)]
pub struct AskedRemovals(BTreeMap<String, Duration>);

impl AskedRemovals {
    pub fn ask(&mut self, uid: &str, now: Duration) {
        self.0.insert(uid.to_owned(), now);
    }

    #[must_use]
    pub fn is_asked(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    /// Keeps those that go, or still may. `goes` has the claims that are there, by uid, and if each is being deleted.
    pub fn keep_awaited(&mut self, goes: &BTreeMap<&str, bool>, now: Duration) {
        let waits = |asked: &Duration| now.saturating_sub(*asked) < REMOVED_WITHIN;
        self.0.retain(|uid, asked| goes.get(uid.as_str()).is_some_and(|goes| *goes || waits(asked)));
    }

    /// No check fails any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_asked_for_again_unless_the_claim_goes_in_time() {
        let mut asked = AskedRemovals::default();
        ["goes", "stays", "gone"].iter().for_each(|uid| asked.ask(uid, Duration::ZERO));
        let there = BTreeMap::from([("goes", true), ("stays", false)]);
        asked.keep_awaited(&there, Duration::from_secs(599));
        assert!(asked.is_asked("goes") && asked.is_asked("stays") && !asked.is_asked("gone"));
        asked.keep_awaited(&there, Duration::from_secs(600));
        assert_eq!((asked.is_asked("stays"), asked.count()), (false, 1));
    }
}
