//! Empty nodes within budgets.

use super::*;
use crate::expendable::ExpendableCutoff;

fn nodes(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n:02}")).collect()
}

fn world(disruption: Value, count: usize) -> World {
    let names = nodes(count);
    World::new(disruption).machines(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn delete(world: &mut World, name: &str) {
    world.machine(name, |claim, node| {
        claim["metadata"]["deletionTimestamp"] = json!(at(0.0));
        node["metadata"]["deletionTimestamp"] = json!(at(0.0));
    });
}

#[test]
fn a_tenth_goes_at_a_time_and_the_next_when_it_is_gone() {
    let mut world = world(json!({}), 11);
    let decision = world.look(0.0);
    assert_eq!((gone(&decision), decision.again), (vec![], Some(at(10.0))), "initialized just now");
    assert_eq!(gone(&world.look(9.9)), Vec::<&str>::new());
    assert_eq!(gone(&world.look(10.0)), ["n00", "n01"], "a tenth of eleven, rounded up");
    assert_eq!(gone(&world.look(31.0)), Vec::<&str>::new());
    ["n00", "n01"].iter().for_each(|name| delete(&mut world, name));
    assert_eq!(gone(&world.look(40.0)), Vec::<&str>::new(), "they are on their way");
    for name in ["n00", "n01"] {
        world.state.delete_node(name, None);
        world.state.delete_claim(&format!("claim-{name}"), None);
    }
    world.look(50.0);
    assert_eq!(gone(&world.look(65.0)), ["n02"], "a tenth of nine");
}

#[test]
fn a_budget_of_none_blocks_and_says_so_once() {
    let mut world = world(json!({"budgets": [{"nodes": "0"}]}), 3);
    let decision = world.look(0.0);
    assert_eq!((decision.exhausted[0].nodes, decision.exhausted[0].news), (3, true));
    let decision = world.look(20.0);
    assert_eq!((gone(&decision), decision.exhausted[0].news), (vec![], false));
}

#[test]
fn a_budget_that_makes_no_sense_blocks_and_is_named() {
    let mut world = world(json!({"budgets": [{"nodes": "lots"}]}), 3);
    let decision = world.look(0.0);
    assert_eq!(decision.mistakes.len(), 1);
    assert!(decision.mistakes[0].1.contains("budgets[0]") && decision.mistakes[0].1.contains("lots"));
    assert!(world.look(20.0).removals.is_empty() && world.look(21.0).mistakes.is_empty());
}

#[test]
fn nodes_that_are_not_ready_use_the_budget_up() {
    let mut world = world(json!({"budgets": [{"nodes": "2"}]}), 3);
    world.pod("one", "n00", |_| ());
    world.machine("n00", |_, node| node["status"]["conditions"][0]["status"] = json!("False"));
    world.look(15.0);
    assert_eq!(gone(&world.look(30.0)), ["n01"]);
}

#[test]
fn the_dearest_go_first() {
    let mut world = world(json!({"budgets": [{"nodes": "1"}]}), 2);
    world.machine("n01", |_, node| node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("b"));
    world.look(0.0);
    assert_eq!(gone(&world.look(15.0)), ["n01"]);
}

#[test]
fn pod_coming_during_validation_saves_its_node_and_no_other() {
    let mut world = world(json!({"budgets": []}), 3);
    world.look(0.0);
    world.at(3.0).pod("one", "n01", |_| ());
    world.pod("two", "", |_| ());
    world.state.nominate(["uid-two"], &NominationTarget::Node("n02".into()), Duration::from_secs(30));
    world.look(3.0);
    assert_eq!(gone(&world.look(10.0)), ["n00"]);
}

#[test]
fn a_node_goes_ten_seconds_after_its_last_pod_at_the_earliest() {
    let mut world = world(json!({"consolidateAfter": "0s"}), 1);
    world.at(30.0).pod("one", "n00", |_| ());
    world.at(50.0).gone("one");
    assert_eq!(world.look(50.0).again, Some(at(60.0)));
    assert_eq!(gone(&world.look(59.9)), Vec::<&str>::new());
    assert_eq!(gone(&world.look(60.0)), ["n00"]);
}

#[test]
fn long_empty_node_is_looked_at_for_five_seconds() {
    let mut world = world(json!({"consolidateAfter": "0s"}), 1);
    world.look(1000.0);
    assert_eq!(gone(&world.look(1004.9)), Vec::<&str>::new());
    assert_eq!(gone(&world.look(1005.0)), ["n00"]);
}

#[test]
fn nothing_goes_before_consolidate_after_the_last_pod_event() {
    let mut world = world(json!({"consolidateAfter": "60s"}), 1);
    world.at(30.0).pod("one", "n00", |_| ());
    world.at(50.0).gone("one");
    assert_eq!(world.look(50.0).again, Some(at(110.0)));
    let decision = world.look(110.0);
    assert_eq!(decision.again, Some(at(115.0)));
    assert_eq!(gone(&world.look(115.0)), ["n00"]);
}

#[test]
fn never_and_static_pools_are_left_alone() {
    let mut never = world(json!({"consolidateAfter": "Never"}), 1);
    assert_eq!(never.look(0.0), DisruptionDecision { again: None, ..DisruptionDecision::default() });
    let mut fixed = world(json!({}), 1);
    let mut pool = fixed.pool.clone();
    pool["spec"]["replicas"] = json!(1);
    fixed.apply_pool(pool);
    assert_eq!(fixed.look(9999.0).marks, []);
    assert_eq!(fixed.look(10_015.0).removals, []);
}

#[test]
fn a_pool_whose_instance_types_nobody_knows_is_left_alone() {
    let mut world = world(json!({}), 1);
    let now = |seconds| Moment { monotonic: Duration::ZERO, wall: at(seconds) };
    for seconds in [0.0, 15.0, 30.0] {
        let decision =
            decide_disruption(&world.state.snapshot(), &OffersByClass::new(), &mut world.memory, now(seconds));
        assert_eq!(decision.removals, []);
    }
}

#[test]
fn pods_nobody_misses_keep_no_node_unless_their_pdb_does() {
    let mut world = world(json!({"budgets": []}), 2);
    for node in ["n00", "n01"] {
        world.pod(&format!("cheap-{node}"), node, |pod| {
            pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = json!("-2147483647");
            pod["metadata"]["labels"]["app"] = json!(node);
        });
    }
    let pdb = |name: &str, app: &str, allowed: i32| {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": allowed,
                "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}))
        .unwrap()
    };
    world.state.apply_budget(pdb("web", "n01", 0));
    let decision = world.look(1.0);
    assert_eq!(decision.blocked[0].why, "pdb default/web prevents the eviction of pod default/cheap-n01");
    assert_eq!(gone(&world.look(16.0)), ["n00"]);
    world.state.apply_budget(pdb("web", "n01", 1));
    world.state.apply_budget(pdb("other", "n01", 1));
    let decision = world.look(17.0);
    let why = "pod default/cheap-n01 is covered by pdb default/other and pdb default/web";
    assert_eq!(decision.blocked[0].why, why);
}

#[test]
fn an_observed_pool_says_each_tenth_once_and_removes_nothing() {
    let mut world = world(json!({}), 3);
    world.annotate("dovetail.dev/disruption", "observe");
    let mut told = Vec::new();
    for step in 0..20 {
        let decision = world.look(f64::from(step) * 5.0);
        assert_eq!(decision.removals, []);
        told.push(decision.observed.iter().map(|removal| removal.claims.len()).sum::<usize>());
    }
    assert_eq!(told.iter().filter(|count| **count > 0).count(), 3, "{told:?}");
    assert_eq!(told.iter().sum::<usize>(), 3);
}

#[test]
fn a_misspelt_annotation_of_our_own_is_said() {
    let mut world = world(json!({}), 1);
    world.annotate("dovetail.dev/packing-policy", "cheapest");
    let told = world.look(0.0).mistakes[0].1.clone();
    assert!(told.contains("packing-policy") && told.contains("cheapest") && told.contains("fewest-nodes"), "{told}");
    world.annotate("dovetail.dev/paking-policy", "cost");
    let told = world.look(1.0).mistakes[0].1.clone();
    assert!(told.contains("dovetail.dev/paking-policy") && told.contains("no such annotation"), "{told}");
}

#[test]
fn unknown_word_in_annotation_stops_everything_and_is_said() {
    let mut world = world(json!({}), 1);
    world.annotate("dovetail.dev/disruption", "obsrve");
    assert!(world.look(0.0).mistakes[0].1.contains("obsrve"));
    assert!(world.look(15.0).removals.is_empty());
}

/// A pod of that priority on a node.
fn of_priority(world: &mut World, name: &str, node: &str, priority: i32) {
    world.pod(name, node, |pod| pod["spec"]["priority"] = json!(priority));
}

#[test]
fn node_with_expendable_pods_alone_counts_as_empty() {
    let fill = |cutoff: Option<i32>| {
        let mut world = world(json!({"budgets": [], "consolidateAfter": "30s"}), 3);
        world.state.set_expendable(cutoff.map(ExpendableCutoff::from_priority).unwrap_or_default());
        of_priority(&mut world, "below", "n00", -11);
        of_priority(&mut world, "at", "n01", -10);
        // They come and go as they please, and begin no node's rest anew.
        of_priority(world.at(25.0), "late", "n02", -11);
        world.at(28.0).gone("late");
        world.look(31.0);
        let first = gone(&world.look(36.0)).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        (first, world)
    };
    let (first, world) = fill(Some(-10));
    assert_eq!(first, ["n00", "n02"]);
    let snapshot = world.state.snapshot();
    assert!(snapshot.displaced("n00", at(0.0)).is_empty(), "no place is made for its pods");
    assert_eq!(fill(None).0, [""; 0], "unset, every pod counts");
}

#[test]
fn node_where_kube_scheduler_makes_room_is_kept() {
    let mut world = world(json!({"budgets": []}), 2);
    world.state.set_expendable(ExpendableCutoff::from_priority(-10));
    for (name, node, priority) in [("web", "n00", 0), ("filler", "n01", -11)] {
        world.pod(name, "", |pod| {
            pod["spec"]["priority"] = json!(priority);
            pod["status"] = json!({"phase": "Pending", "nominatedNodeName": node, "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
        });
    }
    of_priority(&mut world, "below", "n00", -11);
    world.look(15.0);
    assert_eq!(gone(&world.look(30.0)), ["n01"], "a nominated pod that is expendable itself keeps none");
}
