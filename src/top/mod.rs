//! `dovetail top`: nodes, pools, pods that wait and decisions of a live cluster on a terminal, read again and again and never
//! written.
//!
//! ```text
//! reading (a thread): LiveCluster, events ──► Facts ──► Screen (keys, mouse) ──► drawing
//!                                                          └► explain of what is chosen (a thread)
//! ```

mod columns;
mod drawing;
mod facts;
mod figures;
mod plain;
mod reading;
mod screen;
mod session;
mod sorting;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use dovetail_input::Failure;

use crate::live::{ClusterArgs, OutputArgs};
use crate::output::print;
use crate::progress::ProgressLine;
use reading::Reader;

/// `dovetail top`.
#[derive(Args, Clone)]
pub struct TopArgs {
    /// Time between two readings; longer where a reading takes more than a tenth of it
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = every)]
    pub every: Duration,
    /// Print one reading and end, as without a terminal
    #[arg(long)]
    pub once: bool,
    /// Form of a printed reading.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `--every`.
fn every(text: &str) -> Result<Duration, String> {
    let read: Option<jiff::SignedDuration> = text.parse().ok();
    let read = read.and_then(|read| Duration::try_from(read).ok());
    let bounded = read.filter(|read| (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(read));
    bounded.ok_or_else(|| "allowed: 1s to 1h, such as 5s or 2m".to_owned())
}

/// Runs the command: on a terminal until it is left, elsewhere once.
///
/// # Errors
/// No cluster, or a terminal that cannot be used.
pub fn run(args: &TopArgs) -> Result<(), Failure> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let is_printed = args.once || args.output.json || args.output.output.is_some();
    if is_terminal && !is_dumb && !is_printed {
        return session::run(args);
    }
    let mut reader = Reader::new(args.cluster.clone())?;
    let line = ProgressLine::new(false);
    line.show("read", Duration::ZERO, Duration::from_secs(1));
    let read = reader.read_facts();
    line.clear();
    let facts = read?.facts;
    print(&args.output.render(&facts, || plain::render(&facts))?)
}
