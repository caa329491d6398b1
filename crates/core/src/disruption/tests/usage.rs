//! Usage of pools' nodes.

use super::*;

#[test]
fn usage_of_pool_counts_staying_nodes_and_names_five_resources() {
    let mut world = World::new(json!({})).machines(&["a", "b"]);
    world.machine("c", |claim, _| claim["metadata"]["deletionTimestamp"] = json!(at(0.0)));
    let usage = &crate::disruption::usage(&world.state.snapshot())["default"];
    assert_eq!(usage.resources.to_string(), "cpu: 4, ephemeral-storage: 0, memory: 16Gi, nodes: 2, pods: 58");
    assert_eq!(usage.nodes(), 2);
    let pool = NodePool::clone(&world.state.snapshot().pools["default"]);
    assert!(!usage.is_said_by(&pool));
}

#[test]
fn unjoined_machine_counts_with_what_the_cloud_promised() {
    let mut world = World::new(json!({}));
    world.machine("a", |claim, node| {
        claim["status"]["conditions"] = json!([]);
        node["spec"]["providerID"] = json!("other");
    });
    assert_eq!(crate::disruption::usage(&world.state.snapshot())["default"].resources.get("cpu"), 2000);
}

#[test]
fn node_that_copies_a_provider_id_takes_no_part_in_usage() {
    let mut world = World::new(json!({})).machines(&["a"]);
    // It comes after the own one by name, is larger and goes.
    let copy = json!({
        "metadata": {"name": "z", "uid": "uid-z", "deletionTimestamp": at(0.0)},
        "spec": {"providerID": "aws:///a/a"}, "status": {"capacity": {"cpu": "64"}},
    });
    world.state.apply_node(&serde_json::from_value::<Node>(copy).unwrap());
    let usage = &crate::disruption::usage(&world.state.snapshot())["default"];
    assert_eq!((usage.nodes(), usage.resources.get("cpu")), (1, 2000));
}

#[test]
fn unready_nodes_use_all_budgets_but_that_of_repair() {
    let mut world = World::new(json!({})).machines(&["a"]);
    world.machine("goes", |claim, _| claim["metadata"]["deletionTimestamp"] = json!(at(0.0)));
    world.machine("unready", |_, node| node["status"]["conditions"] = json!([]));
    world.machine("reboots", |claim, _| {
        let reboots = json!({"type": "Rebooting", "status": "True", "reason": "RebootRequested", "message": "",
            "lastTransitionTime": at(0.0)});
        claim["status"]["conditions"] = json!([reboots]);
    });
    let snapshot = world.state.snapshot();
    let now = Moment { monotonic: Duration::ZERO, wall: at(1.0) };
    let used = crate::disruption::nodes_using_budgets(&snapshot, now);
    let of = |reason| used["default"].iter().find(|(one, _)| *one == reason).map(|(_, nodes)| *nodes);
    for reason in [RemovalReason::Empty, RemovalReason::Drifted, RemovalReason::Underutilized] {
        assert_eq!(of(reason), Some(3), "{reason:?}");
    }
    assert_eq!(of(RemovalReason::Unhealthy), Some(2));
}
