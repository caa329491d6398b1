//! `dovetail savings` without a record: what was paid against what the pods requested, and against Karpenter's rules, by the
//! metrics of Dovetail, or of Karpenter as far as it has them.

mod prometheus;
mod series;
mod totals;

use dovetail_input::{Failure, Mistake};
use dovetail_simulation::record::TimeSum;

use crate::cli::SavingsArgs;
use crate::output::print;
use totals::{LEAST_COMPARISONS, MetricTotals};

/// Runs the command on what Prometheus has, or on saved answers of it.
///
/// # Errors
/// Prometheus does not answer, or what it answers is no day of one cluster.
pub(super) fn run(args: &SavingsArgs) -> Result<(), Failure> {
    let (all, place) = match &args.metrics.prometheus {
        Some(url) => (prometheus::ask(url, &args.metrics)?, url.clone()),
        None => (series::read_files(&args.metrics.file)?, args.metrics.file.join(", ")),
    };
    let all = series::of_cluster(all, args.metrics.cluster.as_deref(), &place)?;
    let found = MetricTotals::of_series(&all).map_err(|what| {
        let metrics = format!("series of {}", series::NAMES.join(", "));
        Mistake::of_file(place, what).allowing(metrics)
    })?;
    if args.json {
        let text = serde_json::to_string_pretty(&found).map_err(|why| Failure::System(why.to_string()))?;
        return print(&(text + "\n"));
    }
    print(&text(&found))
}

/// The answer for a person.
fn text(found: &MetricTotals) -> String {
    let dollars = |sum: TimeSum| format!("${:.4} ±{:.4}", sum.sum, sum.error);
    let mut text = format!(
        "over {:.2} hours, by metrics\n  paid for nodes of NodePools      {}\n",
        found.hours,
        dollars(found.paid)
    );
    if let Some(on_demand) = found.on_demand {
        text.push_str(&format!("  the same machines on demand      {}\n", dollars(on_demand)));
    }
    if let Some(needed) = found.needed {
        let more = super::savings::against(found.paid, needed);
        text.push_str(&format!("  what the pods requested of it    {}{more}\n", dollars(needed)));
    }
    if let Some(karpenter) = found.paid_by_karpenter {
        let more = super::savings::against(found.paid, karpenter);
        text.push_str(&format!("  the same by Karpenter's rules    {}{more}\n", dollars(karpenter)));
    }
    for sentence in sentences(found) {
        text.push_str(&sentence);
        text.push('\n');
    }
    text
}

/// The lines below the sums: how they are made, and what is not known.
fn sentences(found: &MetricTotals) -> Vec<String> {
    let mut all = Vec::new();
    match (found.needed, found.cpu_use, found.memory_use) {
        (Some(_), Some(cpu), Some(memory)) => all.push(format!(
            "requested: {:.0} % of the nodes' processors, {:.0} % of their memory; its price is between the two parts, ± is \
             half of the way from one to the other and what may have happened between two samples",
            cpu * 100.0,
            memory * 100.0
        )),
        _ => all.push(
            "what the pods requested is not known: there is no karpenter_cluster_utilization_percent beside the cost".to_owned(),
        ),
    }
    all.push(match (found.paid_by_karpenter, found.comparisons) {
        (Some(_), count) => format!(
            "Karpenter's rules: by {count} packings that were compared with fewest-nodes; ± holds in 19 of 20 cases"
        ),
        (None, 0) => "Karpenter's rules: no packing was compared (PACKING_COMPARISON_INTERVAL)".to_owned(),
        (None, count) => {
            format!("Karpenter's rules: {count} packing(s) were compared, and an error takes {LEAST_COMPARISONS}")
        }
    });
    let missing = found.span_hours - found.hours;
    if missing > 0.005 {
        all.push(format!("{missing:.2} hours without samples are left out"));
    }
    if found.left_out > 0 {
        all.push(format!("{} samples are no numbers that a cluster can have, and are left out", found.left_out));
    }
    all
}
