//! Quotas on capacity, played through: held over pools and a change of leader, changed on the way, shown in their status, and left
//! alone with the gate closed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;

use crate::common::write;
use crate::played::{Played, manifests, play_over};

fn quota(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityQuota\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

/// A quota of so many nodes, over all pools.
fn of_nodes(nodes: u32) -> String {
    quota("all", &format!("limits: {{resources: {{nodes: {nodes}}}}}"))
}

/// Number of nodes launched up to a time, in seconds.
fn launched_by(played: &Played, time: f64) -> usize {
    played.times("launched").into_iter().filter(|at| *at < time).count()
}

/// The statuses that were written on a quota, one after the other.
fn statuses(played: &Played, name: &str) -> Vec<Value> {
    let written = played.seen("api", &[("resource", "capacityquotas"), ("name", name)]).into_iter();
    written.map(|event| event["sent"]["status"].clone()).filter(Value::is_object).collect()
}

fn condition(status: &Value) -> (&str, &str) {
    let own = &status["conditions"][0];
    (own["reason"].as_str().unwrap_or_default(), own["message"].as_str().unwrap_or_default())
}

/// Ten pods that each need a node of one of two pools, under a quota of four nodes: the leader is killed while they are launched,
/// then the quota is raised, lowered below what is there, and removed.
#[test]
fn quota_of_nodes_holds_over_pools_and_leaders_until_it_goes() {
    let all = manifests(10);
    let (_, rest) = all.split_once("---\n").unwrap();
    let (pool, _) = rest.split_once("---\n").unwrap();
    let other = pool.replace(
        "metadata: {name: default}\nspec:\n  disruption",
        "metadata: {name: other}\nspec:\n  weight: 9\n  limits: {nodes: 2}\n  disruption",
    );
    let bad = quota(
        "bad",
        "selector: {matchExpressions: [{key: a, operator: Gt, values: [\"1\"]}]}, limits: {resources: {nodes: 0}}",
    );
    write("quota/more.yaml", &of_nodes(6));
    write("quota/less.yaml", &of_nodes(3));
    let steps = "featureGates: {CapacityQuota: true}
replicas: 2
steps:
  - {at: 1400ms, kill: {replica: leader, for: 40s}}
  - {at: 3m, apply: [more.yaml]}
  - {at: 5m, apply: [less.yaml]}
  - {at: 6m30s, delete: {kind: CapacityQuota, name: all}}
until: 9m
";
    let played = play_over("quota", &format!("{all}---\n{other}{}{bad}", of_nodes(4)), steps);
    played.came_out_well();
    let counts = [180.0, 300.0, 390.0, 540.0].map(|time| launched_by(&played, time));
    assert_eq!(counts, [4, 6, 6, 10], "four, two more, none of a lower one, and all without it");
    let reasons = played.log_events("unschedulable");
    let says = |text: &str| reasons.iter().any(|line| line.to_string().contains(text));
    assert!(says("CapacityQuota all of 4 nodes reached: 0 left"), "{reasons:?}");
    let of_all = statuses(&played, "all");
    assert_eq!(condition(&of_all[0]).0, "ReconciliationSucceeded", "{of_all:?}");
    let most = of_all.iter().filter_map(|status| status["used"]["resources"]["nodes"].as_str()).max();
    assert_eq!(most, Some("6"), "{of_all:?}");
    let exceeded = "nodes have 6 of 3 nodes: none is ended for it, and none is launched";
    assert!(of_all.iter().any(|status| condition(status).1 == exceeded), "{of_all:?}");
    assert_eq!(played.log_events("quota_exceeded").len(), 1, "it is said once");
    let of_bad = statuses(&played, "bad");
    assert_eq!(of_bad.len(), 1, "{of_bad:?}");
    let (reason, message) = condition(&of_bad[0]);
    assert_eq!(reason, "ReconciliationFailed");
    assert!(message.starts_with("it is not held: spec.selector: operator \"Gt\" of a"), "{message}");
    assert!(!played.log_events("quota_not_held").is_empty());
}

#[test]
fn closed_gate_leaves_quotas_alone() {
    let crd = dovetail_api::crds::quota_crd_file().unwrap().1;
    let of = |name: &str, more: &str| {
        let played = play_over(name, &format!("{more}{}", manifests(3)), "until: 3m\n");
        played.came_out_well();
        played
    };
    let with = of("quota-closed", &format!("{crd}{}---\n", of_nodes(1)));
    let seen = with.seen("api", &[("resource", "capacityquotas")]);
    assert!(seen.iter().all(|event| event["replica"].is_null()), "{seen:?}");
    // Names are drawn anew where an object more is there.
    let said = |played: &Played| {
        let lines = played.report["timeline"].as_array().unwrap().clone().into_iter();
        lines.map(|line| (line["actor"].clone(), line["event"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(said(&with), said(&of("quota-none", "")), "nothing is done or said otherwise");
}
