//! Examples of the README work as they are written, through a shell.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

use common::{arg, root, scratch, stderr, stdout, write};
use serde_json::Value;

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// The command of the README's code that begins so, with the lines that it goes on in.
fn command(beginning: &str) -> String {
    let text = readme();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("    {beginning}")));
    let mut found = String::new();
    for line in &mut lines {
        found.push_str(line.trim().trim_end_matches('\\'));
        if !line.ends_with('\\') {
            return found;
        }
    }
    panic!("the README has no {beginning}");
}

/// A folder with our binary and helm as `dovetail` and `helm`; made once, as tests run side by side.
static BIN: LazyLock<PathBuf> = LazyLock::new(|| {
    let built = common::python(&["tests/real/build.py", "helm"]);
    assert!(built.status.success(), "{}", stderr(&built));
    let bin = scratch("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (name, program) in [("dovetail", env!("CARGO_BIN_EXE_dovetail")), ("helm", stdout(&built).trim())] {
        let link = bin.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(program, link).unwrap();
    }
    bin
});

/// Output of a line in a shell, with the programs that [`BIN`] has.
fn shell(line: &str) -> Output {
    let path = format!("{}:{}", arg(&BIN), std::env::var("PATH").unwrap());
    Command::new("sh").args(["-c", line]).current_dir(root()).env("PATH", path).output().unwrap()
}

#[test]
fn the_helm_line_gives_the_service_account_its_role() {
    let line = command("helm install").replace("helm install", "helm template");
    let output = shell(&line);
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&stdout(&output)).unwrap();
    let account = objects.iter().find(|object| object["kind"] == "ServiceAccount").unwrap();
    assert_eq!(account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"], "ROLE");
}

#[test]
fn what_a_chart_brings_is_planned_through_a_pipe() {
    let line = command("helm template").split("      ").next().unwrap().to_owned();
    let chart = "web deploy/helm/dovetail --set settings.clusterName=demo --set-json affinity=null";
    let line = line.replace("CHART", chart).replace("POOLS", "deploy/examples/spot.yaml");
    let output = shell(&format!("{line} --json"));
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {}", stderr(&output)));
    assert_eq!(answer["pods"], 2, "{line}: {}", stderr(&output));
    assert_eq!(stderr(&output).lines().filter(|line| line.starts_with("skipped: ")).count(), 1);
}

#[test]
fn the_crds_are_printed_as_kubectl_takes_them() {
    let output = shell(command("dovetail crds").split('|').next().unwrap());
    let objects: Vec<Value> = serde_saphyr::from_multiple(&stdout(&output)).unwrap();
    assert!(objects.len() >= 3 && objects.iter().all(|object| object["kind"] == "CustomResourceDefinition"));
}

#[test]
fn every_subcommand_is_in_the_readme_and_command_reference() {
    let help = stdout(&common::dovetail(&["--help"]));
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(names.len() > 4 && names.contains(&"plan"), "{names:?}");
    let reference = std::fs::read_to_string(root().join("docs/commands.md")).unwrap();
    for name in names {
        let shown = format!("    dovetail {name}");
        assert!(reference.contains(&shown), "docs/commands.md has no line {shown:?}");
        let text = readme();
        let by_cargo = format!("cargo run --release -- {name} ");
        assert!(text.contains(&shown) || text.contains(&by_cargo), "README.md has no line {shown:?}");
    }
}

/// The names of the keys that a mistake says to be allowed.
fn allowed(scenario: &str) -> BTreeSet<String> {
    let path = write("unknown.yaml", scenario);
    let output = common::dovetail(&["simulate", &path]);
    let said = stderr(&output);
    let (_, list) = said.split_once("(allowed: ").unwrap_or_else(|| panic!("{said}"));
    list.split_once(')').unwrap().0.split(", ").map(str::to_owned).collect()
}

#[test]
fn documented_scenario_format_has_every_key() {
    let text = std::fs::read_to_string(root().join("docs/scenarios.md")).unwrap();
    let block: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("    region: "))
        .take_while(|line| !line.is_empty())
        .map(|line| line.strip_prefix("    ").unwrap())
        .collect();
    let shown: Value = serde_saphyr::from_str(&block.join("\n")).unwrap();
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&shown), allowed("nope: 1\n"));
    assert_eq!(keys(&shown["faults"]), allowed("faults: {nope: 1}\n"));
    let steps: BTreeSet<String> = shown["steps"].as_array().unwrap().iter().flat_map(keys).collect();
    assert_eq!(steps, allowed("steps: [{at: 1m, nope: {}}]\n"));
}
