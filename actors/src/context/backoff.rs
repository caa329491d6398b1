//! Pauses between attempts: doubling, with jitter from the replica's seed.

use std::time::Duration;

use dovetail_core::pause::DoublingPause;

/// Grows from a base to a ceiling; each pause is drawn from its upper half.
#[derive(Clone, Debug)]
pub struct Backoff {
    lengths: DoublingPause,
    failures: u32,
    rng: fastrand::Rng,
}

impl Backoff {
    /// From `base` to `ceiling`.
    pub fn new(base: Duration, ceiling: Duration, rng: fastrand::Rng) -> Self {
        Self { lengths: DoublingPause { first: base, longest: ceiling }, failures: 0, rng }
    }

    /// For calls to the API server.
    pub fn api(rng: fastrand::Rng) -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(5), rng)
    }

    /// For calls to the cloud.
    pub fn cloud(rng: fastrand::Rng) -> Self {
        Self::new(Duration::from_millis(500), Duration::from_secs(10), rng)
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let pause = self.lengths.drawn_after(self.failures, self.rng.f64());
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Number of pauses since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_ceiling_and_depend_only_on_the_seed() {
        let mut one = Backoff::api(fastrand::Rng::with_seed(7));
        let mut two = one.clone();
        let pauses: Vec<_> = (0..12).map(|_| one.pause()).collect();
        assert_eq!(pauses, (0..12).map(|_| two.pause()).collect::<Vec<_>>());
        assert!(pauses[0] >= Duration::from_millis(50) && pauses[0] <= Duration::from_millis(100));
        assert!(pauses[11] >= Duration::from_millis(2500) && pauses[11] <= Duration::from_secs(5));
        one.reset();
        assert!(one.pause() <= Duration::from_millis(100));
    }
}
