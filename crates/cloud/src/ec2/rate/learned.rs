//! The share of a bucket's rate that we go by: less after EC2 has refused requests for the rate of them, and little by little
//! the whole again. Pure: the time comes from outside.

use std::time::Duration;

/// The least share that refusals bring it down to.
const LEAST: f64 = 0.125;
/// Refusals so soon after one that has cut the share are of the same cause: they were under way, or others still call.
const SAME_CAUSE: Duration = Duration::from_secs(5);
/// The share grows by so much for each such time, refusals or none: from the least to the whole within two and a half minutes.
const GROWTH: (f64, Duration) = (0.0625, Duration::from_secs(10));
/// Time in which the requests that count lose half of their weight: an hour of quiet does not make a refusal rare.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// A share of a rate, and the time from which its next growth counts; that of the last cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct LearnedShare {
    share: f64,
    cut: Option<Duration>,
    grown: Duration,
    /// Requests sent and refused since the last cut, and the time until which they have lost weight.
    sent: f64,
    refused: f64,
    faded: Duration,
}

impl LearnedShare {
    /// The whole, until something is refused.
    pub fn whole(now: Duration) -> Self {
        Self { share: 1.0, cut: None, grown: now, sent: 0.0, refused: 0.0, faded: now }
    }

    /// A request is sent.
    pub fn sent(&mut self, now: Duration) {
        self.fade(now);
        self.sent += 1.0;
    }

    /// EC2 has refused a request: if all are, the share is halved; if one of twenty is, a fortieth of it is cut.
    pub fn refused(&mut self, now: Duration) {
        self.grow(now);
        self.fade(now);
        self.refused += 1.0;
        if self.cut.is_some_and(|cut| now.saturating_sub(cut) < SAME_CAUSE) {
            return;
        }
        let refused = self.refused / self.sent.max(self.refused);
        if self.is_whole() {
            self.grown = now;
        }
        self.share = (self.share * (1.0 - refused / 2.0)).max(LEAST);
        (self.cut, self.sent, self.refused) = (Some(now), 0.0, 0.0);
    }

    fn fade(&mut self, now: Duration) {
        let lives = now.saturating_sub(self.faded).as_secs_f64() / HALF_LIFE.as_secs_f64();
        let left = (-lives).exp2();
        (self.sent, self.refused, self.faded) = (self.sent * left, self.refused * left, self.faded.max(now));
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

    /// True if nothing is held back.
    pub fn is_whole(&self) -> bool {
        self.share >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn is_share(learned: &LearnedShare, share: f64) {
        assert!((learned.share - share).abs() < 1e-9, "{share}: {learned:?}");
    }

    #[test]
    fn share_is_halved_once_a_cause_and_not_below_its_bound() {
        let mut learned = LearnedShare::whole(at(0));
        for (second, share) in [(100, 0.5), (101, 0.5), (104, 0.5), (105, 0.25), (110, 0.15625), (115, 0.125)] {
            learned.sent(at(second));
            learned.refused(at(second));
            is_share(&learned, share);
        }
        learned.refused(at(3600));
        is_share(&learned, 0.5);
    }

    #[test]
    fn share_is_cut_by_what_is_refused_of_what_is_sent() {
        let mut learned = LearnedShare::whole(at(0));
        (0..19).for_each(|_| learned.sent(at(100)));
        learned.sent(at(100));
        learned.refused(at(100));
        is_share(&learned, 0.975);
        // Requests of before a quiet hour say nothing of what is refused after it.
        learned.sent(at(3700));
        learned.refused(at(3700));
        is_share(&learned, 0.5);
    }

    /// The least and the last share within an hour in which one of so many requests is refused, at four a second.
    fn hour_of_refusals(one_of: u64) -> (f64, f64) {
        let mut learned = LearnedShare::whole(at(0));
        let (mut least, mut last) = (1.0_f64, 1.0);
        for quarter in 1..=4 * 3600 {
            let now = Duration::from_millis(250 * quarter);
            learned.sent(now);
            if quarter % one_of == 0 {
                learned.refused(now);
            }
            last = learned.grow(now);
            least = least.min(last);
        }
        (least, last)
    }

    #[test]
    fn light_refusals_leave_most_of_the_pace_and_heavy_ones_little() {
        let (least, _) = hour_of_refusals(25);
        assert!(least > 0.85, "{least}");
        let (least, last) = hour_of_refusals(5);
        assert!(least > 0.2 && last < 0.6, "{least}, {last}");
        let (_, last) = hour_of_refusals(1);
        assert!(last <= 0.19, "{last}");
    }

    #[test]
    fn share_comes_back_step_by_step_and_stops_at_the_whole() {
        let mut learned = LearnedShare::whole(at(0));
        [0, 5, 10].into_iter().for_each(|second| learned.refused(at(second)));
        // A step has come at the tenth second, and was halved with the rest.
        is_share(&learned, 0.15625);
        for (second, share) in [(19, 0.15625), (20, 0.21875), (149, 0.96875), (150, 1.0), (9_000, 1.0), (8_000, 1.0)] {
            assert!((learned.grow(at(second)) - share).abs() < 1e-9, "{second} s: {learned:?}");
        }
        assert!(learned.is_whole());
    }
}
