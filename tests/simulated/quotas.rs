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

/// A pod of 1.5 CPUs, of which a node takes one.
const WEB: &str = "---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: pause, resources: {requests: {cpu: 1500m, memory: 256Mi}}}]
";

/// The class and the pool of [`manifests`].
fn class_and_pool() -> (String, String) {
    let all = manifests(0);
    let mut parts = all.split("---\n");
    (parts.next().unwrap().to_owned(), parts.next().unwrap().to_owned())
}

/// A static pool of five under a quota of three, and the room of a buffer under none: each says what is missing.
#[test]
fn static_pools_and_buffers_hold_quotas_and_say_so() {
    let (class, pool) = class_and_pool();
    let fixed = pool.replace("metadata: {name: default}", "metadata: {name: fixed}").replacen(
        "spec:\n  disruption",
        "spec:\n  replicas: 5\n  disruption",
        1,
    );
    let of_pool = |name: &str, nodes: u32| {
        let selector = format!("selector: {{matchLabels: {{karpenter.sh/nodepool: {name}}}}}");
        quota(name, &format!("{selector}, limits: {{resources: {{nodes: {nodes}}}}}"))
    };
    let buffer = "---\napiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {name: room, namespace: default}\nspec: {scalableRef: {apiGroup: apps, kind: Deployment, name: web}, replicas: 2}\n";
    let all =
        [&class, "---\n", &pool, "---\n", &fixed, WEB, &of_pool("fixed", 3), &of_pool("default", 3), buffer].concat();
    let gates = "featureGates: {CapacityQuota: true, StaticCapacity: true, CapacityBuffer: true}\nuntil: 3m\n";
    let played = play_over("quota-held", &all, gates);
    played.came_out_well();
    assert_eq!(played.number("launched"), 6, "three of each pool");
    let says = |event: &str, text: &str| played.log_events(event).iter().any(|line| line.to_string().contains(text));
    assert!(says("replicas_missing", "2 missing: CapacityQuota fixed of 3 nodes reached: 0 left"));
    assert!(says("buffer_short", "CapacityQuota default of 3 nodes reached: 0 left"));
}

/// Drift has the successor first: with a full quota nodes stay as they are, and with room for one they go one by one.
#[test]
fn replacements_wait_for_room_under_the_quota() {
    let (class, pool) = class_and_pool();
    let changed =
        pool.replacen("  template:\n    spec:", "  template:\n    metadata: {labels: {v: two}}\n    spec:", 1);
    write("quota-drift/drift.yaml", &changed);
    write("quota-drift/more.yaml", &of_nodes(4));
    let all = [&class, "---\n", &pool, WEB, &of_nodes(3)].concat();
    let steps = "featureGates: {CapacityQuota: true}
steps:
  - {at: 3m, apply: [drift.yaml]}
  - {at: 5m, apply: [more.yaml]}
until: 11m
";
    let played = play_over("quota-drift", &all, steps);
    played.came_out_well();
    assert_eq!(launched_by(&played, 300.0), 3, "nothing is launched, and nothing removed");
    let ends = played.times("terminated");
    assert!(ends.iter().all(|at| *at > 300.0) && ends.len() >= 2, "{ends:?}");
    let nodes = |time: f64| launched_by(&played, time + 0.001) - ends.iter().filter(|at| **at < time).count();
    assert!(played.times("launched").into_iter().all(|at| nodes(at) <= 4), "one more than three at a time");
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
