//! `plan --consolidate`: what consolidation makes of the nodes of a workload file, each command done at once.

use std::sync::Arc;
use std::time::Duration;

use dovetail_core::disruption::methods::{ClusterView, ConsolidationSettings, Settled, settle};
use dovetail_core::pack::Packing;
use dovetail_core::paid_machines::Running;
use dovetail_input::{Failure, Mistake, describe};
use dovetail_telemetry::stopwatch::Stopwatch;
use jiff::Timestamp;
use serde::Serialize;

use super::Loaded;
use super::answer::{PlanAnswer, Times, file_name, milliseconds};
use crate::cli::PlanArgs;
use crate::output::print;

/// The answer of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Consolidated<'a> {
    workload: &'a str,
    nodes_before: usize,
    nodes_after: usize,
    price_before: f64,
    price_after: f64,
    rounds: usize,
    commands: usize,
    nodes_removed: usize,
    nodes_launched: usize,
    pods_moved: usize,
    solve_ms: f64,
}

/// Runs the command.
///
/// # Errors
/// [`Failure::Input`] where there is no node to consolidate.
pub(super) fn run(args: &PlanArgs, loaded: Loaded) -> Result<(), Failure> {
    let commitments = Arc::new(super::committed::declared(args, &loaded)?);
    let file = args.workload.as_deref().unwrap_or_default();
    let Loaded { problem, load, warnings, .. } = loaded;
    if problem.existing_nodes.is_empty() {
        let mistake = Mistake { field: "existingNodes".into(), ..Mistake::of_file(file, "has no node to consolidate") };
        return Err(mistake.allowing("nodes with their pods (docs/consolidation.md)").into());
    }
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    if !problem.pods.is_empty() {
        eprintln!("warning: {} pods that wait are left out: consolidation looks at those on nodes", problem.pods.len());
    }
    let name = problem.name.clone();
    let nodes_before = problem.existing_nodes.len();
    let solving = Stopwatch::start();
    let settings = ConsolidationSettings {
        price_per_node: args.price_per_node,
        max_option_price: args.max_option_price.unwrap_or_default(),
        price_moves: ConsolidationSettings::price_moves_of(nodes_before),
        spot_to_spot: args.spot_to_spot,
        many_to_many: args.many_to_many,
        ..ConsolidationSettings::default()
    };
    let running = Running::from_problem(&problem).beside(commitments.others());
    running.mistrust().filter(|_| !commitments.is_empty()).iter().for_each(|why| eprintln!("warning: {why}"));
    let cluster = ClusterView::of_workload(Arc::unwrap_or_clone(problem)).with_commitments(&commitments, &running);
    // No time passes: every command is done at once.
    let settled = settle(cluster, &settings, Timestamp::UNIX_EPOCH, &|nodes| args.budget.count_among(nodes))
        .map_err(|why| Failure::System(why.to_string()))?;
    let solve = solving.elapsed();
    if let Some(path) = &args.plan_out {
        write_plan(path, &settled.cluster, &Times { solve, load, wall: load + solve })?;
    }
    print(&result_text(&name, nodes_before, &settled, solve, args.json)?)
}

fn result_text(
    name: &str,
    nodes_before: usize,
    settled: &Settled,
    solve: Duration,
    as_json: bool,
) -> Result<String, Failure> {
    let answer = Consolidated {
        workload: name,
        nodes_before,
        nodes_after: settled.cluster.nodes().len(),
        price_before: settled.price.0,
        price_after: settled.price.1,
        rounds: settled.rounds,
        commands: settled.commands.len(),
        nodes_removed: settled.removed,
        nodes_launched: settled.launched,
        pods_moved: settled.moved,
        solve_ms: milliseconds(solve),
    };
    if as_json {
        let text = serde_json::to_string_pretty(&answer).map_err(|why| Failure::System(why.to_string()))?;
        return Ok(text + "\n");
    }
    Ok(format!(
        "{} nodes, ${:.4} an hour, become {} nodes, ${:.4} an hour\n{} commands take {} nodes away, launch {} and move {} pods\n",
        answer.nodes_before,
        answer.price_before,
        answer.nodes_after,
        answer.price_after,
        answer.commands,
        answer.nodes_removed,
        answer.nodes_launched,
        answer.pods_moved
    ))
}

/// Writes the settled cluster as a plan of all its pods.
fn write_plan(path: &str, cluster: &ClusterView, times: &Times) -> Result<(), Failure> {
    let (problem, packing): (_, Packing) = cluster.as_plan();
    let answer = PlanAnswer::new(&problem, &packing, times, file_name);
    let mut text = serde_json::to_string_pretty(&answer).map_err(|why| Failure::System(why.to_string()))?;
    text.push('\n');
    std::fs::write(path, text).map_err(|why| Failure::System(format!("{path}: {}", describe(&why))))
}
