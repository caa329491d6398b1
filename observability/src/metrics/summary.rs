//! Quantiles of the latest values: what Karpenter's summaries show.

use std::collections::VecDeque;

/// The quantiles that are shown (core spec 7.1).
pub const QUANTILES: [(&str, f64); 5] = [("0.0", 0.0), ("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("1.0", 1.0)];
/// Most values that the quantiles are computed from.
const LATEST: usize = 2048;

/// The latest values, and the sum and the number of all.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    latest: VecDeque<f64>,
    /// Sum of all values.
    pub sum: f64,
    /// Number of values so far.
    pub count: u64,
}

impl Summary {
    /// Adds a value.
    pub fn observe(&mut self, value: f64) {
        self.latest.push_back(value);
        if self.latest.len() > LATEST {
            self.latest.pop_front();
        }
        self.sum += value;
        self.count += 1;
    }

    /// The quantiles of the latest values, by their names.
    pub fn quantiles(&self) -> Vec<(&'static str, f64)> {
        let mut sorted: Vec<f64> = self.latest.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let at = |quantile: f64| sorted.get((quantile * last as f64).round() as usize).copied().unwrap_or(f64::NAN);
        QUANTILES.iter().map(|(name, quantile)| (*name, at(*quantile))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_latest_values_and_sum_and_count_of_all() {
        let mut summary = Summary::default();
        (0..5000).for_each(|value| summary.observe(f64::from(value)));
        let quantiles: Vec<f64> = summary.quantiles().into_iter().map(|(_, value)| value).collect();
        assert_eq!(quantiles, [2952.0, 3976.0, 4794.0, 4979.0, 4999.0]);
        assert_eq!((summary.count, summary.sum), (5000, 12_497_500.0));
    }
}
