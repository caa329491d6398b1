//! `dovetail simulate --random`: scenarios drawn from seeds. A seed says everything: pools, workloads, what happens
//! when, what goes wrong. Each is written as files first and then played like any other, so that a seed that fails can
//! be played again, read and cut down.

mod faulty;
mod generate;
mod held;
mod moves;
mod odds;
mod rollouts;
mod terms;
mod workload;
mod wrong;

use std::fmt::{self, Write as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dovetail_input::{Failure, Mistake, describe};
use serde::Serialize;
use serde_json::{Value, json};

use crate::play::{PlayOptions, play_file};
use crate::report::Report;
use crate::shrink::shrink;

/// Seeds without any given.
const DEFAULT: Seeds = Seeds { first: 1, last: 20 };
/// Most seeds in one run.
const MOST: u64 = 1_000_000;

/// A seed that failed, and by what.
#[derive(Serialize)]
struct Failed {
    seed: u64,
    violations: Value,
    pending: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Seeds to be played, and options of playing them.
pub struct RandomRun {
    pub seeds: Seeds,
    /// Folder for the scenarios; without it only those that fail are kept, in the temporary folder.
    pub out: Option<PathBuf>,
    /// True to cut a scenario that fails down to the steps that it fails by.
    pub shrink: bool,
    pub options: PlayOptions,
}

/// Outcome of all seeds.
pub struct SeedsSummary {
    seeds: Seeds,
    failed: Vec<Failed>,
    launched: usize,
    terminated: usize,
}

impl SeedsSummary {
    pub fn came_out_well(&self) -> bool {
        self.failed.is_empty()
    }

    pub fn json(&self) -> Value {
        json!({"seeds": self.seeds.count(), "first": self.seeds.first, "last": self.seeds.last, "failed": self.failed,
            "launched": self.launched, "terminated": self.terminated})
    }
}

impl fmt::Display for SeedsSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.seeds.count();
        let well = count - self.failed.len() as u64;
        let Self { launched, terminated, .. } = self;
        writeln!(f, "{well} of {count} seeds came out well; {launched} instances launched, {terminated} terminated")
    }
}

/// Hears of each seed that fails as soon as it has.
type SeedListener<'a> = &'a (dyn Fn(&str) -> Result<(), Failure> + Sync);

/// Plays every seed.
///
/// # Errors
/// Something outside of the worlds fails: a file cannot be written.
pub fn play(wanted: &RandomRun, listener: SeedListener<'_>) -> Result<SeedsSummary, Failure> {
    let next = AtomicU64::new(wanted.seeds.first);
    let all = All { wanted, listener, folder: Folder::new(wanted.out.as_deref()), next, sum: Mutex::default() };
    // Each world lives on one thread; they have nothing in common.
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        let players: Vec<_> = (0..threads).map(|_| scope.spawn(|| all.play())).collect();
        players.into_iter().try_for_each(|player| match player.join() {
            Ok(played) => played,
            Err(_) => Err(Failure::System("a simulation has panicked".to_owned())),
        })
    })?;
    all.folder.close();
    let Sum { mut failed, launched, terminated } = all.sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by_key(|one| one.seed);
    Ok(SeedsSummary { seeds: wanted.seeds, failed, launched, terminated })
}

/// Outcomes of the seeds so far.
#[derive(Default)]
struct Sum {
    failed: Vec<Failed>,
    launched: usize,
    terminated: usize,
}

/// All seeds of a run; each thread takes the next.
struct All<'a> {
    wanted: &'a RandomRun,
    listener: SeedListener<'a>,
    folder: Folder,
    next: AtomicU64,
    sum: Mutex<Sum>,
}

impl All<'_> {
    fn play(&self) -> Result<(), Failure> {
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed > self.wanted.seeds.last {
                return Ok(());
            }
            self.play_one(seed)?;
        }
    }

    fn play_one(&self, seed: u64) -> Result<(), Failure> {
        let path = self.folder.write(seed, &generate::scenario(seed))?;
        let played = play_file(&path, &self.wanted.options).map(|played| played.report);
        let shrunk = match &played {
            Ok(report) if self.wanted.shrink && !report.holds() => shrink(&path, &self.wanted.options)?,
            _ => None,
        };
        let shrunk = shrunk.map(|shrunk| shrunk.to_string()).unwrap_or_default();
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        let one = match played {
            Ok(report) if report.holds() => {
                sum.launched += report.launched();
                sum.terminated += report.terminated();
                None
            }
            Ok(report) => Some(of_report(seed, &report)),
            // A step that the world refused, or bad input: the generator is wrong, and the seed says where.
            Err(Failure::Outcome) => None,
            Err(error) => Some(of_error(seed, &error)),
        };
        match one {
            Some(one) => {
                (self.listener)(&(one.text(&path) + &shrunk))?;
                sum.failed.push(one);
            }
            None => self.folder.forget(seed),
        }
        Ok(())
    }
}

/// Seeds from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    last: u64,
}

impl Seeds {
    /// `17` or `1..200`, both ends included.
    ///
    /// # Errors
    /// The text says no seeds, or too many.
    pub fn parse(text: Option<&str>) -> Result<Self, Mistake> {
        let Some(text) = text else { return Ok(DEFAULT) };
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last && last - first < MOST => Ok(Self { first, last }),
            _ => Err(Mistake::of_file("--seeds", format!("{text:?} says no seeds"))
                .allowing("a seed, or the first and the last as 1..200")),
        }
    }

    /// The number of seeds in the range, both ends included.
    pub fn count(self) -> u64 {
        self.last - self.first + 1
    }
}

fn of_report(seed: u64, report: &Report) -> Failed {
    let whole = serde_json::to_value(report).unwrap_or_default();
    let (violations, pending) = (whole["invariants"]["violations"].clone(), whole["pods"]["pending"].clone());
    Failed { seed, violations, pending, error: None }
}

fn of_error(seed: u64, error: &Failure) -> Failed {
    let text = match error {
        Failure::Input(mistakes) => mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Failure::System(why) => why.clone(),
        Failure::Outcome => String::new(),
    };
    Failed { seed, violations: json!([]), pending: json!({}), error: Some(text) }
}

impl Failed {
    fn text(&self, path: &Path) -> String {
        let mut text = format!("seed {} FAILED\n", self.seed);
        for violation in self.violations.as_array().into_iter().flatten() {
            let _ = writeln!(
                text,
                "  {} at {} s: {}",
                violation["id"].as_str().unwrap_or_default(),
                violation["t"],
                violation["what"].as_str().unwrap_or_default()
            );
        }
        for (pod, reason) in self.pending.as_object().into_iter().flatten() {
            let _ = writeln!(text, "  pending: {pod}: {}", reason.as_str().unwrap_or_default());
        }
        if let Some(error) = &self.error {
            let _ = writeln!(text, "  {error}");
        }
        let _ = writeln!(
            text,
            "  again: dovetail simulate --random --seeds {}, or dovetail simulate {}",
            self.seed,
            path.display()
        );
        text
    }
}

/// The folder of the seeds' files.
struct Folder {
    path: PathBuf,
    /// Files of seeds that came out well are kept.
    keep: bool,
}

impl Folder {
    fn new(out: Option<&Path>) -> Self {
        let path = match out {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(format!("dovetail-seeds-{}", std::process::id())),
        };
        Self { path, keep: out.is_some() }
    }

    /// Writes a seed's files; answers the scenario's path.
    fn write(&self, seed: u64, files: &generate::Files) -> Result<PathBuf, Failure> {
        let folder = self.path.join(format!("seed-{seed}"));
        let system = |why: std::io::Error| Failure::System(format!("{}: {}", folder.display(), describe(&why)));
        std::fs::create_dir_all(&folder).map_err(system)?;
        let scenario = folder.join("scenario.yaml");
        std::fs::write(&scenario, &files.scenario).map_err(system)?;
        std::fs::write(folder.join("workload.yaml"), &files.workload).map_err(system)?;
        if let Some(changed) = &files.changed {
            std::fs::write(folder.join("changed.yaml"), changed).map_err(system)?;
        }
        Ok(scenario)
    }

    /// Nothing is left of the temporary folder unless a seed has failed.
    fn close(&self) {
        if !self.keep {
            let _ = std::fs::remove_dir(&self.path);
        }
    }

    fn forget(&self, seed: u64) {
        if !self.keep {
            // A folder that cannot be removed is left among the temporary files.
            let _ = std::fs::remove_dir_all(self.path.join(format!("seed-{seed}")));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        assert_eq!(Seeds::parse(Some("17")), Ok(Seeds { first: 17, last: 17 }));
        assert_eq!(Seeds::parse(Some("1..200")), Ok(Seeds { first: 1, last: 200 }));
        for bad in ["", "a", "5..1", "1-3", "0..99999999"] {
            assert!(Seeds::parse(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_fault_is_in_some_seeds_and_most_have_none() {
        let all: Vec<String> = (1..=1000).map(|seed| generate::scenario(seed).scenario).collect();
        let marks = ["spoil: {", "  packing: {panicsFor: [app-", "  scheduler: {refuses: [", "  nodes: {"];
        for mark in marks {
            let count = all.iter().filter(|text| text.contains(mark)).count();
            assert!((40..=140).contains(&count), "{mark} is in {count} of 1000");
        }
        let any = all.iter().filter(|text| marks.iter().any(|mark| text.contains(mark))).count();
        assert!((200..=400).contains(&any), "{any} of 1000");
    }

    #[test]
    fn nodes_go_by_our_own_decision_in_some_seeds() {
        let all: Vec<generate::Files> = (1..=1000).map(generate::scenario).collect();
        let count = |fits: fn(&generate::Files) -> bool| all.iter().filter(|files| fits(files)).count();
        let share = |fits, from: usize, to: usize| assert!((from..=to).contains(&count(fits)), "{}", count(fits));
        share(|files| files.workload.contains("Balanced"), 30, 120);
        share(|files| files.scenario.contains("SpotToSpotConsolidation: true"), 60, 140);
        share(|files| files.scenario.contains("ManyToManyConsolidation: true"), 20, 80);
        let restarts = |files: &generate::Files| files.workload.contains("dovetail.dev/move: rollout");
        share(restarts, 100, 200);
        share(|files| files.workload.contains("dovetail.dev/move") != files.scenario.contains("MOVES_ROLLOUT"), 0, 0);
        share(|files| files.scenario.contains("NodeRepair: true") && files.scenario.contains("unwell: {"), 40, 90);
        // A changed manifest differs from the text before.
        share(|files| files.changed.as_ref().is_some_and(|text| !files.workload.contains(text)), 120, 220);
        share(|files| files.scenario.contains("apply: [changed.yaml]") != files.changed.is_some(), 0, 0);
    }

    #[test]
    fn seed_gives_the_same_scenario_each_time_and_others_differ() {
        assert_eq!(generate::scenario(7), generate::scenario(7));
        assert_ne!(generate::scenario(7).scenario, generate::scenario(8).scenario);
    }
}
