//! Reports that are not repeated: the last one about each key, and when it may be made again.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

/// Keys that are remembered at most, where no other bound is given.
const MOST: usize = 100_000;

/// The last report about each key. Beyond its bound those are forgotten that may be made again, and if need be all.
#[derive(Clone, Debug)]
pub struct SayOnce<K, S = ()> {
    said: BTreeMap<K, Said<S>>,
    most: usize,
}

#[derive(Clone, Debug)]
struct Said<S> {
    what: S,
    /// Time from which the same may be said again.
    until: Duration,
}

impl<K, S> Default for SayOnce<K, S> {
    fn default() -> Self {
        Self::with_bound(MOST)
    }
}

impl<K, S> SayOnce<K, S> {
    /// Nothing said yet; so many keys are remembered at most.
    #[must_use]
    pub fn with_bound(most: usize) -> Self {
        Self { said: BTreeMap::new(), most }
    }
}

impl<K: Ord, S: PartialEq> SayOnce<K, S> {
    /// True if another thing or nothing was said of the key before. It counts as said then, for as long as the key is there.
    pub fn is_news(&mut self, key: K, what: S) -> bool {
        self.note(key, what, Duration::ZERO, Duration::MAX)
    }

    /// True if another thing or nothing was said of the key within the last `quiet`. It counts as said then.
    pub fn is_due(&mut self, key: K, what: S, now: Duration, quiet: Duration) -> bool {
        self.note(key, what, now, now.saturating_add(quiet))
    }

    fn note(&mut self, key: K, what: S, now: Duration, until: Duration) -> bool {
        if self.said.get(&key).is_some_and(|last| last.what == what && now < last.until) {
            return false;
        }
        if !self.said.contains_key(&key) {
            self.make_room(now);
        }
        self.said.insert(key, Said { what, until });
        true
    }

    /// Makes room for another key: those that may be said again go first, all where there are none.
    fn make_room(&mut self, now: Duration) {
        if self.said.len() >= self.most {
            self.said.retain(|_, last| now < last.until);
        }
        if self.said.len() >= self.most {
            self.said.clear();
        }
    }

    /// Forgets what was said of a key, as its object is gone.
    pub fn gone<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.said.remove(key);
    }

    /// Forgets what was said of keys that are not there any more.
    pub fn retain(&mut self, is_there: impl Fn(&K) -> bool) {
        self.said.retain(|key, _| is_there(key));
    }

    /// The last report about a key.
    #[must_use]
    pub fn last_said<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&S>
    where
        K: Borrow<Q>,
    {
        self.said.get(key).map(|last| &last.what)
    }

    /// The last report about each key, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &S)> {
        self.said.iter().map(|(key, last)| (key, &last.what))
    }

    /// Keys of which something was said, in their order.
    pub fn into_keys(self) -> impl Iterator<Item = K> {
        self.said.into_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_same_is_said_once_until_its_key_is_gone() {
        let mut once = SayOnce::default();
        assert!(once.is_news("a", 1) && once.is_news("b", 1));
        assert!(!once.is_news("a", 1));
        assert!(once.is_news("a", 2) && once.is_news("a", 1), "another thing is news");
        once.gone(&"a");
        assert!(once.is_news("a", 1) && !once.is_news("b", 1));
        once.retain(|key| *key == "a");
        assert_eq!((once.last_said(&"a"), once.last_said(&"b")), (Some(&1), None));
        assert_eq!(once.into_keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn it_is_said_again_when_it_has_been_quiet_for_long() {
        let mut once = SayOnce::default();
        assert!(once.is_due("a", (), at(100), at(60)));
        assert!(!once.is_due("a", (), at(159), at(60)) && once.is_due("a", (), at(160), at(60)));
        assert!(!once.is_due("a", (), at(219), at(60)), "counted from the last time");
    }

    #[test]
    fn no_more_keys_than_its_bound_are_remembered() {
        let mut once = SayOnce::with_bound(3);
        for key in 0..3 {
            assert!(once.is_due(key, (), at(key), at(10)));
        }
        assert!(once.is_due(3, (), at(11), at(10)), "those that may be said again are forgotten");
        assert_eq!(once.iter().map(|(key, ())| *key).collect::<Vec<_>>(), [2, 3]);
        assert!(once.is_due(4, (), at(11), at(10)) && once.is_due(5, (), at(11), at(10)));
        assert_eq!(once.iter().count(), 1, "all of them, where none may be");
        let mut full = SayOnce::with_bound(2);
        assert!(full.is_news("a", 1) && full.is_news("b", 1) && full.is_news("a", 2));
        assert_eq!(full.last_said(&"b"), Some(&1), "a known key takes no more room");
    }
}
