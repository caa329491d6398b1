//! Callers of the conversion webhook that mean harm.

use serde_json::Value;

use crate::common::{self, write};
use crate::stub::Sandbox;

/// As docs/guide/threats.md promises it.
const PEAK_MIB: u64 = 200;

#[test]
fn hostile_reviews_keep_memory_small_and_others_answered() {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: dovetail-webhook, namespace: kube-system}\ntype: Opaque\n";
    let sandbox = Sandbox::start("reviews", &[&write("run-reviews-secret.yaml", secret)]);
    let run = sandbox.run("reviews").env("WEBHOOK_ENABLED", "true").env("WEBHOOK_PORT", "0");
    let mut running = run.env("WEBHOOK_URL", "https://127.0.0.1:1/conversion/karpenter.sh").start();
    let address = running.line(|line| !line["webhook"].is_null())["webhook"].clone();
    running.event("webhook_serves");
    let output = common::python(&["tests/live/run/hostile_reviews.py", address.as_str().unwrap(), "5"]);
    let told: Value = serde_json::from_str(&common::stdout(&output)).unwrap_or_else(|_| panic!("{output:?}"));
    let peak = running.peak_kib() / 1024;
    eprintln!("{told}, {peak} MiB");
    assert!(peak < PEAK_MIB, "{peak} MiB: {told}");
    // Both objects of each are converted, also the one with managed fields that are 130 levels deep.
    let met = told["met"].as_object().unwrap();
    assert!(met.len() == 1 && met.contains_key("200 2 True"), "{told}");
    for (attack, statuses) in told["others"].as_object().unwrap() {
        let statuses = statuses.as_object().unwrap();
        assert!(statuses.keys().any(|status| status != "0"), "{attack} never came through: {told}");
    }
    assert!(told["slowest"].as_f64().unwrap() < 4.0, "{told}");
}
