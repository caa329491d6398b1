//! Variants broken on purpose (docs/decisions/012) are found by the checks as they are: each variant by a scenario of its own
//! (tests/simulation/broken), in which nothing is found with nothing broken. Files do not change with what seeds draw.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use std::collections::BTreeSet;

use common::{dovetail, root, stderr};

/// Each variant, and the invariant that is violated then.
const FOUND: [(&str, &str); 17] = [
    ("double-resend", "INV-11"),
    ("early-replacements", "INV-20"),
    ("forgotten-adoption", "INV-12"),
    ("forgotten-moves", "INV-21"),
    ("no-brakes", "INV-13"),
    ("no-budgets", "INV-17"),
    ("no-deadline", "INV-8"),
    ("no-fence", "INV-9"),
    ("no-free-slots", "INV-26"),
    ("no-futile-brake", "INV-23"),
    ("no-holds", "INV-19"),
    ("no-least-age", "INV-22"),
    ("no-limits", "INV-16"),
    ("no-pod-budgets", "INV-15"),
    ("no-token", "INV-11"),
    ("no-unused-brake", "INV-18"),
    ("twice-claimed", "INV-14"),
];

/// The invariants that are violated in a variant's scenario.
fn violated(variant: &str, more: &[&str]) -> BTreeSet<String> {
    let scenario = format!("tests/simulation/broken/{variant}/scenario.yaml");
    let output = dovetail(&[&["simulate", &scenario, "--json"], more].concat());
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{variant}: {}", stderr(&output)));
    let violations = report["invariants"]["violations"].as_array().unwrap();
    violations.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    for (variant, invariant) in FOUND {
        let found = violated(variant, &["--break", variant]);
        assert!(found.contains(invariant), "{variant}: {found:?}");
    }
}

#[test]
fn with_nothing_broken_nothing_is_found_in_the_same_scenarios() {
    for (variant, _) in FOUND {
        assert_eq!(violated(variant, &[]), BTreeSet::new(), "{variant}");
    }
}

#[test]
fn every_variant_has_a_scenario() {
    let folders = std::fs::read_dir(root().join("tests/simulation/broken")).unwrap();
    let mut folders: Vec<_> = folders.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    folders.sort();
    assert_eq!(folders, FOUND.map(|(variant, _)| variant));
    // An unknown variant is answered with the names of those that there are.
    let output = dovetail(&["simulate", "--random", "--seeds", "1", "--break", "nothing-of-that-name"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    let (_, values) = text.split_once("possible values: ").unwrap_or_else(|| panic!("{text}"));
    let mut values: Vec<_> = values.split(']').next().unwrap().split(", ").collect();
    values.sort_unstable();
    assert_eq!(values, FOUND.map(|(variant, _)| variant), "{text}");
}
