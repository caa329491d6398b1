//! `dovetail replay`: a record played again, under other settings where they are given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::settings::TABLE;
use dovetail_input::manifests::read_manifests;
use dovetail_input::{Failure, Mistake, describe};
use dovetail_simulation::record::{Record, ReplayChanges};
use dovetail_simulation::{JournalLine, PlayOptions, Played, Progress, play_file};

use super::chart;
use super::figures::{Figures, table};
use crate::cli::ReplayArgs;
use crate::near::did_you_mean;
use crate::output::print;
use crate::progress::ProgressLine;
use crate::terminal;

/// Time between two looks at a replay.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Runs the command. [`Failure::Outcome`] where pods stay pending or an invariant is violated.
///
/// # Errors
/// No record, or the scenario that it makes cannot be played.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let record = read_record(&args.record)?;
    let mut changes = ReplayChanges { settings: settings("--set", &args.settings)?, seed: args.seed, objects: vec![] };
    if !args.node_pool.is_empty() {
        let read = read_manifests(&args.node_pool, &BTreeMap::new(), super::REPLAY_CLUSTER)?;
        changes.objects = read.into_iter().filter(|one| one.v1.is_some()).map(|one| one.object).collect();
    }
    let watcher = args.timeline.then(|| Arc::new(|line: &JournalLine| terminal::print_plain(line)) as _);
    let folder = match &args.out {
        Some(folder) => ScenarioFolder::kept(folder)?,
        None => ScenarioFolder::temporary()?,
    };
    let progress = progress(args.quiet || args.timeline, "replayed");
    let options = PlayOptions { watcher, progress, look_every: Some(LOOK_EVERY), ..PlayOptions::default() };
    let played = play(&record, &changes, &folder, &options)?;
    let all = [Figures::of_record(&record), Figures::of_run("replayed", &played)];
    if let Some(path) = &args.svg {
        chart::write(path, &all)?;
    }
    if args.json {
        let text = serde_json::to_string_pretty(&played.report).map_err(|why| Failure::System(why.to_string()))?;
        print(&(text + "\n"))?;
    } else {
        print(&format!("{}{}", table(&all), played.report))?;
    }
    if played.report.came_out_well() { Ok(()) } else { Err(Failure::Outcome) }
}

/// Reads a record, and says on standard error where it was cut short.
pub(super) fn read_record(path: &str) -> Result<Record, Failure> {
    let record = Record::from_file(path)?;
    if let Some(sentence) = record.cut_sentence(path) {
        eprintln!("warning: {sentence}");
    }
    Ok(record)
}

/// Plays a record with changes.
pub(super) fn play(
    record: &Record,
    changes: &ReplayChanges,
    folder: &ScenarioFolder,
    options: &PlayOptions,
) -> Result<Played, Failure> {
    let scenario = record.write_scenario(&folder.path, changes)?;
    play_file(&scenario, options)
}

/// Hears how far a run is, where somebody sees it.
pub(crate) fn progress(quiet: bool, what: &'static str) -> Option<Progress> {
    let line = ProgressLine::new(quiet);
    if !line.is_shown() {
        return None;
    }
    let line = std::sync::Mutex::new(line);
    Some(Arc::new(move |done, of| {
        if let Ok(line) = line.lock() {
            line.show(what, done, of);
        }
    }))
}

/// Settings as `NAME=VALUE`, each of a name that is known.
pub(super) fn settings(flag: &str, given: &[String]) -> Result<BTreeMap<String, String>, Vec<Mistake>> {
    let (mut found, mut mistakes) = (BTreeMap::new(), Vec::new());
    for text in given {
        let Some((name, value)) = text.split_once('=') else {
            let what = format!("{text:?} is not NAME=VALUE");
            mistakes.push(Mistake::of_file(flag, what).allowing("a setting, as in PACKING_POLICY=fewest-nodes"));
            continue;
        };
        if TABLE.iter().any(|known| known.name == name) {
            found.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let what = format!("there is no setting {name:?}{}", did_you_mean(name, TABLE.iter().map(|known| known.name)));
        mistakes.push(Mistake::of_file(flag, what).allowing("the settings of docs/settings.md"));
    }
    if mistakes.is_empty() { Ok(found) } else { Err(mistakes) }
}

/// Folder of a scenario; a temporary one goes with it.
pub(super) struct ScenarioFolder {
    path: PathBuf,
    temporary: bool,
}

impl ScenarioFolder {
    fn kept(path: &str) -> Result<Self, Failure> {
        Self::made(Path::new(path).to_owned(), false)
    }

    pub(super) fn temporary() -> Result<Self, Failure> {
        let name = format!("dovetail-replay-{}-{:016x}", std::process::id(), fastrand::u64(..));
        Self::made(std::env::temp_dir().join(name), true)
    }

    fn made(path: PathBuf, temporary: bool) -> Result<Self, Failure> {
        let made = if temporary { std::fs::create_dir(&path) } else { std::fs::create_dir_all(&path) };
        made.map_err(|why| Failure::System(format!("{}: {}", path.display(), describe(&why))))?;
        Ok(Self { path, temporary })
    }
}

impl Drop for ScenarioFolder {
    fn drop(&mut self) {
        if self.temporary {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
