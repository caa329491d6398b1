//! `cargo xtask test`: everything, the tests that a change can reach, or some of the jobs of a pull request.

use std::time::Instant;

use crate::changed;
use crate::commands::root;
use crate::jobs;
use crate::ledger;
use crate::steps::{self, PROPERTY_SEED};
use crate::yardstick;

/// Runs what the command line asks for, then prints what that took.
#[allow(clippy::disallowed_methods)] // the time of a run is real time by definition
pub fn test() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let cold = !root().join("target/release/dovetail").exists();
    let yardstick = yardstick::measure();
    let begun = Instant::now();
    let seed = steps::property_seed();
    let environment = [(PROPERTY_SEED, seed.as_str())];
    let outcome = match words[..] {
        [] => steps::all_that_has_to_hold(),
        ["--changed"] => changed::test("HEAD", steps::format, &environment),
        ["--changed", revision] => changed::test(revision, steps::format, &environment),
        ["--only", names] => jobs::test(names, &environment),
        _ => return Err("say `test`, `test --changed [REVISION]` or `test --only JOB[,JOB]`".to_owned()),
    };
    ledger::print(begun.elapsed(), yardstick, cold);
    outcome
}
