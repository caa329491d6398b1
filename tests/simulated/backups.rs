//! An API server that is put back to a backup while something is under way: what rests on what is over is not done any more. Each
//! scenario broke something once, and is judged by its events by the audit as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use common::{arg, dovetail, json, python, scratch, stderr, stdout};
use serde_json::{Value, json};

/// The report and the events of a scenario that comes out well.
fn played(name: &str) -> (Value, Vec<Value>) {
    let (events, saved) = (scratch(&format!("backups-{name}.jsonl")), scratch(&format!("backups-{name}.json")));
    let scenario = format!("tests/simulation/scenarios/backups/{name}.yaml");
    let output = dovetail(&["simulate", &scenario, "--json", "--events", arg(&events)]);
    let report = json(&output, 0);
    assert_eq!(report["invariants"]["violations"], json!([]), "{name}");
    std::fs::write(&saved, &output.stdout).unwrap();
    let audit = python(&["tests/simulation/audit.py", arg(&events), arg(&saved)]);
    assert!(audit.status.success(), "{name}: {}{}", stdout(&audit), stderr(&audit));
    let lines = std::fs::read_to_string(events).unwrap();
    (report, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn told(report: &Value, event: &str) -> usize {
    report["timeline"].as_array().unwrap().iter().filter(|line| line["event"] == event).count()
}

/// True if the node that came first is there at the end.
fn has_its_first_node(report: &Value) -> bool {
    let name = |node: &Value| node["name"].as_str().unwrap().starts_with("ip-10-0-0-10.");
    report["nodes"].as_array().unwrap().iter().any(name)
}

#[test]
fn node_is_not_removed_for_a_claim_no_longer_being_deleted() {
    let (report, _) = played("removed-before");
    assert!(has_its_first_node(&report) && told(&report, "drained") == 0, "{report:#}");
}

#[test]
fn what_was_empty_and_is_in_use_again_stays() {
    let (report, _) = played("empty-then-in-use");
    assert_eq!((report["terminated"].as_u64(), report["downtime"]["evicted"].as_u64()), (Some(0), Some(0)));
}

#[test]
fn instance_is_not_ended_with_pods_a_backup_restored_to_it() {
    let (report, _) = played("while-it-ends");
    assert_eq!(report["downtime"]["evicted"], 3, "they are drained once more");
}

#[test]
fn checks_made_before_an_ec2_outage_are_made_again_after_it() {
    assert!(has_its_first_node(&played("while-ec2-is-away").0));
}

#[test]
fn claim_is_not_released_by_an_answer_before_ec2_could_know() {
    let (report, events) = played("not-found-then-cut-off");
    let released = report["timeline"].as_array().unwrap().iter().find(|line| line["event"] == "nodeclaim_deleted");
    let ends = events.iter().find(|one| one["kind"] == "instance" && one["change"] == "shutting-down");
    let at = |line: Option<&Value>| line.unwrap()["t"].as_f64().unwrap();
    assert!(at(released) > at(ends), "{released:?} {ends:?}");
}

#[test]
fn a_budget_is_a_share_of_the_nodes_that_are_shown() {
    played("nodes-that-had-ended");
}

#[test]
fn a_leader_takes_up_again_what_it_has_launched_itself() {
    let (report, _) = played("launched-before");
    assert_eq!((told(&report, "gave_up"), report["terminated"].as_u64()), (0, Some(0)));
}

#[test]
fn a_lease_from_the_future_is_not_believed() {
    played("clock-behind");
}

#[test]
fn terms_rise_beyond_the_second_restore() {
    played("twice");
}

#[test]
fn what_was_planned_before_an_outage_is_not_created_after_it() {
    played("room-that-is-taken-again");
}

#[test]
fn ec2_interruption_is_not_forgotten_with_a_restored_backup() {
    let (report, events) = played("interrupted");
    let lost = events.iter().filter(|one| one["kind"] == "pod" && one["change"] == "lost").count();
    assert!(told(&report, "interrupted") > 3 && lost < 20, "{lost} pods were lost, {}", report["downtime"]);
}

#[test]
fn what_ends_a_drained_instance_is_not_repeated_past_a_backup() {
    played("ended-again");
}

#[test]
fn nothing_is_collected_whose_claim_has_come_back_meanwhile() {
    for name in ["collected-late", "collected-unseen"] {
        assert_eq!(played(name).0["terminated"], 0, "{name}");
    }
}

#[test]
fn claim_is_not_deleted_past_a_backup_for_a_node_that_stays() {
    assert_eq!(played("deleted-again").0["terminated"], 0);
}

#[test]
fn lease_taken_by_an_abandoned_request_begins_no_term() {
    played("taken-unheard");
}

#[test]
fn a_node_that_is_guarded_again_is_let_in_again() {
    played("guarded-again");
}
