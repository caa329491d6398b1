//! A sample answer of each command, kept true: `UPDATE=1 cargo test --release --test commands contract` writes them anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use common::{dovetail, json, root};
use serde_json::Value;

/// Compares an answer with its sample, or writes the sample.
fn keep(name: &str, mut answer: Value) {
    for of_the_machine in ["solveMs", "loadMs", "wallMs", "peakRssKiB"] {
        if let Some(value) = answer.get_mut(of_the_machine) {
            *value = 0.into();
        }
    }
    let path = root().join("tests/contract").join(name);
    let text = serde_json::to_string_pretty(&answer).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let sample = std::fs::read_to_string(&path).expect("the sample is there");
    assert!(sample == text, "{name} is stale; look at the difference, then run with UPDATE=1");
}

#[test]
fn plan_answers_as_its_sample() {
    let args = ["plan", "--json", "-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml"];
    keep("plan.json", json(&dovetail(&args), 0));
}

#[test]
fn simulate_answers_as_its_sample() {
    keep("simulate.json", json(&dovetail(&["simulate", "--json", "deploy/examples/scenario.yaml"]), 0));
}
