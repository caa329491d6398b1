//! A zone in which EC2 has nothing, over which pods are spread: what soft rules and hard ones come to there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played;

use std::collections::{BTreeMap, BTreeSet};

use played::{Played, manifests, play_over};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Six pods of three CPUs that are spread over the zones of a pool of all types, while EC2 has nothing of some.
fn spread(name: &str, when_unsatisfiable: &str, sold_out: &str) -> Played {
    let all = manifests(6)
        .replace("values: [on-demand]", "values: [spot, on-demand]")
        .replace(
            "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}",
            "{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
        )
        .replace("cpu: 500m, memory: 256Mi", "cpu: 3, memory: 6Gi");
    let (without_affinity, containers) = all.split_once("      affinity:\n").unwrap();
    let containers = &containers[containers.find("      containers:").unwrap()..];
    let apps = "labelSelector: {matchLabels: {app: web}}";
    let rule = format!("{{topologyKey: {ZONE}, maxSkew: 1, whenUnsatisfiable: {when_unsatisfiable}, {apps}}}");
    let manifests = format!("{without_affinity}      topologySpreadConstraints: [{rule}]\n{containers}");
    let faults = format!("faults: {{ec2: {{insufficientCapacity: ['{sold_out}']}}}}");
    play_over(name, &manifests, &format!("{faults}\nsettled: 5m\nuntil: 10m\n"))
}

/// The zones of what was launched.
fn zones(played: &Played) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in played.log_events("launched") {
        *counts.entry(line["zone"].as_str().unwrap()).or_default() += 1;
    }
    counts
}

/// All instance types that a NodeClaim was ready to take.
fn types(played: &Played) -> BTreeSet<&str> {
    let claims = played.events.iter().filter(|event| event["resource"] == "nodeclaims" && event["verb"] == "create");
    let said = claims.flat_map(|claim| claim["sent"]["spec"]["requirements"].as_array().unwrap());
    let said = said.filter(|one| one["key"] == "node.kubernetes.io/instance-type");
    said.flat_map(|one| one["values"].as_array().unwrap()).map(|name| name.as_str().unwrap()).collect()
}

/// They are asked for where they had rather be for a while, and then launched for elsewhere.
#[test]
fn pods_drop_a_preferred_zone_refused_for_fifteen_seconds() {
    let played = spread("softly-spread", "ScheduleAnyway", "*/ca-west-1a/*");
    assert!(played.times("relaxed").iter().all(|t| (15.0..20.0).contains(t)) && !played.times("relaxed").is_empty());
    let launched = played.times("launched");
    assert!(launched.iter().all(|t| *t < 20.0), "launched at {launched:?}");
    assert_eq!(zones(&played).into_keys().collect::<Vec<_>>(), ["ca-west-1b", "ca-west-1c"]);
    assert_eq!(played.report["pods"]["bound"], 6);
    played.came_out_well();
}

#[test]
fn pods_that_have_to_be_in_a_zone_without_capacity_wait_for_it() {
    let played = spread("strictly-spread", "DoNotSchedule", "*/ca-west-1a/*");
    assert!(played.log_events("relaxed").is_empty());
    assert_eq!(zones(&played).into_keys().collect::<Vec<_>>(), ["ca-west-1b", "ca-west-1c"]);
    let pending = played.report["pods"]["pending"].as_object().unwrap().len();
    assert!((1..6).contains(&pending), "{pending} pods wait");
    assert!(played.report["invariants"]["violations"].as_array().unwrap().is_empty());
}

#[test]
fn pods_stay_spread_where_spot_is_gone_from_every_zone() {
    let played = spread("without-spot", "ScheduleAnyway", "*/*/spot");
    let found = zones(&played);
    assert!(found.len() == 3 && found.values().max() == found.values().min(), "{found:?}");
    assert!(played.log_events("relaxed").is_empty());
    assert!(played.log_events("launched").iter().all(|line| line["capacity_type"] == "on-demand"));
    played.came_out_well();
}

/// All images of the class are for amd64: what is for arm64 is never asked for, also when nothing else is left.
#[test]
fn types_that_no_image_of_the_class_is_for_are_not_planned() {
    let all = manifests(1)
        .replace("{alias: al2023@latest}", "{name: 'amazon-eks-node-al2023-x86_64-standard-*'}")
        .replace("  role:", "  amiFamily: AL2023\n  role:")
        .replace(
            "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}",
            "{key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}",
        )
        .replace(
            "      affinity:\n",
            "      nodeSelector: {topology.kubernetes.io/zone: ca-west-1a}\n      affinity:\n",
        );
    let played = play_over("no-image", &all, "faults: {ec2: {insufficientCapacity: ['*/ca-west-1a/*']}}\nuntil: 5m\n");
    let asked = types(&played);
    assert!(asked.contains("m5.large") && asked.contains("m6i.large"));
    let arm: Vec<_> = asked.iter().filter(|name| name.split('.').next().unwrap().contains('g')).collect();
    assert!(arm.is_empty(), "{arm:?}");
    // All are refused within some ten launches, and asked for once more three minutes later.
    let launches = played.log_events("nodeclaim_created").len();
    assert!((2..60).contains(&launches), "{launches} launches");
}
