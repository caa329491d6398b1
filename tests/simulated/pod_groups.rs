//! PodGroups, played through: all nodes of a gang or none, given back, and never ordered twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::gangs::{QUICK, STAY, nodes, pod_spec, pool};
use crate::played::{Played, at, manifests, play_over};

const GATE: &str = "featureGates: {GangScheduling: true}\n";

fn group(name: &str, min_count: u32) -> String {
    format!(
        "---\napiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {{name: {name}, namespace: default}}\nspec: {{schedulingPolicy: {{gang: {{minCount: {min_count}}}}}}}\n"
    )
}

/// A Deployment of pods of a group that each need a node of their own, in a zone if there is one given.
fn members(name: &str, group: &str, pods: u32, zone: &str) -> String {
    let grouped = format!("{{schedulingGroup: {{podGroupName: {group}}}, ");
    let spec = pod_spec(zone).replacen('{', &grouped, 1);
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  replicas: {pods}\n  selector: {{matchLabels: {{own: {name}}}}}\n  template:\n    metadata: {{labels: {{app: train, own: {name}}}}}\n    spec: {spec}\n"
    )
}

fn bound(played: &Played) -> Vec<f64> {
    played.seen("pod", &[("change", "bound")]).into_iter().map(at).collect()
}

/// Reasons for which pods wait at the end.
fn pending(played: &Played) -> Vec<(String, String)> {
    let all = played.report["pods"]["pending"].as_object().unwrap();
    all.iter().map(|(name, why)| (name.clone(), why.as_str().unwrap().to_owned())).collect()
}

#[test]
fn gang_gets_all_its_nodes_and_is_bound_when_they_are_ready() {
    let all = [&pool(QUICK), &*group("train", 20), &members("train", "train", 20, "")].concat();
    let played = play_over("pod-group-all", &all, &format!("{GATE}until: 6m\n"));
    played.came_out_well();
    assert_eq!((played.number("launched"), nodes(&played).len()), (20, 20));
    assert!(played.removed().is_empty(), "{:?}", played.removed());
    let joined = played.times("initialized");
    let (first, last) = (joined.iter().copied().fold(f64::MAX, f64::min), joined.iter().copied().fold(0.0, f64::max));
    let bound = bound(&played);
    assert!(bound.len() == 20 && bound.iter().all(|time| *time >= last), "{first} {last} {bound:?}");
}

/// Half of the nodes cannot be had: by a limit nothing is launched, by EC2's answer all is given back. Others have theirs.
#[test]
fn gang_with_half_its_capacity_missing_keeps_no_node() {
    let limited = pool(STAY).replace("  disruption:", "  limits: {nodes: \"10\"}\n  disruption:");
    let all = [&limited, &*group("train", 20), &members("train", "train", 20, "")].concat();
    let played = play_over("pod-group-limit", &all, &format!("{GATE}until: 4m\n"));
    played.violates_nothing();
    assert_eq!(played.number("launched"), 0);
    let waiting = pending(&played);
    assert_eq!(waiting.len(), 20);
    let (_, why) = &waiting[0];
    assert!(why.contains("PodGroup default/train: 10 of 20 members have a place") && why.contains("limit"), "{why}");

    let sets = [members("here", "train", 10, "ca-west-1b"), members("there", "train", 10, "ca-west-1a")].concat();
    let all = [&pool(STAY), &*group("train", 20), &*sets].concat();
    let sold_out = "faults: {ec2: {insufficientCapacity: ['*/ca-west-1a/*']}}\n";
    let played = play_over("pod-group-sold-out", &all, &format!("{GATE}{sold_out}until: 3m\n"));
    played.violates_nothing();
    assert!(played.number("launched") >= 10, "{}", played.report);
    assert_eq!((played.number("terminated"), nodes(&played).len()), (played.number("launched"), 0));
    assert!(!played.log_events("gang_given_back").is_empty() && bound(&played).is_empty());
    assert!(pending(&played).iter().all(|(_, why)| why.contains("PodGroup default/train")), "{:?}", pending(&played));
}

/// Members that never come, a group that is not there and one that makes no sense: each says so, and others have their nodes.
#[test]
fn odd_groups_say_why_and_disturb_no_other() {
    let all = [
        manifests(3),
        group("few", 5),
        members("few", "few", 3, ""),
        members("orphan", "nobody", 2, ""),
        group("million", 1_000_000),
        members("million", "million", 2, ""),
    ];
    let played = play_over("pod-group-odd", &all.concat(), &format!("{GATE}until: 5m\n"));
    played.violates_nothing();
    assert_eq!(played.number("launched"), 3);
    let waiting = pending(&played);
    assert_eq!(waiting.len(), 7);
    for (name, why) in [
        ("few", "PodGroup default/few waits for members: 3 of minCount 5 exist"),
        ("orphan", "PodGroup default/nobody: there is no such object of scheduling.k8s.io yet"),
        ("million", "PodGroup default/million: spec.schedulingPolicy.gang.minCount is 1000000: 1 to 5000 is allowed"),
    ] {
        let own: Vec<_> = waiting.iter().filter(|(pod, _)| pod.contains(&format!("/{name}-"))).collect();
        assert!(!own.is_empty() && own.iter().all(|(_, said)| said.contains(why)), "{name}: {own:?}");
    }
}

#[test]
fn gang_gets_its_nodes_once_enough_members_have_come() {
    let all = [&pool(QUICK), &*group("train", 6), &members("train", "train", 4, "")].concat();
    let steps = "steps:\n  - {at: 2m, scale: {kind: Deployment, name: train, replicas: 6}}\nuntil: 6m\n";
    let played = play_over("pod-group-late", &all, &format!("{GATE}{steps}"));
    played.came_out_well();
    assert_eq!((played.number("launched"), bound(&played).len()), (6, 6));
    assert!(played.times("registered").into_iter().all(|time| time > 120.0), "none came before");
}

/// Leaders are killed at all times of the launch: never is a node ordered twice.
#[test]
fn leaders_killed_in_the_middle_order_each_node_of_a_gang_once() {
    let all = [&pool(QUICK), &*group("train", 12), &members("train", "train", 12, "")].concat();
    for kill in [7, 9, 20, 45] {
        let kills = format!(
            "  - {{at: {kill}s, kill: {{replica: leader, for: 40s}}}}\n  - {{at: {}s, kill: {{replica: leader, for: 40s}}}}\n",
            kill + 45
        );
        let scenario = format!("{GATE}replicas: 2\nsteps:\n{kills}until: 8m\n");
        let played = play_over(&format!("pod-group-killed-{kill}"), &all, &scenario);
        played.came_out_well();
        assert_eq!((played.number("launched"), nodes(&played).len()), (12, 12), "killed at {kill} s");
        assert_eq!(bound(&played).len(), 12, "killed at {kill} s");
    }
}

/// With the gate closed nobody reads a group that is there, and everything goes as without it.
#[test]
fn closed_gate_leaves_pod_groups_and_their_pods_alone() {
    let of = |name: &str, more: &str, group: &str| {
        let pods = manifests(3).replace("metadata: {labels: {app: web}}", more);
        let played = play_over(name, &format!("{pods}{group}"), "until: 3m\n");
        played.came_out_well();
        played
    };
    let annotated = |key: &str| format!("metadata: {{labels: {{app: web}}, annotations: {{{key}: train}}}}");
    let with = of("pod-group-closed", &annotated("dovetail.dev/pod-group"), &group("train", 99));
    let seen = with.seen("api", &[("resource", "podgroups")]);
    assert!(seen.iter().all(|event| event["replica"].is_null()), "{seen:?}");
    let done = |played: &Played| {
        let lines = played.report["timeline"].as_array().unwrap().clone().into_iter();
        lines.map(|line| (line["actor"].clone(), line["event"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(done(&with), done(&of("pod-group-none", &annotated("example.com/other"), "")));
}
