//! Objects that no type can read, or that are at the edge of what there is, through the binary: one user makes them, and
//! everybody else's pods get their nodes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;
use common::{arg, scratch, write};
use played::{Played, manifests, play_over, play_with};

const PODS: u32 = 5;

/// The workload, and what somebody applies after five minutes; the workload grows afterwards.
fn attacked(name: &str, hostile: &str) -> Played {
    write(&format!("{name}/hostile.yaml"), hostile);
    let steps =
        "  - {at: 5m, apply: [hostile.yaml]}\n  - {at: 10m, scale: {kind: Deployment, name: web, replicas: 8}}\n";
    let kill =
        "  - {at: 20m, kill: {replica: leader}}\n  - {at: 25m, scale: {kind: Deployment, name: web, replicas: 9}}\n";
    let played = play_over(name, &manifests(PODS), &format!("replicas: 2\nsteps:\n{steps}{kill}until: 35m\n"));
    let retried: Vec<_> =
        played.log_events("retrying").iter().filter(|line| line.to_string().contains("watching")).cloned().collect();
    assert!(retried.is_empty(), "a watch has failed: {retried:?}");
    assert!(played.report["pods"]["bound"].as_u64().unwrap() >= 9, "{}", played.report["pods"]);
    assert!(
        played.report["invariants"]["violations"].as_array().unwrap().is_empty(),
        "{}",
        played.report["invariants"]
    );
    played
}

#[test]
fn extreme_durations_leave_the_other_pools_as_they_are() {
    let pool = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: forever}
spec:
  weight: 1
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 2562047h}
  template:
    spec:
      expireAfter: 2562047h
      terminationGracePeriod: 2562047h
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
";
    attacked("unreadable-durations", pool).came_out_well();
}

#[test]
fn briefly_unreadable_objects_stop_nobody_and_are_read_again() {
    let spoil = |at: &str, what: &str| format!("  - {{at: {at}, spoil: {{{what}}}}}\n");
    let steps = [
        spoil("5m", "kind: Lease, how: managedFields"),
        spoil("5m", "kind: Pod, names: 'web-*', count: 2, for: 3m"),
        spoil("5m", "kind: Node, count: 1, how: depth, for: 3m"),
        spoil("5m", "kind: NodeClaim, count: 1, for: 3m"),
        spoil("6m", "kind: NodePool, for: 1m"),
        "  - {at: 6m, kill: {replica: leader, for: 1m}}\n".to_owned(),
        "  - {at: 6m, scale: {kind: Deployment, name: web, replicas: 8}}\n".to_owned(),
    ];
    let scenario = format!("replicas: 2\nsteps:\n{}until: 20m\n", steps.concat());
    let played = play_over("unreadable-for-a-while", &manifests(PODS), &scenario);
    let named: std::collections::BTreeSet<&str> =
        played.log_events("unreadable").iter().map(|line| line["resource"].as_str().unwrap()).collect();
    assert_eq!(named, ["Node", "NodeClaim", "NodePool", "Pod"].into());
    assert!(played.log_events("elected").len() >= 2, "the Lease is read");
    assert_eq!(played.report["pods"]["bound"], 8);
    played.came_out_well();
}

#[test]
fn unreadable_pod_has_no_node_planned_and_stops_no_other() {
    let steps = "steps:\n  - {at: 900ms, spoil: {kind: Pod, names: 'web-*', count: 1}}\n";
    let alone = play_over("unreadable-for-ever", &manifests(PODS), &format!("{steps}until: 15m\n"));
    let again = arg(&scratch("unreadable-for-ever/scenario.yaml")).to_owned();
    let played = play_with("unreadable-for-ever-2", &again, &["--seed", "2"], &[0]);
    for one in [&alone, &played] {
        let batched = one.log_events("batched");
        assert_eq!(batched[0]["pods"], PODS - 1, "{batched:?}");
    }
    // kube-scheduler, which can read it, gives it one of the others' nodes; that one gets another.
    assert_eq!(played.report["pods"]["bound"], PODS);
    played.came_out_well();
    // The unreadable pod is the only one that waits where the others' places are kept until they come.
    assert_eq!(alone.report["pods"]["bound"], PODS - 1);
    let pods = alone.seen("pod", &[("change", "created")]);
    let first = pods.iter().map(|pod| pod["name"].as_str().unwrap()).min().unwrap();
    let waits: Vec<_> = alone.report["pods"]["pending"].as_object().unwrap().keys().collect();
    assert_eq!(waits, [&format!("default/{first}")]);
    alone.violates_nothing();
}

#[test]
fn what_cannot_be_spoilt_is_bad_input() {
    write("spoil-bad/workload.yaml", &manifests(1));
    for (what, field) in
        [("kind: Secret", "spoil.kind"), ("kind: Pod, how: badly", "spoil.how"), ("kind: Pod, for: x", "spoil.for")]
    {
        let text =
            format!("region: ca-west-1\napply: [workload.yaml]\nsteps: [{{at: 1s, spoil: {{{what}}}}}]\nuntil: 1m\n");
        let output = common::dovetail(&["simulate", &write("spoil-bad/scenario.yaml", &text)]);
        assert_eq!(output.status.code(), Some(2), "{what}");
        assert!(common::stderr(&output).contains(field), "{}", common::stderr(&output));
    }
}
