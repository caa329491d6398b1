//! Pods below the priority cutoff: they run where room is left, and nothing is launched or kept for them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{arg, scratch, write};
use crate::played::{manifests, play_with};

/// Pods of that priority that each take half of a node of the workload's.
fn of_priority(name: &str, value: i32, replicas: u32) -> String {
    format!(
        "---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: {name}}}
value: {value}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      priorityClassName: {name}
      terminationGracePeriodSeconds: 1
      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: \"1\", memory: 256Mi}}}}}}]
"
    )
}

/// Two pods that each need a node; then none, while the filler beside them stays.
#[test]
fn filler_waits_for_room_and_keeps_no_node() {
    let web = manifests(2).replace("consolidateAfter: Never", "consolidateAfter: 30s");
    let all = format!("{web}{}{}", of_priority("below", -11, 4), of_priority("at", -10, 0));
    let scale = |at: &str, name: &str, replicas: u32| {
        format!(
            "  - {{at: {at}, scale: {{kind: Deployment, name: {name}, namespace: default, replicas: {replicas}}}}}\n"
        )
    };
    let steps = [scale("5m", "web", 0), scale("9m", "at", 1)].concat();
    let settings = "settings: {EXPENDABLE_PODS_PRIORITY_CUTOFF: '-10'}";
    write("expendable/workload.yaml", &all);
    let text = format!("region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{settings}\nsteps:\n{steps}until: 14m\n");
    let (scenario, metrics) = (write("expendable/scenario.yaml", &text), scratch("expendable.metrics"));
    let played = play_with("expendable", &scenario, &["--metrics", arg(&metrics)], &[0, 1]);
    played.violates_nothing();
    let counted = std::fs::read_to_string(metrics).unwrap();
    for (gauge, count) in [("pending_expendable_pods_count", 4), ("unschedulable_pods_count", 0)] {
        let line = format!("karpenter_scheduler_{gauge}{{controller=\"provisioner\"}} {count}");
        assert!(counted.lines().any(|one| one == line), "{line} is not among them: {counted}");
    }
    let (first, later): (Vec<f64>, Vec<f64>) = played.times("launched").into_iter().partition(|t| *t < 540.0);
    assert_eq!((first.len(), later.len()), (2, 1), "two for web, one for the pod at the cutoff: {first:?} {later:?}");
    let removed: Vec<f64> = played.removed().into_values().collect();
    assert_eq!(removed.len(), 2, "{removed:?}");
    assert!(removed.iter().all(|t| (330.0..420.0).contains(t)), "filler keeps no node: {removed:?}");
    let pending = played.report["pods"]["pending"].to_string();
    assert!(pending.contains("below-") && !pending.contains("at-"), "{pending}");
    assert!(pending.contains("its priority -11 is below EXPENDABLE_PODS_PRIORITY_CUTOFF, -10"), "{pending}");
    assert!(played.events_of("no node is launched for it") > 0, "its event says so");
}
