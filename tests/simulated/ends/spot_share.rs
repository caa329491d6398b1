//! The split of a workload's replicas between spot and on-demand, played through: launches, spot interruptions, a rollout, a pool
//! that asks for less spot, a killed leader; balance over zones, and interruptions that a pool keeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use crate::common::write;
use crate::played::{Played, manifests, play_over};

const CONSOLIDATES: &str = "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s}";

/// Pods that need a node each, which may be spot, and say this of their split.
fn split(replicas: u32, annotations: &str) -> String {
    let all = manifests(replicas)
        .replace("disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}", CONSOLIDATES)
        .replace("values: [on-demand]", "values: [spot, on-demand]");
    all.replace(
        "metadata: {labels: {app: web}}",
        &format!("metadata: {{labels: {{app: web}}, annotations: {{{annotations}}}}}"),
    )
}

fn asks(base: u32, share: &str) -> String {
    format!("dovetail.dev/on-demand-base: \"{base}\", dovetail.dev/spot-share: \"{share}\"")
}

/// Numbers of pods, all of which are of the Deployment, that are on spot nodes, and that are on any, at a time.
fn placed(played: &Played, time: f64) -> (usize, usize) {
    let (mut nodes, mut pods) = (BTreeMap::<&str, bool>::new(), BTreeMap::<&str, &str>::new());
    for event in played.events.iter().filter(|event| event["t"].as_f64().is_some_and(|t| t <= time)) {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        match (text("kind"), text("change")) {
            ("node", _) if event["labels"].is_object() => {
                let is_spot = event["labels"]["karpenter.sh/capacity-type"] == "spot";
                *nodes.entry(text("name")).or_default() |= is_spot;
            }
            ("pod", "bound") => drop(pods.insert(text("uid"), text("node"))),
            ("pod", "deleted" | "lost" | "evicted" | "deleting" | "failed") => drop(pods.remove(text("uid"))),
            _ => {}
        }
    }
    let spot = pods.values().filter(|node| nodes.get(*node).copied().unwrap_or_default()).count();
    (spot, pods.len())
}

/// The same at each of these minutes.
fn by_minute(played: &Played, minutes: &[u32]) -> Vec<(usize, usize)> {
    minutes.iter().map(|minute| placed(played, f64::from(*minute) * 60.0)).collect()
}

#[test]
fn split_holds_over_interruptions_rollout_and_leaders() {
    let own = asks(2, "50%");
    let workload = split(8, &own);
    let (_, deployment) = workload.split_once("---\napiVersion: apps/v1\n").unwrap();
    let second = deployment.replace("labels: {app: web}, ann", "labels: {app: web, version: two}, ann");
    write("spot-share/second.yaml", &format!("apiVersion: apps/v1\n{second}"));
    let steps = "replicas: 2
steps:
  - {at: 1400ms, kill: {replica: leader, for: 40s}}
  - {at: 6m, interrupt: {spot: 50%}}
  - {at: 6m20s, kill: {replica: leader, for: 40s}}
  - {at: 12m, apply: [second.yaml]}
  - {at: 25m, scale: {kind: Deployment, name: web, replicas: 12}}
until: 35m
";
    let played = play_over("spot-share", &workload, steps);
    played.came_out_well();
    assert_eq!(by_minute(&played, &[5, 11]), [(3, 8); 2], "of eight replicas three, before and after the interruption");
    // In every minute of the rollout, too.
    let during: Vec<usize> = (6..25).map(|minute| placed(&played, f64::from(minute) * 60.0).0).collect();
    assert!(during.iter().all(|spot| *spot <= 3), "{during:?}");
    let (spot, all) = placed(&played, 24.0 * 60.0);
    assert!(all == 8 && spot >= 1, "{spot} of {all} after the rollout");
    let (spot, all) = placed(&played, 34.0 * 60.0);
    assert!(all == 12 && (1..=5).contains(&spot), "{spot} of {all}");
}

#[test]
fn too_many_on_spot_are_mended_one_node_at_a_time() {
    // All are on spot, as nothing is asked; then the template is left as it is and the pool asks for it.
    let workload = split(6, "example.com/a: b");
    let (_, rest) = workload.split_once("---\n").unwrap();
    let (pool, _) = rest.split_once("---\n").unwrap();
    let asking = pool.replace(
        "metadata: {name: default}",
        &format!("metadata: {{name: default, annotations: {{{}}}}}", asks(2, "50%")),
    );
    write("spot-share-mended/asks.yaml", &asking);
    let steps = "replicas: 2
steps:
  - {at: 20m, apply: [asks.yaml]}
  - {at: 21m, kill: {replica: leader, for: 1m}}
until: 90m
";
    let played = play_over("spot-share-mended", &workload, steps);
    played.came_out_well();
    assert_eq!(by_minute(&played, &[19, 89]), [(6, 6), (2, 6)]);
    let drifted = played.log_events("drifted");
    assert!(drifted.iter().any(|line| line.to_string().contains("SpotShareDrift")), "{drifted:?}");
    let removed = played.removed();
    assert_eq!(removed.len(), 4, "no node goes that need not: {removed:?}");
    let mut times: Vec<f64> = removed.into_values().collect();
    times.sort_by(f64::total_cmp);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 600.0), "one in ten minutes: {times:?}");
}

#[test]
fn what_cannot_be_met_or_read_is_said_at_the_pod() {
    let selector = "      nodeSelector: {karpenter.sh/capacity-type: spot}\n      terminationGracePeriodSeconds: 1";
    let own = split(3, &asks(2, "50%")).replace("      terminationGracePeriodSeconds: 1", selector);
    let met = play_over("spot-share-unmet", &own, "until: 6m\n");
    met.came_out_well();
    assert_eq!(placed(&met, 330.0), (3, 3), "their own requirements count");
    assert!(met.events_of("SpotShareNotMet") > 0);
    let wrong = play_over("spot-share-wrong", &split(3, "dovetail.dev/on-demand-base: two"), "until: 6m\n");
    wrong.came_out_well();
    assert_eq!(placed(&wrong, 330.0), (3, 3));
    assert!(wrong.events_of("InvalidSpotShare") > 0);
    // A pool of spot alone: as many as the base asks for wait, and say why.
    let alone = split(3, &asks(2, "100%")).replace("values: [spot, on-demand]", "values: [spot]");
    let waits = play_over("spot-share-waits", &alone, "until: 6m\n");
    assert_eq!(placed(&waits, 330.0), (1, 1));
    let why: Vec<String> = waits.log_events("unschedulable").iter().map(|one| one["error"].to_string()).collect();
    assert!(why.iter().any(|why| why.contains("may be on no spot node, as of the replicas of Deployment")), "{why:?}");
}

/// Numbers of nodes at the end by zone.
fn by_zone(played: &Played) -> Vec<usize> {
    let mut all = BTreeMap::<&str, usize>::new();
    for node in played.report["nodes"].as_array().unwrap() {
        *all.entry(node["zone"].as_str().unwrap()).or_default() += 1;
    }
    all.into_values().collect()
}

#[test]
fn nodes_of_a_pool_are_balanced_over_zones_if_it_asks() {
    let named = "kind: NodePool\nmetadata: {name: default}";
    let asking = "kind: NodePool\nmetadata: {name: default, annotations: {dovetail.dev/zone-balance: \"10%\"}}";
    let steps = "replicas: 2
steps:
  - {at: 1400ms, kill: {replica: leader, for: 40s}}
  - {at: 4m, scale: {kind: Deployment, name: web, replicas: 9}}
until: 8m
";
    let played = play_over("zone-balance", &manifests(4).replace(named, asking), steps);
    played.came_out_well();
    assert_eq!(by_zone(&played), [3, 3, 3]);
}

/// Writes of the annotation with a pool's interruptions.
fn kept_interruptions(played: &Played) -> usize {
    let written = played.seen("api", &[("resource", "nodepools")]);
    written.iter().filter(|event| event["sent"].to_string().contains("dovetail.dev/interruptions")).count()
}

#[test]
fn interruptions_are_kept_at_the_pool_if_they_raise_prices() {
    let steps = "replicas: 2
steps:
  - {at: 5m, interrupt: {spot: 50%}}
  - {at: 5m1s, kill: {replica: leader, for: 40s}}
until: 15m
";
    let workload = split(4, "example.com/a: b");
    let on = "settings: {INTERRUPTION_PRICE_HALF_LIFE: 6h}\n";
    let played = play_over("interruption-prices", &workload, &format!("{on}{steps}"));
    played.came_out_well();
    assert!((1..=4).contains(&kept_interruptions(&played)), "{}", kept_interruptions(&played));
    let without = play_over("interruption-prices-off", &workload, steps);
    without.came_out_well();
    assert_eq!(kept_interruptions(&without), 0);
}
