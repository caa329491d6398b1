//! Zones that the cluster is shifted away from, played through: nothing is launched there, nothing there is disrupted, and it all
//! goes on where the shift ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::played::{Played, at, manifests, play_over};

const HEEDED: &str = "settings: {ENABLE_ZONAL_SHIFT: 'true'}\n";
const POLICY: &str = "disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}";

/// A Deployment in each of these zones, of so many pods that need a node each; empty nodes go after half a minute.
fn pinned(zones: &[(&str, u32)]) -> String {
    let all = manifests(1).replace(POLICY, "disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}");
    let (pool, deployment) = all.split_once("---\napiVersion: apps/v1\n").unwrap();
    let each = zones.iter().map(|(zone, replicas)| {
        let own = deployment
            .replace("name: web", &format!("name: web-{zone}"))
            .replace("app: web", &format!("app: web-{zone}"));
        let own = own.replace("replicas: 1", &format!("replicas: {replicas}"));
        let selector = format!("      nodeSelector: {{topology.kubernetes.io/zone: ca-west-1{zone}}}\n      affinity:");
        format!("---\napiVersion: apps/v1\n{}", own.replace("      affinity:", &selector))
    });
    format!("{pool}{}", each.collect::<String>())
}

/// Zones of the instances that were launched, with the time of each.
fn launches(played: &Played) -> Vec<(String, f64)> {
    let launched = |event: &&Value| event["kind"] == "instance" && event["change"] == "pending";
    let of = |event: &Value| (event["zone"].as_str().unwrap().to_owned(), at(event));
    played.events.iter().filter(launched).map(of).collect()
}

/// Number of nodes at the end by zone.
fn nodes_by_zone(played: &Played) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for node in played.report["nodes"].as_array().unwrap() {
        *all.entry(node["zone"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    all
}

fn scale(minute: u32, zone: &str, replicas: u32) -> String {
    format!("  - {{at: {minute}m, scale: {{kind: Deployment, name: web-{zone}, replicas: {replicas}}}}}\n")
}

#[test]
fn a_zone_is_left_alone_until_the_shift_away_from_it_ends() {
    let steps = [
        "  - {at: 5m, zonalShift: {zone: ca-west-1a, for: 30m}}\n".to_owned(),
        // One pod more in each zone, then none in each: nodes in the zone stay for their time.
        scale(7, "a", 3),
        scale(7, "b", 3),
        // The leader's successor knows of it as well.
        "  - {at: 8m, kill: {replica: leader, for: 1m}}\n".to_owned(),
        scale(12, "a", 4),
        scale(15, "b", 0),
    ]
    .concat();
    let workload = pinned(&[("a", 2), ("b", 2)]);
    let played = play_over("zonal-shift", &workload, &format!("replicas: 2\n{HEEDED}steps:\n{steps}until: 50m\n"));
    played.came_out_well();
    let (during, after): (Vec<_>, Vec<_>) =
        launches(&played).into_iter().filter(|(_, t)| *t > 300.0).partition(|(_, t)| *t < 2100.0);
    assert!(!during.is_empty() && during.iter().all(|(zone, _)| zone == "ca-west-1b"), "{during:?}");
    assert_eq!(after.iter().filter(|(zone, _)| zone == "ca-west-1a").count(), 2, "the pods that waited: {after:?}");
    assert!(after.iter().all(|(_, t)| *t < 2100.0 + 60.0), "at the end of the shift: {after:?}");
    assert_eq!(nodes_by_zone(&played), BTreeMap::from([("ca-west-1a".to_owned(), 4)]));
    for event in ["zone_shifted", "zone_shift_over"] {
        assert!(!played.log_events(event).is_empty(), "{event}");
    }
    let waits: Vec<String> = played.log_events("unschedulable").iter().map(|one| one["error"].to_string()).collect();
    assert!(waits.iter().any(|why| why.contains("shifted away")), "{waits:?}");
}

#[test]
fn empty_and_expired_nodes_of_a_shifted_zone_stay_until_it_ends() {
    let expiring = pinned(&[("a", 2), ("b", 2)]).replace("expireAfter: Never", "expireAfter: 20m");
    let steps =
        format!("  - {{at: 5m, zonalShift: {{zone: ca-west-1a, for: 40m}}}}\n{}{}", scale(8, "a", 1), scale(8, "b", 1));
    let ended = |until: &str| {
        let played =
            play_over(&format!("shift-stays-{until}"), &expiring, &format!("{HEEDED}steps:\n{steps}until: {until}\n"));
        played.came_out_well();
        (nodes_by_zone(&played), launches(&played).iter().filter(|(zone, _)| zone == "ca-west-1a").count())
    };
    let zones = |a: usize, b: usize| BTreeMap::from([("ca-west-1a".to_owned(), a), ("ca-west-1b".to_owned(), b)]);
    assert_eq!(ended("40m"), (zones(2, 1), 2), "one of two is empty, and both are too old");
    assert_eq!(ended("55m"), (zones(1, 1), 3), "the one with a pod is replaced, and the other goes");
}

#[test]
fn shifts_are_not_heeded_without_the_setting() {
    let steps = format!("  - {{at: 5m, zonalShift: {{zone: ca-west-1a}}}}\n{}", scale(7, "a", 3));
    let played = play_over("shift-unheeded", &pinned(&[("a", 2)]), &format!("steps:\n{steps}until: 20m\n"));
    played.came_out_well();
    assert_eq!(nodes_by_zone(&played), BTreeMap::from([("ca-west-1a".to_owned(), 3)]));
    assert!(played.calls("GetManagedResource").is_empty());
}

#[test]
fn a_missing_or_absurd_answer_is_said_and_stops_nothing() {
    let all = ["a", "b", "c"].map(|zone| format!("  - {{at: 5m, zonalShift: {{zone: ca-west-1{zone}}}}}\n")).concat();
    let denied = "faults: {ec2: {unauthorized: [GetManagedResource]}}\n";
    for (name, scenario) in [
        ("shift-denied", format!("{HEEDED}{denied}steps:\n{}until: 20m\n", scale(7, "b", 3))),
        ("shift-of-all", format!("{HEEDED}steps:\n{all}{}until: 20m\n", scale(7, "b", 3))),
    ] {
        let played = play_over(name, &pinned(&[("b", 2)]), &scenario);
        played.came_out_well();
        assert_eq!(nodes_by_zone(&played), BTreeMap::from([("ca-west-1b".to_owned(), 3)]), "{name}");
        let said = played.log_events("zone_shifts_unread");
        assert_eq!(said.len(), 1, "{name}: {said:?}");
    }
}
