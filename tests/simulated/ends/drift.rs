//! Nodes that are no longer what their pool and class ask for are replaced, within budgets and places first; nodes that still
//! are what is asked for stay. Each scenario is run by the binary, and its report is checked against its events by the audit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::{arg, dovetail, json, python, root, scratch, stderr, stdout};
use serde_json::Value;

/// A run: its report and its events.
struct Run {
    report: Value,
    events: Vec<Value>,
}

impl Run {
    fn of(name: &str) -> Self {
        let scenario = root().join(format!("tests/simulation/scenarios/{name}.yaml"));
        let (events, saved) = (scratch(&format!("{name}.jsonl")), scratch(&format!("{name}.report.json")));
        let output = dovetail(&["simulate", arg(&scenario), "--json", "--events", arg(&events)]);
        let report = json(&output, 0);
        std::fs::write(&saved, &output.stdout).unwrap();
        let audit = python(&["tests/simulation/audit.py", arg(&events), arg(&saved)]);
        assert!(audit.status.success(), "{name}: {}{}", stdout(&audit), stderr(&audit));
        assert_eq!(report["invariants"]["violations"], serde_json::json!([]), "{name}");
        let lines = std::fs::read_to_string(events).unwrap();
        Self { report, events: lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect() }
    }

    fn told(&self, event: &str) -> Vec<&Value> {
        self.report["timeline"].as_array().unwrap().iter().filter(|line| line["event"] == event).collect()
    }

    /// Deletions of NodeClaims by name: when each was first accepted.
    fn removed(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for event in &self.events {
            let deleted = event["kind"] == "api" && event["resource"] == "nodeclaims" && event["verb"] == "delete";
            if deleted && event["code"] == 200 {
                all.entry(event["name"].as_str().unwrap().to_owned()).or_insert(at(event));
            }
        }
        all
    }

    /// The most claims that were going at once: asked to, and their instance not ending yet.
    fn most_at_once(&self) -> usize {
        let mut changes: Vec<(f64, i32)> = self.removed().values().map(|t| (*t, 1)).collect();
        let ends = self.events.iter().filter(|event| event["kind"] == "instance" && event["change"] == "shutting-down");
        changes.extend(ends.map(|event| (at(event), -1)));
        changes.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let going = changes.iter().scan(0, |going, (_, by)| {
            *going += by;
            Some(*going)
        });
        usize::try_from(going.max().unwrap_or(0)).unwrap()
    }

    fn all_bound(&self) {
        assert_eq!(self.report["pods"]["pending"], serde_json::json!({}));
        assert_eq!(self.report["pods"]["bound"], 12);
    }

    /// Every pod that was sent away was missed for a few seconds, as its place was there.
    fn nobody_is_missed_for_long(&self) {
        let number = |field: &str| self.report["downtime"][field].as_f64().unwrap();
        let (missed, evicted) = (number("podSeconds"), number("evicted"));
        assert!(evicted >= 12.0 && missed <= 4.0 * evicted, "{evicted} pods were missed for {missed} s together");
        assert!(self.told("places_given_up").is_empty());
    }

    fn reasons(&self) -> BTreeSet<&str> {
        self.told("drifted").into_iter().map(|line| line["reason"].as_str().unwrap()).collect()
    }
}

fn at(line: &Value) -> f64 {
    line["t"].as_f64().unwrap()
}

#[test]
fn a_changed_template_replaces_every_node_within_the_budget_and_pods_are_missed_for_seconds() {
    let run = Run::of("drift-label");
    run.all_bound();
    let removed = run.removed();
    assert_eq!(removed.len(), 12, "each node once");
    assert!(removed.values().all(|t| *t > 300.0), "{removed:?}");
    // A quarter of twelve is three; with three replacements there it is a quarter of fifteen, rounded up.
    assert!(run.most_at_once() <= 4, "{}", run.most_at_once());
    run.nobody_is_missed_for_long();
    assert_eq!(run.reasons(), BTreeSet::from(["NodePoolDrifted"]));
    assert!(run.told("disrupting").iter().all(|line| line["reason"] == "drifted"));
    for node in run.report["nodes"].as_array().unwrap() {
        assert_eq!(node["labels"]["release"], "two", "{node}");
    }
}

#[test]
fn narrower_requirements_that_nodes_satisfy_and_selectors_that_find_the_same_replace_nothing() {
    let run = Run::of("drift-none");
    run.all_bound();
    assert_eq!((run.removed().len(), run.told("drifted").len()), (0, 0));
    assert_eq!(run.report["launched"], 12);
}

#[test]
fn an_image_that_moves_on_replaces_every_node_and_warns_and_a_successor_goes_on() {
    let run = Run::of("drift-image");
    run.all_bound();
    assert_eq!(run.removed().len(), 12);
    assert!(run.most_at_once() <= 4, "{}", run.most_at_once());
    run.nobody_is_missed_for_long();
    assert_eq!(run.reasons(), BTreeSet::from(["AMIDrift"]));
    let warned = run.told("unpinned_image");
    assert!((1..=2).contains(&warned.len()), "once a leader: {warned:?}");
    assert_eq!(warned[0]["node_class"], "large");
    let leaders: BTreeSet<i64> = run.told("disrupting").iter().map(|line| line["replica"].as_i64().unwrap()).collect();
    assert_eq!(leaders.len(), 2, "both have replaced some");
}

#[test]
fn where_no_replacement_is_to_be_had_no_node_goes_and_tries_become_fewer() {
    let run = Run::of("drift-sold-out");
    run.all_bound();
    // Claims of replacements that EC2 had nothing for are deleted; no node is.
    assert!(run.told("removing").is_empty(), "{:?}", run.told("removing"));
    assert_eq!(run.report["downtime"]["evicted"], 0);
    let off = run.told("replacement_off");
    assert!(!off.is_empty(), "it is said");
    assert!(off.iter().all(|line| line["pause_seconds"].as_i64().is_some()), "{off:?}");
}
