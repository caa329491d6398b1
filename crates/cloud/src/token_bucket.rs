//! Token buckets: how often something may be done. Pure: the time comes from outside.

use std::time::Duration;

/// Tokens that come back at a rate, up to a size.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    tokens: f64,
    size: f64,
    rate: f64,
    /// Time at which the tokens were counted, monotonic.
    counted: Duration,
}

impl TokenBucket {
    /// A full bucket of `size` tokens, of which `rate` come back a second.
    #[must_use]
    pub const fn full(size: f64, rate: f64, now: Duration) -> Self {
        Self { tokens: size, size, rate, counted: now }
    }

    /// Adds the tokens that have come back.
    pub fn refill(&mut self, now: Duration) {
        self.tokens = (self.tokens + now.saturating_sub(self.counted).as_secs_f64() * self.rate).min(self.size);
        self.counted = self.counted.max(now);
    }

    /// Seconds from the last refill until the bucket has so many tokens; as if asked for its size where that is less.
    /// Infinite where none come back.
    #[must_use]
    pub fn wait(&self, tokens: f64) -> f64 {
        let missing = tokens.min(self.size) - self.tokens;
        if missing > 0.0 { missing / self.rate } else { 0.0 }
    }

    /// Seconds from the last refill until so many tokens have come, be they more than fit in at once.
    #[must_use]
    pub fn wait_unbounded(&self, tokens: f64) -> f64 {
        if tokens > self.tokens { (tokens - self.tokens) / self.rate } else { 0.0 }
    }

    /// From the last refill on so many tokens come back a second.
    pub const fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// Takes tokens, also those that are still to come back.
    pub fn take_tokens(&mut self, tokens: f64) {
        self.tokens -= tokens;
    }

    /// Gives back tokens that were taken for nothing; what is beyond the size is gone.
    pub fn give_back(&mut self, tokens: f64) {
        self.tokens = (self.tokens + tokens).min(self.size);
    }

    /// Leaves no token: others have used what was thought to be there.
    pub fn drain(&mut self, now: Duration) {
        self.refill(now);
        self.tokens = self.tokens.min(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_at_the_rate_up_to_the_size() {
        let mut bucket = TokenBucket::full(3.0, 2.0, Duration::ZERO);
        bucket.take_tokens(5.0);
        assert!((bucket.wait(1.0) - 1.5).abs() < 1e-9);
        bucket.refill(Duration::from_secs(2));
        assert!((bucket.wait(3.0) - 0.5).abs() < 1e-9);
        bucket.refill(Duration::from_secs(3600));
        assert!(bucket.wait(100.0).abs() < 1e-9, "a full bucket is all that can be waited for");
        bucket.drain(Duration::from_secs(3600));
        assert!((bucket.wait(1.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_goes_back_brings_no_tokens_and_takes_none() {
        let mut bucket = TokenBucket::full(1.0, 1.0, Duration::from_secs(10));
        bucket.take_tokens(1.0);
        bucket.refill(Duration::from_secs(5));
        assert!((bucket.wait(1.0) - 1.0).abs() < 1e-9);
        bucket.refill(Duration::from_secs(11));
        assert!(bucket.wait(1.0).abs() < 1e-9);
    }

    #[test]
    fn without_a_rate_nothing_comes_back() {
        let mut bucket = TokenBucket::full(1.0, 0.0, Duration::ZERO);
        assert!(bucket.wait(1.0).abs() < 1e-9);
        bucket.take_tokens(1.0);
        assert!(bucket.wait(1.0).is_infinite());
    }
}
