//! Pods that are resized in place, played through.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::write;
use crate::played::{Played, manifests, play_over};

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

/// An autoscaler of a Deployment whose recommender has found that much CPU.
fn autoscaler(of: &str, cpu: &str) -> String {
    format!(
        "---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata:
  name: {of}
  namespace: default
  annotations: {{sandbox.dovetail.dev/recommends: '{{\"main\": {{\"cpu\": \"{cpu}\"}}}}'}}
spec: {{targetRef: {{apiVersion: apps/v1, kind: Deployment, name: {of}}}, updatePolicy: {{updateMode: Initial}}}}
"
    )
}

/// Six pods leave their nodes. Four times as much is recommended for each as it was created with: their places are made so large
/// before they leave, and no node is launched after. The leader is killed meanwhile.
#[test]
fn pods_that_move_have_room_for_what_is_recommended() {
    let all = [manifests(0), of_size("grows", 6, "250m", "")].concat();
    write("recommended/autoscaler.yaml", &autoscaler("grows", "1000m"));
    let steps = "featureGates: {VerticalPodAutoscaler: true}
replicas: 2
steps:
  - {at: 4m, apply: [autoscaler.yaml]}
  - {at: 5m, deleteSome: {kind: NodeClaim}}
  - {at: 5m20s, kill: {replica: leader, for: 30s}}
until: 15m
";
    let played = play_over("recommended", &all, steps);
    played.came_out_well();
    let (before, after): (Vec<f64>, Vec<f64>) = played.times("launched").into_iter().partition(|at| *at < 300.0);
    let spread = after.iter().copied().fold(0.0, f64::max) - after.iter().copied().fold(f64::MAX, f64::min);
    assert!(after.len() > before.len() && spread < 5.0, "all that they need comes at once: {before:?}, then {after:?}");
}

/// The same as above, but the pods of the other node would ask for more than that room once they are created anew: it stays.
#[test]
fn nodes_are_not_emptied_into_room_that_pods_outgrow() {
    let all = manifests(0).replace(
        "consolidationPolicy: WhenEmpty, consolidateAfter: Never",
        "consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s, budgets: [{nodes: 100%}]",
    );
    let stays = "karpenter.sh/do-not-disrupt: 'true', sandbox.dovetail.dev/resizes-for: 1m";
    let all = [all, of_size("big", 1, "1500m", stays), of_size("small", 2, "500m", "")].concat();
    for (name, cpu, given_up) in [("outgrown", "850m", 0), ("outgrown-not", "550m", 1)] {
        write(&format!("{name}/autoscaler.yaml"), &autoscaler("small", cpu));
        let steps = "featureGates: {VerticalPodAutoscaler: true}
steps:
  - {at: 10m, apply: [autoscaler.yaml]}
  - {at: 20m, resize: {names: \"big-*\", requests: {cpu: 300m}}}
until: 50m
";
        let played = play_over(name, &all, steps);
        played.came_out_well();
        assert_eq!(played.removed().len(), given_up, "{cpu}");
        assert_eq!(played.times("launched").len(), 2, "{cpu}");
    }
}

#[test]
fn closed_gate_leaves_autoscalers_alone() {
    let crd = serde_json::to_string(&dovetail_api::crds::vertical_crd()).unwrap();
    let of = |name: &str, more: &str| {
        let played = play_over(name, &format!("{more}{}", manifests(3)), "until: 3m\n");
        played.came_out_well();
        played
    };
    let with = of("recommended-closed", &format!("{crd}\n{}---\n", autoscaler("web", "1000m")));
    let seen = with.seen("api", &[("resource", "verticalpodautoscalers")]);
    assert!(seen.iter().all(|event| event["replica"].is_null()), "{seen:?}");
    let said = |played: &Played| {
        let lines = played.report["timeline"].as_array().unwrap().clone().into_iter();
        lines.map(|line| (line["actor"].clone(), line["event"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(said(&with), said(&of("recommended-none", "")), "nothing is done or said otherwise");
}
