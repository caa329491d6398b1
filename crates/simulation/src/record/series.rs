//! Sums over what was seen, each with the error that comes from looking only now and then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Seen;

const SECONDS_OF_AN_HOUR: f64 = 3600.0;

/// A cluster at its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenAt {
    pub t: f64,
    #[serde(flatten)]
    pub seen: Seen,
}

/// Looks over time, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub all: Vec<SeenAt>,
}

/// A sum over time, and the most that it may be wrong by as nothing is known of the time between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeSum {
    pub sum: f64,
    pub error: f64,
}

impl Series {
    /// Hours from the first look to the last.
    #[must_use]
    pub fn hours(&self) -> f64 {
        let ends = self.all.first().zip(self.all.last());
        ends.map_or(0.0, |(first, last)| (last.t - first.t) / SECONDS_OF_AN_HOUR)
    }

    /// The sum of a value over hours. Between two looks it is taken to go evenly from the one to the other; if it jumped, at
    /// worst right after the first or right before the last, the sum is off by half of the change.
    #[must_use]
    pub fn over_time(&self, value: impl Fn(&Seen) -> f64) -> TimeSum {
        let points: Vec<(f64, f64)> = self.all.iter().map(|one| (one.t, value(&one.seen))).collect();
        sum_over_time(&points)
    }

    /// Dollars.
    #[must_use]
    pub fn cost(&self) -> TimeSum {
        self.over_time(|seen| seen.price_per_hour)
    }

    /// Hours that pods waited, over all pods.
    #[must_use]
    pub fn waiting(&self) -> TimeSum {
        self.over_time(|seen| seen.pending as f64)
    }

    /// The share of nodes, over time, whose price is not known.
    #[must_use]
    pub fn unpriced(&self) -> f64 {
        let count = |seen: &Seen, unpriced: bool| {
            let counted = seen.nodes.iter().filter(|one| !unpriced || one.price.is_none());
            counted.map(|one| one.count).sum::<usize>() as f64
        };
        let all = self.over_time(|seen| count(seen, false)).sum;
        if all > 0.0 { self.over_time(|seen| count(seen, true)).sum / all } else { 0.0 }
    }

    /// The part of the nodes' room that pods request, over time: processors.
    #[must_use]
    pub fn cpu_use(&self) -> f64 {
        let room = self.over_time(|seen| seen.allocatable_cpu).sum;
        if room > 0.0 { self.over_time(|seen| seen.requested_cpu).sum / room } else { 0.0 }
    }
}

/// The sum over hours of a value at times in seconds.
#[must_use]
pub fn sum_over_time(points: &[(f64, f64)]) -> TimeSum {
    let mut total = TimeSum::default();
    for pair in points.windows(2) {
        let [(from, before), (to, after)] = pair else { continue };
        let hours = (to - from).max(0.0) / SECONDS_OF_AN_HOUR;
        total.sum += (before + after) / 2.0 * hours;
        total.error += (after - before).abs() / 2.0 * hours;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_is_off_by_half_of_each_change_at_most() {
        let steady = sum_over_time(&[(0.0, 2.0), (3600.0, 2.0)]);
        assert_eq!(steady, TimeSum { sum: 2.0, error: 0.0 });
        let rising = sum_over_time(&[(0.0, 0.0), (1800.0, 4.0), (3600.0, 4.0)]);
        assert_eq!(rising, TimeSum { sum: 3.0, error: 1.0 });
        assert_eq!(sum_over_time(&[(0.0, 1.0)]), TimeSum::default());
    }
}
