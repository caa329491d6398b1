//! The world is wrong: clocks that are minutes off, fleets of which EC2 does not say what became of them, NodeClaims that
//! somebody deletes, nodes that never join. What that costs is bounded, and it is said by its name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played;
use played::{Played, play};

/// Pods, each on a node of its own.
const PODS: u32 = 4;
/// Launches of one pool that may come to nothing within an hour (docs/brakes.md), and trials that follow in that hour.
const BOUND: usize = 10 + 8;

/// Calls of CreateFleet that were carried out.
fn fleets(played: &Played) -> usize {
    played.calls("CreateFleet").len()
}

/// Instances that were launched.
fn instances(played: &Played) -> usize {
    played.seen("instance", &[("change", "pending")]).len()
}

/// All pods run, nothing was launched in vain and nothing ended.
fn undisturbed(played: &Played) {
    assert_eq!(played.report["pods"]["bound"], PODS, "{}", played.name);
    assert_eq!(instances(played), PODS as usize, "{}", played.name);
    assert!((1..=PODS as usize).contains(&fleets(played)), "equal launches are one call: {}", played.name);
    assert_eq!(played.terminated_by_replicas(), 0, "{}", played.name);
    played.came_out_well();
}

#[test]
fn leader_clock_minutes_off_costs_nothing_and_is_said() {
    for (name, clock) in [
        ("ahead-5", "offset: 5m"),
        ("ahead-6", "offset: 6m"),
        ("ahead-10", "offset: 10m"),
        ("behind-10", "offset: -10m"),
        ("ahead-10-then-right", "offset: 10m, jumps: [{at: 50s, by: -10m}]"),
        ("jumps-back", "jumps: [{at: 20s, by: -10m}]"),
        ("jumps-ahead", "jumps: [{at: 20s, by: 14m}]"),
    ] {
        let played = play(&format!("clock-{name}"), PODS, &format!("clocks: [{{{clock}}}]\nuntil: 8m\n"));
        undisturbed(&played);
        let said = played.log_events("clock_skewed");
        assert!(!said.is_empty() && said.iter().all(|line| played::at(line) < 60.0), "{name}: {said:?}");
        assert!(said[0]["message"].as_str().unwrap().contains("the API server's clock"), "{said:?}");
        assert!(played.events_of("ClockSkewed") >= 1, "{name}: people find it in the events of the NodePool");
        let conditions = played.seen("api", &[("resource", "nodepools"), ("subresource", "status")]);
        assert!(conditions.iter().any(|write| write.to_string().contains("dovetail.dev/ClockInSync")), "{name}");
    }
}

#[test]
fn clock_that_gains_a_second_a_minute_is_followed() {
    let played = play("clock-drifts", PODS, "clocks: [{drift: 16667}]\nuntil: 50m\n");
    undisturbed(&played);
    let said = played.times("clock_skewed");
    assert!((1700.0..1900.0).contains(&said[0]), "half a minute after half an hour: {said:?}");
}

#[test]
fn beyond_a_quarter_of_an_hour_nothing_is_launched_or_ended() {
    let steps = "steps:\n  - {at: 6m, scale: {kind: Deployment, name: web, replicas: 6}}\n";
    let set_right = format!("clocks: [{{offset: 20m, jumps: [{{at: 4m, by: -20m}}]}}]\n{steps}until: 12m\n");
    let played = play("clock-beyond", PODS, &set_right);
    assert!(played.calls("CreateFleet").iter().all(|call| played::at(call) > 240.0), "nothing until it was right");
    assert_eq!(played.report["pods"]["bound"], 6);
    assert!(played.log_events("clock_skewed")[0]["message"].as_str().unwrap().contains("nothing is launched or ended"));
    assert_eq!(played.log_events("clock_right").len(), 1);
}

#[test]
fn replicas_with_different_clocks_end_nothing() {
    let clocks = "replicas: 2\nclocks: [{offset: -10m}, {offset: 10m}]\n";
    let steps = "steps:\n  - {at: 20s, kill: {replica: leader, for: 2m}}\n  - {at: 4m, kill: {replica: leader}}\n";
    undisturbed(&play("clocks-apart", PODS, &format!("{clocks}{steps}until: 15m\n")));
}

#[test]
fn fleets_that_say_nothing_are_asked_ever_more_seldom() {
    let silent = play("fleets-silent", PODS, "faults: {ec2: {silentFleets: 1.0}}\nuntil: 20m\n");
    assert_eq!(instances(&silent), 0);
    // Each is followed by a look of a minute and a longer pause, and packing leaves the pool out.
    assert!((2..=40).contains(&fleets(&silent)), "{}", fleets(&silent));
    let failed = silent.log_events("launch_failed");
    assert!(failed.iter().any(|line| line["error"].as_str().unwrap().contains("neither an instance nor an error")));
    let untold = play("fleets-untold", PODS, "faults: {ec2: {untoldFleets: 1.0, consistencyLag: 15s}}\nuntil: 20m\n");
    assert_eq!(instances(&untold), PODS as usize, "they are found by their tokens");
    assert!(fleets(&untold) <= PODS as usize, "{}", fleets(&untold));
    assert_eq!(untold.report["pods"]["bound"], PODS);
    untold.came_out_well();
}

#[test]
fn claims_that_somebody_deletes_cost_no_more_than_the_bound() {
    for after in ["1s", "4s", "30s"] {
        let played = play(
            &format!("claims-deleted-{after}"),
            PODS,
            &format!("faults: {{nodeClaims: {{deletedAfter: {after}}}}}\nuntil: 60m\n"),
        );
        assert!(instances(&played) <= BOUND + PODS as usize, "{after}: {}", instances(&played));
        let held = played.log_events("launch_held");
        let why = held.iter().find(|line| line["reason"] == "launches_come_to_nothing").expect("it is said");
        assert!(why["message"].as_str().unwrap().contains("whose NodeClaim went before its node was ready"), "{why}");
        assert!(played.events_of("LaunchHeld") >= 1, "people find it in the events of the NodePool");
        played.violates_nothing();
    }
}

#[test]
fn pods_get_their_nodes_when_nobody_deletes_claims_any_more() {
    let played =
        play("claims-deleted-for-a-while", PODS, "faults: {nodeClaims: {deletedAfter: 4s, for: 5m}}\nuntil: 40m\n");
    assert_eq!(played.report["pods"]["bound"], PODS);
    played.came_out_well();
}

#[test]
fn nodes_that_never_join_cost_no_more_than_the_bound() {
    let played = play("never-joins", PODS, "faults: {nodes: {joinsLate: {by: 10h}}}\nuntil: 60m\n");
    assert!((PODS as usize..=BOUND).contains(&instances(&played)), "{}", instances(&played));
    played.violates_nothing();
}
