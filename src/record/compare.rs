//! `dovetail compare`: a record played under several settings, side by side, each with the error that chance makes.

use dovetail_input::{Failure, Mistake};
use dovetail_simulation::PlayOptions;
use dovetail_simulation::record::ReplayChanges;

use super::chart;
use super::figures::{Figures, table};
use super::replay::{ScenarioFolder, play, progress, read_record, settings};
use crate::cli::CompareArgs;
use crate::output::print;

/// Seed of the first run; the others follow.
const FIRST_SEED: u64 = 1;
/// Most runs of one command.
const MOST_RUNS: usize = 200;

/// Runs the command.
///
/// # Errors
/// No record, or a setting that there is not.
pub fn run(args: &CompareArgs) -> Result<(), Failure> {
    let mut ways = vec![("replayed".to_owned(), ReplayChanges::default())];
    let usual = ["PACKING_POLICY=fewest-nodes".to_owned()];
    for with in if args.with.is_empty() { &usual[..] } else { &args.with } {
        let given: Vec<String> = with.split(',').map(str::to_owned).collect();
        let changes = ReplayChanges { settings: settings("--with", &given)?, ..ReplayChanges::default() };
        ways.push((with.clone(), changes));
    }
    if ways.len() * args.seeds as usize > MOST_RUNS {
        let what = format!("{} runs in all", ways.len() * args.seeds as usize);
        return Err(Mistake::of_file("--seeds", what).allowing(format!("{MOST_RUNS} runs at most")).into());
    }
    let record = read_record(&args.record)?;
    let mut all = vec![Figures::of_record(&record)];
    for (name, changes) in &ways {
        all.push(of_way(args, &record, name, changes)?);
    }
    if let Some(path) = &args.svg {
        chart::write(path, &all)?;
    }
    if args.json {
        let text = serde_json::to_string_pretty(&all).map_err(|why| Failure::System(why.to_string()))?;
        return print(&(text + "\n"));
    }
    let seeds = args.seeds;
    print(&format!(
        "{}± has one more such run in 19 of 20 cases, by {seeds} run(s) that differ by chance alone, and what is not seen \
         between two looks\n",
        table(&all)
    ))
}

fn of_way(
    args: &CompareArgs,
    record: &dovetail_simulation::record::Record,
    name: &str,
    changes: &ReplayChanges,
) -> Result<Figures, Failure> {
    let mut runs = Vec::new();
    for seed in (FIRST_SEED..).take(args.seeds as usize) {
        let folder = ScenarioFolder::temporary()?;
        let options = PlayOptions {
            progress: progress(args.quiet, "compared"),
            look_every: Some(std::time::Duration::from_secs(30)),
            ..PlayOptions::default()
        };
        let changes = ReplayChanges { seed: Some(seed), ..changes.clone() };
        runs.push(Figures::of_run(name, &play(record, &changes, &folder, &options)?));
    }
    Ok(Figures::mean(&runs))
}
