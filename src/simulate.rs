//! `dovetail simulate`: a scenario, or scenarios drawn from seeds, and what is printed of them.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dovetail_input::{Failure, Mistake};
use dovetail_simulation::random::{self, Seeds};
use dovetail_simulation::{CostSoFar, JournalLine, PlayOptions, play_file, shrink};

use crate::cli::SimulateArgs;
use crate::output::print;
use crate::record::progress;
use crate::terminal;

/// Runs the command. [`Failure::Outcome`] when pods stay pending or an invariant is violated.
pub fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let Some(path) = &args.scenario else { return run_random(args) };
    let path = Path::new(path);
    if args.shrink {
        return match shrink(path, &options(args))? {
            Some(shrunk) => print(&shrunk.to_string()).and(Err(Failure::Outcome)),
            None => print("it comes out well: there is nothing to shrink\n"),
        };
    }
    let mut options = PlayOptions { last: true, ..options(args) };
    if !args.json {
        options.watcher = Some(Arc::new(|line: &JournalLine| terminal::print_plain(line)));
    }
    let played = play_file(path, &options)?;
    if args.json {
        let mut text = serde_json::to_string_pretty(&played.report).map_err(|why| Failure::System(why.to_string()))?;
        text.push('\n');
        print(&text)?;
    } else {
        if let Some(metrics) = &played.metrics {
            println!("{metrics}");
        }
        print(&played.report.to_string())?;
    }
    if played.report.came_out_well() { Ok(()) } else { Err(Failure::Outcome) }
}

/// `--random`: what fails is printed as it is found, and a summary at the end.
fn run_random(args: &SimulateArgs) -> Result<(), Failure> {
    let seeds = Seeds::parse(args.seeds.as_deref())?;
    if args.events.is_some() && seeds.count() > 1 {
        return Err(Mistake::of_file("--events", "several seeds into one file")
            .allowing("--seeds with one seed")
            .into());
    }
    let failed = |text: &str| if args.json { Ok(()) } else { print(text) };
    let wanted = random::RandomRun {
        seeds,
        out: args.out.as_ref().map(PathBuf::from),
        shrink: args.shrink,
        options: options(args),
    };
    let summary = random::play(&wanted, &failed)?;
    if args.json {
        print(&format!("{:#}\n", summary.json()))?;
    } else {
        print(&summary.to_string())?;
    }
    if summary.came_out_well() { Ok(()) } else { Err(Failure::Outcome) }
}

fn options(args: &SimulateArgs) -> PlayOptions {
    PlayOptions {
        seed: args.seed,
        interruption: args.interruption.map(crate::cli::InterruptionHandling::setting),
        env: args.environment.env.clone(),
        env_file: args.environment.env_file.clone(),
        broken: args.broken,
        events: args.events.clone(),
        metrics: args.metrics.clone(),
        traces: args.traces.clone(),
        watcher: None,
        record: args.record.clone(),
        look_every: None,
        // With the timeline on standard output everybody sees how far it is.
        progress: if args.json || !std::io::stdout().is_terminal() { progress(args.quiet, "simulated") } else { None },
        cost: if args.cost { Some(print_cost) } else { None },
        last: false,
    }
}

fn print_cost(cost: &CostSoFar) {
    eprintln!("{cost}");
}
