//! Doubling pauses that keep an object whose write is refused from being written again and again. An object that its user has
//! changed is written at once.

pub mod refusals;
pub mod repeats;
pub mod statuses;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::context::backoff::Backoff;

/// The first pause after a failure, and the longest, unless others are given.
pub const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Objects whose writes fail, by a key of the actor's own, such as `pool/NAME`.
pub struct Brakes {
    pauses: (Duration, Duration),
    known: BTreeMap<String, Brake>,
}

impl Default for Brakes {
    fn default() -> Self {
        Self::new(PAUSES.0, PAUSES.1)
    }
}

/// Pauses of one object whose writes fail.
pub struct Brake {
    backoff: Backoff,
    /// The object's generation when its write failed.
    generation: Option<i64>,
    /// Time until which it is not written. Monotonic.
    until: Duration,
}

impl Brake {
    /// With pauses from the first to the longest.
    pub fn new(first: Duration, longest: Duration, rng: fastrand::Rng) -> Self {
        Self { backoff: Backoff::new(first, longest, rng), generation: None, until: Duration::ZERO }
    }

    /// True if the object must not be written now, in this generation.
    pub fn holds(&self, generation: Option<i64>, now: Duration) -> bool {
        self.generation == generation && now < self.until
    }

    /// Number of failed writes in a row.
    pub fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// A write has failed. Returns the time for which the object is left alone.
    pub fn failed(&mut self, generation: Option<i64>, now: Duration) -> Duration {
        if self.generation != generation {
            self.backoff.reset();
        }
        let pause = self.backoff.pause();
        (self.generation, self.until) = (generation, now + pause);
        pause
    }
}

impl Brakes {
    /// With pauses from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { pauses: (first, longest), known: BTreeMap::new() }
    }

    /// True if a write of it has failed and none has succeeded since.
    pub fn is_known(&self, key: &str) -> bool {
        self.known.contains_key(key)
    }

    /// Number of failed writes of it in a row.
    pub fn failures(&self, key: &str) -> u32 {
        self.known.get(key).map_or(0, Brake::failures)
    }

    /// True if an object of this generation must not be written now.
    pub fn hold(&self, key: &str, generation: Option<i64>, now: Duration) -> bool {
        self.known.get(key).is_some_and(|brake| brake.holds(generation, now))
    }

    /// A write has failed. Answers how long the object is left alone.
    pub fn failed(
        &mut self,
        key: &str,
        generation: Option<i64>,
        now: Duration,
        rng: impl FnOnce() -> fastrand::Rng,
    ) -> Duration {
        let new = || Brake::new(self.pauses.0, self.pauses.1, rng());
        self.known.entry(key.to_owned()).or_insert_with(new).failed(generation, now)
    }

    /// Forgets an object that was written or is gone.
    pub fn forget(&mut self, key: &str) {
        self.known.remove(key);
    }

    /// Number of objects with failed writes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Forgets those whose pause was over by then.
    pub fn forget_before(&mut self, then: Duration) {
        self.known.retain(|_, brake| brake.until >= then);
    }

    /// Forgets those that are not there any more.
    pub fn retain(&mut self, there: impl Fn(&str) -> bool) {
        self.known.retain(|key, _| there(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn rng() -> fastrand::Rng {
        fastrand::Rng::with_seed(7)
    }

    #[test]
    fn an_object_is_left_alone_ever_longer_up_to_a_minute() {
        let (mut brakes, mut now, mut pauses) = (Brakes::default(), at(100), Vec::new());
        for _ in 0..12 {
            assert!(!brakes.hold("pool/a", Some(1), now));
            let pause = brakes.failed("pool/a", Some(1), now, rng);
            assert!(brakes.hold("pool/a", Some(1), now) && !brakes.hold("pool/b", Some(1), now));
            pauses.push(pause);
            now += pause;
        }
        assert!(pauses[0] <= at(1) && pauses[11] > at(30) && pauses[11] <= at(60), "{pauses:?}");
        brakes.forget("pool/a");
        assert!(brakes.failed("pool/a", Some(1), now, rng) <= at(1));
    }

    #[test]
    fn one_that_its_user_has_changed_is_not_held() {
        let (mut brakes, now) = (Brakes::default(), at(100));
        for _ in 0..8 {
            brakes.failed("pool/a", Some(1), now, rng);
        }
        assert!(brakes.hold("pool/a", Some(1), now) && !brakes.hold("pool/a", Some(2), now));
        assert!(brakes.failed("pool/a", Some(2), now, rng) <= at(1), "its pauses begin anew");
    }
}
