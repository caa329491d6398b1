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
    ("forgotten-adoption", "82", "INV-12"),
    ("twice-claimed", "1", "INV-14"),
    ("no-pod-budgets", "29", "INV-15"),
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
