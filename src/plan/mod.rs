//! `dovetail plan`: pure packing, of a workload file or of manifests.

mod admitted;
mod answer;
mod buffers;
mod census;
mod committed;
pub mod consolidate;
mod devices;
mod difference;
pub mod live;
mod live_buffers;
mod manifests;
pub mod needs;
mod node_groups;
mod otherwise;
mod overlays;
mod page;
mod picture;
mod pod_groups;
mod quotas;
mod static_pools;
mod storage;
mod table;
mod unplanned;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use dovetail_core::Problem;
use dovetail_core::commitments::{Commitments, PlanBill};
use dovetail_core::pack::{self, Packing};
use dovetail_core::paid_machines::Running;
use dovetail_core::pod_groups::GangTable;
use dovetail_core::problem::Policy;
use dovetail_input::{Failure, describe};
use dovetail_telemetry::stopwatch::Stopwatch;
use serde_json::Value;

use crate::cli::{PackingPolicy, PlanArgs, PlanForm};
use crate::devices::Devices;
use crate::live::escape::{escape, escape_lines};
use crate::live::{as_json, as_yaml};
use crate::output::print;
use crate::progress::ProgressLine;
use crate::survive;
use difference::{PlanDifference, WrittenPlan};
use otherwise::Alternative;

/// Time that packing takes for each pod where there are very many (docs/performance.md).
const USUAL_TIME_OF_A_POD: Duration = Duration::from_micros(77);

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
    /// Savings Plans and Reserved Instances that the live cluster's settings declare.
    commitments: Arc<Commitments>,
    /// Everything that takes of commitments on the live cluster.
    running: Option<Running>,
    /// Capacity buffers, where their feature gate is open.
    buffers: buffers::Demands,
    /// NodeOverlays, where their feature gate is open.
    overlays: Vec<overlays::OverlayPlan>,
    /// CapacityQuotas, where their feature gate is open.
    quotas: Vec<quotas::QuotaPlan>,
    /// Devices that pods claim, where they count.
    devices: Option<Devices>,
    /// Gangs that get nodes together or not at all, where their feature gate is open.
    gangs: GangTable,
    /// The problem without what-ifs that its reader makes, if the plan is to be compared with that.
    baseline: Option<Arc<Problem>>,
}

/// Answers beside the plan.
#[derive(Default)]
struct Beside {
    alternatives: Vec<Alternative>,
    difference: Option<PlanDifference>,
    /// The plan's effect on the bill, where commitments count.
    bill: Option<PlanBill>,
    /// Room of capacity buffers, where there are any.
    room: Option<buffers::RoomPlan>,
}

/// Runs the command. [`Failure::Outcome`] when pods stay without a node.
pub fn run(args: &PlanArgs) -> Result<(), Failure> {
    let wall = Stopwatch::start();
    if let mistakes @ [_, ..] = args.live.mistakes().as_slice() {
        return Err(Failure::Input(mistakes.to_vec()));
    }
    let file = args.what_if.diff.as_deref().filter(|file| !file.is_empty());
    let written = file.map(WrittenPlan::from_file).transpose()?;
    let mut loaded = match &args.workload {
        Some(file) => workload::load(file)?,
        None if args.live.is_asked() => live::load(args)?,
        None => manifests::load(args)?,
    };
    if args.consolidate {
        set_policy(&mut loaded.problem, args.packing_policy);
        return consolidate::run(args, loaded);
    }
    let unchanged = loaded.baseline.take().unwrap_or_else(|| loaded.problem.clone());
    set_policy(&mut loaded.problem, args.packing_policy);
    args.what_if.change(&mut loaded.problem)?;
    pod_groups::settle(args, &mut loaded);
    let devices = loaded.devices.take();
    loaded.problem = placed(devices.as_ref(), &loaded.problem, args);
    let solving = Stopwatch::start();
    let options = options(args);
    let pods = loaded.problem.pods.len();
    let usual = USUAL_TIME_OF_A_POD.saturating_mul(u32::try_from(pods).unwrap_or(u32::MAX));
    let commitments = committed::declared(args, &loaded)?;
    let running = if commitments.is_empty() { Running::default() } else { committed::running(&loaded) };
    loaded.warnings.extend(running.mistrust());
    let (packing, bill) = ProgressLine::during(args.quiet, &format!("packing {pods} pods"), usual, || {
        committed::solve(&loaded.problem, &options, &commitments, &running)
    });
    let times = answer::Times { solve: solving.elapsed(), load: loaded.load, wall: wall.elapsed() };
    let mut beside = Beside { bill, ..Beside::default() };
    if !loaded.buffers.is_empty() {
        beside.room = Some(buffers::plan(&loaded.problem, &packing, &loaded.buffers, &options));
    }
    if args.what_if.otherwise || args.what_if.html.is_some() {
        beside.alternatives = otherwise::alternatives(&loaded.problem, &packing, &options);
    }
    if args.what_if.diff.is_some() {
        let other = match written {
            Some(written) => (file.unwrap_or_default().to_owned(), written),
            None => {
                let unchanged = placed(devices.as_ref(), &unchanged, args);
                let packing = survive::solve(&unchanged, &options);
                ("the plan without what-ifs".to_owned(), as_written(args, &unchanged, &packing)?)
            }
        };
        let own = as_written(args, &loaded.problem, &packing)?;
        beside.difference = Some(PlanDifference::new(&other.0, &other.1, &own));
    }
    report(args, &loaded, &packing, &times, &beside)?;
    if packing.unscheduled.is_empty() { Ok(()) } else { Err(Failure::Outcome) }
}

/// The problem with the places of pods that claim devices, to which all that follows keeps.
fn placed(devices: Option<&Devices>, problem: &Arc<Problem>, args: &PlanArgs) -> Arc<Problem> {
    let (Some(devices), options) = (devices, options(args)) else { return problem.clone() };
    // Pods of a plan are on no node.
    devices.pack(problem, |_| false, |problem| survive::solve(problem, &options)).0
}

fn options(args: &PlanArgs) -> pack::Options {
    let max_option_price = args.max_option_price.unwrap_or_default();
    pack::Options { price_per_node: args.price_per_node, max_option_price, ..pack::Options::default() }
}

fn set_policy(problem: &mut Arc<Problem>, policy: Option<PackingPolicy>) {
    let policy = match policy {
        None => return,
        Some(PackingPolicy::Cost) => Policy::Cost,
        Some(PackingPolicy::FewestNodes) => Policy::FewestNodes,
        Some(PackingPolicy::NodeGroups) => Policy::NodeGroups,
    };
    for pool in &mut Arc::make_mut(problem).node_pools {
        pool.policy = policy;
    }
}

fn system(why: serde_json::Error) -> Failure {
    Failure::System(why.to_string())
}

/// The answer as `--json` has it.
fn answer_json(args: &PlanArgs, problem: &Problem, packing: &Packing, times: &answer::Times) -> Result<Value, Failure> {
    let called = if args.workload.is_some() { answer::file_name } else { answer::pod_name };
    serde_json::to_value(answer::PlanAnswer::new(problem, packing, times, called)).map_err(system)
}

/// A packing as a plan that can be compared.
fn as_written(args: &PlanArgs, problem: &Problem, packing: &Packing) -> Result<WrittenPlan, Failure> {
    let times = answer::Times { solve: Duration::ZERO, load: Duration::ZERO, wall: Duration::ZERO };
    WrittenPlan::from_answer(answer_json(args, problem, packing, &times)?).map_err(system)
}

fn report(
    args: &PlanArgs,
    loaded: &Loaded,
    packing: &Packing,
    times: &answer::Times,
    beside: &Beside,
) -> Result<(), Failure> {
    if let Some(line) = &loaded.passed_over {
        eprintln!("{}", escape(line));
    }
    let mut warnings = loaded.warnings.clone();
    warnings.extend(packing.daemons_not_counted.iter().map(|one| one.sentence(&loaded.problem)));
    for warning in &warnings {
        eprintln!("warning: {}", escape(warning));
    }
    if let Some(file) = &args.what_if.html {
        let page = page::Page {
            problem: &loaded.problem,
            packing,
            alternatives: &beside.alternatives,
            difference: beside.difference.as_ref(),
            live: loaded.live.as_ref(),
            warnings: &warnings,
        };
        let written = std::fs::write(file, page.render());
        written.map_err(|why| Failure::System(format!("--html {file}: {}", describe(&why))))?;
    }
    let text = match args.form() {
        PlanForm::Text | PlanForm::Wide => text(args, loaded, packing, beside),
        PlanForm::Json => as_json(&whole_answer(args, loaded, packing, times, beside))?,
        PlanForm::Yaml => as_yaml(&whole_answer(args, loaded, packing, times, beside))?,
    };
    print(&text)
}

fn whole_answer<'a>(
    args: &PlanArgs,
    loaded: &'a Loaded,
    packing: &'a Packing,
    times: &answer::Times,
    beside: &'a Beside,
) -> answer::WholeAnswer<'a> {
    let called = if args.workload.is_some() { answer::file_name } else { answer::pod_name };
    let mut plan = answer::PlanAnswer::new(&loaded.problem, packing, times, called);
    plan.static_pools = &loaded.static_pools;
    plan.overlays = &loaded.overlays;
    plan.capacity_quotas = quotas::planned(&loaded.quotas, &loaded.problem, packing);
    plan.bill = beside.bill.map(answer::BillAnswer::from);
    let alternatives = if args.what_if.otherwise { beside.alternatives.as_slice() } else { &[] };
    answer::WholeAnswer {
        plan,
        live: loaded.live.as_ref(),
        otherwise: alternatives,
        difference: beside.difference.as_ref(),
        capacity_buffers: beside.room.as_ref(),
    }
}

fn text(args: &PlanArgs, loaded: &Loaded, packing: &Packing, beside: &Beside) -> String {
    let mut text = table::render(&loaded.problem, packing, args);
    beside.bill.iter().for_each(|bill| text.push_str(&table::bill_line(bill)));
    text.push_str(&overlays::lines(&loaded.problem, packing, &loaded.overlays));
    text.push_str(&quotas::lines(&quotas::planned(&loaded.quotas, &loaded.problem, packing)));
    text.push_str(&static_pools::lines(&loaded.static_pools));
    text.extend(beside.room.iter().map(buffers::lines));
    if args.what_if.otherwise {
        text.push_str(&otherwise::lines(&beside.alternatives));
    }
    if let Some(difference) = &beside.difference {
        text.push_str(&difference.lines());
    }
    text.extend(loaded.live.iter().map(|live| live.sentences(packing.total_price)));
    // Names and messages are a cluster's, or of a chart that somebody else has written.
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    escape_lines(&lines)
}
