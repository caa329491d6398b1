//! Savings Plans and Reserved Instances, played through: what is paid for is used as far as it goes, and not left for spot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{arg, scratch, write};
use crate::played::{Played, at, manifests, play_over, play_with};

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

/// Number of instances after so many seconds by capacity type, and of launches so far; every pod has a node then.
fn by_capacity_type_at(played: &Played, seconds: f64) -> (BTreeMap<&str, usize>, usize) {
    let (mut alive, mut waiting) = (BTreeMap::new(), BTreeSet::new());
    for event in played.events.iter().take_while(|event| at(event) < seconds) {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        match (text("kind"), text("change")) {
            ("instance", "pending") => _ = alive.insert(text("id"), text("capacityType")),
            ("instance", "shutting-down") => _ = alive.remove(text("id")),
            ("pod", "created") => _ = waiting.insert(text("uid")),
            ("pod", "bound" | "deleted") => _ = waiting.remove(text("uid")),
            _ => {}
        }
    }
    assert!(waiting.is_empty(), "{}: without a node at {seconds}: {waiting:?}", played.name);
    let mut all = BTreeMap::new();
    alive.values().for_each(|capacity_type| *all.entry(*capacity_type).or_default() += 1);
    (all, played.times("launched").iter().filter(|at| **at < seconds).count())
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
    let played = play_over("committed-ends", &workload(3, true), &format!("{ends}until: 7h\n"));
    played.came_out_well();
    let before = by_capacity_type_at(&played, 170.0 * 60.0);
    assert_eq!(before, (BTreeMap::from([("on-demand", 2), ("spot", 1)]), 3), "ten minutes before it ends");
    assert_eq!(by_capacity_type(&played).get("spot"), Some(&3));
    assert_eq!(played.number("launched"), 5);
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

/// Others of the account run so many instances on demand from these times on.
fn others(steps: &[(&str, u32)]) -> String {
    let one = |(at, count): &(&str, u32)| {
        format!("  - {{at: {at}, others: {{instanceType: m5.large, zone: ca-west-1a, count: {count}}}}}\n")
    };
    format!("steps:\n{}", steps.iter().map(one).collect::<String>())
}

const TWO: &str = "reservedInstances: [{id: ri-1, instanceType: m5.large, count: 2, price: 0.06}]\n";

#[test]
fn launches_take_what_others_of_the_account_leave() {
    for (count, on_demand) in [(1, 1), (2, 0), (50, 0)] {
        let name = format!("account-shared-{count}");
        let scenario = format!("{}{}until: 20m\n", of_account(TWO), others(&[("1ms", count)]));
        let played = play_over(&name, &workload(3, false), &scenario);
        played.came_out_well();
        assert_eq!(by_capacity_type(&played).get("on-demand").copied().unwrap_or(0), on_demand, "{name}");
    }
}

#[test]
fn others_that_grow_move_each_node_once_and_are_said() {
    let grows = others(&[("40m", 1), ("100m", 2), ("130m", 6)]);
    let played = play_over("account-grows", &workload(3, true), &format!("{}{grows}until: 6h\n", of_account(TWO)));
    played.came_out_well();
    assert_eq!(by_capacity_type(&played), BTreeMap::from([("spot", 3)]));
    assert_eq!(played.number("launched"), 5, "each of two leaves once, as it is no more covered");
    let said = played.log_events("commitments_contended");
    assert!((1..=2).contains(&said.len()), "{said:?}");
    assert!(said[0]["dollars_per_hour"].as_f64().unwrap() > 0.05, "{}", said[0]);
}

#[test]
fn two_that_race_for_one_commitment_make_no_churn() {
    // For five hours others come and go every 25 minutes, then they stay away.
    let turns: Vec<(String, u32)> =
        (0..12).map(|turn| (format!("{}m", 30 + 25 * turn), 2 * ((turn + 1) % 2))).collect();
    let turns: Vec<(&str, u32)> = turns.iter().map(|(at, count)| (at.as_str(), *count)).collect();
    assert_eq!(turns.last().unwrap().1, 0);
    let scenario = format!("{}{}until: 11h\n", of_account(TWO), others(&turns));
    let played = play_over("account-race", &workload(3, true), &scenario);
    played.came_out_well();
    let meanwhile = by_capacity_type_at(&played, 7.0 * 3600.0);
    assert_eq!(meanwhile, (BTreeMap::from([("spot", 3)]), 5), "two leave once, and chase no gap");
    assert_eq!(
        by_capacity_type(&played),
        BTreeMap::from([("on-demand", 2), ("spot", 1)]),
        "what is free is used again"
    );
    assert_eq!(played.number("launched"), 7);
}

#[test]
fn a_plan_that_ends_moves_each_node_once() {
    // Four questions to the account before it ends, and a leader that dies as it does.
    let plan = "savingsPlans: [{id: sp-1, dollarsPerHour: 0.15, discount: 0.4, endsAfter: 4h}]\n\
        replicas: 2\nsteps:\n  - {at: 14401s, kill: {replica: leader, for: 30s}}\n";
    let played = play_over("account-ends", &workload(3, true), &format!("{}until: 7h\n", of_account(plan)));
    played.came_out_well();
    assert_eq!(by_capacity_type(&played), BTreeMap::from([("spot", 3)]));
    assert_eq!(played.number("launched"), 5, "each of two moves once");
    let launched = played.times("launched");
    assert!(launched.iter().all(|at| *at < 3600.0 || *at > 14_400.0), "nothing before it ends: {launched:?}");
    let said = played.log_events("commitment_ended").len();
    assert!((1..=2).contains(&said), "said {said} times");
}

#[test]
fn a_plan_that_is_renewed_at_midnight_moves_nobody() {
    // The renewal is queued, as AWS has it, and begins between two hourly questions.
    let plans = "savingsPlans:\n  - {id: sp-1, dollarsPerHour: 0.15, discount: 0.4, endsAfter: 90m}\n\
        \x20 - {id: sp-2, dollarsPerHour: 0.15, discount: 0.4, beginsAfter: 90m}\n\
        reservedInstances:\n  - {id: ri-1, instanceType: m5.large, count: 1, price: 0.06, endsAfter: 100m}\n\
        \x20 - {id: ri-2, instanceType: m5.large, count: 1, price: 0.06, beginsAfter: 100m}\n";
    let played = play_over("account-renewed", &workload(3, true), &format!("{}until: 3h\n", of_account(plans)));
    played.came_out_well();
    assert_eq!(played.number("launched"), 3, "nobody moves");
    assert_eq!(by_capacity_type(&played), BTreeMap::from([("on-demand", 3)]), "all are paid for");
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
