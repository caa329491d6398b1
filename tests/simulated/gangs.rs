//! ProvisioningRequests, played through: all nodes or none, room held for its time, given back, and never ordered twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::played::{Played, at, manifests, play_over};

const GATE: &str = "featureGates: {ProvisioningRequest: true}\n";
const ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
const CHECK: &str = "check-capacity.autoscaling.x-k8s.io";
/// Nodes that hold nothing go after half a minute.
pub const QUICK: &str = "{consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{nodes: '100%'}]}";
pub const STAY: &str = "{consolidationPolicy: WhenEmpty, consolidateAfter: Never}";

/// A class and a pool.
pub fn pool(disruption: &str) -> String {
    let all = manifests(0);
    let (pool, _) = all.split_once("---\napiVersion: apps/v1").unwrap();
    pool.replace(STAY, disruption)
}

/// The spec of a pod that needs a node of its own, in a zone if there is one given.
pub fn pod_spec(zone: &str) -> String {
    let selector = if zone.is_empty() {
        String::new()
    } else {
        format!("nodeSelector: {{topology.kubernetes.io/zone: {zone}}}, ")
    };
    format!(
        "{{{selector}terminationGracePeriodSeconds: 1, affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: train}}}}}}]}}}}, containers: [{{name: main, image: pause, resources: {{requests: {{cpu: 500m, memory: 256Mi}}}}}}]}}"
    )
}

fn template(name: &str, zone: &str) -> String {
    let spec = pod_spec(zone);
    format!(
        "---\napiVersion: v1\nkind: PodTemplate\nmetadata: {{name: {name}, namespace: default}}\ntemplate:\n  metadata: {{labels: {{app: train}}}}\n  spec: {spec}\n"
    )
}

/// A request for pods of these templates.
fn request(name: &str, class: &str, sets: &[(&str, u32)]) -> String {
    let each = sets.iter().map(|(template, count)| format!("{{podTemplateRef: {{name: {template}}}, count: {count}}}"));
    let sets = each.collect::<Vec<_>>().join(", ");
    format!(
        "---\napiVersion: autoscaling.x-k8s.io/v1\nkind: ProvisioningRequest\nmetadata: {{name: {name}, namespace: default}}\nspec: {{provisioningClassName: {class}, podSets: [{sets}]}}\n"
    )
}

/// A Deployment of pods that consume a request.
fn members(name: &str, request: &str, pods: u32) -> String {
    let spec = pod_spec("");
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  replicas: {pods}\n  selector: {{matchLabels: {{own: {name}}}}}\n  template:\n    metadata: {{labels: {{app: train, own: {name}}}, annotations: {{autoscaling.x-k8s.io/consume-provisioning-request: {request}}}}}\n    spec: {spec}\n"
    )
}

/// The conditions that were written on a request last: status, reason and message by type.
fn said(played: &Played, name: &str) -> BTreeMap<String, (String, String, String)> {
    let written = played.seen("api", &[("resource", "provisioningrequests"), ("name", name)]);
    let last = written.into_iter().rfind(|event| event["sent"]["status"].is_object());
    let last = last.unwrap_or_else(|| panic!("nothing was said of {name}"));
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let each = last["sent"]["status"]["conditions"].as_array().unwrap().iter();
    each.map(|one| (text(one, "type"), (text(one, "status"), text(one, "reason"), text(one, "message")))).collect()
}

fn reason(played: &Played, name: &str, type_: &str) -> String {
    said(played, name)[type_].1.clone()
}

/// Time at which a request was first said to be in that state.
fn first_said(played: &Played, name: &str, type_: &str, status: &str) -> f64 {
    let written = played.seen("api", &[("resource", "provisioningrequests"), ("name", name)]);
    let says = |event: &&Value| {
        let all = event["sent"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["type"] == type_ && one["status"] == status)
    };
    at(written.into_iter().find(says).unwrap_or_else(|| panic!("{name} was never {type_}={status}")))
}

pub fn nodes(played: &Played) -> &Vec<Value> {
    played.report["nodes"].as_array().unwrap()
}

#[test]
fn atomic_request_gets_all_its_nodes_and_its_pods_find_them() {
    let all = [
        &pool(QUICK),
        &*template("train", ""),
        &request("train", ATOMIC, &[("train", 20)]),
        &members("train", "train", 0),
    ];
    let scenario =
        format!("{GATE}steps:\n  - {{at: 6m, scale: {{kind: Deployment, name: train, replicas: 20}}}}\nuntil: 12m\n");
    let played = play_over("gang-all", &all.concat(), &scenario);
    played.came_out_well();
    assert_eq!((played.number("launched"), nodes(&played).len()), (20, 20));
    assert!(played.removed().is_empty(), "booked nodes stay, though they are empty: {:?}", played.removed());
    let bound: Vec<f64> = played.seen("pod", &[("change", "bound")]).into_iter().map(at).collect();
    assert!(bound.len() == 20 && bound.iter().all(|t| (360.0..375.0).contains(t)), "{bound:?}");
    assert!(played.log_events("packing_computed").is_empty(), "nothing is planned for the pods");
    assert_eq!(reason(&played, "train", "Accepted"), "Accepted");
    assert_eq!(reason(&played, "train", "Provisioned"), "CapacityIsProvisioned");
    assert_eq!(reason(&played, "train", "BookingExpired"), "CapacityBookingConsumed");
    let ready = first_said(&played, "train", "Provisioned", "True");
    let joined = played.times("initialized").into_iter().fold(0.0, f64::max);
    assert!(ready >= joined, "it is said when the last node is ready: {ready}, {joined}");
    assert_eq!(played.log_events("request_launched").len(), 1);
}

/// Half of the nodes cannot be had: by a limit nothing is launched, by EC2's answer all is given back.
#[test]
fn request_with_half_its_capacity_missing_keeps_no_node() {
    let limited = pool(STAY).replace("  disruption:", "  limits: {nodes: \"10\"}\n  disruption:");
    let all = [&limited, &*template("train", ""), &request("train", ATOMIC, &[("train", 20)])].concat();
    let played = play_over("gang-limit", &all, &format!("{GATE}until: 5m\n"));
    played.came_out_well();
    assert_eq!(played.number("launched"), 0);
    let (status, reason, message) = said(&played, "train")["Provisioned"].clone();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "CapacityIsNotFound"));
    assert!(message.starts_with("10 of 20 pods have no place: ") && message.contains("limit"), "{message}");

    let sets = request("train", ATOMIC, &[("here", 10), ("there", 10)]);
    let all = [&pool(STAY), &*template("here", "ca-west-1b"), &template("there", "ca-west-1a"), &sets].concat();
    let sold_out = "faults: {ec2: {insufficientCapacity: ['*/ca-west-1a/*']}}\n";
    let played = play_over("gang-sold-out", &all, &format!("{GATE}{sold_out}until: 150s\n"));
    played.came_out_well();
    assert!(played.number("launched") >= 10, "{}", played.report);
    assert_eq!(
        (played.number("terminated"), nodes(&played).len()),
        (played.number("launched"), 0),
        "all is given back"
    );
    assert!(!played.log_events("request_given_back").is_empty());
    let (status, reason, message) = said(&played, "train")["Provisioned"].clone();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "CapacityIsNotFound"));
    assert!(message.starts_with("10 of 20 pods have no place: "), "{message}");
    assert!(played.events_of("NotTriggerScaleUp") >= 1);
}

#[test]
fn request_deleted_while_its_room_is_held_gives_the_nodes_back() {
    let all = [&pool(QUICK), &*template("train", ""), &request("train", ATOMIC, &[("train", 6)])].concat();
    let steps = "steps:\n  - {at: 6m, delete: {kind: ProvisioningRequest, name: train}}\nuntil: 12m\n";
    let played = play_over("gang-deleted", &all, &format!("{GATE}{steps}"));
    played.came_out_well();
    assert_eq!((played.number("launched"), nodes(&played).len()), (6, 0));
    assert!(played.removed().values().all(|t| *t > 360.0), "{:?}", played.removed());
}

#[test]
fn room_whose_pods_never_come_is_held_for_ten_minutes() {
    let all = [&pool(QUICK), &*template("train", ""), &request("train", ATOMIC, &[("train", 6)])].concat();
    let played = play_over("gang-alone", &all, &format!("{GATE}until: 20m\n"));
    played.came_out_well();
    let booked = first_said(&played, "train", "Provisioned", "True");
    let over = first_said(&played, "train", "BookingExpired", "True");
    assert!((590.0..625.0).contains(&(over - booked)), "{booked} {over}");
    assert_eq!(reason(&played, "train", "BookingExpired"), "CapacityReservationTimeExpired");
    assert!(played.removed().values().all(|t| *t > over), "{:?}", played.removed());
    assert_eq!((played.number("launched"), nodes(&played).len()), (6, 0));
}

/// Leaders are killed at all times of the launch: never is a node ordered twice, and the room is held through.
#[test]
fn leaders_killed_in_the_middle_order_each_node_once() {
    let all = [&pool(QUICK), &*template("train", ""), &request("train", ATOMIC, &[("train", 12)])].concat();
    for kill in [7, 9, 20, 45] {
        let kills = format!(
            "  - {{at: {kill}s, kill: {{replica: leader, for: 40s}}}}\n  - {{at: {}s, kill: {{replica: leader, for: 40s}}}}\n",
            kill + 45
        );
        let scenario = format!("{GATE}replicas: 2\nsteps:\n{kills}until: 8m\n");
        let played = play_over(&format!("gang-killed-{kill}"), &all, &scenario);
        played.came_out_well();
        assert_eq!((played.number("launched"), nodes(&played).len()), (12, 12), "killed at {kill} s");
        assert_eq!(reason(&played, "train", "Provisioned"), "CapacityIsProvisioned", "killed at {kill} s");
    }
}

/// A manifest of a workload of others beside requests that come to nothing, and pods of a request that is not there.
#[test]
fn odd_requests_say_why_and_disturb_no_other() {
    let empty = "---\napiVersion: v1\nkind: PodTemplate\nmetadata: {name: empty, namespace: default}\n".to_owned();
    let all = [
        manifests(3),
        template("train", ""),
        empty,
        request("million", ATOMIC, &[("train", 1_000_000)]),
        request("missing", ATOMIC, &[("nobody", 3)]),
        request("empty", ATOMIC, &[("empty", 3)]),
        request("checked", CHECK, &[("train", 2)]),
        request("others", "queued-provisioning.gke.io", &[("train", 2)]),
        // They fit on no node that is there.
        members("orphan", "nobody", 2).replace("cpu: 500m", "cpu: 1700m"),
    ];
    let played = play_over("gang-odd", &all.concat(), &format!("{GATE}until: 8m\n"));
    played.violates_nothing();
    // The three pods' nodes have room for what is asked for of the check.
    assert_eq!(played.number("launched"), 3);
    assert_eq!(reason(&played, "checked", "Provisioned"), "CapacityIsFound");
    for name in ["million", "empty"] {
        assert_eq!(reason(&played, name, "Failed"), "FailedToCreatePods", "{name}");
    }
    assert!(said(&played, "million")["Failed"].2.contains("asks for 1000000 pods"));
    let (status, _, message) = said(&played, "missing")["Provisioned"].clone();
    assert!(status == "False" && message.contains("there is no PodTemplate nobody"), "{message}");
    let of_others = played.seen("api", &[("resource", "provisioningrequests"), ("name", "others")]);
    assert!(of_others.iter().all(|event| event["replica"].is_null()), "it is another provider's");
    let pending = played.report["pods"]["pending"].as_object().unwrap();
    assert_eq!(pending.len(), 2, "{pending:?}");
    for (name, why) in pending {
        let why = why.as_str().unwrap();
        assert!(
            name.starts_with("default/orphan-") && why.contains("it consumes ProvisioningRequest default/nobody"),
            "{name}: {why}"
        );
    }
}

/// With the gate closed nobody reads a request that is there, and everything goes as without it.
#[test]
fn closed_gate_leaves_requests_and_their_pods_alone() {
    let crd = dovetail_api::crds::request_crd_file().unwrap().1;
    let of = |name: &str, more: &str, consumed: &str| {
        let pods = manifests(3).replace(
            "metadata: {labels: {app: web}}",
            &format!("metadata: {{labels: {{app: web}}, annotations: {{{consumed}: train}}}}"),
        );
        let played = play_over(name, &format!("{more}{pods}"), "until: 3m\n");
        played.came_out_well();
        played
    };
    let requests = format!("{crd}{}{}---\n", template("train", ""), request("train", ATOMIC, &[("train", 5)]));
    let with = of("gang-closed", &requests, "autoscaling.x-k8s.io/consume-provisioning-request");
    let seen = with.seen("api", &[("resource", "provisioningrequests")]);
    assert!(seen.iter().all(|event| event["replica"].is_null()), "{seen:?}");
    // Names are drawn anew where an object more is there.
    let done = |played: &Played| {
        let lines = played.report["timeline"].as_array().unwrap().clone().into_iter();
        lines.map(|line| (line["actor"].clone(), line["event"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(done(&with), done(&of("gang-none", "", "example.com/other")), "nothing is done or said otherwise");
}
