//! Pools whose launches are refused, and nodes that kube-scheduler refuses.

use super::*;
use crate::cluster_state::ClosedPool;

const NODE: &str = "n";

/// A pod that waits, in kube-scheduler's words.
fn waiting(name: &str, words: &str) -> KubePod {
    let mut pod = kube_pod(name, "", "1");
    let conditions = pod.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions[0].message = Some(words.to_owned());
    pod
}

fn with_pods(names: &[&str]) -> ClusterState {
    let mut state = ClusterState::new();
    state.apply_node(&kube_node(NODE, "p", json!({})));
    for name in names {
        state.apply_pod(&waiting(name, "Insufficient luck")).unwrap();
    }
    state
}

/// These are nominated to the node, kube-scheduler says something, and twenty seconds later they still wait. The end.
fn nominate_in_vain(state: &mut ClusterState, uids: &[&str], second: u64) -> u64 {
    state.nominate(uids.iter().copied(), &NominationTarget::Node(NODE.into()), Duration::from_secs(second + 20));
    state.apply_pod(&waiting("other", &format!("said at {second}"))).unwrap();
    state.look_at_refused_places(at(second + 20));
    second + 20
}

/// The pods for which the node is out.
fn out(state: &ClusterState, second: u64) -> Vec<String> {
    let planning = state.snapshot().planning(&input(second));
    let of_node = planning.refused_places.iter().filter(|one| one.node == NODE);
    let mut pods: Vec<_> = of_node.map(|one| one.pod.clone()).collect();
    let written = planning.problem.pods.iter().filter(|pod| pod.refused_nodes.contains(NODE));
    let mut written: Vec<_> = written.map(|pod| pod.uid.clone()).collect();
    pods.sort();
    written.sort();
    assert_eq!(pods, written);
    pods
}

#[test]
fn node_kube_scheduler_refuses_twice_is_out_for_ten_minutes() {
    let mut state = with_pods(&["a"]);
    let first = nominate_in_vain(&mut state, &["uid-a"], 0);
    assert!(out(&state, first).is_empty(), "once may be a coincidence");
    let second = nominate_in_vain(&mut state, &["uid-a"], first);
    assert_eq!(out(&state, second), ["uid-a", "uid-other"], "and for pods like it");
    assert_eq!(out(&state, second + 599).len(), 2);
    assert!(out(&state, second + 600).is_empty());
    let planning = state.snapshot().planning(&input(second));
    let why = &planning.refused_places[0].why;
    assert!(why.contains("node n ") && why.contains("Insufficient luck") && why.contains("10m"), "{why}");
    let third = nominate_in_vain(&mut state, &["uid-a"], second + 600);
    let fourth = nominate_in_vain(&mut state, &["uid-a"], third);
    assert_eq!(out(&state, fourth + 1199).len(), 2);
    assert!(out(&state, fourth + 1200).is_empty());
}

#[test]
fn packing_places_a_pod_on_no_node_that_is_out_for_it() {
    let mut state = with_pods(&["a"]);
    let pack = |state: &ClusterState, second| {
        let problem = state.snapshot().planning(&input(second)).problem;
        crate::pack::solve(&problem, &crate::pack::Options::default()).on_existing
    };
    assert!(!pack(&state, 0).is_empty());
    let first = nominate_in_vain(&mut state, &["uid-a"], 0);
    let second = nominate_in_vain(&mut state, &["uid-a"], first);
    assert!(pack(&state, second).is_empty());
}

#[test]
fn many_pods_that_are_refused_at_once_are_one_refusal() {
    let mut state = with_pods(&["a", "b"]);
    let first = nominate_in_vain(&mut state, &["uid-a", "uid-b"], 0);
    assert!(out(&state, first).is_empty());
}

#[test]
fn a_kube_scheduler_that_says_nothing_may_not_have_looked() {
    let mut state = with_pods(&["a"]);
    for nth in 0..6 {
        let second = nth * 30;
        assert!(out(&state, second).is_empty(), "at {second} s");
        state.nominate(["uid-a"], &NominationTarget::Node(NODE.into()), Duration::from_secs(second + 20));
        state.look_at_refused_places(at(second + 20));
    }
    assert_eq!(out(&state, 200), ["uid-a"]);
}

#[test]
fn unmarked_pod_or_unready_node_is_no_kube_scheduler_refusal() {
    let mut state = with_pods(&[]);
    let mut unmarked = kube_pod("a", "", "1");
    unmarked.status.as_mut().unwrap().conditions = None;
    state.apply_pod(&unmarked).unwrap();
    let first = nominate_in_vain(&mut state, &["uid-a"], 0);
    nominate_in_vain(&mut state, &["uid-a"], first);
    assert_eq!(state.snapshot().refused_places, Default::default());
    let mut state = with_pods(&["a"]);
    let mut node = kube_node(NODE, "p", json!({}));
    node.status.as_mut().unwrap().conditions = None;
    node.metadata.resource_version = Some("6".into());
    state.apply_node(&node);
    nominate_in_vain(&mut state, &["uid-a"], 0);
    assert_eq!(state.snapshot().refused_places, Default::default());
}

/// Twelve nodes of which kube-scheduler has refused two, one after the other, for pods like `a`. The state, and the end.
fn refused_on_two_of_twelve() -> (ClusterState, u64) {
    let mut state = with_pods(&["a", "b"]);
    state.apply_pool(pool("default", true));
    for nth in 0..11 {
        let name = format!("n{nth}");
        state.apply_node(&kube_node(&name, &format!("p{nth}"), json!({})));
    }
    let mut second = 0;
    for node in ["n0", "n1"] {
        state.nominate(["uid-a"], &NominationTarget::Node(node.into()), Duration::from_secs(second + 20));
        state.apply_pod(&waiting("b", &format!("said at {second}"))).unwrap();
        second += 20;
        state.look_at_refused_places(at(second));
    }
    (state, second)
}

/// The nodes on which packing would place pods, and how many may have a new one.
fn would_go(state: &ClusterState, second: u64) -> (Vec<String>, usize) {
    let planning = state.snapshot().planning(&input(second));
    let packing = crate::pack::solve(&planning.problem, &crate::pack::Options::default());
    let there = packing.on_existing.iter().map(|(node, _)| planning.existing[*node].name.clone());
    (there.collect(), planning.problem.pods.len() - planning.held.len())
}

#[test]
fn two_refused_places_are_a_verdict_on_all_nodes_that_are_there() {
    let (mut state, second) = refused_on_two_of_twelve();
    assert_eq!(would_go(&state, second), (vec![], 1), "of two pods one tries a new node");
    let planning = state.snapshot().planning(&input(second));
    let why = planning.held.values().next().unwrap();
    assert!(
        why.starts_with("kube-scheduler has refused every node that is there for it") && why.contains("10m"),
        "{why}"
    );
    assert_eq!(would_go(&state, second + 600).1, 2, "then what is there is tried again");
    assert!(!would_go(&state, second + 600).0.is_empty());
    // Another workload's pods go where there is room.
    state.apply_pod(&kube_pod("other", "", "1500m")).unwrap();
    assert_eq!(would_go(&state, second).0.len(), 1);
}

#[test]
fn verdict_says_nothing_of_nodes_that_come_or_change_after_it() {
    let (mut state, second) = refused_on_two_of_twelve();
    state.apply_node(&kube_node("new", "new", json!({})));
    assert_eq!(would_go(&state, second).0, ["new"]);
    let mut labelled = kube_node("n5", "p5", json!({"a": "b"}));
    labelled.metadata.resource_version = Some("6".into());
    state.apply_node(&labelled);
    assert!(would_go(&state, second).0.contains(&"n5".to_owned()));
    let mut same = kube_node("n6", "p6", json!({}));
    same.metadata.resource_version = Some("6".into());
    state.apply_node(&same);
    assert!(!would_go(&state, second).0.contains(&"n6".to_owned()));
}

#[test]
fn pods_held_by_a_verdict_use_nodes_of_pools_that_come_after_it() {
    let (mut state, second) = refused_on_two_of_twelve();
    state.apply_node(&kube_node("new", "new", json!({"karpenter.sh/nodepool": "default"})));
    let planning = state.snapshot().planning(&input(second));
    assert_eq!(planning.held.len(), 1, "one of the two may have a node of its own");
    let packing = crate::pack::solve(&planning.problem, &crate::pack::Options::default());
    let placed: Vec<_> =
        packing.on_existing.iter().map(|(node, pods)| (planning.existing[*node].name.as_str(), pods.len())).collect();
    assert_eq!((placed, packing.unscheduled.len()), (vec![("new", 2)], 0));
}

#[test]
fn of_pods_with_a_verdict_the_oldest_alone_gets_a_new_node() {
    let (state, second) = refused_on_two_of_twelve();
    let mut input = input(second);
    let large: crate::InstanceType = serde_json::from_value(json!({
        "name": "m5.xlarge", "capacity": {"cpu": "4", "memory": "16Gi", "pods": "20"}, "requirements": [],
        "offerings": [{"zone": "a", "capacityType": "on-demand", "price": 0.2, "available": true}]}))
    .unwrap();
    input.instance_types = [("default".to_owned(), Arc::new(vec![Arc::new(large)]))].into();
    let planning = state.snapshot().planning(&input);
    let packing = crate::pack::solve(&planning.problem, &crate::pack::Options::default());
    let launched: Vec<_> = packing.claims.iter().map(|claim| claim.pods.len()).collect();
    assert_eq!((launched, packing.unscheduled.len()), (vec![1], 1));
    let why = packing.unscheduled[0].1.to_string();
    assert_eq!(why, "pool default: it makes no node for it until another pod like it runs on a new one");
}

#[test]
fn no_second_pod_tries_while_another_is_expected_on_a_new_node() {
    let (mut state, second) = refused_on_two_of_twelve();
    state.plan_claim(kube_claim("c", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), Duration::from_secs(second + 3600));
    state.apply_node(&kube_node("new", "new", json!({})));
    state.nominate(["uid-b"], &NominationTarget::Node("new".into()), Duration::from_secs(second + 20));
    state.apply_pod(&waiting("d", "Insufficient luck")).unwrap();
    assert_eq!(would_go(&state, second + 21).1, 0, "that of b is over, that of a is not");
}

#[test]
fn one_pod_tries_until_it_is_bound_on_a_new_node() {
    let (mut state, second) = refused_on_two_of_twelve();
    let until = Duration::from_secs(second + 3600);
    state.plan_claim(kube_claim("c", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), until);
    assert_eq!(would_go(&state, second), (vec![], 0), "nobody else while it tries");
    state.apply_node(&kube_node("new", "new", json!({})));
    state.apply_pod(&kube_pod("a", "new", "1")).unwrap();
    let snapshot = state.snapshot();
    let planning = snapshot.planning(&input(second));
    assert!(planning.held.is_empty() && planning.problem.pods[0].refused_as_of.is_some(), "new nodes will do");
    state.apply_pod(&kube_pod("c", "n3", "1")).unwrap();
    assert!(state.snapshot().planning(&input(second)).problem.pods[0].refused_as_of.is_none(), "an old one will do");
}

#[test]
fn close_refusals_or_pods_bound_in_between_are_no_verdict() {
    let mut state = with_pods(&["a", "b"]);
    for (uid, second) in [("uid-a", 0), ("uid-b", 5)] {
        state.nominate([uid], &NominationTarget::Node(NODE.into()), Duration::from_secs(second + 20));
    }
    state.apply_pod(&waiting("other", "said")).unwrap();
    state.look_at_refused_places(at(20));
    state.look_at_refused_places(at(25));
    assert!(state.snapshot().planning(&input(25)).held.is_empty(), "five seconds later is no second verdict");
    let mut state = with_pods(&["a"]);
    let first = nominate_in_vain(&mut state, &["uid-a"], 0);
    state.apply_pod(&kube_pod("c", "elsewhere", "1")).unwrap();
    let second = nominate_in_vain(&mut state, &["uid-a"], first);
    assert!(state.snapshot().planning(&input(second)).held.is_empty());
}

/// Refused twice; then something happens.
fn refused_then(happens: impl FnOnce(&mut ClusterState)) -> Vec<String> {
    let mut state = with_pods(&["a"]);
    let first = nominate_in_vain(&mut state, &["uid-a"], 0);
    let second = nominate_in_vain(&mut state, &["uid-a"], first);
    assert!(!out(&state, second).is_empty());
    happens(&mut state);
    state.look_at_refused_places(at(second + 1));
    out(&state, second + 1)
}

#[test]
fn refused_place_ends_with_pod_node_change_or_like_pod_bound() {
    assert!(refused_then(|state| state.delete_pod("uid-a")).is_empty());
    assert!(refused_then(|state| drop(state.apply_pod(&kube_pod("c", NODE, "1")))).is_empty());
    let version = |mut node: Node| {
        node.metadata.resource_version = Some("6".into());
        node
    };
    let labelled = version(kube_node(NODE, "p", json!({"a": "b"})));
    assert!(refused_then(|state| assert!(state.apply_node(&labelled))).is_empty());
    let same = version(kube_node(NODE, "p", json!({})));
    assert!(!refused_then(|state| assert!(state.apply_node(&same))).is_empty());
    assert!(refused_then(|state| state.delete_node(NODE, None)).is_empty());
}

#[test]
fn no_more_than_a_thousand_places_are_remembered() {
    let mut state = with_pods(&[]);
    let uids: Vec<String> = (0..1200).map(|nth| format!("uid-{nth}")).collect();
    for nth in 0..1200 {
        state.apply_pod(&kube_pod(&nth.to_string(), "", &format!("{nth}m"))).unwrap();
    }
    // Each is of a class of its own; the node has not room for all of them.
    for uid in &uids {
        state.nominate([uid.as_str()], &NominationTarget::Node(NODE.into()), Duration::from_secs(20));
        state.look_at_refused_places(at(20));
    }
    let snapshot = state.snapshot();
    assert!(snapshot.refused_places.len() <= 1000 && snapshot.refused_places.len() > 500);
}

#[test]
fn pool_with_refused_launches_is_left_out_until_time_or_change() {
    let mut state = with_pods(&["a"]);
    state.apply_pool(pool("default", true));
    let closed =
        |generation| ClosedPool { until: Duration::from_secs(60), generation, why: "the API server refuses".into() };
    let skipped = |state: &ClusterState, second| {
        let planning = state.snapshot().planning(&input(second));
        let refused = planning.skipped.iter().filter(|pool| pool.refused);
        (planning.pools.len(), refused.map(|pool| pool.why.clone()).collect::<Vec<_>>())
    };
    assert_eq!(skipped(&state, 0), (1, vec![]));
    state.close_pools([("default".to_owned(), closed(None))].into());
    assert_eq!(skipped(&state, 59), (0, vec!["the API server refuses".into()]));
    assert_eq!(skipped(&state, 60), (1, vec![]));
    state.close_pools([("default".to_owned(), closed(Some(1)))].into());
    assert_eq!(skipped(&state, 0), (1, vec![]), "another generation of it was refused");
    state.close_pools([("default".to_owned(), closed(None))].into());
    state.forget_plans();
    assert_eq!(skipped(&state, 0), (1, vec![]), "another term begins anew");
}

#[test]
fn pods_of_other_namespace_or_requests_are_planned_there() {
    let mut state = with_pods(&["a"]);
    let first = nominate_in_vain(&mut state, &["uid-a"], 0);
    let second = nominate_in_vain(&mut state, &["uid-a"], first);
    state.apply_pod(&kube_pod("larger", "", "1500m")).unwrap();
    let mut elsewhere = kube_pod("elsewhere", "", "1");
    elsewhere.metadata.namespace = Some("other".into());
    state.apply_pod(&elsewhere).unwrap();
    assert_eq!(out(&state, second), ["uid-a", "uid-other"]);
}

#[test]
fn of_a_message_without_end_a_thousand_characters_are_kept() {
    let mut state = ClusterState::new();
    state.apply_pod(&waiting("a", &"é".repeat(1_000_000))).unwrap();
    let words = state.snapshot().pods["uid-a"].words.clone().unwrap();
    assert_eq!(words.chars().count(), 1000);
}
