//! Marks on claims.

use super::*;

#[test]
fn quiet_claim_is_consolidatable_until_a_pod_comes() {
    let mut world = World::new(json!({"consolidateAfter": "30s", "budgets": [{"nodes": "0"}]})).machines(&["a"]);
    assert_eq!(world.look(30.9).marks, [], "it may have been initialized at 0.99 s");
    world.look(31.0);
    assert!(conditions(&world.claim("a")).contains(&"Consolidatable".to_owned()));
    world.at(40.0).pod("one", "a", |_| ());
    let decision = world.look(40.2);
    assert_eq!(decision.marks.len(), 1, "one write for both");
    assert!(!conditions(&world.claim("a")).contains(&"Consolidatable".to_owned()));
    assert_eq!(world.claim("a").status.unwrap().last_pod_event_time.unwrap().0, at(40.0));
    assert_eq!(world.look(41.0).marks, []);
}

#[test]
fn claim_with_pods_is_consolidatable_where_pool_moves_pods() {
    for (policy, moves) in [("WhenEmpty", false), ("WhenEmptyOrUnderutilized", true), ("Balanced", true)] {
        let disruption = json!({"consolidateAfter": "30s", "consolidationPolicy": policy, "budgets": [{"nodes": "0"}]});
        let mut world = World::new(disruption).machines(&["a", "b"]);
        world.at(0.0).pod("one", "a", |_| ());
        world.look(0.0);
        world.look(100.0);
        let consolidatable = |name: &str| conditions(&world.claim(name)).contains(&"Consolidatable".to_owned());
        assert_eq!((consolidatable("a"), consolidatable("b")), (moves, true), "{policy}");
    }
}

#[test]
fn what_is_removed_is_not_written_to_as_well() {
    let mut world = World::with_ttl().machines(&["a"]);
    world.at(0.0).pod("one", "a", |_| ());
    world.look(0.0);
    world.at(100.0).gone("one");
    world.look(100.0);
    let decision = world.look(130.0);
    assert_eq!((decision.removals.len(), decision.marks), (1, vec![]));
}

#[test]
fn pod_events_are_written_ten_seconds_apart_with_the_last_one() {
    let mut world = World::new(json!({"consolidateAfter": "Never"})).machines(&["a"]);
    let mut writes = 0;
    for n in 0..40 {
        let seconds = 100.0 + f64::from(n) / 4.0;
        world.at(seconds).pod(&format!("p{n}"), "a", |_| ());
        writes += world.look(seconds).marks.len();
    }
    assert_eq!(writes, 1);
    assert_eq!(world.look(110.0).marks.len(), 1);
    assert_eq!(world.claim("a").status.unwrap().last_pod_event_time.unwrap().0, at(109.0));
    assert_eq!(world.look(999.0).marks, []);
}

#[test]
fn daemons_are_no_pod_event_and_ending_and_ended_pods_are() {
    let mut world = World::new(json!({"consolidateAfter": "Never"})).machines(&["a"]);
    world.at(10.0).daemon("d", "a", |_| ());
    assert_eq!(world.look(10.0).marks, []);
    world.at(20.0).pod("one", "a", |_| ());
    world.look(20.0);
    world.at(40.0).pod("one", "a", |pod| pod["metadata"]["deletionTimestamp"] = json!(at(40.0)));
    assert_eq!(world.look(40.0).marks[0].last_pod_event, Some(at(40.0)));
    world.at(60.0).gone("one");
    assert_eq!(world.look(60.0).marks, [], "its end began at 40");
    world.at(80.0).pod("two", "a", |_| ());
    world.look(80.0);
    world.at(100.0).pod("two", "a", |pod| pod["status"]["phase"] = json!("Succeeded"));
    assert_eq!(world.look(100.0).marks[0].last_pod_event, Some(at(100.0)));
}

#[test]
fn a_mark_is_for_one_claim_and_not_for_another_of_its_name() {
    let mut world = World::new(json!({})).machines(&["a"]);
    let mark = world.look_only(0.0).marks[0].clone();
    let mut other = world.claim("a");
    other.metadata.uid = Some("another".into());
    assert_eq!(mark.on(&other, at(0.0)), other);
    let marked = mark.on(&world.claim("a"), at(0.0));
    assert_eq!(mark.on(&marked, at(5.0)), marked, "marking again changes nothing");
}

#[test]
fn leftovers_of_a_command_are_removed_unless_the_node_leaves() {
    let mut world = World::new(json!({"consolidateAfter": "Never"}));
    let tainted = |claim: &mut Value, node: &mut Value| {
        node["spec"]["taints"] = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
        claim["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "DisruptionReason", "status": "True",
            "reason": "Empty", "message": "", "lastTransitionTime": at(0.0)}));
    };
    world.machine("a", tainted);
    world.machine("b", tainted);
    world.state.mark_deleting(["claim-b"], true);
    let decision = world.look(0.0);
    assert_eq!(decision.untaint, [("a".to_owned(), "uid-node-a".to_owned())]);
    assert_eq!(decision.marks.len(), 1);
    assert!(!conditions(&world.claim("a")).contains(&"DisruptionReason".to_owned()));
}
