//! Completions, man pages, versions, forms of answers, and silence on a pipe.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use common::{arg, dovetail, json, scratch, stderr, stdout};
use serde_json::Value;

#[test]
fn shells_get_completions_for_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let text = stdout(&dovetail(&["completions", shell]));
        for word in ["explain", "savings", "otherwise"] {
            assert!(text.contains(word), "{shell} has no {word}");
        }
    }
    // The shell itself reads it.
    let bash = common::write("dovetail.bash", &stdout(&dovetail(&["completions", "bash"])));
    let line = format!("source {bash} && complete -p dovetail");
    let read = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
    assert!(read.status.success() && stdout(&read).contains("_dovetail"), "{}", stderr(&read));
}

#[test]
fn man_pages_are_written_for_every_command() {
    let folder = scratch("man");
    assert!(dovetail(&["man", "--out", arg(&folder)]).status.success());
    let count = std::fs::read_dir(&folder).unwrap().count();
    let help = stdout(&dovetail(&["--help"]));
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    // The program's own page in place of that of `help`.
    assert_eq!(count, commands.count());
    let page = std::fs::read_to_string(folder.join("dovetail-plan.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("Examples:") && page.contains("price"), "{page}");
    let wrong = dovetail(&["man", "pln"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("did you mean plan?"), "{}", stderr(&wrong));
}

#[test]
fn version_names_the_commit() {
    let answer = json(&dovetail(&["version", "-o", "json"]), 0);
    assert_eq!(answer["version"], env!("CARGO_PKG_VERSION"));
    let text = stdout(&dovetail(&["version"]));
    assert!(text.contains(&format!("(commit {})", answer["commit"].as_str().unwrap())), "{text}");
    let yaml: Value = serde_saphyr::from_str(&stdout(&dovetail(&["version", "-o", "yaml"]))).unwrap();
    assert_eq!(yaml, answer);
}

#[test]
fn plan_has_four_forms_and_nothing_else_on_a_pipe() {
    let files = ["-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml"];
    let of = |form: &str| dovetail(&[&["plan", "-o", form], &files[..]].concat());
    let (text, wide) = (stdout(&of("text")), stdout(&of("wide")));
    assert!(text.contains("other(s)") && !wide.contains("other(s)") && wide.len() > text.len(), "{wide}");
    let same = |mut answer: Value| {
        for of_the_machine in ["solveMs", "loadMs", "wallMs", "peakRssKiB"] {
            answer[of_the_machine] = Value::Null;
        }
        answer
    };
    let yaml: Value = serde_saphyr::from_str(&stdout(&of("yaml"))).unwrap();
    assert_eq!(same(yaml), same(json(&of("json"), 0)));
    for output in [of("text"), dovetail(&["simulate", "deploy/examples/scenario.yaml", "--json"])] {
        assert_eq!(stderr(&output), "", "progress is for terminals");
    }
}

#[test]
fn kind_and_region_that_are_slips_get_a_suggestion() {
    let wrong = dovetail(&["explain", "nodepol", "x"]);
    assert!(stderr(&wrong).contains("did you mean nodepool?"), "{}", stderr(&wrong));
    let wrong = dovetail(&["plan", "-f", "deploy/examples/spot.yaml", "--region", "us-eats-1"]);
    assert!(stderr(&wrong).contains("did you mean us-east-1?"), "{}", stderr(&wrong));
    let wrong = dovetail(&["plan", "-f", "deploy/examples/spot.yaml", "--otherwis"]);
    assert!(stderr(&wrong).contains("--otherwise"), "{}", stderr(&wrong));
}
