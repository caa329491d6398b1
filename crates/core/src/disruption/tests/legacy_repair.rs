//! Repair by force, with `LEGACY_NODE_REPAIR`.

use super::repair::REPAIRING;
use super::*;
use crate::disruption::drift::Gates;
use crate::disruption::repair::HeldRepair;

fn forced(unwell: &[(&str, &str, &str)], well: usize) -> World {
    let mut world = World::new(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
    world.memory.set_gates(Gates { legacy_repair: true, ..REPAIRING });
    for (name, condition, status) in unwell {
        world.machine(name, |_, node| {
            let one = json!({"type": condition, "status": status, "lastTransitionTime": at(0.0)});
            node["status"]["conditions"] = json!([one]);
        });
    }
    (0..well).for_each(|n| world.machine(&format!("well-{n}"), |_, _| ()));
    world
}

#[test]
fn legacy_repair_is_by_force_whatever_budgets_say() {
    let mut world = forced(&[("ill", "StorageReady", "False")], 4);
    world.pod("p", "ill", |_| ());
    assert_eq!(gone(&world.look(1799.0)), [""; 0]);
    let decision = world.look(1800.0);
    let cause = DisruptionCause::Unhealthy { condition: "StorageReady", grace: Some(SignedDuration::ZERO) };
    assert_eq!((gone(&decision), decision.removals[0].cause), (vec!["ill"], cause));
}

#[test]
fn legacy_repair_stops_where_over_a_fifth_of_a_pool_is_unwell() {
    let two = [("a", "Ready", "False"), ("b", "Ready", "Unknown")];
    let mut most = forced(&two, 8);
    let decision = most.look(1800.0);
    assert_eq!(gone(&decision), ["a", "b"]);
    let mut some = forced(&[("a", "Ready", "False"), ("b", "StorageReady", "False"), ("c", "Ready", "False")], 7);
    let decision = some.look(1800.0);
    assert_eq!((gone(&decision), decision.not_repaired.len()), (vec![], 3));
    let first = &decision.not_repaired[0];
    assert_eq!((first.unwell, first.why, first.news), ((3, 10), HeldRepair::TooMany, true));
    assert!(!some.look(1801.0).not_repaired[0].news);
    let mut one = forced(&[("a", "Ready", "False")], 0);
    assert_eq!(gone(&one.look(1800.0)), ["a"], "a fifth is rounded up");
}

#[test]
fn legacy_repair_leaves_a_shifted_zone_alone_as_well() {
    let mut world = forced(&[("ill", "StorageReady", "False")], 4);
    world.state.shift_zones(shifted("a"));
    assert_eq!(gone(&world.look(1800.0)), [""; 0]);
    world.state.shift_zones(ShiftedZones::default());
    assert_eq!(gone(&world.look(1801.0)), ["ill"]);
}
