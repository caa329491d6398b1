//! `record` on a cluster: what changes is written, nothing is written to the cluster, and the record can be played.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::live::{LONGEST_WAIT, Live};
use common::{arg, dovetail, scratch, stderr, write};
use serde_json::{Value, json};

#[test]
fn record_of_a_live_cluster_has_its_changes_and_is_played() {
    let live = Live::start("record", &["--speed", "10", "--replicas", "1", "-f", "deploy/examples/spot.yaml"]);
    live.wait_for("elected");
    let container = json!({"name": "main", "image": "private/web", "command": ["--token=secret"],
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}});
    let file = write("web.json", &web.to_string());
    live.ok(&["apply", "-f", &file]);
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let record = arg(&scratch("live.jsonl")).to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args([
        "record",
        &record,
        "--for",
        "20s",
        "--every",
        "1s",
        "--hash-names",
        "--offers",
        "shipped",
        "--kubeconfig",
        live.kubeconfig(),
    ]);
    let recording = command.env_clear().env("HOME", "/nonexistent").env("AWS_REGION", "us-east-1").spawn().unwrap();
    // It has begun, and has looked a second time.
    let seen = || std::fs::read_to_string(&record).unwrap_or_default().matches("\"line\":\"seen\"").count();
    let begun = Instant::now();
    while seen() < 3 {
        assert!(begun.elapsed() < LONGEST_WAIT, "it records nothing");
        std::thread::sleep(Duration::from_millis(100));
    }
    live.ok(&["scale", "deployment/web", "--replicas=9"]);
    let output = recording.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(&record).unwrap();
    for secret in ["secret", "private/web", "\"web\""] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["line"] == kind).collect::<Vec<_>>();
    let scaled = of("step").into_iter().find(|line| line["step"]["scale"]["replicas"] == 9);
    assert!(scaled.is_some_and(|line| line["t"].as_f64().unwrap() > 1.0), "{text}");
    assert!(of("seen").len() >= 4 && of("seen")[0]["pricePerHour"].as_f64().unwrap() > 0.0, "{text}");
    let replayed = dovetail(&["replay", &record, "--json"]);
    let report: Value = serde_json::from_slice(&replayed.stdout).unwrap_or_else(|_| panic!("{}", stderr(&replayed)));
    assert!(report["pods"]["total"].as_u64().unwrap() >= 9, "{report:#}");
}
