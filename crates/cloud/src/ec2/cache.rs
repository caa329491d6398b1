//! Answers worth keeping for a while, and asked for once however many want them at the same time. Locks are held for a
//! look-up only, never over a call.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

use crate::error::CloudError;

type Asked<V> = BoxFuture<'static, Result<V, CloudError>>;

/// Values by key, each until a moment on the monotonic clock.
pub(super) struct TtlCache<K, V> {
    ttl: Duration,
    entries: Mutex<BTreeMap<K, (Duration, V)>>,
    /// Requests under way, kept as long as somebody waits for their answers.
    asked: Mutex<BTreeMap<K, WeakShared<Asked<V>>>>,
}

impl<K: Ord + Clone, V: Clone> TtlCache<K, V> {
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, entries: Mutex::default(), asked: Mutex::default() }
    }

    /// The value, asked for unless it is there. Who comes while it is being asked for gets that answer, or its error;
    /// a call that everybody has given up waiting for is dropped.
    pub async fn get_or_ask<F>(
        &self,
        now: impl Fn() -> Duration,
        key: K,
        ask: impl FnOnce() -> F,
    ) -> Result<V, CloudError>
    where
        F: Future<Output = Result<V, CloudError>> + Send + 'static,
    {
        if let Some(value) = self.get(now(), &key) {
            return Ok(value);
        }
        let asked = self.join(&key, ask);
        let value = asked.clone().await?;
        // Whoever of them comes first, as the one that asked may have given up; not if it was forgotten meanwhile.
        let current = locked(&self.asked).get(&key).and_then(WeakShared::upgrade);
        if current.is_some_and(|current| current.ptr_eq(&asked)) && self.get(now(), &key).is_none() {
            self.put(now(), key, value.clone());
        }
        Ok(value)
    }

    /// The call that is under way, or a new one.
    fn join<F>(&self, key: &K, ask: impl FnOnce() -> F) -> Shared<Asked<V>>
    where
        F: Future<Output = Result<V, CloudError>> + Send + 'static,
    {
        let mut asked = locked(&self.asked);
        if let Some(answer) = asked.get(key).and_then(WeakShared::upgrade) {
            return answer;
        }
        asked.retain(|_, one| one.upgrade().is_some());
        let answer = ask().boxed().shared();
        asked.extend(answer.downgrade().map(|weak| (key.clone(), weak)));
        answer
    }

    /// The value, unless it is too old.
    pub fn get(&self, now: Duration, key: &K) -> Option<V> {
        let entries = locked(&self.entries);
        entries.get(key).filter(|(until, _)| *until > now).map(|(_, value)| value.clone())
    }

    /// Keeps a value, and forgets what is too old.
    pub fn put(&self, now: Duration, key: K, value: V) {
        let mut entries = locked(&self.entries);
        entries.retain(|_, (until, _)| *until > now);
        entries.insert(key, (now + self.ttl, value));
    }

    /// Forgets one value; what is just being asked for may be it, and is asked for anew.
    pub fn forget(&self, key: &K) {
        locked(&self.asked).remove(key);
        locked(&self.entries).remove(key);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::channel::oneshot;

    use super::*;

    fn zero() -> Duration {
        Duration::ZERO
    }

    /// A call that is counted, and answers what it is told.
    fn call(
        count: &AtomicU32,
        told: oneshot::Receiver<Result<u32, CloudError>>,
    ) -> impl FnOnce() -> BoxFuture<'static, Result<u32, CloudError>> {
        move || {
            count.fetch_add(1, Ordering::Relaxed);
            async { told.await.expect("an answer") }.boxed()
        }
    }

    #[test]
    fn simultaneous_asks_are_one_call_sharing_answer_or_error() {
        let refused = CloudError::Final { call: "Describe", code: "Denied".into(), message: String::new() };
        for answer in [Ok(7), Err(refused)] {
            let (cache, count) = (TtlCache::new(Duration::from_secs(60)), AtomicU32::new(0));
            let (tell, told) = oneshot::channel();
            let mut told = Some(told);
            let all = (0..20).map(|_| {
                let told = told.take().unwrap_or_else(|| oneshot::channel().1);
                cache.get_or_ask(zero, "a", call(&count, told))
            });
            let all = futures::future::join_all(all.collect::<Vec<_>>());
            let mut all = std::pin::pin!(all);
            assert!(all.as_mut().now_or_never().is_none());
            tell.send(answer.clone()).expect("somebody waits");
            assert_eq!(all.now_or_never(), Some(vec![answer.clone(); 20]));
            assert_eq!((count.load(Ordering::Relaxed), cache.get(Duration::ZERO, &"a")), (1, answer.ok()));
        }
    }

    #[test]
    fn what_was_forgotten_while_it_was_asked_for_is_not_kept() {
        let (cache, count) = (TtlCache::new(Duration::from_secs(60)), AtomicU32::new(0));
        let (tell, told) = oneshot::channel();
        let mut before = Box::pin(cache.get_or_ask(zero, "a", call(&count, told)));
        assert!(before.as_mut().now_or_never().is_none());
        cache.forget(&"a");
        let (tell_anew, told_anew) = oneshot::channel();
        let mut anew = Box::pin(cache.get_or_ask(zero, "a", call(&count, told_anew)));
        assert!(anew.as_mut().now_or_never().is_none());
        tell.send(Ok(1)).expect("the first waits");
        assert_eq!((before.now_or_never(), cache.get(Duration::ZERO, &"a")), (Some(Ok(1)), None));
        tell_anew.send(Ok(2)).expect("the second waits");
        assert_eq!((anew.now_or_never(), cache.get(Duration::ZERO, &"a")), (Some(Ok(2)), Some(2)));
    }

    #[test]
    fn one_who_gives_up_leaves_the_call_and_the_last_ends_it() {
        let (cache, count) = (TtlCache::new(Duration::from_secs(60)), AtomicU32::new(0));
        let (tell, told) = oneshot::channel();
        let mut first = Box::pin(cache.get_or_ask(zero, "a", call(&count, told)));
        let mut second = Box::pin(cache.get_or_ask(zero, "a", call(&count, oneshot::channel().1)));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(first);
        tell.send(Ok(7)).expect("the second waits");
        assert_eq!(second.now_or_never(), Some(Ok(7)));
        assert_eq!(cache.get(Duration::ZERO, &"a"), Some(7), "kept by who was there");

        let (tell, told) = oneshot::channel();
        let mut alone = Box::pin(cache.get_or_ask(zero, "b", call(&count, told)));
        assert!(alone.as_mut().now_or_never().is_none());
        drop(alone);
        assert!(tell.is_canceled(), "nobody waits, and the call goes on");
        let (tell, told) = oneshot::channel();
        tell.send(Ok(8)).expect("a channel");
        assert_eq!(cache.get_or_ask(zero, "b", call(&count, told)).now_or_never(), Some(Ok(8)));
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_value_is_kept_until_its_time_is_over() {
        let cache = TtlCache::new(Duration::from_secs(60));
        cache.put(Duration::ZERO, "a", 1);
        assert_eq!(cache.get(Duration::from_secs(59), &"a"), Some(1));
        assert_eq!(cache.get(Duration::from_secs(60), &"a"), None);
        cache.forget(&"a");
        assert_eq!(cache.get(Duration::ZERO, &"a"), None);
    }
}
