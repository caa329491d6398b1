//! Programs that the habits start, each in the repository's root.

use std::process::Command;
use std::time::Instant;

pub use crate::checkout::root;
use crate::ledger;
use crate::usage;

/// A command without what cargo tells the program that it runs of that program's package: crates whose build depends on it
/// (ring) would be built anew, and all that is above them, whenever cargo is called by hand in between.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(own) {
            command.env_remove(name);
        }
    }
    command
}

/// Cargo tells its subcommands which cargo runs them.
pub fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs a program to its end; fails with what was run where it does.
pub fn run(what: &str, program: &str, args: &[&str]) -> Result<(), String> {
    run_with(what, program, args, &[])
}

/// Runs a program with more in its environment.
#[allow(clippy::disallowed_methods)] // the time of a step is real time by definition
pub fn run_with(what: &str, program: &str, args: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    println!("== {what}: {program} {}", args.join(" "));
    let begun = Instant::now();
    let started = command(program).args(args).envs(environment.iter().copied()).current_dir(root()).spawn();
    let mut child = started.map_err(|why| format!("{what}: {program} cannot be started: {why}"))?;
    let (status, cpu) = usage::wait(&mut child).map_err(|why| format!("{what}: {why}"))?;
    ledger::note(what, begun.elapsed(), cpu);
    if status.success() { Ok(()) } else { Err(format!("{what} failed ({status})")) }
}
