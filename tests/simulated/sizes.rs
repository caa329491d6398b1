//! Pods that are resized in place, played through.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played::{manifests, play_over};

/// A Deployment of pods that take that much CPU, with these annotations.
fn of_size(name: &str, replicas: u32, cpu: &str, annotations: &str) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{{annotations}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: {cpu}, memory: 64Mi}}}}}}]
"
    )
}

/// A pod that may not be moved shrinks, and its container gives the room back ten minutes later. Only then is it free for the
/// pods of the other node, which is given up.
#[test]
fn shrinking_pod_keeps_its_room_and_no_pod_waits_for_it() {
    let all = manifests(0).replace(
        "consolidationPolicy: WhenEmpty, consolidateAfter: Never",
        "consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s, budgets: [{nodes: 100%}]",
    );
    let stays = "karpenter.sh/do-not-disrupt: 'true', sandbox.dovetail.dev/resizes-for: 10m";
    let all = [all, of_size("big", 1, "1500m", stays), of_size("small", 2, "500m", "")].concat();
    let played = play_over(
        "sizes",
        &all,
        "steps:\n  - {at: 20m, resize: {names: \"big-*\", requests: {cpu: 300m}}}\nuntil: 50m\n",
    );
    played.came_out_well();
    let launched = played.times("launched");
    assert!(launched.len() == 2 && launched.iter().all(|at| *at < 60.0), "no pod waits for a node: {launched:?}");
    let removed: Vec<f64> = played.removed().into_values().collect();
    assert!(removed.len() == 1 && removed[0] > 1800.0, "its room is free half an hour in: {removed:?}");
}
