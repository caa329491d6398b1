//! Capacity reservations, played through: what is paid for is used, and where nothing can be added, a node gives up its own
//! instance before its successor is launched.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::common::{arg, scratch, write};
use crate::played::{Played, at, manifests, play_over, play_with};

const SELECTS: &str = "  capacityReservationSelectorTerms: [{tags: {team: web}}]\n";
const ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
pub(crate) const MINUTE: f64 = 60.0;

/// So many pods, each on a node of its own, of a pool of these capacity types; its class selects reservations or does not.
pub(crate) fn workload(pods: u32, capacity_types: &str, selects: bool) -> String {
    let class = format!("  role: KarpenterNodeRole-demo\n{}", if selects { SELECTS } else { "" });
    manifests(pods)
        .replace("  role: KarpenterNodeRole-demo\n", &class)
        .replace("values: [on-demand]", &format!("values: [{capacity_types}]"))
        .replace("[m5.large, m6i.large]", "[m5.large]")
}

/// The same, whose pool consolidates.
pub(crate) fn consolidating(pods: u32, capacity_types: &str, selects: bool) -> String {
    workload(pods, capacity_types, selects)
        .replace("consolidationPolicy: WhenEmpty, consolidateAfter: Never", "consolidateAfter: 30s")
}

/// The same with another label in the pool's template, by which all nodes drift.
pub(crate) fn relabelled(manifests: &str) -> String {
    manifests.replace(
        "  template:\n    spec:\n      expireAfter",
        "  template:\n    metadata: {labels: {release: two}}\n    spec:\n      expireAfter",
    )
}

pub(crate) fn with_budget(manifests: &str, unavailable: u32) -> String {
    format!(
        "{manifests}---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: web, namespace: default}}\nspec: {{maxUnavailable: {unavailable}, selector: {{matchLabels: {{app: web}}}}}}\n"
    )
}

/// Reservations of the class's team: id, last letter of the zone, instances.
pub(crate) fn reservations(all: &[(&str, &str, u32)]) -> String {
    let one = |(id, zone, count): &(&str, &str, u32)| {
        format!(
            "  - {{id: {id}, instanceType: m5.large, zone: ca-west-1{zone}, count: {count}, tags: {{team: web}}}}\n"
        )
    };
    format!("capacityReservations:\n{}", all.iter().map(one).collect::<String>())
}

fn nodes(played: &Played) -> &Vec<Value> {
    played.report["nodes"].as_array().unwrap()
}

/// Number of nodes at the end of each reservation; of those that are bought under an empty id.
pub(crate) fn in_reservations(played: &Played) -> BTreeMap<&str, usize> {
    let mut all = BTreeMap::new();
    for node in nodes(played) {
        let id = node["labels"][ID].as_str().unwrap_or("");
        assert_eq!(id.is_empty(), node["capacityType"] != "reserved", "{node}");
        *all.entry(id).or_default() += 1;
    }
    all
}

/// The least number of Ready pods of the workload after that time.
pub(crate) fn least_ready(played: &Played, after: f64) -> usize {
    let (mut ready, mut least) = (BTreeSet::new(), usize::MAX);
    for event in played.seen("pod", &[]) {
        if at(event) > after {
            least = least.min(ready.len());
        }
        let uid = event["uid"].as_str().unwrap();
        match event["change"].as_str().unwrap() {
            "ready" => _ = ready.insert(uid),
            "not-ready" | "deleting" | "deleted" | "lost" | "failed" => _ = ready.remove(uid),
            _ => {}
        }
    }
    least.min(ready.len())
}

pub(crate) fn all_of_release_two(played: &Played) {
    for node in nodes(played) {
        assert_eq!(node["labels"]["release"], "two", "{node}");
    }
}

pub(crate) fn never_refused(played: &Played) {
    let refused = played.events.iter().filter(|event| event.to_string().contains("ReservationCapacityExceeded"));
    assert_eq!(refused.count(), 0, "{}: more was asked for than there is", played.name);
}

/// Plays manifests, and others that are applied after five minutes, until nothing has been under way for twenty: what moves nodes
/// looks at them every few seconds, and puts them off for minutes at most.
pub(crate) fn changed(name: &str, before: &str, after: &str, scenario: &str) -> Played {
    write(&format!("{name}/after.yaml"), after);
    play_over(
        name,
        before,
        &format!("{scenario}steps:\n  - {{at: 5m, apply: [after.yaml]}}\nsettled: 20m\nuntil: 4h\n"),
    )
}

#[test]
fn class_that_selects_a_reservation_later_uses_it() {
    for (kind, pods) in [("on-demand", 1), ("on-demand", 2), ("spot", 2), ("on-demand", 20)] {
        let types = format!("reserved, {kind}");
        let (before, after) = (consolidating(pods, &types, false), consolidating(pods, &types, true));
        let name = format!("reserved-later-{kind}-{pods}");
        let played = changed(&name, &before, &after, &reservations(&[("cr-1", "a", pods)]));
        played.came_out_well();
        never_refused(&played);
        let count = usize::try_from(pods).unwrap();
        assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", count)]), "{name}");
        assert!(least_ready(&played, 5.0 * MINUTE) >= count - 1, "{name}");
        // Each node is moved once, and no successor after it.
        assert_eq!((played.number("launched"), played.removed().len()), (2 * u64::from(pods), count), "{name}");
    }
}

#[test]
fn reservations_in_several_zones_are_filled_and_no_further() {
    let (before, after) =
        (consolidating(5, "reserved, on-demand", false), consolidating(5, "reserved, on-demand", true));
    let all = [("cr-1", "a", 1), ("cr-2", "b", 2), ("cr-3", "b", 1)];
    let played = changed("reserved-zones", &with_budget(&before, 1), &with_budget(&after, 1), &reservations(&all));
    played.came_out_well();
    never_refused(&played);
    assert_eq!(in_reservations(&played), BTreeMap::from([("", 1), ("cr-1", 1), ("cr-2", 2), ("cr-3", 1)]));
    assert_eq!(played.number("launched"), 9, "the node without a place in any stays where it is");
    assert!(least_ready(&played, 5.0 * MINUTE) >= 4);
}

#[test]
fn nodes_of_reservations_count_as_paid_for() {
    let name = "reserved-paid";
    write(&format!("{name}/workload.yaml"), &workload(3, "reserved, on-demand", true));
    let scenario = format!(
        "region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{}until: 10m\n",
        reservations(&[("cr-1", "a", 2)])
    );
    let metrics = scratch(&format!("{name}.txt"));
    let path = write(&format!("{name}/scenario.yaml"), &scenario);
    let played = play_with(name, &path, &["--metrics", arg(&metrics)], &[0]);
    assert_eq!(in_reservations(&played), BTreeMap::from([("", 1), ("cr-1", 2)]));
    let text = std::fs::read_to_string(&metrics).unwrap();
    let sum = |metric: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    };
    let [cost, demand, paid] =
        ["", "_on_demand", "_paid_for"].map(|of| sum(&format!("dovetail_cost{of}_dollars_per_hour")));
    assert!(
        cost > 0.05 && (demand - 3.0 * cost).abs() < 1e-9 && (paid - 2.0 * cost).abs() < 1e-9,
        "{cost} {demand} {paid}"
    );
}

#[test]
fn drifted_nodes_give_up_own_slots_where_nothing_can_be_added() {
    for count in [1_u32, 2, 20] {
        let before = with_budget(&workload(count, "reserved", true), 1);
        let name = format!("reserved-own-{count}");
        let played = changed(&name, &before, &relabelled(&before), &reservations(&[("cr-1", "a", count)]));
        played.came_out_well();
        all_of_release_two(&played);
        let all = usize::try_from(count).unwrap();
        assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", all)]), "{name}");
        assert_eq!((played.number("launched"), played.removed().len()), (2 * u64::from(count), all), "{name}");
        assert_eq!(played.log_events("terminating_first").len(), all, "{name}");
        assert!(played.events_of("TerminatingFirst") >= all, "{name}");
        assert!(least_ready(&played, 5.0 * MINUTE) >= all - 1, "{name}: one pod is down at a time");
    }
}

#[test]
fn own_instances_are_given_up_in_each_of_several_reservations() {
    let before = workload(4, "reserved", true);
    let all = [("cr-1", "a", 1), ("cr-2", "b", 2), ("cr-3", "c", 1)];
    let played = changed("reserved-own-zones", &before, &relabelled(&before), &reservations(&all));
    played.came_out_well();
    all_of_release_two(&played);
    assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", 1), ("cr-2", 2), ("cr-3", 1)]));
    assert!(least_ready(&played, 5.0 * MINUTE) >= 3, "one pod is down at a time");
}

#[test]
fn pods_that_demand_reserved_capacity_are_rotated_in_place() {
    let demand = "      terminationGracePeriodSeconds: 1\n      nodeSelector: {karpenter.sh/capacity-type: reserved}\n";
    let before = workload(2, "reserved, on-demand", true).replace("      terminationGracePeriodSeconds: 1\n", demand);
    let played = changed("reserved-demand", &before, &relabelled(&before), &reservations(&[("cr-1", "a", 2)]));
    played.came_out_well();
    all_of_release_two(&played);
    assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", 2)]));
    assert_eq!(played.log_events("terminating_first").len(), 2);
    assert!(least_ready(&played, 5.0 * MINUTE) >= 1);
}

#[test]
fn replacements_on_demand_come_first_and_come_back_later() {
    for count in [1_u32, 2, 20] {
        let before = consolidating(count, "reserved, on-demand", true);
        let name = format!("reserved-both-{count}");
        let played = changed(&name, &before, &relabelled(&before), &reservations(&[("cr-1", "a", count)]));
        played.came_out_well();
        all_of_release_two(&played);
        never_refused(&played);
        let all = usize::try_from(count).unwrap();
        assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", all)]), "{name}");
        assert!(played.log_events("terminating_first").is_empty(), "{name}: places came first");
    }
}

#[test]
fn budget_that_allows_nobody_to_go_keeps_drifted_nodes_in_place() {
    let before = with_budget(&workload(2, "reserved", true), 0);
    let played = changed("reserved-own-held", &before, &relabelled(&before), &reservations(&[("cr-1", "a", 2)]));
    played.came_out_well();
    assert_eq!((played.removed().len(), played.log_events("terminating_first").len()), (0, 0));
}

#[test]
fn instance_that_somebody_else_takes_is_told_and_nobody_follows() {
    let before = workload(2, "reserved", true);
    write("reserved-lost/after.yaml", &relabelled(&before));
    let scenario = format!(
        "{}steps:\n  - {{at: 4m, takeReserved: {{id: cr-1, count: 1}}}}\n  - {{at: 5m, apply: [after.yaml]}}\n  - {{at: 45m, takeReserved: {{id: cr-1, count: 0}}}}\nuntil: ",
        reservations(&[("cr-1", "a", 2)])
    );
    let lost = play_over(
        "reserved-lost",
        &before,
        &format!("{scenario}44m\n").replace("  - {at: 45m, takeReserved: {id: cr-1, count: 0}}\n", ""),
    );
    lost.violates_nothing();
    assert_eq!((lost.removed().len(), lost.number("launched")), (1, 2), "the other node stays");
    assert_eq!(lost.log_events("reserved_instance_lost").len(), 1);
    assert!(lost.events_of("ReservedInstanceLost") >= 1);
    assert_eq!(least_ready(&lost, 5.0 * MINUTE), 1);
    write("reserved-back/after.yaml", &relabelled(&before));
    let back = play_over("reserved-back", &before, &format!("{scenario}2h\nsettled: 20m\n"));
    back.came_out_well();
    all_of_release_two(&back);
    assert_eq!(in_reservations(&back), BTreeMap::from([("cr-1", 2)]));
    assert_eq!(least_ready(&back, 5.0 * MINUTE), 1);
}

/// The same with NodeRepair, and nodes whose storage is not ready from the fifth minute on.
fn ailing(name: &str, manifests: &str, scenario: &str, sick: u32) -> Played {
    let steps = format!("steps:\n  - {{at: 5m, unwell: {{condition: StorageReady, count: {sick}}}}}\n");
    play_over(name, manifests, &format!("featureGates: {{NodeRepair: true}}\n{scenario}{steps}until: 80m\n"))
}

#[test]
fn sick_nodes_give_up_own_slots_where_nothing_can_be_added() {
    for (count, sick) in [(1_u32, 1_u32), (2, 1), (6, 2), (20, 4)] {
        let workload = with_budget(&workload(count, "reserved", true), 1);
        let name = format!("reserved-sick-{count}");
        let played = ailing(&name, &workload, &reservations(&[("cr-1", "a", count)]), sick);
        played.came_out_well();
        let (all, gone) = (usize::try_from(count).unwrap(), usize::try_from(sick).unwrap());
        assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", all)]), "{name}");
        assert_eq!((played.number("launched"), played.removed().len()), (u64::from(count + sick), gone), "{name}");
        assert_eq!(played.log_events("terminating_first").len(), gone, "{name}");
        assert!(least_ready(&played, 5.0 * MINUTE) >= all - 1, "{name}: one pod is down at a time");
    }
}

#[test]
fn a_sick_node_with_another_place_is_replaced_first() {
    let workload = workload(2, "reserved, on-demand", true);
    let played = ailing("reserved-sick-both", &workload, &reservations(&[("cr-1", "a", 2)]), 1);
    played.came_out_well();
    assert!(played.log_events("terminating_first").is_empty());
    let removed: Vec<f64> = played.removed().into_values().collect();
    assert_eq!(removed.len(), 1, "{removed:?}");
    let stood = played.times("initialized").into_iter().filter(|at| *at <= removed[0]).count();
    assert_eq!(stood, 3, "its successor stood first");
}

#[test]
fn a_later_leader_awaits_the_successor_of_an_ended_node() {
    let before = workload(3, "reserved", true);
    write("reserved-own-killed/after.yaml", &relabelled(&before));
    // Nodes go one after the other from five and a half minutes on; a leader is killed again and again meanwhile.
    let kills: String =
        (0..8).map(|n| format!("  - {{at: {}s, kill: {{replica: leader, for: 20s}}}}\n", 336 + 23 * n)).collect();
    let scenario = format!(
        "replicas: 3\n{}steps:\n  - {{at: 5m, apply: [after.yaml]}}\n{kills}settled: 20m\nuntil: 2h\n",
        reservations(&[("cr-1", "a", 3)])
    );
    let played = play_over("reserved-own-killed", &before, &scenario);
    played.came_out_well();
    all_of_release_two(&played);
    assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", 3)]));
    assert!(least_ready(&played, 5.0 * MINUTE) >= 2, "one pod is down at a time");
}

#[test]
fn open_reservations_are_used_by_the_setting_and_no_further() {
    let open = reservations(&[("cr-1", "a", 2)]).replace("count: 2", "count: 2, open: true");
    let workload = workload(3, "reserved, on-demand", false);
    for (setting, wanted) in [(true, BTreeMap::from([("", 1), ("cr-1", 2)])), (false, BTreeMap::from([("", 3)]))] {
        let name = format!("reserved-open-{setting}");
        let scenario = format!("{open}settings: {{OPEN_RESERVATIONS: '{setting}'}}\nuntil: 10m\n");
        let played = play_over(&name, &workload, &scenario);
        played.came_out_well();
        never_refused(&played);
        assert_eq!(in_reservations(&played), wanted, "{name}");
    }
}

#[test]
fn nodes_of_a_reservation_that_ends_are_bought_from_then_on() {
    let workload = consolidating(2, "reserved, on-demand", true);
    let ends = reservations(&[("cr-1", "a", 2)]).replace("count: 2", "count: 2, endsAfter: 30m");
    // The leader dies as it ends.
    let steps = "steps:\n  - {at: 1805s, kill: {replica: leader, for: 30s}}\n";
    let played = play_over("reserved-ends", &workload, &format!("{ends}{steps}until: 100m\n"));
    played.came_out_well();
    never_refused(&played);
    for node in nodes(&played) {
        let labels = &node["labels"];
        assert_eq!((&labels["karpenter.sh/capacity-type"], &labels[ID]), (&"on-demand".into(), &Value::Null), "{node}");
    }
    assert_eq!((played.number("launched"), played.removed().len()), (2, 0), "none moves");
    assert!(played.log_events("reservation_ended").len() >= 2, "said for each");
    assert!(least_ready(&played, 5.0 * MINUTE) >= 1);
}

/// Number of nodes whose labels say that they are in a reservation; the report has them as they were launched.
fn labelled_reserved(played: &Played) -> usize {
    let nodes = played.report["nodes"].as_array().unwrap();
    nodes.iter().filter(|node| node["labels"]["karpenter.sh/capacity-type"] == "reserved").count()
}

#[test]
fn a_reservation_that_is_cancelled_in_use_moves_nobody() {
    let workload = consolidating(2, "reserved, on-demand", true);
    let steps = "steps:\n  - {at: 30m, resizeReserved: {id: cr-1, count: 0}}\n";
    let scenario = format!("{}{steps}until: 3h\n", reservations(&[("cr-1", "a", 2)]));
    let played = play_over("reserved-cancelled", &workload, &scenario);
    played.came_out_well();
    never_refused(&played);
    assert_eq!(labelled_reserved(&played), 0);
    assert_eq!((played.number("launched"), played.removed().len()), (2, 0), "both are paid for on demand, and stay");
    assert_eq!(played.log_events("reservation_ended").len(), 2, "once for each node");
    assert_eq!(played.events_of("ReservationEnded"), 2);
}

#[test]
fn a_reservation_that_shrinks_below_its_use_moves_nobody() {
    let workload = consolidating(3, "reserved, on-demand", true);
    let steps = "steps:\n  - {at: 30m, resizeReserved: {id: cr-1, count: 1}}\n";
    let scenario = format!("{}{steps}until: 3h\n", reservations(&[("cr-1", "a", 3)]));
    let played = play_over("reserved-shrunk", &workload, &scenario);
    played.came_out_well();
    never_refused(&played);
    assert_eq!(labelled_reserved(&played), 1);
    assert_eq!((played.number("launched"), played.removed().len()), (3, 0), "none moves");
    assert_eq!(played.log_events("reservation_ended").len(), 2, "once for each that is in it no more");
}

#[test]
fn others_who_fill_a_reservation_refuse_nobody_for_ever() {
    // They take what is free a second before two more pods come.
    let steps = "steps:\n  - {at: 299s, takeReserved: {id: cr-1, count: 2}}\n  - {at: 5m, scale: {kind: Deployment, name: web, replicas: 3}}\n";
    let scenario = format!("{}{steps}until: 60m\n", reservations(&[("cr-1", "a", 3)]));
    let played = play_over("reserved-filled", &workload(1, "reserved, on-demand", true), &scenario);
    played.came_out_well();
    assert_eq!(in_reservations(&played), BTreeMap::from([("", 2), ("cr-1", 1)]));
    let refused = played
        .events
        .iter()
        .filter(|event| event["kind"] == "aws" && event.to_string().contains("ReservationCapacityExceeded"));
    assert!(refused.count() <= 2, "a launch each, at most");
    let ready = played.times("initialized");
    assert!(ready.last().unwrap() < &(12.0 * MINUTE), "{ready:?}");
}

#[test]
fn an_instance_that_others_take_and_give_back_makes_no_churn() {
    // Others have it first, and from the twelfth minute on have it and have it not for over an hour.
    let turns: String = (0..90)
        .map(|turn| format!("  - {{at: {}s, takeReserved: {{id: cr-1, count: {}}}}}\n", 720 + 50 * turn, turn % 2))
        .collect();
    let first = "  - {at: 100ms, takeReserved: {id: cr-1, count: 1}}\n";
    let last = "  - {at: 90m, takeReserved: {id: cr-1, count: 0}}\n";
    let scenario = format!("{}steps:\n{first}{turns}{last}until: 3h\n", reservations(&[("cr-1", "a", 1)]));
    let played = play_over("reserved-race", &consolidating(1, "reserved, on-demand", true), &scenario);
    played.came_out_well();
    assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", 1)]), "it is not refused for ever");
    assert_eq!((played.number("launched"), played.removed().len()), (2, 1), "its node moves once");
    let tries = played
        .events
        .iter()
        .filter(|event| event["kind"] == "aws" && event.to_string().contains("ReservationCapacityExceeded"));
    assert!(tries.count() <= 2, "a node is tried once an hour");
}
