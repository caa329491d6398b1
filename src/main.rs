//! The command line of Dovetail: reads it, calls the command, tells how it ended by the exit status.

mod cli;
mod convert;
mod crds;
mod devices;
mod doctor;
mod examples;
mod explain;
mod habits;
mod live;
mod near;
mod node_budget;
mod output;
mod plan;
mod progress;
mod record;
mod run;
mod sandbox;
mod simulate;
mod survive;
mod terminal;
mod top;
mod what_if;

use std::process::ExitCode;

use clap::FromArgMatches as _;
use dovetail_input::Failure;

use cli::{Cli, Command};
use live::escape::escape_lines;

/// Small objects by the million, of one thread, in a short life: what a problem is read into and solved with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Most mistakes that are printed.
const MOST_MISTAKES: usize = 1_000;

fn main() -> ExitCode {
    let ended = match parse().command {
        Command::Plan(args) => plan::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => record::replay(&args),
        Command::Compare(args) => record::compare(&args),
        Command::Savings(args) => record::savings(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Sandbox(args) => sandbox::run(&args),
        Command::Run(args) => run::run(&args, explain::page::of_replica),
        Command::Convert(args) => convert::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Completions(args) => habits::completions(&args),
        Command::Man(args) => habits::man(&args),
        Command::Version(args) => habits::version(&args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Outcome) => ExitCode::from(1),
        Err(Failure::System(why)) => {
            eprintln!("dovetail: {}", harmless(&why));
            ExitCode::from(1)
        }
        Err(Failure::Input(mistakes)) => {
            for mistake in mistakes.iter().take(MOST_MISTAKES) {
                eprintln!("{}", harmless(&mistake.to_string()));
            }
            if let more @ 1.. = mistakes.len().saturating_sub(MOST_MISTAKES) {
                eprintln!("and {more} more");
            }
            ExitCode::from(2)
        }
    }
}

/// A message without what a terminal would obey: it may repeat a name or an answer that anybody has written.
fn harmless(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    escape_lines(&lines).trim_end_matches('\n').to_owned()
}

/// Name of the program as a plugin of kubectl, which finds it on the PATH: a link to `dovetail`.
const PLUGIN: &str = "kubectl-dovetail";

/// Reads the command line; messages and help name the program as the user has called it.
fn parse() -> Cli {
    let called = std::env::args_os().next().map(std::path::PathBuf::from);
    let as_plugin = called.is_some_and(|path| path.file_stem().is_some_and(|name| name == PLUGIN));
    let command = if as_plugin { cli::command().bin_name("kubectl dovetail") } else { cli::command() };
    let matches = command.get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}
