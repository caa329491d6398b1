//! Pods with ResourceClaims move: nodes with their devices drift, or could be had cheaper, and others take their place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use crate::common::write;
use crate::devices::{
    OPEN, bound, claims, class, deployment, play, play_in, pools, shared, template, types, unschedulable,
};
use crate::played::{Played, at};

/// The pool with a label that its nodes have not had.
fn drifted_pool(name: &str) {
    let labelled =
        pools().replace("  template:\n    spec:", "  template:\n    metadata: {labels: {release: two}}\n    spec:");
    assert!(labelled.contains("release: two"));
    write(&format!("{name}/drifted.yaml"), &labelled);
}

/// The pool, consolidating, whose pods have only begun to move after a while.
fn consolidating(name: &str) {
    let pool = pools().replace("WhenEmpty,", "WhenEmptyOrUnderutilized,");
    assert!(pool.contains("WhenEmptyOrUnderutilized"));
    write(&format!("{name}/consolidating.yaml"), &pool);
}

/// Names of the nodes that are there at the end, with devices or without.
fn nodes_at_the_end(played: &Played) -> Vec<String> {
    let nodes = played.report["nodes"].as_array().unwrap().iter();
    let mut all: Vec<String> = nodes.map(|node| node["instanceType"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

/// Decisions and reasons of the commands.
fn commands(played: &Played) -> Vec<String> {
    let text = |line: &serde_json::Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let lines = played.log_events("disrupting").into_iter();
    lines.map(|line| format!("{}: {}", text(line, "decision"), text(line, "reason"))).collect()
}

/// Every claim that was launched names the driver whose devices its pods wait for.
fn drivers_are_awaited(played: &Played) {
    let drivers: BTreeSet<_> = claims(played)
        .iter()
        .map(|claim| claim["metadata"]["annotations"]["karpenter.sh/requested-dra-drivers"].as_str())
        .collect();
    assert_eq!(drivers, [Some("gpu.nvidia.com")].into_iter().collect());
}

/// A drifted node with devices is replaced: its successor has devices for its pods before they go. So it is with a claim that pods
/// share, and over a leader that is killed in the middle.
#[test]
fn drifted_node_is_replaced_and_pods_get_devices_there() {
    for (name, kill) in [("whole", ""), ("killed-early", "610s"), ("killed-late", "680s")] {
        let name = format!("device-moves-drift-{name}");
        drifted_pool(&name);
        let objects = [
            class(""),
            template("one", 1, "Tesla T4"),
            shared("both", 1),
            deployment("single", 2, "resourceClaimTemplateName: one"),
            deployment("pair", 2, "resourceClaimName: both"),
        ];
        let kill = match kill {
            "" => String::new(),
            at => format!(", {{at: {at}, kill: {{replica: leader, for: 60s}}}}"),
        };
        let steps = format!("replicas: 2\nsteps: [{{at: 10m, apply: [drifted.yaml]}}{kill}]\nuntil: 50m\n");
        let played = play(&name, &objects, OPEN, &steps);
        played.came_out_well();
        assert_eq!(played.report["pods"]["bound"], 4, "{}", unschedulable(&played));
        for node in played.report["nodes"].as_array().unwrap() {
            assert_eq!(node["labels"]["release"], "two", "{node}");
        }
        assert_eq!(played.removed().len() as u64 + 3, played.number("launched"), "three nodes, and what came before");
        assert!(played.removed().len() >= 3);
        drivers_are_awaited(&played);
        let pairs = bound(&played, "pair");
        assert_eq!(pairs.values().sum::<usize>(), 4, "both come once, and move once: {pairs:?}");
        assert!(pairs.values().all(|pods| *pods == 2), "those that share a device share its node: {pairs:?}");
    }
}

/// The only node of its type drifts, and no gate is open: what it publishes says what its successor will have.
#[test]
fn successor_is_known_by_the_node_that_leaves() {
    let name = "device-moves-learned";
    drifted_pool(name);
    let first = "nodeSelector: {node.kubernetes.io/instance-type: g4dn.xlarge}";
    let starter = deployment("starter", 1, "")
        .replace("      terminationGrace", &format!("      {first}\n      terminationGrace"));
    let objects =
        [class(""), template("one", 1, "Tesla T4"), starter, deployment("single", 1, "resourceClaimTemplateName: one")];
    let steps = "steps: [{at: 10m, apply: [drifted.yaml]}]\nuntil: 40m\n";
    let played = play(name, &objects, "  IGNORE_DRA_REQUESTS: 'false'\n", steps);
    played.came_out_well();
    assert_eq!(played.report["pods"]["bound"], 2, "{}", unschedulable(&played));
    assert_eq!(types(&played), ["g4dn.xlarge", "g4dn.xlarge"]);
    assert_eq!(played.removed().len(), 1);
}

/// Two nodes with four devices each, of which one is in use: the pod of one comes to the other.
#[test]
fn underused_nodes_are_consolidated_together() {
    for (name, kill) in [("whole", ""), ("killed", ", {at: 908s, kill: {replica: leader, for: 60s}}")] {
        let name = format!("device-moves-together-{name}");
        consolidating(&name);
        let objects = [
            class(""),
            template("one", 1, "Tesla T4"),
            template("three", 3, "Tesla T4"),
            deployment("big", 2, "resourceClaimTemplateName: three"),
            deployment("small", 2, "resourceClaimTemplateName: one"),
        ];
        let scale =
            "{at: 10m, scale: {kind: Deployment, name: big, replicas: 0}}, {at: 15m, apply: [consolidating.yaml]}";
        let steps = format!("replicas: 2\nsteps: [{scale}{kill}]\nuntil: 60m\n");
        let played = play(&name, &objects, OPEN, &steps);
        played.came_out_well();
        assert_eq!(played.report["pods"]["bound"], 2, "{}", unschedulable(&played));
        assert_eq!(types(&played), ["g4dn.12xlarge", "g4dn.12xlarge"], "nothing is launched for it");
        assert_eq!(commands(&played), ["delete: underutilized"]);
        assert_eq!(nodes_at_the_end(&played), ["g4dn.12xlarge"]);
    }
}

/// A pod with one device is left on a node of four: a cheaper node has its device, and is there before the pod goes.
#[test]
fn underused_node_is_replaced_by_a_cheaper_one() {
    for (name, kill) in [("whole", ""), ("killed", ", {at: 920s, kill: {replica: leader, for: 60s}}")] {
        let name = format!("device-moves-cheaper-{name}");
        consolidating(&name);
        let objects = [
            class(""),
            template("one", 1, "Tesla T4"),
            template("two", 2, "Tesla T4"),
            deployment("wide", 1, "resourceClaimTemplateName: two"),
            deployment("single", 1, "resourceClaimTemplateName: one"),
        ];
        let scale =
            "{at: 10m, scale: {kind: Deployment, name: wide, replicas: 0}}, {at: 15m, apply: [consolidating.yaml]}";
        let steps = format!("replicas: 2\nsteps: [{scale}{kill}]\nuntil: 60m\n");
        let played = play(&name, &objects, OPEN, &steps);
        played.came_out_well();
        assert_eq!(played.report["pods"]["bound"], 1, "{}", unschedulable(&played));
        assert_eq!(nodes_at_the_end(&played), ["g4dn.xlarge"]);
        assert_eq!(types(&played), ["g4dn.12xlarge", "g4dn.xlarge"]);
        assert_eq!(commands(&played)[0], "replace: underutilized");
        drivers_are_awaited(&played);
        let (removed, initialized) = (played.removed(), played.times("initialized"));
        assert!(removed.values().all(|t| *t > initialized[1]), "{removed:?} {initialized:?}");
        let evicted = played.seen("pod", &[("change", "evicted")]);
        assert!(evicted.iter().all(|event| at(event) > initialized[1]), "{evicted:?}");
    }
}

/// A pod with a claim asks to stay: its drifted node goes all the same, as its time is bounded and devices can be had elsewhere.
#[test]
fn bounded_node_goes_where_its_pod_can_have_devices_elsewhere() {
    let name = "device-moves-bounded";
    let pool = pools().replace("expireAfter: Never", "expireAfter: Never\n      terminationGracePeriod: 15m");
    let labelled =
        pool.replace("  template:\n    spec:", "  template:\n    metadata: {labels: {release: two}}\n    spec:");
    write(&format!("{name}/drifted.yaml"), &labelled);
    let stays = deployment("single", 1, "resourceClaimTemplateName: one").replace(
        "    metadata: {labels: {app: single}}\n    spec:",
        "    metadata: {labels: {app: single}, annotations: {karpenter.sh/do-not-disrupt: 'true'}}\n    spec:",
    );
    assert!(pool.contains("terminationGracePeriod: 15m") && stays.contains("do-not-disrupt"));
    let objects = [class(""), template("one", 1, "Tesla T4"), stays];
    let played = play_in(&pool, name, &objects, OPEN, "steps: [{at: 10m, apply: [drifted.yaml]}]\nuntil: 50m\n");
    played.came_out_well();
    assert_eq!((played.report["pods"]["bound"].as_u64(), played.number("launched")), (Some(1), 2));
    let removed = played.removed();
    assert!(removed.values().all(|t| *t < 900.0), "{removed:?}");
    assert_eq!(removed.len(), 1);
}

/// A claim that a pod uses which stays keeps its node, and that is said.
#[test]
fn shared_claim_keeps_its_node() {
    let name = "device-moves-shared";
    drifted_pool(name);
    let daemon = "---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: watcher, namespace: default}
spec:
  selector: {matchLabels: {app: watcher}}
  template:
    metadata: {labels: {app: watcher}}
    spec:
      nodeSelector: {node.kubernetes.io/instance-type: g4dn.xlarge}
      resourceClaims: [{name: gpu, resourceClaimName: both}]
      containers: [{name: main, image: pause, resources: {requests: {cpu: 100m}, claims: [{name: gpu}]}}]
";
    let objects = [class(""), shared("both", 1), deployment("user", 1, "resourceClaimName: both"), daemon.to_owned()];
    let played = play(name, &objects, OPEN, "steps: [{at: 10m, apply: [drifted.yaml]}]\nuntil: 40m\n");
    played.came_out_well();
    assert!(!played.log_events("drifted").is_empty());
    assert_eq!((played.removed().len(), played.number("launched")), (0, 1));
    let held = played.log_events("disruption_blocked");
    let said = held.iter().any(|line| {
        let why = line["why"].as_str().unwrap_or_default();
        why.starts_with("pod default/watcher-") && why.ends_with(", which stays, uses ResourceClaim default/both too")
    });
    assert!(said, "{held:?}");
}
