//! What is broken on purpose (docs/decisions/012) is found by the checks as they are. With nothing broken the same seeds find
//! nothing: tests/seeds.rs and `cargo xtask proof seeds`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::dovetail;

/// Each variant, seeds of which at least one finds it, and the invariant that is violated then.
const FOUND: [(&str, &str, &str); 10] = [
    ("no-fence", "12", "INV-9"),
    ("no-deadline", "662", "INV-8"),
    ("no-token", "1", "INV-11"),
    ("double-resend", "4", "INV-11"),
    ("no-brakes", "18", "INV-13"),
    ("forgotten-adoption", "22", "INV-12"),
    ("twice-claimed", "1", "INV-14"),
    ("no-pod-budgets", "73", "INV-15"),
    ("no-limits", "5", "INV-16"),
    ("no-budgets", "28", "INV-17"),
];

#[test]
fn what_is_broken_on_purpose_is_found() {
    for (variant, seeds, invariant) in FOUND {
        let output = dovetail(&["simulate", "--random", "--json", "--seeds", seeds, "--break", variant]);
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(output.status.code(), Some(1), "{variant}");
        let failed = summary["failed"].as_array().unwrap().iter();
        let violations = failed.flat_map(|one| one["violations"].as_array().unwrap());
        let found: std::collections::BTreeSet<&str> = violations.map(|one| one["id"].as_str().unwrap()).collect();
        assert!(found.contains(invariant), "{variant}: {found:?}");
    }
}

/// A scenario of its own finds it: the random ones have no nodes that are not what was planned.
#[test]
fn the_brake_of_launches_that_nobody_uses_is_missed_when_it_is_taken_out() {
    let scenario = "tests/simulation/scenarios/unused-taint.yaml";
    let violated = |more: &[&str]| {
        let output = dovetail(&[&["simulate", scenario, "--json"], more].concat());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let violations = report["invariants"]["violations"].as_array().unwrap().clone();
        violations.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(violated(&[]).is_empty());
    assert!(violated(&["--break", "no-unused-brake"]).contains("INV-18"));
}
