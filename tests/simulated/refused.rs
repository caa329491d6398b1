//! Launches that are refused before there is a node, and nodes that kube-scheduler refuses: how often each is tried.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;

use played::{Played, manifests, play_over};

/// An admission policy that refuses every NodeClaim of the pool `bad`, as a quota or a webhook may.
const POLICY: &str = "---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-bad}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [karpenter.sh], apiVersions: ['*'], operations: [CREATE], resources: [nodeclaims]}]
  validations:
    - expression: \"!has(object.metadata.labels) || !('karpenter.sh/nodepool' in object.metadata.labels) || object.metadata.labels['karpenter.sh/nodepool'] != 'bad'\"
      message: the quota of bad is used up
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-bad}
spec: {policyName: no-bad, validationActions: [Deny]}
";

/// A pool `bad` of the greatest weight, whose NodeClaims the API server refuses, and the workload; other pools where `others`.
fn with_bad_pool(pods: u32, others: bool) -> String {
    let all = manifests(pods);
    let documents: Vec<&str> = all.split("---\n").collect();
    let bad = documents[1].replace("name: default}\nspec:\n", "name: bad}\nspec:\n  weight: 100\n");
    assert!(bad.contains("weight: 100"));
    let good = if others { format!("{}---\n", documents[1]) } else { String::new() };
    format!("{}---\n{bad}---\n{good}{}{POLICY}", documents[0], documents[2])
}

/// Seconds at which NodeClaims of a pool were sent, whatever was answered.
fn sent(played: &Played, pool: &str) -> Vec<f64> {
    let of = |event: &&serde_json::Value| {
        event["kind"] == "api" && event["resource"] == "nodeclaims" && event["verb"] == "create"
    };
    let all =
        played.events.iter().filter(of).filter(|event| event["name"].as_str().unwrap_or_default().starts_with(pool));
    all.map(|event| event["t"].as_f64().unwrap()).collect()
}

/// Seconds at which CreateFleet was called.
fn calls(played: &Played) -> Vec<f64> {
    let of = |event: &&serde_json::Value| event["kind"] == "aws" && event["action"] == "CreateFleet";
    played.events.iter().filter(of).map(|event| event["t"].as_f64().unwrap()).collect()
}

fn within(times: &[f64], from: f64, to: f64) -> usize {
    times.iter().filter(|t| (from..to).contains(*t)).count()
}

/// At most five in the first minute, one a minute later.
fn keep_their_bound(times: &[f64]) {
    let first = times[0];
    assert!(within(times, first, first + 60.0) <= 5, "{times:?}");
    for minute in 1..30 {
        let from = first + 60.0 * f64::from(minute);
        assert!(within(times, from, from + 60.0) <= 1, "minute {minute}: {times:?}");
    }
}

/// The failed writes to the API server are not in the event log: they are counted by what the launcher says of each.
fn refused(played: &Played) -> Vec<f64> {
    let of = |line: &&serde_json::Value| line["reason"] == "CreateFailed";
    let lines = played.log_events("launch_failed").into_iter().filter(of);
    lines.map(|line| line["t"].as_f64().unwrap()).collect()
}

#[test]
fn pool_with_refused_claims_leaves_its_pods_to_other_pools() {
    let played = play_over("refused-beside", &with_bad_pool(10, true), "settled: 2m\nuntil: 15m\n");
    let refused = refused(&played);
    assert!((1..=5).contains(&refused.len()), "{refused:?}");
    assert!(sent(&played, "bad").len() <= 5);
    assert!(played.times("launched").iter().all(|t| *t < 10.0), "{:?}", played.times("launched"));
    assert_eq!(played.report["pods"]["bound"], 10);
    let skipped =
        played.log_events("pool_skipped").into_iter().find(|line| line["node_pool"] == "bad").unwrap().clone();
    assert!(skipped["why"].as_str().unwrap().contains("the quota of bad is used up"), "{skipped}");
    played.came_out_well();
}

#[test]
fn refused_pool_is_tried_five_times_then_once_a_minute() {
    let played = play_over("refused-alone", &with_bad_pool(10, false), "until: 20m\n");
    let refused = refused(&played);
    keep_their_bound(&refused);
    assert!(refused.len() >= 15, "it is tried on and on: {refused:?}");
    let pending = played.report["pods"]["pending"].as_object().unwrap();
    assert_eq!(pending.len(), 10);
    for line in played.log_events("unschedulable") {
        let error = line["error"].as_str().unwrap();
        assert!(error.contains("pool bad") && error.contains("the quota of bad is used up"), "{error}");
    }
    assert!(!played.log_events("unschedulable").is_empty());
}

/// The successor begins anew: the bound holds for each of them.
#[test]
fn a_new_leader_keeps_the_bound_from_its_own_beginning() {
    let scenario = "replicas: 2\nsteps:\n  - {at: 5m, kill: {replica: leader, for: 1m}}\nuntil: 10m\n";
    let played = play_over("refused-new-leader", &with_bad_pool(10, false), scenario);
    let elected = played.times("elected");
    assert_eq!(elected.len(), 2);
    let all = refused(&played);
    let (before, after): (Vec<f64>, Vec<f64>) = all.iter().partition(|t| **t < elected[1]);
    keep_their_bound(&before);
    keep_their_bound(&after);
}

fn of_type(name: &str, kind: &str, cpu: u32, replicas: u32) -> (String, String) {
    let all = manifests(replicas);
    let documents: Vec<&str> = all.split("---\n").collect();
    let pool = documents[1]
        .replace("name: default}\nspec:\n", &format!("name: {name}}}\nspec:\n"))
        .replace("values: [m5.large, m6i.large]", &format!("values: [{kind}]"))
        .replace(
            "    spec:\n      expireAfter",
            &format!("    metadata: {{labels: {{for: {name}}}}}\n    spec:\n      expireAfter"),
        );
    let (head, containers) = documents[2].split_once("      affinity:\n").unwrap();
    let containers = &containers[containers.find("      containers:").unwrap()..];
    let selector = format!("      nodeSelector: {{for: {name}}}\n");
    let deployment = format!("{head}{selector}{containers}")
        .replace("name: web", &format!("name: {name}"))
        .replace("app: web", &format!("app: {name}"))
        .replace("cpu: 500m", &format!("cpu: {cpu}"));
    (pool, deployment)
}

/// As case 24 of a cluster that had it: light pods come ten minutes after a thousand for machines that are sold out.
#[test]
fn thousand_hopeless_pods_delay_nobody_in_at_most_sixty_claims() {
    let class = manifests(1).split("---\n").next().unwrap().to_owned();
    let (heavy, train) = of_type("heavy", "m5.4xlarge", 9, 1000);
    let (light, small) = of_type("light", "m5.xlarge", 2, 20);
    common::write("hopeless/light.yaml", &small);
    let scenario = "faults: {ec2: {insufficientCapacity: ['m5.4xlarge/*/*']}}\nsteps:\n  - {at: 10m, apply: [light.yaml]}\nuntil: 15m\n";
    let played = play_over("hopeless", &format!("{class}---\n{heavy}---\n{light}---\n{train}"), scenario);
    let hopeless = sent(&played, "heavy");
    assert!((2..=60).contains(&hopeless.len()), "{} claims", hopeless.len());
    assert_eq!(played.report["pods"]["bound"], 20);
    let launched: Vec<f64> = played.times("launched");
    assert!(launched.iter().all(|t| (600.0..612.0).contains(t)), "{launched:?}");
    let lines = played.log_events("offering_refused");
    assert!(lines.len() <= 60, "{} lines", lines.len());
}

/// Nineteen pods that have to be in a zone that has nothing.
#[test]
fn pods_for_a_sold_out_zone_send_one_call_at_a_time() {
    let all = manifests(19)
        .replace("values: [on-demand]", "values: [spot, on-demand]")
        .replace(
            "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}",
            "{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
        )
        .replace(
            "      affinity:\n",
            "      nodeSelector: {topology.kubernetes.io/zone: ca-west-1a}\n      affinity:\n",
        );
    let scenario = "faults: {ec2: {insufficientCapacity: ['*/ca-west-1a/*']}}\nuntil: 15m\n";
    let played = play_over("sold-out-zone", &all, scenario);
    let calls = calls(&played);
    assert!(within(&calls, 0.0, 18.0) <= 40, "{} calls in the first seconds: {calls:?}", within(&calls, 0.0, 18.0));
    // Every three minutes each type is asked for again, one call after the other: some sixty calls a round.
    assert!((5..=330).contains(&calls.len()), "{} calls", calls.len());
    assert_eq!(played.report["pods"]["bound"], 0);
}

/// All of spot is known to be gone before what was known first is forgotten, and another pool is taken: also by pods that come
/// when that has been forgotten, while EC2 throttles.
#[test]
fn pods_for_a_sold_out_spot_pool_get_nodes_of_the_next_pool() {
    let all = manifests(2);
    let documents: Vec<&str> = all.split("---\n").collect();
    let spot = documents[1]
        .replace("name: default}\nspec:\n", "name: spot}\nspec:\n  weight: 100\n")
        .replace("values: [on-demand]", "values: [spot]")
        .replace(
            "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}",
            "{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
        );
    let manifests = format!("{}---\n{}---\n{spot}---\n{}", documents[0], documents[1], documents[2]);
    let scale = |at: &str, replicas: u32| {
        format!("  - {{at: {at}, scale: {{kind: Deployment, name: web, namespace: default, replicas: {replicas}}}}}\n")
    };
    let faults = "faults: {ec2: {throttleRate: 0.1, insufficientCapacity: ['*/*/spot']}}\n";
    let steps = format!("steps:\n{}{}", scale("6m", 4), scale("12m", 6));
    let played = play_over("spot-is-gone", &manifests, &format!("{faults}{steps}until: 18m\n"));
    assert_eq!(played.report["pods"]["bound"], 6);
    let launched = played.times("launched");
    for from in [0.0, 360.0, 720.0] {
        assert_eq!(within(&launched, from, from + 150.0), 2, "{launched:?}");
    }
    played.came_out_well();
}

#[test]
fn sold_out_capacity_is_launched_within_minutes_of_its_return() {
    let all = manifests(10);
    let steps = "  - {at: 1s, zoneDown: {zone: ca-west-1a, for: 10m}}\n  - {at: 1s, zoneDown: {zone: ca-west-1b, for: 10m}}\n  - {at: 1s, zoneDown: {zone: ca-west-1c, for: 10m}}\n";
    let scale = "  - {at: 2s, scale: {kind: Deployment, name: web, namespace: default, replicas: 10}}\n";
    let scenario = format!("steps:\n{steps}{scale}until: 20m\n");
    let played = play_over("sold-out-then-back", &all.replace("replicas: 10", "replicas: 0"), &scenario);
    let launched = played.times("launched");
    assert_eq!(launched.len(), 10);
    assert!(launched.iter().all(|t| (600.0..600.0 + 200.0).contains(t)), "{launched:?}");
    played.came_out_well();
}

/// A node that is there beforehand, has room, and is refused by kube-scheduler for reasons of its own.
#[test]
fn node_kube_scheduler_refuses_is_left_after_two_nominations() {
    let (class, rest) = manifests(1).split_once("---\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let rest = rest.replace(
        "        - {key: karpenter.sh/capacity-type",
        "        - {key: topology.kubernetes.io/zone, operator: In, values: [ca-west-1b]}\n        - {key: karpenter.sh/capacity-type",
    );
    let nodes = "nodes: [{instanceType: m5.2xlarge, zone: ca-west-1a, count: 1}]\n";
    let probe = play_over("refused-place-names", &format!("{class}---\n{rest}"), &format!("{nodes}until: 1m\n"));
    let beforehand = probe.report["nodes"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!(probe.report["nodes"].as_array().unwrap().len(), 1, "the pod fits on it");
    let faults = format!("faults: {{scheduler: {{refuses: ['{beforehand}/default/web-*']}}}}\n");
    let scenario = format!("{nodes}{faults}until: 8m\n");
    let played = play_over("refused-place", &format!("{class}---\n{rest}"), &scenario);
    let launched = played.times("launched");
    assert_eq!(launched.len(), 1, "{launched:?}");
    assert!(launched[0] < 300.0, "{launched:?}");
    let told = played.log_events("place_refused");
    assert_eq!(told.len(), 2, "of the node, and of all: {told:?}");
    let whys = told.iter().map(|one| one["why"].as_str().unwrap()).collect::<Vec<_>>().join("\n");
    assert!(whys.contains(&beforehand) && whys.contains("refused by a scheduler plugin"), "{whys}");
    assert!(played.events_of("PlaceRefused") >= 1);
    assert_eq!(played.report["pods"]["bound"], 1);
    played.came_out_well();
}

/// Twelve nodes with room, all of which kube-scheduler refuses for reasons of its own; and the same with other numbers.
#[test]
fn new_node_comes_within_minutes_however_many_are_refused() {
    for (nodes, replicas) in [(12, 2), (30, 7)] {
        let beforehand = format!("nodes: [{{instanceType: m5.2xlarge, zone: ca-west-1a, count: {nodes}}}]\n");
        let of_pool = "        - {key: karpenter.sh/capacity-type";
        let zoned =
            format!("        - {{key: topology.kubernetes.io/zone, operator: In, values: [ca-west-1b]}}\n{of_pool}");
        let all = manifests(replicas).replace(of_pool, &zoned);
        // Nodes that are there beforehand have the first addresses.
        let refuses: Vec<String> = (10..10 + nodes).map(|nth| format!("'ip-10-0-0-{nth}.*/default/web-*'")).collect();
        let faults = format!("faults: {{scheduler: {{refuses: [{}]}}}}\n", refuses.join(", "));
        let played = play_over(&format!("all-refused-{nodes}"), &all, &format!("{beforehand}{faults}until: 15m\n"));
        let launched = played.times("launched");
        assert!(launched[0] < 180.0, "{launched:?}");
        let before_it_is_bound = within(&launched, 0.0, launched[0] + 20.0);
        assert_eq!(before_it_is_bound, 1, "one tries: {launched:?}");
        assert_eq!(played.report["pods"]["bound"], replicas, "{}", played.report["pods"]);
        assert!(played.log_events("place_refused").len() <= 6, "{:?}", played.log_events("place_refused"));
        played.came_out_well();
    }
}

/// A NodeClaim that is made in the same moment as its class waits until that is resolved, and longer where EC2 is slow to say; it is
/// deleted only where the class is not ready.
#[test]
fn claim_made_together_with_its_class_waits_for_it() {
    let claim = "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: mine}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
";
    let class = manifests(0).split_once("---\n").unwrap().0.to_owned();
    let slow = "faults: {ec2: {errors: [{code: InternalError, action: DescribeSubnets, times: 6}]}}\n";
    for (name, order, faults) in [
        ("class-first", format!("{class}{claim}"), ""),
        ("claim-first", format!("{}---\n{class}", &claim[4..]), ""),
        ("slow", format!("{class}{claim}"), slow),
    ] {
        let played = play_over(&format!("made-together-{name}"), &order, &format!("{faults}until: 4m\n"));
        assert_eq!(played.number("launched"), 1, "{name}: {:?}", played.log_events("launch_failed"));
        assert!(
            played.log_events("nodeclaim_deleted").is_empty(),
            "{name}: {:?}",
            played.log_events("nodeclaim_deleted")
        );
    }
    let wrong = class.replace("[{tags: {karpenter.sh/discovery: demo}}]", "[{tags: {team: nobody}}]");
    let played = play_over("made-together-wrong", &format!("{wrong}{claim}"), "until: 4m\n");
    assert_eq!((played.number("launched"), played.log_events("nodeclaim_deleted").len()), (0, 1));
}
