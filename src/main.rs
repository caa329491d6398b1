//! The command line of Dovetail: reads it, calls the command, tells how it ended by the exit status.

mod cli;
mod convert;
mod crds;
mod node_budget;
mod plan;
mod run;
mod sandbox;
mod simulate;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;
use dovetail_input::Failure;

use cli::{Cli, Command};

/// Small objects by the million, of one thread, in a short life: what a problem is read into and solved with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Most mistakes that are printed.
const MOST_MISTAKES: usize = 1_000;

fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Plan(args) => plan::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Sandbox(args) => sandbox::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Crds => crds::run(),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Outcome) => ExitCode::from(1),
        Err(Failure::System(why)) => {
            eprintln!("dovetail: {why}");
            ExitCode::from(1)
        }
        Err(Failure::Input(mistakes)) => {
            for mistake in mistakes.iter().take(MOST_MISTAKES) {
                eprintln!("{mistake}");
            }
            if let more @ 1.. = mistakes.len().saturating_sub(MOST_MISTAKES) {
                eprintln!("and {more} more");
            }
            ExitCode::from(2)
        }
    }
}
