//! Answers worth keeping for a while. The lock is held for a look-up only, never over a call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Values by key, each until a moment on the monotonic clock.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    ttl: Duration,
    entries: Mutex<BTreeMap<K, (Duration, V)>>,
}

impl<K: Ord + Clone, V: Clone> Cache<K, V> {
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, entries: Mutex::new(BTreeMap::new()) }
    }

    /// The value, unless it is too old.
    pub fn get(&self, now: Duration, key: &K) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(until, _)| *until > now).map(|(_, value)| value.clone())
    }

    /// Keeps a value, and forgets what is too old.
    pub fn put(&self, now: Duration, key: K, value: V) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, (until, _)| *until > now);
        entries.insert(key, (now + self.ttl, value));
    }

    /// Forgets one value.
    pub fn forget(&self, key: &K) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_until_its_time_is_over() {
        let cache = Cache::new(Duration::from_secs(60));
        cache.put(Duration::ZERO, "a", 1);
        assert_eq!(cache.get(Duration::from_secs(59), &"a"), Some(1));
        assert_eq!(cache.get(Duration::from_secs(60), &"a"), None);
        cache.forget(&"a");
        assert_eq!(cache.get(Duration::ZERO, &"a"), None);
    }
}
