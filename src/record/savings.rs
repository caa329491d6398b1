//! `dovetail savings`: what was paid over a record, or by metrics, against what its pods needed and against Karpenter's rules.

use dovetail_core::pack::Options;
use dovetail_core::problem::Policy;
use dovetail_input::{Failure, Mistake};
use dovetail_simulation::record::{Record, TimeSum, sum_over_time};
use serde::Serialize;

use super::metrics;
use super::replay::read_record;
use crate::cli::SavingsArgs;
use crate::output::print;
use crate::plan::needs::problem_of_objects;
use crate::progress::ProgressLine;
use crate::survive;

/// Region of a record that names none.
const USUAL_REGION: &str = "us-east-1";

/// Dollars over the record, each with its error.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Savings {
    hours: f64,
    /// Price of the nodes of NodePools that were there.
    paid: TimeSum,
    /// Price of nodes for the same pods, packed anew at each time by the policy cost: what no real cluster gets below for long.
    needed: TimeSum,
    /// The same by fewest nodes, Karpenter's rules.
    by_karpenter: TimeSum,
    /// Part of the nodes, over time, whose price is not known: they count as nothing.
    unpriced: f64,
    /// Most pods that had no place at one time when they were packed anew: they cost nothing there.
    pending: usize,
    /// Part of the nodes' processors that pods requested.
    cpu_use: f64,
    /// True if the record was cut short.
    cut_short: bool,
}

/// Runs the command.
///
/// # Errors
/// No record, or one without a look at the cluster.
pub fn run(args: &SavingsArgs) -> Result<(), Failure> {
    let Some(path) = &args.record else { return metrics::run(args) };
    let record = read_record(path)?;
    if record.series.all.len() < 2 {
        let what = "has fewer than two looks at the cluster: nothing can be summed up";
        return Err(Mistake::of_file(path, what).allowing("a record of some minutes").into());
    }
    let found = savings(args, path, &record)?;
    if args.json {
        let text = serde_json::to_string_pretty(&found).map_err(|why| Failure::System(why.to_string()))?;
        return print(&(text + "\n"));
    }
    print(&found.text(args.points))
}

fn savings(args: &SavingsArgs, path: &str, record: &Record) -> Result<Savings, Failure> {
    let region = record.begin.scenario.get("region").and_then(|region| region.as_str()).unwrap_or(USUAL_REGION);
    let ends = record.series.all.first().zip(record.series.all.last());
    let (from, to) = ends.map_or((0.0, 0.0), |(first, last)| (first.t, last.t));
    let progress = ProgressLine::new(args.quiet);
    let (mut needed, mut karpenter, mut pending) = (Vec::new(), Vec::new(), 0);
    let count = args.points.max(2);
    for point in 0..count {
        let t = from + (to - from) * f64::from(point) / f64::from(count - 1);
        progress.count("packed", point as usize, count as usize);
        let objects: Vec<serde_json::Value> = record.objects_at(t).into_values().collect();
        let problem = problem_of_objects(path, &objects, region)?;
        for (policy, prices) in [(Policy::Cost, &mut needed), (Policy::FewestNodes, &mut karpenter)] {
            let mut problem = problem.clone();
            let own = std::sync::Arc::make_mut(&mut problem);
            own.node_pools.iter_mut().for_each(|pool| pool.policy = policy);
            let packing = survive::solve(&problem, &Options::default());
            pending = pending.max(packing.unscheduled.len());
            prices.push((t, packing.claims.iter().map(|claim| claim.price).fold(0.0, |sum, price| sum + price)));
        }
    }
    let series = &record.series;
    Ok(Savings {
        hours: series.hours(),
        paid: series.over_time(|seen| {
            let own = seen.nodes.iter().filter(|one| !one.node_pool.is_empty());
            own.map(|one| one.price.unwrap_or_default() * one.count as f64).fold(0.0, |sum, price| sum + price)
        }),
        needed: sum_over_time(&needed),
        by_karpenter: sum_over_time(&karpenter),
        unpriced: series.unpriced(),
        pending,
        cpu_use: series.cpu_use(),
        cut_short: record.cut.is_some(),
    })
}

/// The part by which more, or less, was paid than something would have cost, with the error; empty where that is nothing.
pub(super) fn against(paid: TimeSum, other: TimeSum) -> String {
    if other.sum <= 0.0 {
        return String::new();
    }
    let more = (paid.sum / other.sum - 1.0) * 100.0;
    let error = (paid.error + other.error * paid.sum / other.sum) / other.sum * 100.0;
    let word = if more < 0.0 { "less" } else { "more" };
    format!("; {:.0} % ±{error:.0} {word} was paid", more.abs())
}

impl Savings {
    fn text(&self, points: u32) -> String {
        let dollars = |sum: TimeSum| format!("${:.4} ±{:.4}", sum.sum, sum.error);
        let against = |sum: TimeSum| against(self.paid, sum);
        let mut text = format!(
            "over {:.2} hours\n  paid for nodes of NodePools      {}\n  what the pods needed             {}{}\n  the same by Karpenter's rules    {}{}\n",
            self.hours,
            dollars(self.paid),
            dollars(self.needed),
            against(self.needed),
            dollars(self.by_karpenter),
            against(self.by_karpenter),
        );
        text.push_str(&format!(
            "needed: the pods of each of {points} times packed anew, each node at its cheapest option; ± is what may have \
             happened between two looks\npods requested {:.0} % of the nodes' processors\n",
            self.cpu_use * 100.0
        ));
        if self.unpriced > 0.0 {
            text.push_str(&format!(
                "the price of {:.1} % of the nodes is not known: they count as nothing\n",
                self.unpriced * 100.0
            ));
        }
        if self.pending > 0 {
            text.push_str(&format!(
                "up to {} pods had no place when packed anew: they cost nothing there\n",
                self.pending
            ));
        }
        text
    }
}
