//! Savings Plans and Reserved Instances, played through: what is paid for is used as far as it goes, and not left for spot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use crate::common::{arg, scratch, write};
use crate::played::{Played, manifests, play_over, play_with};

/// So many pods, each on a node of its own, of a pool that allows spot and on-demand capacity.
fn workload(pods: u32, consolidates: bool) -> String {
    let after = if consolidates { "30s" } else { "Never" };
    manifests(pods)
        .replace("values: [on-demand]", "values: [on-demand, spot]")
        .replace("[m5.large, m6i.large]", "[m5.large]")
        .replace("consolidationPolicy: WhenEmpty, consolidateAfter: Never", &format!("consolidateAfter: {after}"))
}

/// The setting that declares so many Reserved Instances of the pool's type.
fn declared(count: u32) -> String {
    format!(
        "settings: {{COMMITMENTS: '[{{id: r, type: reservedInstances, instanceType: m5.large, count: {count}, price: 0.06}}]'}}\n"
    )
}

/// Number of nodes at the end by capacity type.
fn by_capacity_type(played: &Played) -> BTreeMap<&str, usize> {
    let mut all = BTreeMap::new();
    for node in played.report["nodes"].as_array().unwrap() {
        *all.entry(node["capacityType"].as_str().unwrap()).or_default() += 1;
    }
    all
}

#[test]
fn launches_take_of_commitments_as_far_as_they_go() {
    for (count, expected) in [
        (0, BTreeMap::from([("spot", 4)])),
        (2, BTreeMap::from([("on-demand", 2), ("spot", 2)])),
        (9, BTreeMap::from([("on-demand", 4)])),
    ] {
        let name = format!("committed-{count}");
        let settings = if count == 0 { String::new() } else { declared(count) };
        let played = play_over(&name, &workload(4, false), &format!("{settings}until: 20m\n"));
        played.came_out_well();
        assert_eq!(by_capacity_type(&played), expected, "{name}");
        for line in played.log_events("launched") {
            assert!(!line.to_string().contains("commitment:"), "{line}");
        }
    }
}

#[test]
fn capacity_that_is_covered_and_sold_out_is_bought_otherwise() {
    let sold_out = "faults: {ec2: {insufficientCapacity: ['m5.large/*/on-demand']}}\n";
    let played =
        play_over("committed-sold-out", &workload(2, false), &format!("{}{sold_out}until: 20m\n", declared(9)));
    played.came_out_well();
    assert_eq!(by_capacity_type(&played), BTreeMap::from([("spot", 2)]));
}

#[test]
fn consolidation_does_not_leave_what_is_paid_for_for_spot() {
    let played = play_over("committed-stays", &workload(3, true), &format!("{}until: 3h\n", declared(2)));
    played.came_out_well();
    assert_eq!(by_capacity_type(&played), BTreeMap::from([("on-demand", 2), ("spot", 1)]));
    assert_eq!(played.number("launched"), 3, "nothing moves");
}

#[test]
fn nodes_of_a_commitment_that_ends_move_once_and_not_before() {
    // The virtual clock starts at midnight.
    let ends = declared(2).replace("price:", "ends: \"2026-01-01T03:00:00Z\", price:");
    for (until, launched, spot) in [("170m", 3, 1), ("7h", 5, 3)] {
        let played =
            play_over(&format!("committed-ends-{until}"), &workload(3, true), &format!("{ends}until: {until}\n"));
        played.came_out_well();
        assert_eq!(by_capacity_type(&played).get("spot"), Some(&spot), "{until}");
        assert_eq!(played.number("launched"), launched, "{until}");
    }
}

#[test]
fn spot_nodes_move_into_what_is_left_once() {
    // Until 01:00 nothing counts, so all are spot; then two of three nodes move.
    let begins = declared(2).replace("price:", "begins: \"2026-01-01T01:00:00Z\", price:");
    let played = play_over("committed-begins", &workload(3, true), &format!("{begins}until: 4h\n"));
    played.came_out_well();
    assert_eq!(by_capacity_type(&played), BTreeMap::from([("on-demand", 2), ("spot", 1)]));
    assert_eq!(played.number("launched"), 5, "each moves once");
}

#[test]
fn what_is_unused_is_a_metric() {
    let name = "committed-unused";
    write(&format!("{name}/workload.yaml"), &workload(4, false));
    let scenario = format!("region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{}until: 10m\n", declared(9));
    let metrics = scratch(&format!("{name}.txt"));
    let path = write(&format!("{name}/scenario.yaml"), &scenario);
    play_with(name, &path, &["--metrics", arg(&metrics)], &[0]);
    let text = std::fs::read_to_string(&metrics).unwrap();
    for line in [
        "dovetail_commitment_unused_dollars_per_hour{commitment=\"r\"} 0.3",
        "dovetail_commitment_nodes_without_price 0",
    ] {
        assert!(text.lines().any(|own| own.starts_with(line)), "{line}");
    }
}

/// A scenario whose account has paid for so much, and whose control plane asks it.
fn of_account(commitments: &str) -> String {
    format!("settings: {{COMMITMENTS: account}}\n{commitments}")
}

#[test]
fn commitments_of_the_account_are_used_as_declared_ones() {
    let two = "reservedInstances: [{id: ri-1, instanceType: m5.large, count: 2, price: 0.06}]\n";
    // By its rates it covers two; by a usual discount it would be one.
    let plan = "savingsPlans: [{id: sp-1, dollarsPerHour: 0.15, discount: 0.4}]\n";
    for (name, commitments, on_demand) in [("instances", two, 2), ("plan", plan, 2)] {
        let name = format!("account-{name}");
        let played = play_over(&name, &workload(3, true), &format!("{}until: 20m\n", of_account(commitments)));
        played.came_out_well();
        let expected = BTreeMap::from([("on-demand", on_demand), ("spot", 3 - on_demand)]);
        assert_eq!(by_capacity_type(&played), expected, "{name}");
        assert_eq!(played.log_events("commitments_read").len(), 1, "{name}");
    }
}

#[test]
fn an_account_that_may_not_be_asked_is_said_once() {
    let denied = "faults: {ec2: {unauthorized: [DescribeReservedInstances, DescribeSavingsPlans]}}\n\
        reservedInstances: [{id: ri-1, instanceType: m5.large, count: 2}]\n";
    let played = play_over("account-denied", &workload(3, true), &format!("{}until: 130m\n", of_account(denied)));
    played.came_out_well();
    assert_eq!(by_capacity_type(&played), BTreeMap::from([("spot", 3)]));
    let said: Vec<String> = played.log_events("commitments_unread").iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    for action in ["ec2:DescribeReservedInstances", "savingsplans:DescribeSavingsPlans"] {
        assert!(said.iter().any(|line| line.contains(action)), "{action}: {said:?}");
    }
}

#[test]
fn what_the_account_has_no_more_is_left_after_the_second_answer() {
    let gone = "reservedInstances: [{id: ri-1, instanceType: m5.large, count: 2, price: 0.06, goneAfter: 30m}]\n\
        steps:\n  - {at: 62m, kill: {replica: leader, for: 30s}}\n";
    let played = play_over("account-gone", &workload(3, true), &format!("{}until: 5h\n", of_account(gone)));
    played.came_out_well();
    assert_eq!(by_capacity_type(&played), BTreeMap::from([("spot", 3)]));
    assert_eq!(played.number("launched"), 5, "each of two moves once");
}
