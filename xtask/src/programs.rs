//! All test programs, several at a time: some mostly wait for real clocks and other programs, others only compute.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::commands::{cargo_program, command, root, run_with};
use crate::ledger;
use crate::usage;

/// Programs that mostly wait, one after another in each lane; all others are the last lane, which gives way to these.
const WAITING: [&[&str]; 2] = [&["real"], &["conformance", "live", "real_posts"]];

/// Arguments of cargo for the documentation's examples.
const EXAMPLES: [&str; 4] = ["test", "--release", "--workspace", "--doc"];

/// A test program.
pub struct Program {
    name: String,
    path: PathBuf,
    /// Its package's folder, in which it runs.
    folder: PathBuf,
}

/// Runs all of them and the documentation's examples; fails with the names of those that failed.
pub fn run(programs: Vec<Program>, environment: &[(&str, &str)]) -> Result<(), String> {
    let mut failed = failures(programs, environment);
    failed.extend(run_examples(environment).err());
    outcome(&failed)
}

/// Runs the documentation's examples; fails if one does, or if cargo compiles a crate of ours anew for them: that takes minutes,
/// and comes about where a crate that macros and the binary share is the macros' alone without the binary.
fn run_examples(environment: &[(&str, &str)]) -> Result<(), String> {
    let before = builds_of_ours();
    run_with("examples in the documentation", &cargo_program(), &EXAMPLES, environment)
        .map_err(|_| "the documentation's examples".to_owned())?;
    let anew: Vec<String> = builds_of_ours().difference(&before).cloned().collect();
    if anew.is_empty() {
        Ok(())
    } else {
        Err(format!("one build: compiled anew for the examples: {}", anew.join(", ")))
    }
}

/// Names of cargo's records of what it has built of our crates.
fn builds_of_ours() -> BTreeSet<String> {
    let records = std::fs::read_dir(root().join("target/release/.fingerprint"));
    let names = records.into_iter().flatten().filter_map(|record| record.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with("dovetail")).collect()
}

/// Runs some without the documentation's examples; fails with the names of those that failed.
pub fn run_some(programs: Vec<Program>, environment: &[(&str, &str)]) -> Result<(), String> {
    outcome(&failures(programs, environment))
}

fn outcome(failed: &[String]) -> Result<(), String> {
    if failed.is_empty() { Ok(()) } else { Err(format!("tests failed: {}", failed.join(", "))) }
}

/// Runs programs, those of one lane one after the other; returns the names of those that failed.
fn failures(programs: Vec<Program>, environment: &[(&str, &str)]) -> Vec<String> {
    println!("== tests: {} programs", programs.len());
    let failed = Mutex::new(Vec::new());
    let said = Mutex::new(());
    thread::scope(|scope| {
        for (lane, programs) in lanes(programs) {
            let (failed, said) = (&failed, &said);
            scope.spawn(move || {
                for program in programs {
                    if let Err(why) = one(&program, lane == WAITING.len(), environment, said) {
                        failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(why);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Arguments of all calls of cargo that build tests.
const BUILD: [&str; 4] = ["test", "--release", "--no-run", "--message-format=json-render-diagnostics"];

/// Programs of all tests but the libraries' unit tests: they use what is optimised as in the binary.
const OPTIMISED: &[&str] = &["--workspace", "--bins", "--test", "*"];

/// Libraries whose unit tests are built without optimisation. That is the library's code once more, compiled in half of the time,
/// and its tests take seconds. Each takes a call of its own, in which the libraries that it uses are those of the binary.
const UNOPTIMISED: [&str; 5] = ["core", "api", "sandbox", "actors", "simulation"];

/// The other libraries. They are small; the cloud's tests use the sandbox, which uses the cloud and would be built anew with it.
const LIBRARIES: &[&str] = &["cloud", "input", "observability", "telemetry"];

/// Arguments of the calls, one after the other. For libraries the root package is asked for as well, so that what they use has the
/// features that it has in the binary.
fn builds() -> Vec<Vec<String>> {
    let package = |name: &str| format!("dovetail-{name}");
    let libraries = |names: &[&str]| {
        let named = names.iter().flat_map(|name| ["--package".to_owned(), package(name)]);
        ["--lib", "--package", "dovetail"].map(str::to_owned).into_iter().chain(named).collect::<Vec<_>>()
    };
    let mut all = vec![OPTIMISED.iter().map(|one| (*one).to_owned()).collect(), libraries(LIBRARIES)];
    all.extend(UNOPTIMISED.map(|name| {
        let level = format!("profile.release.package.{}.opt-level=0", package(name));
        [libraries(&[name]), vec!["--config".to_owned(), level]].concat()
    }));
    all
}

/// Builds them; cargo says where each one is.
pub fn built() -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for which in builds() {
        programs.extend(built_of(&which.iter().map(String::as_str).collect::<Vec<_>>())?);
    }
    if programs.is_empty() { Err("cargo has built no test program".to_owned()) } else { Ok(programs) }
}

/// Builds test programs of the root package by their names, and the binary that they start.
pub fn built_of_root(names: &[&str]) -> Result<Vec<Program>, String> {
    let tests = names.iter().flat_map(|name| ["--test", *name]);
    built_of(&["--package", "dovetail"].into_iter().chain(tests).collect::<Vec<_>>())
}

#[allow(clippy::disallowed_methods)] // the time of a build is real time by definition
fn built_of(which: &[&str]) -> Result<Vec<Program>, String> {
    let args = [&BUILD, which].concat();
    println!("== build of the tests: cargo {}", args.join(" "));
    let failed = |why: std::io::Error| format!("build of the tests: {why}");
    let (begun, path) = (Instant::now(), root().join("target/build-messages.json"));
    let messages = File::create(&path).map_err(failed)?;
    let mut child =
        command(&cargo_program()).args(args).current_dir(root()).stdout(messages).spawn().map_err(failed)?;
    let (status, cpu) = usage::wait(&mut child).map_err(failed)?;
    ledger::note("build of the tests", begun.elapsed(), cpu);
    if !status.success() {
        return Err(format!("build of the tests failed ({status})"));
    }
    let lines = std::fs::read_to_string(&path).map_err(failed)?;
    Ok(lines.lines().filter_map(|line| of_message(&serde_json::from_str(line).ok()?)).collect())
}

/// The test program that a message of cargo's tells of, if it tells of one.
fn of_message(message: &Value) -> Option<Program> {
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program { name: message["target"]["name"].as_str()?.to_owned(), path: path.into(), folder: folder.into() })
}

/// Programs by lane: the lanes run side by side, the programs of one lane one after the other.
fn lanes(programs: Vec<Program>) -> BTreeMap<usize, Vec<Program>> {
    let mut lanes = BTreeMap::<usize, Vec<Program>>::new();
    for program in programs {
        let lane = WAITING.iter().position(|names| names.contains(&program.name.as_str())).unwrap_or(WAITING.len());
        lanes.entry(lane).or_default().push(program);
    }
    lanes
}

/// Runs one to its end; what it says is printed in one piece.
#[allow(clippy::disallowed_methods)] // how long a test took is real time by definition
fn one(program: &Program, gives_way: bool, environment: &[(&str, &str)], said: &Mutex<()>) -> Result<(), String> {
    let begun = Instant::now();
    let failed = |why: std::io::Error| format!("{} ({why})", program.name);
    let path = root().join("target/test-output").join(format!("{}.txt", program.file_name()));
    std::fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(failed)?;
    let output = File::create(&path).map_err(failed)?;
    let mut running = if gives_way { Command::new("nice") } else { Command::new(&program.path) };
    if gives_way {
        running.arg(&program.path);
    }
    // The test harness tells the time of each test only to those who take what is not stable yet: it is for people to read.
    running.args(["-Z", "unstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    running.env("CARGO_MANIFEST_DIR", &program.folder).envs(environment.iter().copied()).current_dir(&program.folder);
    running.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
    let (status, cpu) = usage::wait(&mut running.spawn().map_err(failed)?).map_err(failed)?;
    let (wall, text) = (begun.elapsed(), std::fs::read(&path).map_err(failed)?);
    let text = String::from_utf8_lossy(&text);
    ledger::note(&program.name, wall, cpu);
    ledger::note_tests(&program.name, &text);
    let _said = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("\n-- {}: {}, {:.1} s", program.name, program.path.display(), wall.as_secs_f64());
    print!("{text}");
    if status.success() { Ok(()) } else { Err(program.name.clone()) }
}

impl Program {
    /// The file that it is, without its folder.
    fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its name, which is that of its file or folder of tests, or of the crate whose unit tests it has.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of its package, below the root, with a slash at its end; empty for the root's own.
    pub fn folder_below_root(&self) -> String {
        let folder = self.folder.strip_prefix(root()).unwrap_or(&self.folder).display().to_string();
        if folder.is_empty() { folder } else { format!("{folder}/") }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_unit_tests_of_every_library_are_built_once() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let (_, members) = manifest.split_once("members = [").unwrap();
        let members: Vec<&str> = members.split_once(']').unwrap().0.split('"').skip(1).step_by(2).collect();
        let libraries = members.into_iter().filter(|member| root().join(member).join("src").join("lib.rs").exists());
        let mut there: Vec<&str> = libraries.filter_map(|member| member.rsplit('/').next()).collect();
        let mut named = [&UNOPTIMISED[..], LIBRARIES].concat();
        there.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, there);
    }
}
