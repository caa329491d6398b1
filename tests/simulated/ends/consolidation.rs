//! Nodes with pods go where their pods have cheaper places: each scenario is run by the binary, and its report is checked against
//! its events by the audit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;

use common::{arg, dovetail, json, root, scratch};
use played::{Played, play_kept};
use serde_json::Value;

impl Played {
    fn cost(&self) -> f64 {
        self.report["costPerHour"].as_f64().unwrap()
    }

    /// Seconds at which NodeClaims were created or deleted, or pods evicted.
    fn moves(&self) -> Vec<f64> {
        let of_claims = |event: &&Value| {
            let verb = event["verb"].as_str().unwrap_or_default();
            event["kind"] == "api" && event["resource"] == "nodeclaims" && ["create", "delete"].contains(&verb)
        };
        let moves = |event: &&Value| of_claims(event) || (event["kind"] == "pod" && event["change"] == "evicted");
        self.events.iter().filter(moves).map(|event| event["t"].as_f64().unwrap()).collect()
    }
}

/// Price by `plan` of the nodes of manifests, with so many replicas.
fn planned(pool: &str, workload: &str, replicas: (&str, &str)) -> f64 {
    let text = std::fs::read_to_string(root().join(format!("tests/fixtures/posts/{workload}"))).unwrap();
    let fewer = scratch(&format!("consolidation-{workload}"));
    std::fs::write(&fewer, text.replace(replicas.0, replicas.1)).unwrap();
    let pool = root().join(format!("tests/fixtures/posts/{pool}"));
    let args =
        ["plan", "--region", "eu-west-1", "--env", "CLUSTER_NAME=demo", "-f", arg(&pool), "-f", arg(&fewer), "--json"];
    json(&dovetail(&args), 0)["totalCheapestHourlyPrice"].as_f64().unwrap()
}

/// Number of NodeClaims that each command has launched.
fn launched(run: &Played) -> Vec<u64> {
    run.log_events("disrupting").iter().map(|line| line["replacement_node_count"].as_u64().unwrap()).collect()
}

#[test]
fn halved_pods_split_a_large_node_within_five_percent_of_fresh() {
    let run = play_kept("consolidation-halved", &[]);
    let fresh =
        planned("003-provisioner-consolidating.yaml", "003-inflate-400.yaml", ("replicas: 400", "replicas: 200"));
    assert!(run.cost() <= 1.05 * fresh, "{} $/h, afresh {fresh} $/h", run.cost());
    assert!(launched(&run).iter().any(|count| *count > 1), "{:?}", launched(&run));
    assert!(run.log_events("disruption_undone").is_empty());
    // All of what the command launches stands before anything that it replaces goes.
    let t = |line: &Value| line["t"].as_f64().unwrap();
    let commands = run.log_events("disrupting");
    let begun =
        commands.iter().find(|line| line["replacement_node_count"].as_u64() > Some(1)).map(|line| t(line)).unwrap();
    let after = |event: &str| -> Vec<f64> {
        run.log_events(event).iter().map(|line| t(line)).filter(|t| *t >= begun).collect()
    };
    let goes = after("removing").into_iter().fold(f64::MAX, f64::min);
    let created = after("nodeclaim_created").into_iter().filter(|t| *t < goes).count();
    let stand = after("initialized").into_iter().filter(|t| *t <= goes).count();
    assert!(created > 1 && stand == created, "{stand} of {created} stand at {goes} s");
}

#[test]
fn halved_pods_leave_a_large_node_if_only_one_may_replace_it() {
    let run = play_kept("consolidation-halved-one", &[]);
    let fresh =
        planned("003-provisioner-consolidating.yaml", "003-inflate-400.yaml", ("replicas: 400", "replicas: 200"));
    assert!(run.cost() <= 1.25 * fresh, "{} $/h, afresh {fresh} $/h", run.cost());
    assert!(run.log_events("disrupting").iter().any(|line| line["reason"] == "underutilized"));
    assert!(launched(&run).iter().all(|count| *count <= 1), "as Karpenter does: {:?}", launched(&run));
    let said = run.log_events("unconsolidatable");
    assert!(said.iter().any(|line| line["why"].as_str().unwrap().contains("ManyToManyConsolidation")), "{said:?}");
}

#[test]
fn spot_nodes_are_not_replaced_without_the_gate_which_is_named() {
    let run = play_kept("consolidation-no-gate", &[]);
    let replaced = |line: &&&Value| line["replacement_node_count"] != 0;
    assert_eq!(run.log_events("disrupting").iter().filter(replaced).count(), 0);
    let said = run.log_events("unconsolidatable");
    assert!(said.iter().any(|line| line["why"].as_str().unwrap().contains("SpotToSpotConsolidation")), "{said:?}");
}

#[test]
fn nodes_with_pods_stay_under_a_ttl_and_the_setting_is_named() {
    let run = play_kept("consolidation-ttl", &[]);
    assert!(run.log_events("disrupting").iter().all(|line| line["reason"] == "empty"));
    let said = run.log_events("unconsolidatable");
    assert!(said.iter().any(|line| line["why"].as_str().unwrap().contains("consolidation.enabled")), "{said:?}");
}

#[test]
fn five_pods_become_one_on_a_small_spot_node_of_fifteen_types() {
    let run = play_kept("consolidation-spot-to-spot", &[]);
    let created = run.log_events("nodeclaim_created");
    let types = &created.last().unwrap()["instance_types"];
    let count = types["named"].as_array().unwrap().len() as u64 + types["others"].as_u64().unwrap_or(0);
    assert!(created.len() == 2 && count >= 15, "{created:?}");
    assert_eq!(run.report["nodes"].as_array().map(Vec::len), Some(1), "{}", run.report);
    assert!(run.moves().iter().all(|t| *t < 2700.0), "it comes to rest: {:?}", run.moves());
}

/// Seconds at which the timeline first tells an event of a NodeClaim.
fn when(run: &Played, event: &str, node_claim: &str) -> f64 {
    let told = run.log_events(event);
    let line = told.iter().find(|line| line["node_claim"] == node_claim);
    line.unwrap_or_else(|| panic!("{event} of {node_claim}: {told:?}"))["t"].as_f64().unwrap()
}

/// The names of the NodeClaims, in the order in which they were created.
fn claims(run: &Played) -> Vec<String> {
    run.log_events("nodeclaim_created").iter().map(|line| line["node_claim"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn node_is_removed_only_after_its_replacement_is_initialized() {
    for scenario in ["consolidation-spot-to-spot", "consolidation-leader-killed"] {
        let run = play_kept(scenario, &[]);
        let all = claims(&run);
        assert_eq!(all.len(), 2, "{scenario}: {all:?}");
        assert!(when(&run, "initialized", &all[1]) <= when(&run, "removing", &all[0]), "{scenario}");
        assert!(run.log_events("disruption_undone").is_empty(), "{scenario}");
        let by = |event: &str| run.log_events(event)[0]["replica"].clone();
        assert_eq!(by("disrupting") != by("removing"), scenario == "consolidation-leader-killed", "{scenario}");
    }
}

#[test]
fn unchanging_cluster_rests_within_an_hour_and_for_twelve() {
    let run = play_kept("consolidation-at-rest", &[]);
    let late: Vec<f64> = run.moves().into_iter().filter(|t| *t > 600.0 + 3600.0).collect();
    assert!(late.is_empty(), "moves at {late:?}");
    assert!(run.log_events("disrupting").iter().any(|line| line["reason"] == "underutilized"));
}

/// Seconds from the going of half of the pods until the first command to save money begins.
fn first_command(scenario: &str) -> f64 {
    let run = play_kept(scenario, &[]);
    let commands = run.log_events("disrupting");
    let times =
        commands.iter().filter(|line| line["reason"] == "underutilized").map(|line| line["t"].as_f64().unwrap());
    times.map(|t| t - 1200.0).find(|after| *after > 0.0).unwrap_or_else(|| panic!("{scenario}: {commands:?}"))
}

#[test]
fn command_begins_ten_seconds_after_the_last_pod_has_gone() {
    let quiet = first_command("consolidation-quiet");
    assert!((9.9..15.0).contains(&quiet), "{quiet} s");
    // Found two seconds after the half had gone, and no pause of ten seconds follows: Karpenter's fifteen.
    let restless = first_command("consolidation-restless");
    assert!(restless >= 17.0, "{restless} s");
}
