//! Objects that no type can read, or that are at the edge of what there is, through the binary: one user makes them, and
//! everybody else's pods get their nodes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod played;
use common::write;
use played::{Played, manifests, play_over};

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
        played.story("retrying").iter().filter(|line| line.to_string().contains("watching")).cloned().collect();
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
fn durations_at_the_edge_of_what_there_is_leave_the_other_pools_as_they_are() {
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
