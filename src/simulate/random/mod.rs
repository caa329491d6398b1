//! `dovetail simulate --random`: scenarios drawn from seeds. A seed says everything: pools, workloads, what happens
//! when, what goes wrong. Each is written as files first and then played like any other, so that a seed that fails can
//! be played again, read and cut down.

mod faulty;
mod generate;
mod held;
mod odds;
mod terms;
mod workload;

use std::fmt::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};

use super::report::Report;
use super::shrink::shrink;
use super::{play_file, print};
use crate::cli::SimulateArgs;
use crate::input::{Failure, Mistake, describe};

/// Seeds without any given.
const DEFAULT: (u64, u64) = (1, 20);
/// Most seeds in one run.
const MOST: u64 = 1_000_000;

/// What became of a seed.
#[derive(Serialize)]
struct Failed {
    seed: u64,
    violations: Value,
    pending: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Plays every seed. [`Failure::Outcome`] when one does not come out well.
pub fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let (first, last) = seeds(args.seeds.as_deref())?;
    if args.events.is_some() && first != last {
        return Err(Mistake::of_file("--events", "several seeds into one file")
            .allowing("--seeds with one seed")
            .into());
    }
    let all = All { args, folder: Folder::of(args)?, next: AtomicU64::new(first), last, sum: Mutex::default() };
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
    let count = last - first + 1;
    if args.json {
        let summary = json!({"seeds": count, "first": first, "last": last, "failed": failed,
            "launched": launched, "terminated": terminated});
        print(&format!("{summary:#}\n"))?;
    } else {
        let well = count - failed.len() as u64;
        print(&format!(
            "{well} of {count} seeds came out well; {launched} instances launched, {terminated} terminated\n"
        ))?;
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Outcome) }
}

/// What the seeds have come to.
#[derive(Default)]
struct Sum {
    failed: Vec<Failed>,
    launched: usize,
    terminated: usize,
}

/// All seeds of a run; each thread takes the next.
struct All<'a> {
    args: &'a SimulateArgs,
    folder: Folder,
    next: AtomicU64,
    last: u64,
    sum: Mutex<Sum>,
}

impl All<'_> {
    fn play(&self) -> Result<(), Failure> {
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed > self.last {
                return Ok(());
            }
            self.play_one(seed)?;
        }
    }

    fn play_one(&self, seed: u64) -> Result<(), Failure> {
        let path = self.folder.write(seed, &generate::scenario(seed))?;
        let played = play_file(&path, self.args, true);
        let shrunk = match &played {
            Ok(report) if self.args.shrink && !report.holds() => shrink(&path, self.args)?,
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
                if !self.args.json {
                    print(&(one.text(&path) + &shrunk))?;
                }
                sum.failed.push(one);
            }
            None => self.folder.forget(seed),
        }
        Ok(())
    }
}

/// `17` or `1..200`, both ends included.
fn seeds(text: Option<&str>) -> Result<(u64, u64), Mistake> {
    let Some(text) = text else { return Ok(DEFAULT) };
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last && last - first < MOST => Ok((first, last)),
        _ => Err(Mistake::of_file("--seeds", format!("{text:?} says no seeds"))
            .allowing("a seed, or the first and the last as 1..200")),
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

/// Where the files of the seeds are.
struct Folder {
    path: PathBuf,
    /// Files of seeds that came out well are kept.
    keep: bool,
}

impl Folder {
    fn of(args: &SimulateArgs) -> Result<Self, Failure> {
        let keep = args.out.is_some();
        let path = match &args.out {
            Some(path) => PathBuf::from(path),
            None => std::env::temp_dir().join(format!("dovetail-seeds-{}", std::process::id())),
        };
        Ok(Self { path, keep })
    }

    /// Writes a seed's files; answers the scenario's path.
    fn write(&self, seed: u64, files: &generate::Files) -> Result<PathBuf, Failure> {
        let folder = self.path.join(format!("seed-{seed}"));
        let system = |why: std::io::Error| Failure::System(format!("{}: {}", folder.display(), describe(&why)));
        std::fs::create_dir_all(&folder).map_err(system)?;
        let scenario = folder.join("scenario.yaml");
        std::fs::write(&scenario, &files.scenario).map_err(system)?;
        std::fs::write(folder.join("workload.yaml"), &files.workload).map_err(system)?;
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
            // What cannot be removed from a temporary folder is nobody's trouble.
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
        assert_eq!(seeds(Some("17")), Ok((17, 17)));
        assert_eq!(seeds(Some("1..200")), Ok((1, 200)));
        for bad in ["", "a", "5..1", "1-3", "0..99999999"] {
            assert!(seeds(Some(bad)).is_err(), "{bad}");
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
    fn a_seed_gives_the_same_files_each_time_and_another_gives_others() {
        assert_eq!(generate::scenario(7), generate::scenario(7));
        assert_ne!(generate::scenario(7).scenario, generate::scenario(8).scenario);
    }
}
