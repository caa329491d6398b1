//! Records: a simulated day is played again, a record that was cut says so, and a forecast holds within the error that it states.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use common::{arg, dovetail, json, root, scratch, stderr, stdout, write};
use serde_json::Value;

/// A day in short: a burst, fewer pods, a spot warning, and an end.
const DAY: &str = "region: us-east-1
clusterName: demo
replicas: 1
seed: 7
apply: [POOL, APP]
steps:
  - {at: 1m, scale: {kind: Deployment, name: inflate, replicas: 60}}
  - {at: 3m, interrupt: {spot: 20%}}
  - {at: 5m, scale: {kind: Deployment, name: inflate, replicas: 8}}
  - {at: 7m, apply: [APP]}
until: 9m
";

/// The scenario under a name, with other settings.
fn day(name: &str, settings: &str, seed: u64) -> String {
    let path = |file: &str| root().join("deploy/examples").join(file).to_str().unwrap().to_owned();
    let text = DAY.replace("POOL", &path("spot.yaml")).replace("APP", &path("inflate-10.yaml"));
    write(name, &format!("{}settings: {{{settings}}}\n", text.replace("seed: 7", &format!("seed: {seed}"))))
}

/// The record of that scenario, and its report.
fn recorded(name: &str) -> (String, Value) {
    let record = arg(&scratch(&format!("{name}.jsonl"))).to_owned();
    let output = dovetail(&["simulate", &day(&format!("{name}.yaml"), "", 7), "--json", "--record", &record]);
    let report = json(&output, 0);
    (record, report)
}

/// A report without the names of the files that steps apply: those of a replay are its own.
fn without_file_names(mut report: Value) -> Value {
    for line in report["timeline"].as_array_mut().unwrap() {
        if line["what"].as_str().is_some_and(|what| what.starts_with("apply ")) {
            line["what"] = "apply".into();
        }
    }
    report
}

#[test]
fn replay_of_a_simulated_day_is_that_day_again() {
    let alone = json(&dovetail(&["simulate", &day("alone.yaml", "", 7), "--json"]), 0);
    let (record, report) = recorded("same");
    assert!(report == alone, "a record changes nothing in the run");
    assert!(report["launched"].as_u64().unwrap() > 0 && report["terminated"].as_u64().unwrap() > 0);
    let again = json(&dovetail(&["replay", &record, "--json"]), 0);
    let (again, report) = (without_file_names(again), without_file_names(report));
    assert!(again == report, "the replay is another day: {} {}", again["costTotal"], report["costTotal"]);
    let other = json(&dovetail(&["replay", &record, "--json", "--set", "PACKING_POLICY=fewest-nodes"]), 0);
    assert_ne!(other["costTotal"], report["costTotal"]);
    let wrong = dovetail(&["replay", &record, "--set", "PACKING_POLIC=cost"]);
    assert_eq!((wrong.status.code(), stdout(&wrong).as_str()), (Some(2), ""));
    assert!(stderr(&wrong).contains("did you mean PACKING_POLICY?"), "{}", stderr(&wrong));
}

#[test]
fn record_that_was_cut_says_so_and_is_played_as_far_as_it_goes() {
    let (record, _) = recorded("cut");
    let whole = std::fs::read(&record).unwrap();
    let short = arg(&scratch("short.jsonl")).to_owned();
    std::fs::write(&short, &whole[..whole.len() * 2 / 3]).unwrap();
    let output = dovetail(&["savings", &short, "--points", "3", "--json"]);
    let answer = json(&output, 0);
    assert_eq!(answer["cutShort"], true);
    assert!(stderr(&output).contains("the record was cut short: its "), "{}", stderr(&output));
    let again = dovetail(&["replay", &short, "--json"]);
    let report: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert!(report["virtualSeconds"].as_f64().unwrap() < 540.0, "{}", report["virtualSeconds"]);
    assert!(stderr(&again).contains("cut short"));
    // A line that is missing in the middle is no cut.
    let text = String::from_utf8(whole).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let torn = write("torn.jsonl", &([&lines[..4], &lines[5..]].concat().join("\n") + "\n"));
    let refused = dovetail(&["replay", &torn]);
    assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(2), ""));
    assert!(stderr(&refused).contains("some are missing"), "{}", stderr(&refused));
}

#[test]
fn forecast_for_a_setting_holds_within_its_error() {
    let (record, _) = recorded("forecast");
    let picture = scratch("day.svg");
    let with = "PACKING_POLICY=fewest-nodes";
    let args = ["compare", &record, "--seeds", "3", "--svg", arg(&picture), "--json"];
    let figures = json(&dovetail(&args), 0);
    let of = |name: &str| figures.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    let forecast = of(with);
    // The same day with that setting, by other chances than those of the forecast.
    let run = day("with.yaml", "PACKING_POLICY: fewest-nodes", 7);
    let cost = json(&dovetail(&["simulate", &run, "--json"]), 0)["costTotal"].as_f64().unwrap();
    let (value, error) = (forecast["cost"]["value"].as_f64().unwrap(), forecast["cost"]["error"].as_f64().unwrap());
    assert!((cost - value).abs() <= error, "{cost} is not {value} ±{error}");
    let seen = of("as recorded");
    let paid = seen["cost"]["value"].as_f64().unwrap();
    let again = of("replayed")["cost"]["value"].as_f64().unwrap();
    assert!((paid - again).abs() < paid / 2.0, "{paid} {again}");
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("dollars an hour") && svg.contains(with) && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn savings_hold_what_was_paid_against_what_was_needed() {
    let (record, report) = recorded("savings");
    let answer = json(&dovetail(&["savings", &record, "--points", "7", "--json"]), 0);
    let of = |name: &str| (answer[name]["sum"].as_f64().unwrap(), answer[name]["error"].as_f64().unwrap());
    let ((paid, error), (needed, _), (karpenter, _)) = (of("paid"), of("needed"), of("byKarpenter"));
    let cost = report["costTotal"].as_f64().unwrap();
    // An instance costs from its launch; its node is seen when it has joined.
    assert!(paid <= cost + error && paid > cost * 0.6, "{paid} ±{error}, {cost}");
    assert!(needed > 0.0 && needed < paid + error && karpenter >= needed * 0.99, "{answer:#}");
    let text = stdout(&dovetail(&["savings", &record, "--points", "3"]));
    assert!(text.contains("what the pods needed") && text.contains('±'), "{text}");
    let replayed = stdout(&dovetail(&["replay", &record]));
    assert!(replayed.contains("as recorded") && replayed.contains("EVICTED"), "{replayed}");
}

#[test]
fn schema_is_the_one_in_the_book() {
    let printed = stdout(&dovetail(&["record", "--schema"]));
    let path = root().join("docs/record.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == printed,
        "docs/record.schema.json is stale: run with UPDATE=1"
    );
    let read: Value = serde_json::from_str(&printed).unwrap();
    assert!(read["oneOf"].as_array().is_some_and(|lines| lines.len() == 5), "{printed}");
}
