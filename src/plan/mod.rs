//! `dovetail plan`: pure packing, of a workload file or of manifests.

mod admitted;
mod answer;
mod census;
pub mod consolidate;
pub mod live;
mod manifests;
mod node_groups;
mod static_pools;
mod storage;
mod table;
mod unplanned;
mod workload;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use dovetail_core::Problem;
use dovetail_core::pack::{self, Packing};
use dovetail_core::problem::Policy;
use dovetail_input::Failure;
use dovetail_telemetry::stopwatch::Stopwatch;

use crate::cli::{PackingPolicy, PlanArgs};
use crate::live::escape::{escape, escape_lines};
use crate::survive;

/// A problem as read, and how long that took.
struct Loaded {
    problem: Arc<Problem>,
    load: Duration,
    warnings: Vec<String>,
    /// The line that names the kinds that are passed over.
    passed_over: Option<String>,
    /// The live cluster that the plan is for.
    live: Option<live::LiveSummary>,
    /// Static pools, where their feature gate is open.
    static_pools: Vec<static_pools::StaticPoolPlan>,
}

/// Runs the command. [`Failure::Outcome`] when pods stay without a node.
pub fn run(args: &PlanArgs) -> Result<(), Failure> {
    let wall = Stopwatch::start();
    if let mistakes @ [_, ..] = args.live.mistakes().as_slice() {
        return Err(Failure::Input(mistakes.to_vec()));
    }
    let mut loaded = match &args.workload {
        Some(file) => workload::load(file)?,
        None if args.live.is_asked() => live::load(args)?,
        None => manifests::load(args)?,
    };
    if let Some(policy) = args.packing_policy {
        set_policy(Arc::make_mut(&mut loaded.problem), policy);
    }
    if args.consolidate {
        return consolidate::run(args, loaded);
    }
    let solving = Stopwatch::start();
    let options = options(args);
    let packing = survive::solve(&loaded.problem, &options);
    let times = answer::Times { solve: solving.elapsed(), load: loaded.load, wall: wall.elapsed() };
    report(args, &loaded, &packing, &times)?;
    if packing.unscheduled.is_empty() { Ok(()) } else { Err(Failure::Outcome) }
}

fn options(args: &PlanArgs) -> pack::Options {
    let max_option_price = args.max_option_price.unwrap_or_default();
    pack::Options { price_per_node: args.price_per_node, max_option_price, ..pack::Options::default() }
}

fn set_policy(problem: &mut Problem, policy: PackingPolicy) {
    let policy = match policy {
        PackingPolicy::Cost => Policy::Cost,
        PackingPolicy::FewestNodes => Policy::FewestNodes,
        PackingPolicy::NodeGroups => Policy::NodeGroups,
    };
    for pool in &mut problem.node_pools {
        pool.policy = policy;
    }
}

fn report(args: &PlanArgs, loaded: &Loaded, packing: &Packing, times: &answer::Times) -> Result<(), Failure> {
    if let Some(line) = &loaded.passed_over {
        eprintln!("{line}");
    }
    for warning in &loaded.warnings {
        eprintln!("warning: {}", if loaded.live.is_some() { escape(warning) } else { warning.clone() });
    }
    for one in &packing.daemons_not_counted {
        eprintln!("warning: {}", one.sentence(&loaded.problem));
    }
    let text = if args.json {
        let called = if args.workload.is_some() { answer::file_name } else { answer::pod_name };
        let mut answer = answer::PlanAnswer::new(&loaded.problem, packing, times, called);
        answer.static_pools = &loaded.static_pools;
        let system = |why: serde_json::Error| Failure::System(why.to_string());
        let mut text = match &loaded.live {
            None => serde_json::to_string_pretty(&answer).map_err(system)?,
            Some(live) => {
                let mut whole = serde_json::to_value(&answer).map_err(system)?;
                whole["live"] = serde_json::to_value(live).map_err(system)?;
                serde_json::to_string_pretty(&whole).map_err(system)?
            }
        };
        text.push('\n');
        text
    } else {
        let mut text = table::render(&loaded.problem, packing, args);
        text.push_str(&static_pools::lines(&loaded.static_pools));
        if let Some(live) = &loaded.live {
            text.push_str(&live.sentences(packing.total_price));
            // Names and messages are the cluster's.
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            text = escape_lines(&lines);
        }
        text
    };
    print(&text)
}

/// Writes the answer to standard output.
fn print(text: &str) -> Result<(), Failure> {
    // A reader that has seen enough (`| head`) is no failure of ours.
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::System(why.to_string())),
        _ => Ok(()),
    }
}
