//! The brakes of the collection, through the binary: answers that are not to be believed, instances that are somebody
//! else's, and an operator's release.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;
use played::{Played, at, manifests, play, play_over};

/// Nodes, one pod each.
const PODS: u32 = 10;

/// Plays them with two replicas for so many minutes.
fn braked(name: &str, steps: &str, minutes: u32) -> Played {
    play(name, PODS, &format!("replicas: 2\nsteps:\n{steps}until: {minutes}m\n"))
}

#[test]
fn orphan_is_collected_after_two_sightings_and_its_pod_moves() {
    let played = braked("orphans", "  - {at: 10m, lose: {kind: NodeClaim, count: 2}}\n", 35);
    let ended = played.log_events("collected");
    assert_eq!(ended.len(), 2, "{ended:?}");
    for line in ended {
        let after = line["t"].as_f64().unwrap() - 600.0;
        assert!((120.0..600.0).contains(&after), "collected {after} s after its claim was lost");
    }
    assert_eq!(played.report["pods"]["bound"], PODS);
    assert_eq!(played.report["launched"], PODS + 2);
    played.came_out_well();
}

#[test]
fn lost_claims_halt_collection_until_an_operator_releases_it() {
    let steps = "  - {at: 10m, lose: {kind: NodeClaim}}\n  - {at: 30m, allowCollection: {for: 15m}}\n";
    let played = braked("claims-lost", steps, 50);
    let said = played.braked("claims_lost");
    assert!((600.0..900.0).contains(&said[0]), "said at {said:?}");
    assert!(said.len() >= 2, "it is said again while it lasts: {said:?}");
    let ended: Vec<f64> = played.times("collected");
    assert!(ended.iter().all(|t| *t > 1800.0), "ended before the release: {ended:?}");
    assert_eq!(ended.len(), usize::try_from(PODS).unwrap(), "everything after it");
    assert!(!played.log_events("collection_released").is_empty());
    assert!(played.events_of("CollectionBraked") >= 2, "an operator finds it in the events");
    assert_eq!(played.report["pods"]["bound"], PODS, "the pods have got other nodes");
    played.came_out_well();
}

#[test]
fn lost_claims_are_told_by_a_new_leader_too() {
    let steps = "  - {at: 10m, lose: {kind: NodeClaim}}\n  - {at: 10m, kill: {replica: leader}}\n";
    let played = braked("claims-lost-new-leader", steps, 40);
    assert!(played.times("collected").is_empty());
    assert!(!played.braked("claims_lost").is_empty());
    assert_eq!(played.terminated_by_replicas(), 0);
    assert_eq!(played.report["pods"]["bound"], PODS, "the nodes run on");
}

#[test]
fn empty_ec2_list_removes_nothing_even_if_nodes_are_silent() {
    // Silent for long enough to be seen so twice, and not for so long that pods are evicted.
    let steps = "  - {at: 10m, emptyLists: {for: 20m}}\n  - {at: 10m, zoneDown: {zone: ca-west-1a, for: 5m20s}}\n";
    let played = braked("ec2-empty", steps, 45);
    let said = played.braked("no_instances");
    assert!((600.0..900.0).contains(&said[0]), "said at {said:?}");
    assert_eq!(played.terminated_by_replicas(), 0);
    assert_eq!(played.report["launched"], PODS);
    assert_eq!(played.report["pods"]["bound"], PODS);
    played.came_out_well();
}

#[test]
fn instances_of_another_cluster_are_untouched_even_if_released() {
    let steps = "  - {at: 10m, foreignInstances: 8}\n  - {at: 20m, allowCollection: {for: 30m}}\n";
    let played = braked("foreign", steps, 45);
    let said = played.braked("foreign");
    assert!((600.0..900.0).contains(&said[0]), "said at {said:?}");
    assert_eq!(played.terminated_by_replicas(), 0);
    played.came_out_well();
}

#[test]
fn more_orphans_than_the_bound_are_left_until_they_are_released() {
    let steps = "  - {at: 10m, lose: {kind: NodeClaim, count: 6}}\n  - {at: 40m, allowCollection: {for: 10m}}\n";
    let played = play("over-bound", 20, &format!("steps:\n{steps}until: 60m\n"));
    assert!(!played.braked("over_bound").is_empty());
    let ended = played.times("collected");
    assert!(ended.len() == 6 && ended.iter().all(|t| *t > 2400.0), "{ended:?}");
    played.came_out_well();
}

/// Instances that the first leader has collected are counted by the second, whose clock is a minute ahead, by EC2's times.
#[test]
fn new_leader_with_a_clock_ahead_keeps_the_bound_of_ten_minutes() {
    let steps = "  - {at: 10m, lose: {kind: NodeClaim, count: 5}}\n  - {at: 18m, lose: {kind: NodeClaim, count: 5}}\n  - {at: 19m45s, kill: {replica: leader}}\n";
    let clocks = "clocks: [{offset: 0s}, {offset: 60s}]\n";
    let played = play("clock-ahead", 20, &format!("replicas: 2\n{clocks}steps:\n{steps}until: 60m\n"));
    let ended = played.times("collected");
    assert_eq!(ended.len(), 10, "{ended:?}");
    assert!(ended[5] - ended[4] >= 600.0, "five of ten minutes: {ended:?}");
    played.came_out_well();
}

#[test]
fn a_release_that_makes_no_sense_releases_nothing_and_is_said() {
    let manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, annotations: {dovetail.dev/allow-collection: 'yes'}}\n";
    common::write("nonsense/release.yaml", manifest);
    let steps = "  - {at: 10m, lose: {kind: NodeClaim}}\n  - {at: 12m, apply: [release.yaml]}\n";
    let played = braked("nonsense", steps, 35);
    assert!(played.times("collected").is_empty());
    assert!(!played.braked("release_invalid").is_empty());
}

#[test]
fn launch_ceiling_per_hour_holds_across_leaders() {
    let steps = "  - {at: 20m, kill: {replica: leader, for: 1m}}\n";
    let scenario = format!("replicas: 2\nsettings: {{MAX_LAUNCHES_PER_HOUR: '4'}}\nsteps:\n{steps}until: 75m\n");
    let played = play("ceiling-of-an-hour", PODS, &scenario);
    let within = |t: &f64| *t < 55.0 * 60.0;
    let bound = played.seen("pod", &[("change", "bound")]).into_iter().map(at).filter(within).count();
    assert_eq!((played.times("launched").into_iter().filter(|t| within(t)).count(), bound), (4, 4));
    let held = played.log_events("launch_held");
    let (early, late): (Vec<_>, Vec<_>) = held.into_iter().partition(|line| within(&at(line)));
    assert!(early.iter().chain(&late).all(|line| line["reason"] == "max_launches_per_hour") && !early.is_empty());
    assert_eq!(played.report["launched"], 8);
}

#[test]
fn launches_already_gone_count_for_the_ceiling_across_leaders() {
    let workload = manifests(PODS).replace("consolidateAfter: Never", "consolidateAfter: 0s");
    let scale = |at: &str, replicas: u32| {
        format!("  - {{at: {at}, scale: {{kind: Deployment, name: web, namespace: default, replicas: {replicas}}}}}\n")
    };
    let steps =
        format!("{}{}  - {{at: 15m, kill: {{replica: leader, for: 1m}}}}\n", scale("5m", 0), scale("15m", PODS));
    let played = play_over(
        "ceiling-of-what-is-gone",
        &workload,
        &format!("replicas: 2\nsettings: {{MAX_LAUNCHES_PER_HOUR: '4'}}\nsteps:\n{steps}until: 55m\n"),
    );
    assert_eq!((&played.report["launched"], &played.report["nodes"]), (&4.into(), &serde_json::json!([])));
    assert!(played.log_events("elected").len() > 1, "another leads");
}

#[test]
fn cost_ceiling_per_hour_holds_launches_back() {
    let played = play("ceiling-cost", PODS, "settings: {MAX_COST_PER_HOUR: '0.5'}\nuntil: 20m\n");
    let cost = played.report["costPerHour"].as_f64().unwrap();
    assert!((0.4..=0.5).contains(&cost), "{cost}");
    assert!(!played.log_events("launch_held").is_empty());
}

/// User data of one's own that makes no node of the instance.
fn never_registers() -> String {
    manifests(PODS).replace(
        "  amiSelectorTerms: [{alias: al2023@latest}]\n",
        "  amiFamily: Custom\n  amiSelectorTerms: [{name: 'amazon-eks-node-al2023-x86_64-standard-*'}]\n  userData: nothing\n",
    )
}

#[test]
fn unregistering_nodes_are_tried_singly_by_a_new_leader_too() {
    // The first are given up after a quarter of an hour; the first trial is under way when the leader changes.
    let scenario = "replicas: 2\nsteps:\n  - {at: 20m, kill: {replica: leader, for: 1m}}\nuntil: 60m\n";
    let played = play_over("never-registers-new-leader", &never_registers(), scenario);
    assert!(played.times("elected").into_iter().filter(|t| *t < 1800.0).count() > 1, "another leads");
    let trials: Vec<f64> = played.times("launched").into_iter().filter(|t| *t > 600.0).collect();
    assert_eq!(trials.iter().filter(|t| **t < 1800.0).count(), 1, "{trials:?}");
    assert!((2..=4).contains(&trials.len()), "{trials:?}");
    assert!(trials.windows(2).all(|pair| pair[1] - pair[0] > 900.0), "one after the other: {trials:?}");
}

#[test]
fn nodes_that_do_not_register_are_tried_one_at_a_time() {
    let played = play_over("never-registers", &never_registers(), "until: 60m\n");
    assert_eq!(played.report["pods"]["bound"], 0);
    let launched = played.times("launched");
    let (at_first, trials): (Vec<f64>, Vec<f64>) = launched.iter().partition(|t| **t < 600.0);
    assert_eq!(at_first.len(), PODS as usize, "{launched:?}");
    assert!((2..=4).contains(&trials.len()), "{trials:?}");
    assert!(trials.windows(2).all(|pair| pair[1] - pair[0] > 900.0), "one after the other: {trials:?}");
    assert!(played.log_events("launch_held").iter().any(|line| line["reason"] == "nodes_do_not_register"));
}

/// A trial that EC2 has nothing for is no trial: its pod has to be in a zone without capacity.
#[test]
fn a_trial_that_finds_nothing_makes_way_for_the_next_at_once() {
    let web = never_registers().replace(
        "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}",
        "{key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}",
    );
    let deployment = &web[web.find("apiVersion: apps/v1").unwrap()..];
    let big = deployment
        .replace("name: web", "name: big")
        .replace("app: web", "app: big")
        .replace("replicas: 10", "replicas: 0")
        .replace("cpu: 500m", "cpu: 3")
        .replace(
            "      affinity:\n",
            "      nodeSelector: {topology.kubernetes.io/zone: ca-west-1a}\n      affinity:\n",
        );
    let scale = |at: &str, name: &str, replicas: u32| {
        format!(
            "  - {{at: {at}, scale: {{kind: Deployment, name: {name}, namespace: default, replicas: {replicas}}}}}\n"
        )
    };
    // The first nodes are given up after a quarter of an hour; a minute later a trial may begin.
    let steps = [scale("16m", "web", 0), scale("1199s", "big", 1), scale("20m", "web", 3)].concat();
    let faults = "faults: {ec2: {insufficientCapacity: ['*/ca-west-1a/*']}}\n";
    let played =
        play_over("trial-of-nothing", &format!("{web}---\n{big}"), &format!("{faults}steps:\n{steps}until: 25m\n"));
    assert!(played.log_events("launch_held").iter().any(|line| line["reason"] == "nodes_do_not_register"));
    let refused: Vec<f64> = played.times("launch_failed").into_iter().filter(|t| *t > 1200.0).collect();
    let launched: Vec<f64> = played.times("launched").into_iter().filter(|t| *t > 1200.0).collect();
    assert!(refused.len() > 1 && launched.len() == 1, "{refused:?} {launched:?}");
    assert!(refused[0] < launched[0] && launched[0] < 1210.0, "{refused:?} {launched:?}");
}

/// A pool's own ceiling, over a change of leader; another pool, whose ceiling is no number, is said to be and gets nothing.
#[test]
fn pool_costs_no_more_than_its_own_ceiling() {
    let annotate = |pool: &str, dollars: &str| {
        let named =
            format!("metadata: {{name: {pool}, annotations: {{dovetail.dev/max-cost-per-hour: '{dollars}'}}}}\n");
        named + "spec:\n  disruption:"
    };
    let all = manifests(PODS).replace("metadata: {name: default}\nspec:\n  disruption:", &annotate("default", "0.5"));
    let (_, rest) = all.split_once("---\n").unwrap();
    let (pool, _) = rest.split_once("---\n").unwrap();
    let typo = pool.replace(&annotate("default", "0.5"), &annotate("typo", "$5"));
    let scenario = "replicas: 2\nsteps:\n  - {at: 9s, kill: {replica: leader, for: 40s}}\nuntil: 12m\n";
    let played = play_over("ceiling-pool", &format!("{all}---\n{typo}"), scenario);
    played.violates_nothing();
    let cost = played.report["costPerHour"].as_f64().unwrap();
    assert!((0.35..=0.5).contains(&cost), "{cost}");
    assert!(played.events_of("MaxCostReached") > 0 && played.events_of("InvalidAnnotation") > 0);
    let pending = played.report["pods"]["pending"].to_string();
    assert!(pending.contains("its nodes may cost $0.5000 an hour together"), "{pending}");
    assert!(played.removed().is_empty(), "{:?}", played.removed());
}
