//! Static pools, played through: held, spread, scaled, replaced, and never more than asked for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::common::{arg, scratch, write};
use crate::played::{Played, manifests, play_over, play_with};

const GATE: &str = "featureGates: {StaticCapacity: true, TerminateFirstDrift: true}\n";

/// A static pool of so many nodes, and a workload whose pods each take a node of their own.
fn static_pool(replicas: u32, limit: Option<u32>, pods: u32) -> String {
    let limits = limit.map(|limit| format!("  limits: {{nodes: {limit}}}\n")).unwrap_or_default();
    manifests(pods)
        .replace("spec:\n  disruption:", &format!("spec:\n  replicas: {replicas}\n{limits}  disruption:"))
        .replace(
            "disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}",
            "disruption: {consolidateAfter: 0s, budgets: [{nodes: \"3\"}]}",
        )
}

/// The same with another label in the pool's template, by which all nodes drift.
fn relabelled(manifests: &str) -> String {
    manifests.replace(
        "  template:\n    spec:\n      expireAfter",
        "  template:\n    metadata: {labels: {release: two}}\n    spec:\n      expireAfter",
    )
}

fn nodes(played: &Played) -> &Vec<Value> {
    played.report["nodes"].as_array().unwrap()
}

fn by_zone(played: &Played) -> BTreeMap<&str, usize> {
    let mut all = BTreeMap::new();
    nodes(played).iter().for_each(|node| *all.entry(node["zone"].as_str().unwrap()).or_default() += 1);
    all
}

/// The most nodes of claims that lived at a time.
fn most_claims(played: &Played) -> usize {
    let (mut living, mut most) = (BTreeSet::new(), 0);
    for event in played.seen("api", &[("resource", "nodeclaims")]) {
        let name = event["name"].as_str().unwrap().to_owned();
        if event["claim"].is_object() {
            living.insert(name);
        } else if event["code"].as_u64().is_some_and(|code| code < 300) {
            living.remove(&name);
        }
        most = most.max(living.len());
    }
    most
}

#[test]
fn pool_has_its_nodes_in_all_zones_and_follows_its_scale() {
    let scenario = format!(
        "{GATE}steps:\n  - {{at: 10m, scale: {{kind: NodePool, name: default, replicas: 9}}}}\n  - {{at: 20m, scale: {{kind: NodePool, name: default, replicas: 4}}}}\nuntil: 40m\n"
    );
    let played = play_over("static-scale", &static_pool(6, None, 2), &scenario);
    played.came_out_well();
    assert_eq!((nodes(&played).len(), played.number("launched")), (4, 9), "nothing is launched twice");
    let zones: Vec<usize> = by_zone(&played).into_values().collect();
    assert!(zones.iter().max().unwrap() - zones.iter().min().unwrap() <= 1, "{zones:?}");
    // Those without pods go: no pod is moved.
    assert_eq!(played.report["downtime"]["evicted"], 0);
    assert!(nodes(&played).iter().map(|node| node["pods"].as_u64().unwrap()).sum::<u64>() >= 2);
}

#[test]
fn gate_off_launches_nothing_and_says_so() {
    let played = play_over("static-gate-off", &static_pool(3, None, 0), "until: 10m\n");
    played.came_out_well();
    assert_eq!((nodes(&played).len(), played.number("launched")), (0, 0));
    let said = played.events.iter().any(|event| event.to_string().contains("FeatureGateOff"));
    assert!(said, "the condition is on the pool");
}

#[test]
fn drifted_nodes_are_succeeded_first_below_the_limit() {
    let (before, after) = (static_pool(3, Some(4), 3), relabelled(&static_pool(3, Some(4), 3)));
    write("static-drift/after.yaml", &after);
    let scenario = format!("{GATE}steps:\n  - {{at: 10m, apply: [after.yaml]}}\nsettled: 20m\nuntil: 90m\n");
    let played = play_over("static-drift", &before, &scenario);
    played.came_out_well();
    assert_eq!((nodes(&played).len(), played.number("launched"), most_claims(&played)), (3, 6, 4));
    assert!(nodes(&played).iter().all(|node| node["labels"]["release"] == "two"));
    assert_eq!(played.log_events("terminating_at_limit").len(), 0);
}

#[test]
fn at_the_limit_drifted_nodes_go_first_one_at_a_time() {
    let (before, after) = (static_pool(3, Some(3), 2), relabelled(&static_pool(3, Some(3), 2)));
    write("static-limit/after.yaml", &after);
    let scenario = format!("{GATE}steps:\n  - {{at: 10m, apply: [after.yaml]}}\nsettled: 20m\nuntil: 90m\n");
    let played = play_over("static-limit", &before, &scenario);
    played.came_out_well();
    assert_eq!((nodes(&played).len(), played.number("launched"), most_claims(&played)), (3, 6, 3));
    assert!(nodes(&played).iter().all(|node| node["labels"]["release"] == "two"));
    let ended = played.times("terminating_at_limit");
    assert!(ended.len() == 3 && ended.windows(2).all(|two| two[1] - two[0] > 30.0), "{ended:?}");
}

#[test]
fn expired_lost_and_deleted_nodes_come_back() {
    let manifests = static_pool(4, None, 4).replace("expireAfter: Never", "expireAfter: 30m");
    let scenario = format!("{GATE}steps:\n  - {{at: 10m, deleteSome: {{kind: NodeClaim, count: 2}}}}\nuntil: 75m\n");
    let played = play_over("static-back", &manifests, &scenario);
    played.came_out_well();
    assert_eq!(nodes(&played).len(), 4);
}

/// Leaders are killed at all times of a scale-up: decided, created, launched. Never is more launched than was asked for.
#[test]
fn leaders_killed_in_a_scale_up_launch_no_node_twice() {
    for kill in [8, 9, 11, 14, 20, 29] {
        let steps = format!(
            "{GATE}replicas: 2\nsteps:\n  - {{at: {kill}s, kill: {{replica: leader, for: 40s}}}}\n  - {{at: {}s, kill: {{replica: leader, for: 40s}}}}\n  - {{at: 5m, scale: {{kind: NodePool, name: default, replicas: 12}}}}\n  - {{at: {}ms, kill: {{replica: leader, for: 40s}}}}\nuntil: 20m\n",
            kill + 45,
            300_000 + 137 * kill,
        );
        let played = play_over(&format!("static-killed-{kill}"), &static_pool(6, Some(12), 0), &steps);
        played.came_out_well();
        assert_eq!((nodes(&played).len(), played.number("launched")), (12, 12), "killed at {kill} s");
    }
}

#[test]
fn zone_that_is_down_is_made_up_for_by_others() {
    let scenario = format!("{GATE}steps:\n  - {{at: 1s, zoneDown: {{zone: ca-west-1a, for: 30m}}}}\nuntil: 20m\n");
    let played = play_over("static-zone-down", &static_pool(6, None, 0), &scenario);
    played.violates_nothing();
    assert_eq!(nodes(&played).iter().filter(|node| node["zone"] != "ca-west-1a").count(), 6, "{:?}", by_zone(&played));
}

#[test]
fn what_cannot_be_had_is_said_at_the_pool_within_a_minute() {
    let scenario = format!("{GATE}faults: {{ec2: {{insufficientCapacity: [\"*/*/*\"]}}}}\nuntil: 10m\n");
    let played = play_over("static-sold-out", &static_pool(3, None, 0), &scenario);
    played.violates_nothing();
    let said = played.times("replicas_missing");
    assert!(said.first().is_some_and(|first| *first < 90.0), "{said:?}");
    assert!(played.events_of("ReplicasMissing") >= 1);
    assert!(played.calls("CreateFleet").len() < 60, "{}", played.calls("CreateFleet").len());
}

/// A run of a pool without `replicas`: its events but for the first line, and its metrics.
fn without_static_pools(name: &str, gate: &str) -> (Vec<Value>, String) {
    write(&format!("{name}/workload.yaml"), &manifests(3));
    let text = format!("region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{gate}until: 5m\n");
    let (scenario, metrics) = (write(&format!("{name}/scenario.yaml"), &text), scratch(&format!("{name}.metrics")));
    let played = play_with(name, &scenario, &["--metrics", arg(&metrics)], &[0]);
    (played.events[1..].to_vec(), std::fs::read_to_string(metrics).unwrap())
}

#[test]
fn gate_changes_nothing_without_a_static_pool() {
    let (off, metrics_off) = without_static_pools("static-none-off", "");
    let (on, metrics_on) = without_static_pools("static-none-on", GATE);
    assert!(off == on, "the events differ");
    let series = |metrics: &str| metrics.lines().filter(|line| line.contains("dovetail_nodepools_replicas")).count();
    assert_eq!((series(&metrics_off), series(&metrics_on)), (0, 0));
}

#[test]
fn metrics_say_what_a_static_pool_has() {
    write("static-metrics/workload.yaml", &static_pool(3, None, 0));
    let text = format!("region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{GATE}until: 10m\n");
    let (scenario, metrics) = (write("static-metrics/scenario.yaml", &text), scratch("static-metrics.metrics"));
    play_with("static-metrics", &scenario, &["--metrics", arg(&metrics)], &[0]);
    let said = std::fs::read_to_string(metrics).unwrap();
    for state in ["desired", "ready"] {
        let line = format!("dovetail_nodepools_replicas{{nodepool=\"default\",state=\"{state}\"}} 3");
        assert!(said.lines().any(|one| one == line), "{line} is not among them");
    }
}
