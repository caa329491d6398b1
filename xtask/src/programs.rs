//! All test programs, several at a time: some mostly wait for real clocks and other programs, others only compute.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::commands::{cargo_program, command, root};

/// Programs that mostly wait, one after another in each lane; all others are the last lane, which gives way to these.
const WAITING: [&[&str]; 2] = [&["real"], &["conformance", "live", "real_posts"]];

/// A test program.
pub struct Program {
    name: String,
    path: PathBuf,
    /// Its package's folder, in which it runs.
    folder: PathBuf,
}

/// Runs all of them and the documentation's examples; fails with the names of those that failed.
pub fn run(programs: Vec<Program>, environment: &[(&str, &str)]) -> Result<(), String> {
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
    let mut failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let examples = ["test", "--release", "--workspace", "--doc"];
    println!("== examples in the documentation: cargo {}", examples.join(" "));
    let status =
        command(&cargo_program()).args(examples).envs(environment.iter().copied()).current_dir(root()).status();
    if !status.is_ok_and(|status| status.success()) {
        failed.push("the documentation's examples".to_owned());
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("tests failed: {}", failed.join(", "))) }
}

/// Builds them; cargo says where each one is.
pub fn built() -> Result<Vec<Program>, String> {
    let args = ["test", "--release", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    println!("== build of the tests: cargo {}", args.join(" "));
    let output = command(&cargo_program())
        .args(args)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| format!("build of the tests: cargo cannot be started: {why}"))?;
    if !output.status.success() {
        return Err(format!("build of the tests failed ({})", output.status));
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    let programs: Vec<Program> =
        lines.lines().filter_map(|line| of_message(&serde_json::from_str(line).ok()?)).collect();
    if programs.is_empty() { Err("cargo has built no test program".to_owned()) } else { Ok(programs) }
}

/// The test program that a message of cargo's tells of, if it tells of one.
fn of_message(message: &Value) -> Option<Program> {
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program { name: message["target"]["name"].as_str()?.to_owned(), path: path.into(), folder: folder.into() })
}

/// Who runs after whom.
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
    let mut running = if gives_way { Command::new("nice") } else { Command::new(&program.path) };
    if gives_way {
        running.arg(&program.path);
    }
    running.env("CARGO_MANIFEST_DIR", &program.folder).envs(environment.iter().copied()).current_dir(&program.folder);
    let output = running.output().map_err(|why| format!("{} ({why})", program.name))?;
    let _said = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("\n-- {}: {}, {:.1} s", program.name, program.path.display(), begun.elapsed().as_secs_f64());
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(program.name.clone()) }
}
