//! Nodes of pools with a TTL.

use super::*;

#[test]
fn empty_node_goes_thirty_seconds_after_last_pod_occupied_stays() {
    let mut world = World::with_ttl().machines(&["a", "b"]);
    world.pod("one", "a", |_| ());
    world.pod("two", "b", |_| ());
    assert_eq!(world.look(1.0).ttl, []);
    world.at(100.0).gone("one");
    let decision = world.look(100.1);
    assert_eq!(decision.ttl.len(), 1);
    assert_eq!((decision.ttl[0].node.as_str(), decision.ttl[0].news), ("a", true));
    let decision = world.look(130.0);
    assert_eq!((gone(&decision), decision.again), (vec![], Some(at(130.1))));
    let decision = world.look(130.1);
    assert_eq!((gone(&decision), decision.removals[0].cause), (vec!["a"], DisruptionCause::Ttl(30)));
    assert_eq!(gone(&world.look(131.0)), Vec::<&str>::new(), "it is asked for once");
}

#[test]
fn all_empty_nodes_go_together_whatever_the_budgets_say() {
    let names: Vec<String> = (0..40).map(|n| format!("n{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::with_ttl().machines(&names);
    let mut pool = world.pool.clone();
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}]);
    world.apply_pool(pool);
    world.look(10.0);
    assert_eq!(gone(&world.look(40.0)), names);
}

#[test]
fn a_pod_that_comes_takes_the_ttl_away_and_it_counts_anew() {
    let mut world = World::with_ttl().machines(&["a"]);
    world.look(10.0);
    world.at(20.0).pod("one", "a", |_| ());
    let decision = world.look(20.1);
    assert_eq!((decision.ttl[0].since, decision.ttl[0].news), (None, true));
    world.at(30.0).gone("one");
    world.look(30.1);
    assert_eq!(gone(&world.look(60.0)), Vec::<&str>::new());
    assert_eq!(gone(&world.look(60.1)), ["a"]);
}

#[test]
fn a_pod_that_is_expected_takes_the_ttl_away() {
    let mut world = World::with_ttl().machines(&["a"]);
    world.look(10.0);
    world.pod("one", "", |_| ());
    world.state.nominate(["uid-one"], &NominationTarget::Node("a".into()), Duration::from_secs(45));
    assert_eq!(world.look(15.0).ttl[0].since, None);
    assert_eq!(gone(&world.look(44.0)), Vec::<&str>::new());
    assert_eq!(world.look(46.0).ttl[0].since, Some(at(46.0)), "it never came");
    assert_eq!(gone(&world.look(76.0)), ["a"]);
}

#[test]
fn daemons_and_mirror_pods_keep_no_node_but_an_ending_pod_does() {
    let mut world = World::with_ttl().machines(&["a", "b"]);
    world.daemon("d", "a", |_| ());
    world.pod("m", "a", |pod| {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "x"}]);
    });
    world.pod("ending", "b", |pod| pod["metadata"]["deletionTimestamp"] = json!(at(0.0)));
    world.look(10.0);
    assert_eq!(gone(&world.look(40.0)), ["a"]);
}

#[test]
fn a_successor_goes_on_counting() {
    let mut world = World::with_ttl().machines(&["a"]);
    world.look(10.0);
    world.memory = Memory::new();
    let decision = world.look(35.0);
    assert_eq!((decision.ttl, decision.again), (vec![], Some(at(40.0))));
    assert_eq!(gone(&world.look(40.0)), ["a"]);
}

#[test]
fn successor_disbelieves_a_mark_older_than_the_last_pod() {
    let mut world = World::with_ttl().machines(&["a"]);
    world.look(10.0);
    // Nobody leads: a pod comes and goes, which this replica's own watch has seen.
    world.at(15.0).pod("one", "a", |_| ());
    world.at(20.0).gone("one");
    world.memory = Memory::new();
    assert_eq!(world.look(25.0).ttl[0].since, Some(at(20.0)));
    assert_eq!(gone(&world.look(49.9)), Vec::<&str>::new());
    assert_eq!(gone(&world.look(50.0)), ["a"]);
}

#[test]
fn a_mark_from_the_future_is_not_believed() {
    let mut world = World::with_ttl();
    world.machine("a", |_, node| {
        node["metadata"]["annotations"]["karpenter.sh/emptiness-timestamp"] = json!(at(9999.0));
    });
    assert_eq!(world.look(10.0).ttl[0].since, Some(at(10.0)));
}

#[test]
fn a_node_counts_from_when_it_is_initialized() {
    let mut world = World::with_ttl();
    let booting = |claim: &mut Value, _: &mut Value| claim["status"]["conditions"][0]["status"] = json!("Unknown");
    world.machine("a", booting);
    assert_eq!(world.look(10.0).ttl, []);
    world.machine("a", |_, _| ());
    assert_eq!(world.look(50.0).ttl[0].since, Some(at(50.0)));
}

#[test]
fn failed_write_does_not_stop_the_clock_and_is_said_once() {
    let mut world = World::with_ttl().machines(&["a"]);
    assert!(world.look_only(10.0).ttl[0].news);
    let again = world.look_only(20.0);
    assert_eq!((again.ttl[0].since, again.ttl[0].news), (Some(at(10.0)), false));
    assert_eq!(gone(&world.look_only(40.0)), ["a"]);
}

#[test]
fn what_is_held_stays_and_says_by_what() {
    let mut world = World::with_ttl().machines(&["b"]);
    world.machine("a", |_, node| node["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true"));
    world.daemon("d", "b", |pod| {
        pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("60s");
        pod["status"]["startTime"] = json!(at(0.0));
    });
    world.look_only(10.0);
    let decision = world.look_only(40.0);
    assert_eq!(gone(&decision), Vec::<&str>::new());
    let why: Vec<_> = decision.blocked.iter().map(|one| (one.node.as_str(), one.why.as_str(), one.news)).collect();
    let annotation = "karpenter.sh/do-not-disrupt";
    let expected = [
        ("a", format!("the node has the annotation {annotation}")),
        ("b", format!("pod default/d has the annotation {annotation}")),
    ];
    assert_eq!(why, expected.each_ref().map(|(node, why)| (*node, why.as_str(), true)));
    assert_eq!(decision.again, Some(at(61.0)), "its start is dated in whole seconds");
    assert!(!world.look_only(50.0).blocked[0].news, "said once");
    assert_eq!(gone(&world.look_only(61.0)), ["b"]);
}

#[test]
fn former_annotation_names_hold_as_well_and_are_named() {
    let mut world = World::with_ttl().machines(&["b"]);
    world.machine("a", |_, node| node["metadata"]["annotations"]["karpenter.sh/do-not-consolidate"] = json!("true"));
    world.daemon("d", "b", |pod| pod["metadata"]["annotations"]["karpenter.sh/do-not-evict"] = json!("true"));
    world.machine("c", |_, node| {
        node["metadata"]["annotations"]["karpenter.sh/do-not-consolidate"] = json!("true");
        node["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("false");
    });
    world.look_only(10.0);
    let decision = world.look_only(40.0);
    assert_eq!(gone(&decision), ["c"], "the name of today goes first");
    let why: Vec<_> = decision.blocked.iter().map(|one| one.why.as_str()).collect();
    let told = [
        "the node has the annotation karpenter.sh/do-not-consolidate",
        "pod default/d has the annotation karpenter.sh/do-not-evict",
    ];
    assert_eq!(why, told);
}

#[test]
fn observed_pool_only_says_once_what_would_have_been_done() {
    let mut world = World::with_ttl().machines(&["a"]);
    world.annotate("dovetail.dev/disruption", "observe");
    world.look(10.0);
    let decision = world.look(40.0);
    assert_eq!((gone(&decision), decision.observed.len()), (vec![], 1));
    assert_eq!(decision.observed[0].claims[0].node, "a");
    assert_eq!(world.look(41.0).observed, []);
    world.annotate("dovetail.dev/disruption", "");
    assert_eq!(gone(&world.look(42.0)), ["a"]);
}

#[test]
fn a_removal_that_does_not_begin_is_asked_for_again() {
    let mut world = World::with_ttl().machines(&["a"]);
    world.look(0.0);
    assert_eq!(gone(&world.look(30.0)), ["a"]);
    assert_eq!(gone(&world.look(89.0)), Vec::<&str>::new());
    assert_eq!(gone(&world.look(90.0)), ["a"]);
}
