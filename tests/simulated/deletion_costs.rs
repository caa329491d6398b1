//! Deletion costs of pods, played through: a Deployment that is scaled in empties nodes with the gate open, over a change of
//! leader, and nothing but the removal of older values is written with the gate closed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::played::{Played, at, manifests, play_over};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const MARK: &str = "dovetail.dev/pod-deletion-cost";

/// A small Deployment in a pool of its own, with these annotations and that part of a pod's spec.
fn beside(name: &str, annotations: &str, spec: &str) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{{annotations}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {{karpenter.sh/nodepool: small}}
      {spec}
      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: 10m, memory: 16Mi}}}}}}]
"
    )
}

/// The pools, and Deployments with whose pods values must not meddle.
fn workloads() -> String {
    let all = manifests(12).replace("consolidateAfter: Never", "consolidateAfter: 30s, budgets: [{nodes: 50%}]");
    let (all, _) = all.split_once("      affinity:\n").unwrap();
    let web = "      nodeSelector: {karpenter.sh/nodepool: default}
      containers: [{name: main, image: pause, resources: {requests: {cpu: 600m, memory: 256Mi}}}]
";
    let pool = all.split("---\n").nth(1).unwrap();
    let other =
        pool.replace("metadata: {name: default}\nspec:\n  disruption", "metadata: {name: small}\nspec:\n  disruption");
    assert_ne!(pool, other);
    let hard = "topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: hard}}";
    let beside = [
        beside("users", &format!("{COST}: '5'"), ""),
        beside("left", &format!("{COST}: '-7', {MARK}: '-7'"), ""),
        beside("hard", "", hard),
    ];
    [all, web, "---\n", &other, &beside.concat()].concat()
}

/// Twelve pods, three to a node, of which half are scaled in at once; the leader is killed before that and in the middle of it.
fn scaled_in(name: &str, gate: bool) -> Played {
    let text = format!(
        "featureGates: {{PodDeletionCostManagement: {gate}}}
replicas: 2
steps:
  - {{at: 100s, kill: {{replica: leader, for: 20s}}}}
  - {{at: 5m, scale: {{kind: Deployment, name: web, namespace: default, replicas: 6}}}}
  - {{at: 5m1s, kill: {{replica: leader, for: 20s}}}}
until: 8m
"
    );
    let played = play_over(name, &workloads(), &text);
    played.came_out_well();
    played
}

/// The values that were written on pods, by workload; `null` where one was taken off.
fn written(played: &Played) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in played.seen("api", &[("resource", "pods"), ("subresource", "status"), ("verb", "patch")]) {
        let annotations = &event["sent"]["metadata"]["annotations"];
        if event["replica"].is_null() || !annotations.is_object() {
            continue;
        }
        assert_eq!(annotations[COST], annotations[MARK], "{event}");
        let workload = event["name"].as_str().unwrap().split('-').next().unwrap();
        all.entry(workload.to_owned()).or_default().insert(annotations[COST].to_string());
    }
    all
}

/// The pods of `web` that are deleted when it is scaled in.
fn scaled_away(played: &Played) -> BTreeSet<String> {
    let all = played.seen("pod", &[("change", "deleting")]).into_iter();
    all.filter_map(|event| event["name"].as_str()).filter(|name| name.starts_with("web-")).map(str::to_owned).collect()
}

#[test]
fn scale_in_empties_nodes_with_the_gate_and_a_killed_leader() {
    let played = scaled_in("deletion-costs", true);
    let written = written(&played);
    assert!(written.contains_key("web"), "{written:?}");
    assert!(!written.contains_key("users") && !written.contains_key("hard"), "{written:?}");
    let valued = |event: &&Value| at(event) < 300.0 && event["sent"]["metadata"]["annotations"][COST].is_string();
    let before = played.seen("api", &[("resource", "pods"), ("subresource", "status"), ("verb", "patch")]);
    let before: BTreeSet<String> =
        before.into_iter().filter(valued).map(|event| event["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(before.len(), 6, "the budget allows two nodes of four: {before:?}");
    assert_eq!(scaled_away(&played), before);
    assert_eq!(played.removed().len(), 2, "they are empty: {:?}", played.removed());
}

#[test]
fn gate_that_is_closed_takes_values_off_and_writes_none() {
    let played = scaled_in("deletion-costs-off", false);
    let off: BTreeSet<String> = [Value::Null.to_string()].into();
    assert_eq!(written(&played), BTreeMap::from([("left".to_owned(), off)]), "only what was ours is taken off");
}
