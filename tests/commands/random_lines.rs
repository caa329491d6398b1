//! Random command lines and files that are cut short: no panic, no success with a part of the answer. `LINES=10000` tries more
//! (`cargo xtask proof lines`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use common::{dovetail, root, stdout, write};

/// Lines in the tests; the proof has more.
const LINES: u64 = 250;

/// Whole files that commands read.
struct Files {
    workload: Vec<u8>,
    manifests: Vec<u8>,
    scenario: Vec<u8>,
    record: Vec<u8>,
    plan: Vec<u8>,
    metrics: Vec<u8>,
}

impl Files {
    fn new() -> Self {
        let workload = serde_json::json!({"name": "w", "nodePools": [{"name": "p"}],
            "instanceTypes": [{"name": "t", "capacity": {"cpu": "4", "memory": "8Gi", "pods": "9"},
                "offerings": [{"zone": "z", "capacityType": "on-demand", "price": 0.1, "available": true}]}],
            "pods": [{"name": "a", "requests": {"cpu": "1"}}, {"name": "größe", "requests": {"cpu": "2"}}]});
        let manifests = ["deploy/examples/spot.yaml", "deploy/examples/inflate-10.yaml"];
        let there = manifests.iter().map(|file| root().join(file)).filter(|file| file.is_file());
        let manifests = there.flat_map(|file| [std::fs::read(file).unwrap(), b"\n---\n".to_vec()]).flatten().collect();
        let scenario =
            b"region: us-east-1\nreplicas: 1\nseed: 3\nsteps:\n  - {at: 10s, message: hello}\nuntil: 20s\n".to_vec();
        let whole = write("whole.yaml", std::str::from_utf8(&scenario).unwrap());
        let record = whole.replace("whole.yaml", "whole.jsonl");
        assert!(dovetail(&["simulate", &whole, "--json", "--record", &record]).status.success());
        let file = write("whole.json", &workload.to_string());
        let plan = dovetail(&["plan", "--workload", &file, "--json"]).stdout;
        let metrics = serde_json::json!({"status": "success", "data": {"resultType": "matrix", "result": [
            {"metric": {"__name__": "dovetail_cost_dollars_per_hour", "zone": "größe"}, "values": [[0, "1"], [60, "2.5"], [120, "NaN"]]}]}});
        Self {
            workload: workload.to_string().into_bytes(),
            manifests,
            scenario,
            record: std::fs::read(record).unwrap(),
            plan,
            metrics: metrics.to_string().into_bytes(),
        }
    }

    /// A file, whole, cut short, or with a byte of another; its name.
    fn draw(&self, rng: &mut fastrand::Rng, line: u64, whole: &[u8], ending: &str) -> String {
        let mut bytes = whole.to_vec();
        match rng.u8(0..4) {
            0 => {}
            1 if !bytes.is_empty() => {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            _ => bytes.truncate(rng.usize(..=bytes.len())),
        }
        let name = write(&format!("drawn-{}.{ending}", line % 8), "");
        std::fs::write(&name, bytes).unwrap();
        name
    }
}

/// Values that flags may get, sense or nonsense.
const VALUES: [&str; 16] = [
    "",
    "1",
    "-1",
    "0",
    "nan",
    "1e999",
    "99999999999999999999",
    "json",
    "yaml",
    "wide",
    "m5.large=1",
    "/nonexistent",
    "a\u{1b}[31m",
    "deployment/web=3",
    "cost",
    "PACKING_POLICY=cost",
];
const FLAGS: [&str; 24] = [
    "--json",
    "-o",
    "--policy",
    "--price",
    "--without-spot",
    "--otherwise",
    "--diff",
    "--region",
    "--seed",
    "--quiet",
    "--set",
    "--with",
    "--points",
    "--seeds",
    "--price-per-node",
    "--max-option-price",
    "--ignore-dra-requests",
    "--consolidate",
    "--scale",
    "--env",
    "--nonsense",
    "--since",
    "--namespace",
    "--to",
];

/// The beginning of a line: the command with what it needs.
fn beginning(rng: &mut fastrand::Rng, line: u64, files: &Files) -> Vec<String> {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    match rng.u8(0..15) {
        0 | 1 => own(&["plan", "--workload", &files.draw(rng, line, &files.workload, "json")]),
        2 | 3 => own(&["plan", "-f", &files.draw(rng, line, &files.manifests, "yaml")]),
        4 => own(&["convert", "-f", &files.draw(rng, line, &files.manifests, "yaml")]),
        5 => own(&["simulate", &files.draw(rng, line, &files.scenario, "yaml"), "--json"]),
        6 => own(&["replay", &files.draw(rng, line, &files.record, "jsonl")]),
        7 => own(&["savings", &files.draw(rng, line, &files.record, "jsonl"), "--points", "2"]),
        8 => {
            let plan = format!("--diff={}", files.draw(rng, line, &files.plan, "json"));
            let file = write("workload.json", std::str::from_utf8(&files.workload).unwrap());
            own(&["plan", "--workload", &file, &plan])
        }
        9 => own(&["explain", ["pod", "node/x", "nodpool", "po/%2f"][rng.usize(0..4)], "--kubeconfig", "/nonexistent"]),
        10 => own(&["doctor", "--kubeconfig", "/nonexistent"]),
        11 => own(&[["crds", "version", "man", "help"][rng.usize(0..4)]]),
        12 => own(&["savings", "--file", &files.draw(rng, line, &files.metrics, "json")]),
        13 => own(&["completions", ["bash", "zsh", "fish", "csh"][rng.usize(0..4)]]),
        _ => own(&["record", "--schema"]),
    }
}

fn drawn_line(rng: &mut fastrand::Rng, line: u64, files: &Files) -> Vec<String> {
    let mut words = beginning(rng, line, files);
    for _ in 0..rng.usize(0..4).saturating_sub(1) {
        let flag = FLAGS[rng.usize(..FLAGS.len())];
        words.push(flag.to_owned());
        if rng.bool() {
            words.push(VALUES[rng.usize(..VALUES.len())].to_owned());
        }
    }
    words
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args(words).env_clear().env("HOME", "/nonexistent").current_dir(root()).stdin(Stdio::null());
    command
}

fn first_seed() -> u64 {
    std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn random_lines_and_cut_files_neither_panic_nor_half_succeed() {
    let lines = std::env::var("LINES").ok().and_then(|text| text.parse().ok()).unwrap_or(LINES);
    let files = Files::new();
    let mut ended = [0_u64; 3];
    for line in 0..lines {
        let mut rng = fastrand::Rng::with_seed(first_seed().wrapping_mul(1_000_003).wrapping_add(line));
        let words = drawn_line(&mut rng, line, &files);
        let output = command(&words).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let code = output.status.code().unwrap_or_else(|| panic!("line {line}: {words:?} was killed: {err}"));
        assert!(code <= 2 && !err.contains("panicked"), "line {line}: {words:?} ended with {code}: {err}");
        ended[usize::try_from(code).unwrap()] += 1;
        if code == 0 {
            assert!(out.ends_with('\n') || out.is_empty(), "line {line}: {words:?}: {out}");
        }
        if code == 0 && words.iter().any(|word| word == "--json") {
            let whole: Result<serde_json::Value, _> = serde_json::from_str(&out);
            assert!(whole.is_ok(), "line {line}: {words:?}: {out}");
        }
        if code == 2 {
            assert!(out.is_empty() && !err.is_empty(), "line {line}: {words:?}: {out}{err}");
        }
    }
    assert!(ended[0] > 0 && ended[2] > 0, "of both some: {ended:?}");
    println!("{lines} lines: {} ended with 0, {} with 1, {} with 2", ended[0], ended[1], ended[2]);
}

#[test]
fn answer_that_cannot_be_written_whole_is_no_success() {
    let plan = ["plan", "-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml"];
    for words in [&["crds"][..], &["version"], &["man"], &["completions", "zsh"], &["record", "--schema"], &plan] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(&words).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn truncated_files_of_json_are_bad_input_at_every_length() {
    let files = Files::new();
    for length in (0..files.workload.len()).step_by(7) {
        let name = write("cut.json", "");
        std::fs::write(&name, &files.workload[..length]).unwrap();
        let output = dovetail(&["plan", "--json", "--workload", &name]);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{length}");
    }
}
