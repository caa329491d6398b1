//! What the habits run, step by step.

use std::process::Command;

use crate::licences;

/// Everything that has to hold, in the order in which a mistake is cheapest to find.
pub fn test() -> Result<(), String> {
    format()?;
    licences::check()?;
    run("checkers can fail", "python3", &["tests/plan/mutations.py"])?;
    run("audit can fail", "python3", &["-m", "unittest", "discover", "-s", "tests/simulation", "-p", "test_*.py"])?;
    clippy()?;
    cargo("tests", &["test", "--release", "--workspace", "--no-fail-fast"])
}

/// Format and clippy.
pub fn lint() -> Result<(), String> {
    format()?;
    clippy()
}

/// The figures of docs/performance.md.
pub fn figures() -> Result<(), String> {
    cargo("binary", &["build", "--release", "--workspace"])?;
    run("figures", "python3", &["tests/figures.py"])
}

fn format() -> Result<(), String> {
    cargo("format", &["fmt", "--all", "--check"])
}

fn clippy() -> Result<(), String> {
    cargo("clippy", &["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn cargo(what: &str, args: &[&str]) -> Result<(), String> {
    // Cargo tells its subcommands which cargo runs them.
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    run(what, &cargo, args)
}

fn run(what: &str, program: &str, args: &[&str]) -> Result<(), String> {
    println!("== {what}: {program} {}", args.join(" "));
    match Command::new(program).args(args).current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} failed ({status})")),
        Err(why) => Err(format!("{what}: {program} cannot be started: {why}")),
    }
}

/// The repository's root, wherever the command was given.
pub fn root() -> std::path::PathBuf {
    let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}
