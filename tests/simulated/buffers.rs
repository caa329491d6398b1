//! Capacity buffers, played through: room is held, taken at once, refilled, given back, and never held twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::{arg, scratch, write};
use crate::played::{Played, at, manifests, play_over, play_with};

const GATE: &str = "featureGates: {CapacityBuffer: true}\n";

/// A pool and a workload of so many pods of half a CPU; `disruption` is the pool's.
fn workload(pods: u32, disruption: &str) -> String {
    let web = format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: default}}
spec:
  replicas: {pods}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: 500m, memory: 256Mi}}}}}}]
"
    );
    let all = manifests(0).replace("[m5.large, m6i.large]", "[m5.large, m5.xlarge, m5.2xlarge]");
    let (pool, _) = all.split_once("---\napiVersion: apps/v1").unwrap();
    let pool = pool.replace("{consolidationPolicy: WhenEmpty, consolidateAfter: Never}", disruption);
    format!("{pool}---\n{web}")
}

fn buffer(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {{name: {name}, namespace: default}}\nspec: {spec}\n"
    )
}

/// Room for so many pods of the workload.
fn room(pods: u32) -> String {
    buffer("room", &format!("{{scalableRef: {{apiGroup: apps, kind: Deployment, name: web}}, replicas: {pods}}}"))
}

fn nodes(played: &Played) -> &Vec<Value> {
    played.report["nodes"].as_array().unwrap()
}

/// The last conditions that were written on a buffer: reason and message by type.
fn said(played: &Played, name: &str) -> BTreeMap<String, (String, String)> {
    let written = played.seen("api", &[("resource", "capacitybuffers"), ("name", name)]);
    let last = written.into_iter().rfind(|event| event["sent"]["status"].is_object());
    let conditions =
        last.unwrap_or_else(|| panic!("nothing was said of {name}"))["sent"]["status"]["conditions"].clone();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let each = conditions.as_array().unwrap().iter();
    each.map(|one| (text(one, "type"), (text(one, "reason"), text(one, "message")))).collect()
}

/// Times at which pods were bound.
fn bound(played: &Played) -> Vec<f64> {
    played.seen("pod", &[("change", "bound")]).into_iter().map(at).collect()
}

#[test]
fn burst_binds_into_the_room_which_is_refilled_and_given_back() {
    let quick = "{consolidationPolicy: WhenEmpty, consolidateAfter: 30s}";
    let scenario = format!(
        "{GATE}steps:\n  - {{at: 6m, scale: {{kind: Deployment, name: web, replicas: 50}}}}\n  - {{at: 16m, delete: {{kind: CapacityBuffer, name: room}}}}\nuntil: 25m\n"
    );
    let played = play_over("buffer-burst", &format!("{}{}", workload(0, quick), room(50)), &scenario);
    played.came_out_well();
    let (first, later): (Vec<f64>, Vec<f64>) = played.times("buffer_launched").into_iter().partition(|t| *t < 360.0);
    assert!(!first.is_empty() && !later.is_empty(), "{first:?} {later:?}");
    let bound = bound(&played);
    assert_eq!(bound.len(), 50);
    assert!(bound.iter().all(|t| (360.0..375.0).contains(t)), "no pod waits for a launch: {bound:?}");
    assert!(played.log_events("packing_computed").is_empty(), "nothing is planned for the pods");
    assert_eq!(played.times("buffer_held").len(), 1, "all of it is there, and is again");
    let (reason, message) = &said(&played, "room")["Provisioning"];
    assert_eq!((reason.as_str(), message.as_str()), ("FitsExistingCapacity", "room for 50 of 50 pods is there"));
    // Without the buffer the nodes without pods go.
    assert!(nodes(&played).iter().all(|node| node["pods"].as_u64() > Some(0)), "{:?}", nodes(&played));
    assert!(played.removed().values().all(|t| *t > 960.0), "{:?}", played.removed());
    assert_eq!(played.report["downtime"]["evicted"], 0);
}

/// Leaders are killed at all times of the first launch and of a refill: never is room held twice.
#[test]
fn leaders_killed_while_room_is_made_hold_it_once() {
    let plain = "{consolidationPolicy: WhenEmpty, consolidateAfter: Never}";
    let manifests = format!("{}{}", workload(0, plain), room(12));
    let mut all = Vec::new();
    for kill in [0, 7, 9, 20] {
        let kills = match kill {
            0 => String::new(),
            _ => format!(
                "  - {{at: {kill}s, kill: {{replica: leader, for: 40s}}}}\n  - {{at: {}s, kill: {{replica: leader, for: 40s}}}}\n",
                kill + 45
            ),
        };
        let scenario = format!(
            "{GATE}replicas: 2\nsteps:\n{kills}  - {{at: 8m, scale: {{kind: Deployment, name: web, replicas: 12}}}}\n  - {{at: {}ms, kill: {{replica: leader, for: 40s}}}}\nuntil: 20m\n",
            480_500 + 137 * kill
        );
        let played = play_over(&format!("buffer-killed-{kill}"), &manifests, &scenario);
        played.came_out_well();
        let cpus = |node: &Value| match node["instanceType"].as_str().unwrap() {
            "m5.large" => 2,
            "m5.xlarge" => 4,
            _ => 8,
        };
        all.push((kill, played.number("launched"), nodes(&played).iter().map(cpus).sum::<i32>()));
        assert_eq!(said(&played, "room")["Provisioning"].0, "FitsExistingCapacity", "killed at {kill} s");
    }
    // Twelve pods and room for twelve are 12 CPUs, and what the system takes of each node.
    assert!(all.iter().all(|(_, _, cpus)| (14..=20).contains(cpus)), "{all:?}");
    assert!(all.iter().all(|(_, launched, _)| *launched <= all[0].1 + 1), "{all:?}");
}

/// A kind of others with a scale, and one object of it.
const ROLLOUT: &str = "---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.argoproj.io}
spec:
  group: argoproj.io
  names: {kind: Rollout, plural: rollouts, singular: rollout, listKind: RolloutList}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
      subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: other, namespace: default}
spec:
  replicas: 9
  template:
    metadata: {labels: {app: other}}
    spec: {containers: [{name: main, image: pause, resources: {requests: {cpu: 250m}}}]}
";

/// A PodTemplate of so many CPUs.
fn template(name: &str, cpu: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: PodTemplate\nmetadata: {{name: {name}, namespace: default}}\ntemplate:\n  metadata: {{labels: {{app: {name}}}}}\n  spec: {{containers: [{{name: main, image: pause, resources: {{requests: {{cpu: {cpu}, memory: 16Mi}}}}}}]}}\n"
    )
}

#[test]
fn buffers_that_cannot_be_held_say_why_and_disturb_no_other() {
    let plain = "{consolidationPolicy: WhenEmpty, consolidateAfter: Never}";
    let limited = workload(2, plain).replace("  disruption:", "  limits: {cpu: \"16\"}\n  disruption:");
    let all = [
        limited,
        template("huge", "500"),
        template("tiny", "20m"),
        ROLLOUT.to_owned(),
        buffer("good", "{scalableRef: {apiGroup: argoproj.io, kind: Rollout, name: other}, percentage: 20}"),
        buffer("huge", "{podTemplateRef: {name: huge}, replicas: 3}"),
        buffer("million", "{podTemplateRef: {name: tiny}, replicas: 1000000}"),
        buffer("missing", "{scalableRef: {apiGroup: apps, kind: Deployment, name: nobody}, replicas: 3}"),
        buffer("no-kind", "{scalableRef: {apiGroup: example.com, kind: Thing, name: other}, replicas: 3}"),
        buffer("no-template", "{podTemplateRef: {name: nobody}, replicas: 3}"),
        buffer("others", "{provisioningStrategy: example.com/other, podTemplateRef: {name: tiny}, replicas: 3}"),
    ];
    let played = play_over("buffer-bad", &all.concat(), &format!("{GATE}until: 12m\n"));
    played.came_out_well();
    let reason = |name: &str, type_: &str| said(&played, name)[type_].0.clone();
    let message = |name: &str, type_: &str| said(&played, name)[type_].1.clone();
    assert_eq!(reason("good", "Provisioning"), "FitsExistingCapacity");
    assert_eq!(message("good", "Provisioning"), "room for 2 of 2 pods is there", "a fifth of nine, rounded up");
    let huge = message("huge", "Provisioning");
    assert!(huge.starts_with("room for 0 of 3 pods is there, for 0 on its way, for 3 not: "), "{huge}");
    assert!(message("million", "ReadyForProvisioning").contains("cut to 2000 of 1000000 pods"));
    let million = message("million", "Provisioning");
    assert!(million.contains(" not: ") && million.contains("limit"), "{million}");
    for (name, why) in
        [("missing", "ScalableRefNotFound"), ("no-kind", "ScalableRefNotFound"), ("no-template", "PodTemplateNotFound")]
    {
        assert_eq!(reason(name, "ReadyForProvisioning"), why, "{name}");
        assert_eq!(reason(name, "Provisioning"), "NotReadyForProvisioning", "{name}");
    }
    let of_others = played.seen("api", &[("resource", "capacitybuffers"), ("name", "others")]);
    assert!(of_others.iter().all(|event| event["replica"].is_null()), "it is another provider's");
    assert!(played.events_of("NotTriggerScaleUp") >= 4);
    assert!(played.number("launched") <= 8 && played.calls("CreateFleet").len() < 40, "{}", played.number("launched"));
}

/// With the gate closed nobody reads a buffer that is there.
#[test]
fn closed_gate_leaves_buffers_alone() {
    let crd = dovetail_api::crds::buffer_crd_file().unwrap().1;
    let plain = "{consolidationPolicy: WhenEmpty, consolidateAfter: Never}";
    let all = format!("{crd}---\n{}{}", workload(0, plain), room(4));
    write("buffer-closed/workload.yaml", &all);
    let text = "region: ca-west-1\nseed: 1\napply: [workload.yaml]\nuntil: 5m\n";
    let (scenario, metrics) = (write("buffer-closed/scenario.yaml", text), scratch("buffer-closed.metrics"));
    let played = play_with("buffer-closed", &scenario, &["--metrics", arg(&metrics)], &[0]);
    let written = played.seen("api", &[("resource", "capacitybuffers")]);
    assert!(written.iter().all(|event| event["replica"].is_null()), "{written:?}");
    assert_eq!((played.number("launched"), nodes(&played).len()), (0, 0));
    assert!(!std::fs::read_to_string(metrics).unwrap().contains("dovetail_buffer_"));
}

#[test]
fn metrics_say_what_room_there_is_and_costs() {
    let plain = "{consolidationPolicy: WhenEmpty, consolidateAfter: Never}";
    write("buffer-metrics/workload.yaml", &format!("{}{}", workload(0, plain), room(4)));
    let text = format!("region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{GATE}until: 6m\n");
    let (scenario, metrics) = (write("buffer-metrics/scenario.yaml", &text), scratch("buffer-metrics.metrics"));
    play_with("buffer-metrics", &scenario, &["--metrics", arg(&metrics)], &[0]);
    let said = std::fs::read_to_string(metrics).unwrap();
    for state in ["wanted", "ready"] {
        let line = format!("dovetail_buffer_pods{{namespace=\"default\",buffer=\"room\",state=\"{state}\"}} 4");
        assert!(said.lines().any(|one| one == line), "{line} is not among them: {said}");
    }
    let dollars = said.lines().find(|line| line.starts_with("dovetail_buffer_dollars_per_hour{")).unwrap();
    let dollars: f64 = dollars.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(dollars > 0.05 && dollars < 0.5, "{dollars}");
}

/// Room moves to cheaper nodes when the pods beside it have gone.
#[test]
fn consolidation_moves_room_and_keeps_exactly_what_is_wanted() {
    let moves = "{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s}";
    let scenario =
        format!("{GATE}steps:\n  - {{at: 8m, scale: {{kind: Deployment, name: web, replicas: 0}}}}\nuntil: 60m\n");
    let played = play_over("buffer-moves", &format!("{}{}", workload(14, moves), room(2)), &scenario);
    played.came_out_well();
    assert_eq!(said(&played, "room")["Provisioning"].1, "room for 2 of 2 pods is there");
    assert_eq!(nodes(&played).len(), 1, "{:?}", nodes(&played));
    assert_eq!(nodes(&played)[0]["instanceType"], "m5.large");
}
