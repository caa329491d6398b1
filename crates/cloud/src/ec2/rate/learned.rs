//! The share of a bucket's rate that we go by: less after EC2 has refused requests for the rate of them, and little by little
//! the whole again. Pure: the time comes from outside.

use std::time::Duration;

/// The least share that refusals bring it down to.
const LEAST: f64 = 0.125;
/// Refusals so soon after one that has halved the share are of the same cause: they were under way, or others still call.
const SAME_CAUSE: Duration = Duration::from_secs(5);
/// The share grows by so much for each such time without a refusal: from the least to the whole within two and a half minutes.
const GROWTH: (f64, Duration) = (0.0625, Duration::from_secs(10));

/// A share of a rate, and the time from which its next growth counts; that of the last halving.
#[derive(Clone, Copy, Debug)]
pub(super) struct LearnedShare {
    share: f64,
    halved: Duration,
    grown: Duration,
}

impl LearnedShare {
    /// The whole, until something is refused.
    pub fn refused_first(now: Duration) -> Self {
        let mut whole = Self { share: 1.0, halved: now, grown: now };
        whole.halve(now);
        whole
    }

    /// EC2 has refused a request.
    pub fn refused(&mut self, now: Duration) {
        self.grow(now);
        self.grown = now;
        if now.saturating_sub(self.halved) >= SAME_CAUSE {
            self.halve(now);
        }
    }

    fn halve(&mut self, now: Duration) {
        (self.share, self.halved, self.grown) = ((self.share / 2.0).max(LEAST), now, now);
    }

    /// The share as it is now.
    pub fn grow(&mut self, now: Duration) -> f64 {
        let (step, time) = GROWTH;
        while self.share < 1.0 && now.saturating_sub(self.grown) >= time {
            self.share = (self.share + step).min(1.0);
            self.grown += time;
        }
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn share_is_halved_once_a_cause_and_not_below_its_bound() {
        let mut learned = LearnedShare::refused_first(at(100));
        for (second, share) in [(101, 0.5), (104, 0.5), (105, 0.25), (110, 0.125), (115, 0.125), (3600 + 115, 0.5)] {
            learned.refused(at(second));
            assert!((learned.share - share).abs() < 1e-9, "{second} s: {learned:?}");
        }
    }

    #[test]
    fn share_comes_back_step_by_step_and_stops_at_the_whole() {
        let mut learned = LearnedShare::refused_first(at(0));
        learned.refused(at(5));
        learned.refused(at(10));
        assert!((learned.grow(at(19)) - 0.125).abs() < 1e-9);
        assert!((learned.grow(at(20)) - 0.1875).abs() < 1e-9);
        assert!((learned.grow(at(149)) - 0.9375).abs() < 1e-9);
        assert!((learned.grow(at(150)) - 1.0).abs() < 1e-9);
        assert!((learned.grow(at(9_000)) - 1.0).abs() < 1e-9);
        assert!((learned.grow(at(8_000)) - 1.0).abs() < 1e-9, "a clock that goes back");
    }
}
