//! Nodes that are unwell for too long.

use super::*;
use crate::disruption::drift::Gates;

fn world(unwell: &[(&str, &str, &str)], well: usize) -> World {
    let mut world = World::new(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
    world.memory.set_gates(Gates { node_repair: true, reserved_capacity: true, ..Gates::default() });
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
fn unwell_node_goes_after_toleration_whatever_budgets_say() {
    for (condition, status, minutes) in [
        ("Ready", "False", 30.0),
        ("Ready", "Unknown", 30.0),
        ("AcceleratedHardwareReady", "False", 10.0),
        ("StorageReady", "False", 30.0),
        ("NetworkingReady", "False", 30.0),
        ("KernelReady", "False", 30.0),
        ("ContainerRuntimeReady", "False", 30.0),
    ] {
        let mut world = world(&[("ill", condition, status)], 4);
        world.pod("p", "ill", |_| ());
        let early = world.look(minutes * 60.0 - 1.0);
        assert_eq!((gone(&early), early.again), (vec![], Some(at(minutes * 60.0))), "{condition}");
        let decision = world.look(minutes * 60.0);
        assert_eq!((gone(&decision), decision.removals[0].cause), (vec!["ill"], DisruptionCause::Unhealthy(condition)));
    }
}

#[test]
fn without_the_gate_and_for_other_conditions_nothing_goes() {
    let mut gateless = world(&[("ill", "Ready", "False")], 4);
    gateless.memory.set_gates(Gates::default());
    assert_eq!(gone(&gateless.look(9000.0)), [""; 0]);
    let mut pressed = world(&[("ill", "MemoryPressure", "True"), ("odd", "StorageReady", "Unknown")], 8);
    assert_eq!(gone(&pressed.look(9000.0)), [""; 0]);
}

#[test]
fn no_node_is_repaired_where_over_a_fifth_of_a_pool_is_unwell() {
    let two = [("a", "Ready", "False"), ("b", "Ready", "Unknown")];
    let mut most = world(&two, 8);
    assert_eq!(gone(&most.look(1800.0)), ["a", "b"]);
    let mut some = world(&[("a", "Ready", "False"), ("b", "StorageReady", "False"), ("c", "Ready", "False")], 7);
    let decision = some.look(1800.0);
    assert_eq!((gone(&decision), decision.not_repaired.len()), (vec![], 3));
    assert_eq!((decision.not_repaired[0].unwell, decision.not_repaired[0].news), ((3, 10), true));
    assert!(!some.look(1801.0).not_repaired[0].news);
    let mut one = world(&[("a", "Ready", "False")], 0);
    assert_eq!(gone(&one.look(1800.0)), ["a"], "a fifth is rounded up");
}
