//! Figures of a run: what it cost, how long pods waited, what came and went.

use comfy_table::{CellAlignment, Table, presets};
use dovetail_simulation::Played;
use dovetail_simulation::record::{Record, Series};
use serde::Serialize;

/// Figures of one run, or the mean of several with what they differ by.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    pub name: String,
    pub hours: f64,
    /// Dollars.
    pub cost: Measured,
    /// Hours that pods waited, over all pods.
    pub waiting_hours: Measured,
    pub launched: Measured,
    pub ended: Measured,
    /// Pods that were evicted; none where nobody saw that.
    pub evicted: Option<Measured>,
    /// Pods that wait at the end.
    pub pending: Measured,
    /// Part of the nodes' processors that pods request, over time.
    pub cpu_use: f64,
    #[serde(skip)]
    pub series: Series,
}

/// A value, and the most that it is thought to be wrong by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Measured {
    pub value: f64,
    pub error: f64,
}

impl Measured {
    fn exact(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// The mean. Its error is that of one more such run in 19 of 20 cases (a prediction interval by Student's t), and the largest
    /// error of one of them.
    fn mean(all: &[Self]) -> Self {
        let count = all.len().max(1) as f64;
        let value = all.iter().map(|one| one.value).sum::<f64>() / count;
        let squares: f64 = all.iter().map(|one| (one.value - value).powi(2)).sum();
        let deviation = if all.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let own = all.iter().map(|one| one.error).fold(0.0, f64::max);
        Self { value, error: own + student(all.len()) * deviation * (1.0 + 1.0 / count).sqrt() }
    }
}

/// Student's t for 95 % of both sides, by the number of values.
pub(super) fn student(values: usize) -> f64 {
    const BY_NUMBER: [f64; 11] = [0.0, 0.0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    BY_NUMBER.get(values).copied().unwrap_or(if values <= 20 { 2.23 } else { 2.09 })
}

impl Figures {
    /// The figures of a record, as the cluster was seen.
    pub(super) fn of_record(record: &Record) -> Self {
        let series = record.series.clone();
        let (cost, waiting) = (series.cost(), series.waiting());
        let last = series.all.last().map(|one| one.seen.clone()).unwrap_or_default();
        Self {
            name: "as recorded".to_owned(),
            hours: series.hours(),
            cost: Measured { value: cost.sum, error: cost.error },
            waiting_hours: Measured { value: waiting.sum, error: waiting.error },
            launched: Measured::exact(last.launched as f64),
            ended: Measured::exact(last.ended as f64),
            evicted: None,
            pending: Measured::exact(last.pending as f64),
            cpu_use: series.cpu_use(),
            series,
        }
    }

    /// The figures of a run that was played.
    pub(super) fn of_run(name: &str, played: &Played) -> Self {
        let waiting = played.series.waiting();
        let report = &played.report;
        let last = played.series.all.last().map_or(0, |one| one.seen.pending);
        Self {
            name: name.to_owned(),
            hours: report.virtual_seconds() / 3600.0,
            cost: Measured::exact(report.cost_total()),
            waiting_hours: Measured { value: waiting.sum, error: waiting.error },
            launched: Measured::exact(report.launched() as f64),
            ended: Measured::exact(report.terminated() as f64),
            evicted: Some(Measured::exact(report.evicted() as f64)),
            pending: Measured::exact(last as f64),
            cpu_use: played.series.cpu_use(),
            series: played.series.clone(),
        }
    }

    /// The mean of runs that differ by their seed alone; the series is the first one's.
    pub(super) fn mean(all: &[Self]) -> Self {
        let of = |value: fn(&Self) -> Measured| Measured::mean(&all.iter().map(value).collect::<Vec<_>>());
        let first = all.first().cloned().unwrap_or_default();
        let evicted: Option<Vec<Measured>> = all.iter().map(|one| one.evicted).collect();
        Self {
            cost: of(|one| one.cost),
            waiting_hours: of(|one| one.waiting_hours),
            launched: of(|one| one.launched),
            ended: of(|one| one.ended),
            evicted: evicted.map(|all| Measured::mean(&all)),
            pending: of(|one| one.pending),
            cpu_use: all.iter().map(|one| one.cpu_use).sum::<f64>() / all.len().max(1) as f64,
            ..first
        }
    }
}

/// The figures as a table.
pub(super) fn table(all: &[Figures]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "",
        "HOURS",
        "COST $",
        "$/H",
        "WAITING H",
        "LAUNCHED",
        "ENDED",
        "EVICTED",
        "PENDING",
        "CPU USED",
    ]);
    for column in 1..10 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for one in all {
        let amount = |measured: Measured, digits: usize| {
            let Measured { value, error } = measured;
            if error > 0.0 { format!("{value:.digits$} ±{error:.digits$}") } else { format!("{value:.digits$}") }
        };
        let mean = if one.hours > 0.0 { one.cost.value / one.hours } else { 0.0 };
        table.add_row([
            one.name.clone(),
            format!("{:.2}", one.hours),
            amount(one.cost, 4),
            format!("{mean:.4}"),
            amount(one.waiting_hours, 2),
            amount(one.launched, 0),
            amount(one.ended, 0),
            one.evicted.map_or_else(|| "-".to_owned(), |evicted| amount(evicted, 0)),
            amount(one.pending, 0),
            format!("{:.0} %", one.cpu_use * 100.0),
        ]);
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_mean_is_that_of_one_more_run() {
        let one = |value| Measured { value, error: 0.5 };
        let three = Measured::mean(&[one(1.0), one(2.0), one(3.0)]);
        assert!((three.value - 2.0).abs() < 1e-9 && (three.error - (0.5 + 4.30 * (4.0_f64 / 3.0).sqrt())).abs() < 1e-9);
        assert_eq!(Measured::mean(&[one(4.0)]), Measured { value: 4.0, error: 0.5 });
        assert!(student(3) > student(10) && student(50) > 2.0);
    }
}
