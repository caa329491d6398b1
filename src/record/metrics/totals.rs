//! Sums over the samples of metrics, each with its error.
//!
//! Several replicas, or several Prometheis, scrape the same cluster: of series that differ by where they come from alone the
//! highest value counts, and counters are counted together, as each replica counts what it did itself.

use std::collections::BTreeMap;

use dovetail_simulation::record::{TimeSum, sum_over_time};
use serde::Serialize;

use super::series::{COMPARED, COST, COST_OF_KARPENTER, ON_DEMAND, Sample, Series, UTILIZATION};
use crate::record::figures::student;

/// Highest value that is believed, of dollars an hour and of their sums over years.
const MOST: f64 = 1e12;
/// Samples farther apart than so many usual distances have a gap between them.
const GAP: f64 = 3.0;
/// Fewest compared packings that an error is stated for.
pub(super) const LEAST_COMPARISONS: usize = 3;
const SECONDS_OF_AN_HOUR: f64 = 3600.0;

/// Values by time, in milliseconds since 1970.
type ByTime = BTreeMap<i64, f64>;

/// Sums over a time, by its metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricTotals {
    /// Hours from the first sample to the last, and those of them that have samples.
    pub span_hours: f64,
    pub hours: f64,
    /// Dollars for nodes of NodePools.
    pub paid: TimeSum,
    /// Dollars for the same machines on demand.
    pub on_demand: Option<TimeSum>,
    /// The part of what was paid that pods requested: between that of their processors and that of their memory.
    pub needed: Option<TimeSum>,
    /// Dollars by Karpenter's rules: what was paid times what sampled packings would have cost more.
    pub paid_by_karpenter: Option<TimeSum>,
    /// Number of these packings.
    pub comparisons: usize,
    /// Parts of all nodes' processors and memory that were requested, over time.
    pub cpu_use: Option<f64>,
    pub memory_use: Option<f64>,
    /// Samples that were not believed.
    pub left_out: usize,
}

impl MetricTotals {
    /// Sums up the series of one cluster; else the reason, as the rest of a sentence.
    pub(super) fn of_series(all: &[Series]) -> Result<Self, String> {
        let left_out = all.iter().flat_map(|one| &one.values).filter(|sample| !is_believed(sample)).count();
        let own = gauge(all, COST, &["nodepool", "capacity_type", "zone"], "");
        let cost = if own.is_empty() { gauge(all, COST_OF_KARPENTER, &["nodepool"], "") } else { own };
        let (Some((first, _)), Some((last, _)), true) = (cost.first_key_value(), cost.last_key_value(), cost.len() > 1)
        else {
            return Err("has fewer than two samples of what nodes cost".to_owned());
        };
        let span_hours = (last - first) as f64 / 1000.0 / SECONDS_OF_AN_HOUR;
        let gap = usual_distance(&cost) * GAP;
        let over = |values: &ByTime| sum_without_gaps(values, gap);
        let paid = over(&cost);
        let on_demand = gauge(all, ON_DEMAND, &["nodepool", "capacity_type", "zone"], "");
        let share = |resource: &str| -> ByTime {
            let percent = gauge(all, UTILIZATION, &["resource_type"], resource);
            percent.into_iter().map(|(t, percent)| (t, (percent / 100.0).min(1.0))).collect()
        };
        let (cpu, memory) = (share("cpu"), share("memory"));
        let (low, high) = requested(&cost, &cpu, &memory);
        let needed = (low.len() > 1).then(|| between(over(&low), over(&high)));
        let (pairs, comparisons) = compared(all);
        let paid_by_karpenter = ratio(&pairs)
            .map(|(times, error)| TimeSum { sum: paid.sum * times, error: paid.error * times + paid.sum * error });
        let mean = |share: &ByTime| (!share.is_empty()).then(|| share.values().sum::<f64>() / share.len() as f64);
        Ok(Self {
            span_hours,
            hours: hours_without_gaps(&cost, gap),
            paid,
            on_demand: (on_demand.len() > 1).then(|| over(&on_demand)),
            needed,
            paid_by_karpenter,
            comparisons,
            cpu_use: mean(&cpu),
            memory_use: mean(&memory),
            left_out,
        })
    }
}

/// True for a sample that a cluster may have: counters and prices are never negative.
fn is_believed(sample: &Sample) -> bool {
    (0.0..=MOST).contains(&sample.value) && (0.0..=1e11).contains(&sample.t)
}

fn believed(series: &Series) -> impl Iterator<Item = (i64, f64)> {
    let good = series.values.iter().filter(|one| is_believed(one));
    // Bounded above, so that it fits.
    good.map(|one| ((one.t * 1000.0).round() as i64, one.value))
}

/// A gauge, summed up over its own labels; with a resource that series alone.
fn gauge(all: &[Series], metric: &str, own: &[&str], resource: &str) -> ByTime {
    let mut groups: BTreeMap<Vec<&str>, Vec<&Series>> = BTreeMap::new();
    for one in
        all.iter().filter(|one| one.is_of(metric) && (resource.is_empty() || one.label("resource_type") == resource))
    {
        groups.entry(own.iter().map(|label| one.label(label)).collect()).or_default().push(one);
    }
    let mut total = ByTime::new();
    for group in groups.values() {
        let mut highest = ByTime::new();
        for (t, value) in group.iter().flat_map(|one| believed(one)) {
            highest.entry(t).and_modify(|so_far| *so_far = so_far.max(value)).or_insert(value);
        }
        for (t, value) in highest {
            *total.entry(t).or_default() += value;
        }
    }
    total
}

/// The part of the price that pods requested at each time, by the resource of which they requested less, and more.
fn requested(cost: &ByTime, cpu: &ByTime, memory: &ByTime) -> (ByTime, ByTime) {
    let at = |(t, price): (&i64, &f64)| {
        let (cpu, memory) = (*cpu.get(t)?, *memory.get(t)?);
        Some((*t, price * cpu.min(memory), price * cpu.max(memory)))
    };
    let all: Vec<(i64, f64, f64)> = cost.iter().filter_map(at).collect();
    (all.iter().map(|one| (one.0, one.1)).collect(), all.iter().map(|one| (one.0, one.2)).collect())
}

/// The middle of two sums, with all that is between them as its error.
fn between(low: TimeSum, high: TimeSum) -> TimeSum {
    TimeSum { sum: (low.sum + high.sum) / 2.0, error: (high.sum - low.sum) / 2.0 + low.error.max(high.error) }
}

/// Dollars an hour of sampled packings at each time, by the policy cost and by fewest nodes; and the number of times.
fn compared(all: &[Series]) -> (Vec<(f64, f64)>, usize) {
    let mut by_time: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for one in all.iter().filter(|one| one.is_of(COMPARED)) {
        let samples: ByTime = believed(one).collect();
        for ((_, before), (t, now)) in samples.iter().zip(samples.iter().skip(1)) {
            // A process that began anew counts from nothing.
            let more = if now < before { *now } else { now - before };
            let pair = by_time.entry(*t).or_default();
            match one.label("policy") {
                "cost" => pair.0 += more,
                "fewest-nodes" => pair.1 += more,
                _ => {}
            }
        }
    }
    let pairs: Vec<(f64, f64)> = by_time.into_values().filter(|pair| pair.0 > 0.0 && pair.1 > 0.0).collect();
    let count = pairs.len();
    (pairs, count)
}

/// The second of each pair in parts of the first, over all, and the error of that (95 % of both sides, by Student's t and the
/// ratio's variance); `None` of fewer than [`LEAST_COMPARISONS`].
fn ratio(pairs: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = pairs.len();
    if count < LEAST_COMPARISONS {
        return None;
    }
    let (own, other) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let times = other / own;
    let squares: f64 = pairs.iter().map(|pair| (pair.1 - times * pair.0).powi(2)).sum();
    let variance = squares * count as f64 / (count - 1) as f64;
    Some((times, student(count) * variance.sqrt() / own))
}

/// The usual distance of two times: their median, in seconds.
fn usual_distance(values: &ByTime) -> f64 {
    let mut all: Vec<i64> = values.keys().zip(values.keys().skip(1)).map(|(before, t)| t - before).collect();
    all.sort_unstable();
    all.get(all.len() / 2).map_or(0.0, |middle| *middle as f64 / 1000.0)
}

/// The values in pieces between which there is no gap.
fn pieces(values: &ByTime, gap: f64) -> Vec<Vec<(f64, f64)>> {
    let mut all: Vec<Vec<(f64, f64)>> = Vec::new();
    for (t, value) in values {
        let t = *t as f64 / 1000.0;
        match all.last_mut() {
            Some(piece) if piece.last().is_some_and(|last| t - last.0 <= gap) => piece.push((t, *value)),
            _ => all.push(vec![(t, *value)]),
        }
    }
    all
}

fn sum_without_gaps(values: &ByTime, gap: f64) -> TimeSum {
    pieces(values, gap)
        .iter()
        .map(|piece| sum_over_time(piece))
        .fold(TimeSum::default(), |all, one| TimeSum { sum: all.sum + one.sum, error: all.error + one.error })
}

fn hours_without_gaps(values: &ByTime, gap: f64) -> f64 {
    let length =
        |piece: &Vec<(f64, f64)>| piece.first().zip(piece.last()).map_or(0.0, |(first, last)| last.0 - first.0);
    pieces(values, gap).iter().map(length).sum::<f64>() / SECONDS_OF_AN_HOUR
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn series(metric: &str, labels: &[(&str, &str)], values: &[(f64, f64)]) -> Series {
        let name = [("__name__", metric)];
        let labels = name.iter().chain(labels).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Series { labels, values: values.iter().map(|(t, value)| Sample { t: *t, value: *value }).collect() }
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn replicas_are_not_counted_twice_and_zones_are_summed_up() {
        let hour = [(0.0, 1.0), (1800.0, 1.0), (3600.0, 1.0)];
        let of = |zone, pod| series(COST, &[("zone", zone), ("pod", pod)], &hour);
        let both = [of("a", "dovetail-0"), of("a", "dovetail-1"), of("b", "dovetail-0")];
        let found = MetricTotals::of_series(&both).unwrap();
        assert_eq!((found.paid, found.hours), (TimeSum { sum: 2.0, error: 0.0 }, 1.0));
        assert_eq!((found.needed, found.paid_by_karpenter, found.comparisons), (None, None, 0));
        let of_karpenter = [series(COST_OF_KARPENTER, &[("nodepool", "p")], &hour)];
        close(MetricTotals::of_series(&of_karpenter).unwrap().paid.sum, 1.0);
        assert!(MetricTotals::of_series(&both[..0]).unwrap_err().contains("fewer than two"));
    }

    #[test]
    fn price_of_requests_is_between_their_processors_and_memory() {
        let at = |value| [(0.0, value), (3600.0, value)];
        let use_of = |resource, percent| series(UTILIZATION, &[("resource_type", resource)], &at(percent));
        let all = [series(COST, &[], &at(10.0)), use_of("cpu", 60.0), use_of("memory", 40.0)];
        let needed = MetricTotals::of_series(&all).unwrap().needed.unwrap();
        close(needed.sum, 5.0);
        close(needed.error, 1.0);
    }

    #[test]
    fn hours_without_samples_are_in_no_sum() {
        let times = [0.0, 60.0, 120.0, 7200.0, 7260.0, 7320.0];
        let found = MetricTotals::of_series(&[series(COST, &[], &times.map(|t| (t, 60.0)))]).unwrap();
        close(found.paid.sum, 4.0);
        close(found.hours, 240.0 / 3600.0);
        close(found.span_hours, 7320.0 / 3600.0);
    }

    #[test]
    fn karpenters_share_is_by_increases_of_counters_begun_anew() {
        let cost = series(COST, &[], &[(0.0, 1.0), (60.0, 1.0), (120.0, 1.0), (180.0, 1.0)]);
        let of = |policy, values: [f64; 4]| {
            let values: Vec<(f64, f64)> = (0..4).map(|nth| (f64::from(nth) * 60.0, values[nth as usize])).collect();
            series(COMPARED, &[("policy", policy)], &values)
        };
        // 1, 2 and 3 dollars against 2, 4 and 6; the process began anew before the second.
        let all = [cost.clone(), of("cost", [5.0, 6.0, 2.0, 5.0]), of("fewest-nodes", [7.0, 9.0, 4.0, 10.0])];
        let found = MetricTotals::of_series(&all).unwrap();
        let karpenter = found.paid_by_karpenter.unwrap();
        assert_eq!(found.comparisons, 3);
        close(karpenter.sum, 2.0 * found.paid.sum);
        close(karpenter.error, 0.0);
        let uneven = [cost, of("cost", [0.0, 1.0, 2.0, 3.0]), of("fewest-nodes", [0.0, 1.0, 4.0, 5.0])];
        let found = MetricTotals::of_series(&uneven).unwrap();
        let karpenter = found.paid_by_karpenter.unwrap();
        // Increases 1, 3, 1: 5/3 of 3; squares 4/9 + 16/9 + 4/9 = 24/9, times 3/2 is 4.
        close(karpenter.sum, found.paid.sum * 5.0 / 3.0);
        close(karpenter.error, found.paid.sum * 4.30 * 2.0 / 3.0);
    }

    #[test]
    fn values_that_no_cluster_has_are_left_out_and_counted() {
        let values = [(0.0, 1.0), (60.0, f64::NAN), (120.0, -5.0), (180.0, 1.0), (f64::INFINITY, 1.0)];
        let found = MetricTotals::of_series(&[series(COST, &[], &values)]).unwrap();
        assert_eq!((found.left_out, found.paid.error), (3, 0.0));
        close(found.hours, 180.0 / 3600.0);
    }
}
