//! The tests that a change can reach: programs of the packages that it touches and of those that depend on them, and the
//! Python suites that read the folders that it touches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::commands::{cargo_program, command, root};
use crate::programs::{self, Program};
use crate::suites::{OF_THE_TREE, SUITES, Suite};

/// The package of the binary, whose tests lie in tests/.
const BINARY: &str = "dovetail";

/// A package of ours.
#[derive(Default)]
struct Package {
    /// Below the root, with a slash at its end; empty for the binary's.
    folder: String,
    /// Packages of ours that it is made of.
    needs: BTreeSet<String>,
    /// Packages of ours that only its tests use.
    tests_need: BTreeSet<String>,
}

type Packages = BTreeMap<String, Package>;

/// Runs what the changes since a revision can reach, with those that are not committed: `format` first, and test programs with
/// more in their environment.
///
/// # Errors
/// Git or cargo does not answer, or a test fails.
pub fn test(revision: &str, format: fn() -> Result<(), String>, environment: &[(&str, &str)]) -> Result<(), String> {
    let files = files_changed(revision)?;
    println!("== {} file(s) changed since {revision}", files.len());
    let reads_one = |suite: &&Suite| files.iter().any(|file| suite.reads(file));
    OF_THE_TREE.iter().chain(&SUITES).filter(reads_one).try_for_each(Suite::run)?;
    format()?;
    let reached = reached(&files, &packages()?);
    if reached.is_empty() {
        println!("== no test program is reached");
        return Ok(());
    }
    let programs = programs::built()?;
    let all = programs.len();
    let chosen: Vec<Program> = programs.into_iter().filter(|program| reached.contains(program)).collect();
    println!("== {} of {all} test programs are reached", chosen.len());
    programs::run(chosen, environment)
}

/// Files that differ from a revision, and those that git does not know yet.
fn files_changed(revision: &str) -> Result<BTreeSet<String>, String> {
    let mut files = BTreeSet::new();
    for args in [["diff", "--name-only", revision].as_slice(), &["ls-files", "--others", "--exclude-standard"]] {
        let output = command("git").args(args).current_dir(root()).output();
        let output = output.map_err(|why| format!("git cannot be started: {why}"))?;
        if !output.status.success() {
            return Err(format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
        }
        files.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned));
    }
    Ok(files)
}

/// Our packages as cargo knows them.
fn packages() -> Result<Packages, String> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let output = command(&cargo_program()).args(args).current_dir(root()).output();
    let output = output.map_err(|why| format!("cargo metadata cannot be started: {why}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|why| format!("cargo metadata: {why}"))?;
    let root = format!("{}/", root().display());
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.filter_map(|package| package_of(package, &root)).collect())
}

fn package_of(package: &Value, root: &str) -> Option<(String, Package)> {
    let folder = package["manifest_path"].as_str()?.strip_prefix(root)?.strip_suffix("Cargo.toml")?.to_owned();
    let mut known = Package { folder, ..Package::default() };
    for dependency in package["dependencies"].as_array()? {
        if dependency["path"].is_null() {
            continue;
        }
        let name = dependency["name"].as_str()?.to_owned();
        let set = if dependency["kind"] == "dev" { &mut known.tests_need } else { &mut known.needs };
        set.insert(name);
    }
    Some((package["name"].as_str()?.to_owned(), known))
}

/// Tests that a change reaches: whole packages, and single programs of tests/.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reached {
    /// Folders of packages all of whose programs are reached.
    folders: BTreeSet<String>,
    /// Names of the binary's test programs whose own files alone have changed.
    programs: BTreeSet<String>,
}

impl Reached {
    fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.programs.is_empty()
    }

    fn contains(&self, program: &Program) -> bool {
        let folder = program.folder_below_root();
        self.folders.contains(&folder) || folder.is_empty() && self.programs.contains(program.name())
    }
}

fn reached(files: &BTreeSet<String>, packages: &Packages) -> Reached {
    let mut reached = Reached::default();
    // Packages whose code, or the code that they are made of, has changed.
    let mut changed: BTreeSet<&str> = BTreeSet::new();
    for file in files {
        // Every package is built by these.
        if ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "clippy.toml"].contains(&file.as_str()) {
            changed.extend(packages.keys().map(String::as_str));
        }
        if let Some(program) = file.strip_prefix("tests/").and_then(|rest| rest.split(['/', '.']).next()) {
            reached.programs.insert(program.to_owned());
            // The checks and helpers that several programs share.
            if ["common", "played", "fixtures", "workloads", "contract", "plan", "simulation"].contains(&program) {
                changed.insert(BINARY);
            }
            continue;
        }
        let holds = |(_, package): &(&String, &Package)| file.starts_with(&package.folder);
        let nearest = packages.iter().filter(holds).max_by_key(|(_, package)| package.folder.len());
        // Documents and charts are read by the binary's tests alone.
        changed.extend(nearest.map(|(name, _)| name.as_str()));
    }
    loop {
        let needs_changed =
            |(_, package): &(&String, &Package)| package.needs.iter().any(|need| changed.contains(need.as_str()));
        let more: Vec<&str> = packages.iter().filter(needs_changed).map(|(name, _)| name.as_str()).collect();
        let before = changed.len();
        changed.extend(more);
        if changed.len() == before {
            break;
        }
    }
    for (name, package) in packages {
        if changed.contains(name.as_str()) || package.tests_need.iter().any(|need| changed.contains(need.as_str())) {
            reached.folders.insert(package.folder.clone());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn few() -> Packages {
        let package = |folder: &str, needs: &[&str], tests_need: &[&str]| Package {
            folder: folder.to_owned(),
            needs: set(needs),
            tests_need: set(tests_need),
        };
        [
            ("dovetail", package("", &["actors", "sandbox"], &[])),
            ("actors", package("actors/", &["core"], &["sandbox"])),
            ("sandbox", package("crates/sandbox/", &["core"], &[])),
            ("core", package("crates/core/", &["api"], &[])),
            ("api", package("crates/api/", &[], &["xtask"])),
            ("xtask", package("xtask/", &[], &[])),
        ]
        .map(|(name, package)| (name.to_owned(), package))
        .into()
    }

    #[test]
    fn a_change_reaches_what_is_made_of_it_and_its_tests() {
        let folders = |file: &str| reached(&set(&[file]), &few()).folders;
        assert_eq!(folders("crates/core/src/lib.rs"), set(&["", "actors/", "crates/core/", "crates/sandbox/"]));
        assert_eq!(folders("crates/sandbox/src/lib.rs"), set(&["", "actors/", "crates/sandbox/"]));
        // The tests of api use xtask, which makes nothing of core another.
        assert_eq!(folders("xtask/src/main.rs"), set(&["crates/api/", "xtask/"]));
        assert_eq!(folders("Cargo.lock").len(), few().len());
        assert_eq!(folders("README.md"), set(&[""]));
    }

    #[test]
    fn a_test_program_that_changes_runs_alone() {
        let reached = reached(&set(&["tests/live/kubectl.rs", "tests/seeds.rs"]), &few());
        assert_eq!(reached, Reached { folders: BTreeSet::new(), programs: set(&["live", "seeds"]) });
        let shared = super::reached(&set(&["tests/common/mod.rs"]), &few());
        assert_eq!(shared.folders, set(&[""]));
    }
}
