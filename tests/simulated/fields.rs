//! Fields of a node class, played through: placement groups, capacity blocks, and what is wrong with a class found out before
//! anything is launched.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use serde_json::Value;

use crate::played::{Played, manifests, play_over};

/// The workload of so many nodes with further members of the class's spec and of the pool's requirements.
fn with(pods: u32, class: &str, requirement: &str) -> String {
    let all = manifests(pods)
        .replace("  role: KarpenterNodeRole-demo\n", &format!("  role: KarpenterNodeRole-demo\n{class}"));
    let last = "        - {key: node.kubernetes.io/instance-type,";
    all.replace(last, &format!("{requirement}{last}"))
}

fn nodes(played: &Played) -> &Vec<Value> {
    played.report["nodes"].as_array().unwrap()
}

fn values<'a>(played: &'a Played, label: &str) -> BTreeSet<&'a str> {
    nodes(played).iter().map(|node| node["labels"][label].as_str().unwrap_or("none")).collect()
}

const GROUPS: &str = "placementGroups:\n  - {id: pg-0c, name: close, strategy: cluster}\n  - {id: pg-0a, name: apart, strategy: spread}\n  - {id: pg-0b, name: rack, strategy: partition, partitions: 3}\n";

#[test]
fn cluster_placement_group_keeps_labelled_nodes_in_one_zone() {
    let class = "  placementGroupSelector: {name: close}\n";
    let played = play_over("group-cluster", &with(6, class, ""), &format!("{GROUPS}until: 10m\n"));
    played.came_out_well();
    assert_eq!(nodes(&played).len(), 6);
    assert_eq!(values(&played, "topology.kubernetes.io/zone").len(), 1);
    assert_eq!(values(&played, "karpenter.k8s.aws/placement-group-id"), ["pg-0c"].into());
}

#[test]
fn pods_spread_over_the_partitions_of_a_placement_group() {
    let class = "  placementGroupSelector: {id: pg-0b}\n";
    let spread = "      topologySpreadConstraints:\n        - {topologyKey: karpenter.k8s.aws/placement-group-partition, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}\n      containers:";
    let all = with(6, class, "").replace("      containers:", spread);
    let played = play_over("group-partition", &all, &format!("{GROUPS}until: 10m\n"));
    played.came_out_well();
    assert_eq!(values(&played, "karpenter.k8s.aws/placement-group-partition"), ["1", "2", "3"].into());
}

#[test]
fn spread_placement_group_holds_seven_nodes_in_a_zone() {
    let class = "  placementGroupSelector: {name: apart}\n";
    let played = play_over("group-spread", &with(23, class, ""), &format!("{GROUPS}until: 8m\n"));
    assert_eq!((&played.report["pods"]["bound"], nodes(&played).len()), (&21.into(), 21));
    let pending = played.report["pods"]["pending"].as_object().unwrap();
    assert!(pending.len() == 2 && pending.values().all(|why| !why.as_str().unwrap().is_empty()), "{pending:?}");
}

#[test]
fn dedicated_hardware_is_a_label_of_its_nodes() {
    let required = "        - {key: karpenter.k8s.aws/instance-tenancy, operator: In, values: [dedicated]}\n";
    let played = play_over("tenancy", &with(2, "", required), "until: 5m\n");
    played.came_out_well();
    assert_eq!(values(&played, "karpenter.k8s.aws/instance-tenancy"), ["dedicated"].into());
    let played = play_over("tenancy-none", &with(1, "", ""), "until: 5m\n");
    assert_eq!(values(&played, "karpenter.k8s.aws/instance-tenancy"), ["default"].into());
}

#[test]
fn nodes_of_a_capacity_block_are_drained_before_ec2_ends_them() {
    let block = "capacityReservations:\n  - {id: cr-0b, instanceType: m5.large, zone: ca-west-1a, count: 2, type: capacity-block, endsAfter: 1h}\n";
    let class = "  capacityReservationSelectorTerms: [{id: cr-0b}]\n";
    // The pool's budget lets one of them go at a time; the block's end does not wait for it.
    let all = with(3, class, "").replace("values: [on-demand]", "values: [reserved, on-demand]");
    let played = play_over("block", &all, &format!("{block}until: 40m\n"));
    played.came_out_well();
    // Two are in the block until twenty minutes, in which it is forty minutes from its end.
    let removed = played.removed();
    assert!(removed.len() == 2 && removed.values().all(|at| (1200.0..1500.0).contains(at)), "{removed:?}");
    assert!(nodes(&played).iter().all(|node| node["capacityType"] == "on-demand"), "{:?}", nodes(&played));
    let ended = played.events.iter().filter(|event| event.to_string().contains("ScheduledStop")).count();
    assert_eq!(ended, 0, "EC2 had nothing left to end");
}

#[test]
fn permissions_are_looked_at_by_dry_runs_that_launch_nothing() {
    let settings = "settings: {DISABLE_DRY_RUN: \"false\"}\nuntil: 5m\n";
    let played = play_over("dry-runs", &with(2, "", ""), settings);
    played.came_out_well();
    for action in ["RunInstances (dry run)", "CreateFleet (dry run)"] {
        let calls = played.seen("aws", &[("action", action)]);
        assert!(calls.len() == 1 && calls[0]["code"] == "DryRunOperation", "{action}: {calls:?}");
    }
    assert_eq!((played.calls("CreateFleet").len(), played.number("launched")), (1, 2), "both at once");
}

/// A class that is wrong: no instance is launched, the class and its pool say by which field and value.
#[test]
fn invalid_class_is_told_by_field_and_value_without_a_launch() {
    let profile = ("  role: KarpenterNodeRole-demo\n", "  instanceProfile: typo\n");
    let role = ("role: KarpenterNodeRole-demo", "role: typo");
    let image = ("[{alias: al2023@latest}]", "[{id: ami-0123456789abcdef0}]\n  amiFamily: AL2023");
    let subnet =
        ("subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]", "subnetSelectorTerms: [{id: subnet-0}]");
    let group = ("  role:", "  placementGroupSelector: {name: nowhere}\n  role:");
    let volume = (
        "  role:",
        "  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 20Gi, volumeType: gp2, throughput: 500}}]\n  role:",
    );
    let data = ("  role:", "  userData: \"MIME-Version: 1.0\\n\\nx\"\n  role:");
    for (name, (from, to), field, value) in [
        ("no-profile", profile, "spec.instanceProfile", "typo"),
        ("no-role", role, "spec.role", "typo"),
        ("no-image", image, "spec.amiSelectorTerms", "ami-0123456789abcdef0"),
        ("no-subnet", subnet, "spec.subnetSelectorTerms", "subnet-0"),
        ("no-group", group, "spec.placementGroupSelector.name", "nowhere"),
        ("volume", volume, "spec.blockDeviceMappings[0].ebs.throughput", "500"),
        ("user-data", data, "spec.userData", "MIME"),
    ] {
        let all = manifests(2).replacen(from, to, 1);
        assert_ne!(all, manifests(2), "{name}");
        let played = play_over(&format!("bad-{name}"), &all, "until: 5m\n");
        assert_eq!(played.seen("instance", &[]).len(), 0, "{name}");
        let said = |resource: &str| {
            let written = played.seen("api", &[("resource", resource)]);
            written.iter().any(|event| {
                let text = event.to_string();
                text.contains(field) && text.contains(value)
            })
        };
        assert!(said("ec2nodeclasses"), "{name}: the class does not say it");
        assert!(played.events_of("NodeClassNotReady") > 0, "{name}: no event on the pool");
        let told = played.log_events("nodeclass_not_ready");
        let told = told.iter().any(|line| line.to_string().contains(field));
        assert!(told || said("nodepools"), "{name}: neither pool nor log say it");
    }
}
