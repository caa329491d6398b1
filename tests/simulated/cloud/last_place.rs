//! Nodes whose only place is their own instance of a reservation, where that is no place either: the drain would not end, nothing
//! can be launched there, somebody else would take it, or nothing but its zone is against it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use crate::common::write;
use crate::played::{Played, play_over};
use crate::reserved::{
    MINUTE, all_of_release_two, changed, consolidating, in_reservations, least_ready, never_refused, relabelled,
    reservations, with_budget, workload,
};

/// Pods of any number on a node.
fn crowded(pods: u32) -> String {
    let all = workload(pods, "reserved", true);
    let from = all.find("      affinity:\n").unwrap();
    let to = all.find("      containers:").unwrap();
    format!("{}{}", &all[..from], &all[to..])
}

/// Nodes that fall sick at the fifth minute.
fn sick(nodes: u32, until: &str) -> String {
    format!("steps:\n  - {{at: 5m, unwell: {{condition: StorageReady, count: {nodes}}}}}\nuntil: {until}\n")
}

/// Number of pods that wait at the end.
fn waiting(played: &Played) -> usize {
    played.report["pods"]["pending"].as_object().unwrap().len()
}

/// Nothing has gone, and the reason is said.
fn stays(played: &Played, says: &str) {
    played.violates_nothing();
    assert_eq!(waiting(played), 0, "{}", played.name);
    assert!(played.removed().is_empty(), "{}: {:?}", played.name, played.removed());
    assert!(played.log_events("terminating_first").is_empty(), "{}", played.name);
    let said = played.events.iter().any(|event| event.to_string().contains(says));
    assert!(said, "{}: nothing says {says:?}", played.name);
}

#[test]
fn a_node_whose_drain_would_not_end_stays_and_says_so() {
    let endless = "the drain would not end";
    // Two of the pods are on the only node, or on each of five; a budget lets one of them go at a time.
    let two = with_budget(&crowded(2), 1);
    let own = reservations(&[("cr-1", "a", 1)]);
    stays(&changed("endless-own", &two, &relabelled(&two), &own), endless);
    let gates = "featureGates: {NodeRepair: true}\n";
    let ill = play_over("endless-sick", &two, &format!("{gates}{own}{}", sick(1, "2h")));
    stays(&ill, endless);
    // The budget lets both go at once: the pod waits for its own slot, as a single one does.
    let both = with_budget(&crowded(2), 2);
    let rotated = changed("endless-not", &both, &relabelled(&both), &own);
    rotated.came_out_well();
    all_of_release_two(&rotated);
    // A static pool at its limit whose nodes are full.
    let fixed = two
        .replace("replicas: 2\n  selector", "replicas: 4\n  selector")
        .replace("cpu: 500m", "cpu: 800m")
        .replace(
            "  template:\n    spec:\n      expireAfter",
            "  replicas: 2\n  limits: {nodes: '2'}\n  template:\n    spec:\n      expireAfter",
        )
        .replace("[reserved]", "[on-demand]")
        .replace("  capacityReservationSelectorTerms: [{tags: {team: web}}]\n", "");
    let gates = "featureGates: {StaticCapacity: true, TerminateFirstDrift: true}\n";
    stays(&changed("endless-static", &fixed, &relabelled(&fixed), gates), endless);
}

#[test]
fn a_slot_that_nothing_can_be_launched_into_is_kept() {
    let before = with_budget(&workload(2, "reserved", true), 1);
    // The type has no enclaves: nothing fits the class any more.
    let after = relabelled(&before).replace("  role: Karp", "  enclaveOptions: {enabled: true}\n  role: Karp");
    let played = changed("no-launch", &before, &after, &reservations(&[("cr-1", "a", 2)]));
    stays(&played, "nothing can be launched into its reservation cr-1");
}

#[test]
fn static_pools_of_full_reservations_are_rotated_in_place() {
    for (name, count, extra, gates) in [
        ("static-slots", 2, "", "StaticCapacity: true"),
        ("static-slots-below", 3, "  limits: {nodes: '6'}\n", "StaticCapacity: true, TerminateFirstDrift: true"),
    ] {
        let held = format!("  replicas: {count}\n{extra}  template:\n    spec:\n      expireAfter");
        let before = with_budget(&workload(count, "reserved", true), 1)
            .replace("  template:\n    spec:\n      expireAfter", &held);
        let scenario = format!("featureGates: {{{gates}}}\n{}", reservations(&[("cr-1", "a", count)]));
        let played = changed(name, &before, &relabelled(&before), &scenario);
        played.came_out_well();
        never_refused(&played);
        all_of_release_two(&played);
        let all = usize::try_from(count).unwrap();
        assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", all)]), "{name}");
        assert_eq!(played.log_events("terminating_first").len(), all, "{name}");
        assert!(least_ready(&played, 5.0 * MINUTE) >= all - 1, "{name}: one pod is down at a time");
        let gates = format!("featureGates: {{{gates}, NodeRepair: true}}\n");
        let ill = format!("{gates}{}{}", reservations(&[("cr-1", "a", count)]), sick(1, "90m"));
        let ill = play_over(&format!("{name}-sick"), &before, &ill);
        ill.came_out_well();
        assert_eq!((ill.removed().len(), in_reservations(&ill)), (1, BTreeMap::from([("cr-1", all)])), "{name}");
    }
}

#[test]
fn a_sick_node_of_a_sick_zone_gets_its_own_slot_back() {
    let all = reservations(&[("cr-1", "a", 2), ("cr-2", "b", 8)]);
    let scenario = format!("featureGates: {{NodeRepair: true}}\n{all}{}", sick(2, "3h"));
    let played = play_over("sick-zone-slots", &with_budget(&workload(10, "reserved", true), 1), &scenario);
    played.came_out_well();
    assert_eq!((played.removed().len(), played.log_events("terminating_first").len()), (2, 2));
    assert_eq!(in_reservations(&played), BTreeMap::from([("cr-1", 2), ("cr-2", 8)]));
    assert!(least_ready(&played, 5.0 * MINUTE) >= 9);
}

/// The pool's nodes are drained by force after ten minutes, and a budget lets no pod go before.
fn forced(pods: u32) -> String {
    with_budget(&workload(pods, "reserved", true), 0)
        .replace("      expireAfter: Never\n", "      expireAfter: Never\n      terminationGracePeriod: 10m\n")
}

#[test]
fn pods_that_stay_to_the_end_of_a_drain_need_a_place_too() {
    let before = forced(5).replace("consolidateAfter: Never}", "consolidateAfter: Never, budgets: [{nodes: 100%}]}");
    let played = changed("forced-slots", &before, &relabelled(&before), &reservations(&[("cr-1", "a", 5)]));
    played.came_out_well();
    all_of_release_two(&played);
    assert_eq!(played.log_events("terminating_first").len(), 5);
    assert!(least_ready(&played, 5.0 * MINUTE) >= 4, "one pod is down at a time");
}

#[test]
fn a_slot_lost_after_a_bounded_drain_is_said_and_nobody_follows() {
    let before = forced(2);
    write("forced-lost/after.yaml", &relabelled(&before));
    let steps =
        "steps:\n  - {at: 4m, takeReserved: {id: cr-1, count: 1}}\n  - {at: 5m, apply: [after.yaml]}\nuntil: 90m\n";
    let played = play_over("forced-lost", &before, &format!("{}{steps}", reservations(&[("cr-1", "a", 2)])));
    played.violates_nothing();
    assert_eq!((played.removed().len(), played.number("launched")), (1, 2), "the other node stays");
    assert_eq!(played.log_events("reserved_instance_lost").len(), 1);
}

#[test]
fn a_slot_that_a_waiting_pod_would_take_is_kept() {
    // A second pool and workload of the same reservation, whose pod waits from the third minute on.
    let own = with_budget(&workload(2, "reserved", true), 1)
        .replace("      affinity:", "      nodeSelector: {karpenter.sh/nodepool: default}\n      affinity:");
    let other = workload(0, "reserved", true)
        .replace("name: default}", "name: two}")
        .replace("name: web,", "name: two,")
        .replace("app: web", "app: two")
        .replace("      affinity:", "      nodeSelector: {karpenter.sh/nodepool: two}\n      affinity:")
        .replace("kind: EC2NodeClass, name: default", "kind: EC2NodeClass, name: two")
        .replace("namespace: two", "namespace: default");
    let before = format!("{own}---\n{other}");
    write("rival/after.yaml", &relabelled(&before).replace("replicas: 0", "replicas: 1"));
    let steps = "steps:\n  - {at: 3m, scale: {kind: Deployment, name: two, replicas: 1}}\n  - {at: 5m, apply: [after.yaml]}\nuntil: 90m\n";
    let played = play_over("rival", &before, &format!("{}{steps}", reservations(&[("cr-1", "a", 2)])));
    played.violates_nothing();
    assert!(played.removed().is_empty(), "{:?}", played.removed());
    assert_eq!((waiting(&played), least_ready(&played, 5.0 * MINUTE)), (1, 2));
    assert!(
        played.events.iter().any(|event| event.to_string().contains("pods that wait already would get its instance"))
    );
}

#[test]
fn nobody_is_moved_into_a_reservation_that_is_about_to_end() {
    let types = "reserved, on-demand";
    let (before, after) = (consolidating(2, types, false), consolidating(2, types, true));
    for (ends, launched) in [("60m", 2), ("3h", 4)] {
        let name = format!("reserved-ends-{ends}");
        write(&format!("{name}/after.yaml"), &after);
        let all = reservations(&[("cr-1", "a", 2)]).replace("count: 2,", &format!("count: 2, endsAfter: {ends},"));
        let steps = "steps:\n  - {at: 15m, apply: [after.yaml]}\nuntil: 55m\n";
        let played = play_over(&name, &before, &format!("{all}{steps}"));
        played.came_out_well();
        assert_eq!(played.number("launched"), launched, "{name}");
    }
}

#[test]
fn a_reserved_instance_takes_a_part_of_a_larger_node() {
    let two = |types: &str, selects: bool| {
        let all = consolidating(2, "reserved, on-demand", selects).replace("[m5.large]", types);
        let (from, to) = (all.find("      affinity:\n").unwrap(), all.find("      containers:").unwrap());
        with_budget(&format!("{}{}", &all[..from], &all[to..]).replace("cpu: 500m", "cpu: 1500m"), 2)
    };
    let (before, after) = (two("[m5.xlarge]", false), two("[m5.xlarge, m5.large]", true));
    let played = changed("reserved-part", &before, &after, &reservations(&[("cr-1", "a", 1)]));
    played.came_out_well();
    assert_eq!(in_reservations(&played), BTreeMap::from([("", 1), ("cr-1", 1)]));
    assert_eq!(played.number("launched"), 3, "the xlarge goes for two larges");
}
