//! What keeps an object whose write fails from being written, and a class from being resolved, again and again: pauses that
//! double to a minute. An object that its user has changed is written at once.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::context::backoff::Backoff;

/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// By object, as `pool/NAME` and `class/NAME`.
#[derive(Default)]
pub(super) struct Brakes(BTreeMap<String, Brake>);

struct Brake {
    backoff: Backoff,
    /// The object's generation when its write failed.
    generation: Option<i64>,
    /// Until when it is left alone. Monotonic.
    until: Duration,
}

impl Brakes {
    /// Whether an object of this generation is left alone.
    pub(super) fn hold(&self, key: &str, generation: Option<i64>, now: Duration) -> bool {
        self.0.get(key).is_some_and(|brake| brake.generation == generation && now < brake.until)
    }

    /// A write has failed. Answers how long the object is left alone.
    pub(super) fn failed(
        &mut self,
        key: &str,
        generation: Option<i64>,
        now: Duration,
        rng: impl FnOnce() -> fastrand::Rng,
    ) -> Duration {
        let new = || Brake { backoff: Backoff::new(PAUSES.0, PAUSES.1, rng()), generation, until: now };
        let brake = self.0.entry(key.to_owned()).or_insert_with(new);
        if brake.generation != generation {
            brake.backoff.reset();
        }
        let pause = brake.backoff.pause();
        (brake.generation, brake.until) = (generation, now + pause);
        pause
    }

    /// It is written, or is gone.
    pub(super) fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }
}
