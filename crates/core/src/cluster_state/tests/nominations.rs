//! Places at which pods are expected, and the end of the expectation.

use super::*;

#[test]
fn pods_planned_on_a_claim_are_not_pending_while_it_lives() {
    let mut state = ClusterState::new();
    for name in ["a", "b"] {
        state.apply_pod(&kube_pod(name, "", "1")).unwrap();
    }
    state.plan_claim(kube_claim("c", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    assert_eq!(pending(&state, 9999), ["b"]);
    state.apply_claim(Arc::new(kube_claim("c", Some("1"), "1")));
    assert_eq!(pending(&state, 9999), ["b"]);
    state.delete_claim("c", Some("1"));
    assert_eq!(pending(&state, 0), ["a", "b"]);
}

#[test]
fn pod_expected_on_ready_node_is_pending_when_time_is_over() {
    let mut state = ClusterState::new();
    state.apply_pod(&kube_pod("a", "", "1")).unwrap();
    state.apply_node(&kube_node("n", "p", json!({})));
    state.nominate(["uid-a"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    assert!(pending(&state, 19).is_empty());
    assert_eq!(pending(&state, 20), ["a"]);
    state.delete_node("n", Some("uid-n"));
    assert_eq!(pending(&state, 0), ["a"]);
}

#[test]
fn a_pod_that_takes_the_place_of_one_like_it_leaves_it_its_own() {
    let mut state = ClusterState::new();
    for (name, cpu) in [("a", "1"), ("b", "500m"), ("c", "1")] {
        state.apply_pod(&kube_pod(name, "", cpu)).unwrap();
    }
    state.apply_node(&kube_node("n", "p", json!({})));
    state.plan_claim(kube_claim("later", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("later".into()), Duration::from_secs(20));
    state.nominate(["uid-b", "uid-c"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    state.apply_pod(&kube_pod("a", "n", "1")).unwrap();
    let snapshot = state.snapshot();
    assert_eq!(snapshot.expected_on("uid-c", at(9999)), Some(&NominationTarget::Claim("later".into())));
    let awaited = |target: &NominationTarget, second| snapshot.is_awaited(target, at(second));
    assert!(
        awaited(&NominationTarget::Claim("later".into()), 9999) && !awaited(&NominationTarget::Claim("n".into()), 1)
    );
    assert!(
        awaited(&NominationTarget::Node("n".into()), 1) && !awaited(&NominationTarget::Node("n".into()), 9999),
        "its time is over"
    );
    assert_eq!(snapshot.expected_on("uid-b", at(1)), Some(&NominationTarget::Node("n".into())), "b is not like a");
    assert_eq!(snapshot.expected_on("uid-a", at(1)), None);
}

#[test]
fn a_planned_claim_is_full_with_the_pods_planned_on_it() {
    let mut state = ClusterState::new();
    state.apply_pod(&kube_pod("a", "", "1")).unwrap();
    state.plan_claim(kube_claim("c", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    let problem = state.snapshot().planning(&input(1)).problem;
    assert_eq!((problem.existing_nodes[0].used.get("cpu"), problem.existing_nodes[0].used.get("pods")), (1000, 1));
}

/// `a` is expected on a claim that comes later, `b` (1 CPU) and `c` (500m) on a node of two CPUs that is there.
fn expected() -> ClusterState {
    let mut state = ClusterState::new();
    for (name, cpu) in [("a", "1500m"), ("b", "1"), ("c", "500m")] {
        state.apply_pod(&kube_pod(name, "", cpu)).unwrap();
    }
    state.apply_node(&kube_node("n", "p", json!({})));
    state.plan_claim(kube_claim("later", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("later".into()), Duration::from_secs(20));
    state.nominate(["uid-b", "uid-c"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    state
}

#[test]
fn pod_no_longer_fitting_where_expected_is_pending_at_once() {
    for (comes, pods_without_a_place) in [
        ("500m", [].as_slice()),
        ("600m", &["c"]),
        ("1", &["c"]),
        ("1100m", &["b"]),
        ("1500m", &["b"]),
        ("1600m", &["b", "c"]),
    ] {
        let mut state = expected();
        state.apply_pod(&kube_pod("stranger", "n", comes)).unwrap();
        assert_eq!(pending(&state, 0), pods_without_a_place, "{comes}");
        assert_eq!(state.places_lost(), u64::from(!pods_without_a_place.is_empty()), "{comes}");
    }
}

#[test]
fn pod_going_elsewhere_than_planned_leaves_its_place_to_others() {
    let mut state = expected();
    state.apply_pod(&kube_pod("a", "n", "1500m")).unwrap();
    assert_eq!((pending(&state, 0), state.places_lost()), (vec!["b".into()], 1));
    let rooms = state.snapshot().planning(&input(0)).problem;
    let later = rooms.existing_nodes.iter().find(|node| node.name == "later").unwrap();
    assert_eq!(later.used.get("cpu"), 0, "nobody is expected there any more");
}

#[test]
fn nobody_is_crowded_out_of_a_node_that_is_not_ready_for_pods() {
    let mut state = ClusterState::new();
    state.apply_pod(&kube_pod("a", "", "2")).unwrap();
    let mut claim = launched_with(&kube_claim("c", Some("1"), "1"), "p");
    claim.status.as_mut().unwrap().node_name = "n".into();
    state.apply_claim(Arc::new(claim));
    state.apply_node(&kube_node("n", "p", json!({})));
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    state.apply_pod(&kube_pod("agent", "n", "100m")).unwrap();
    assert_eq!((pending(&state, 0).len(), state.places_lost()), (0, 0));
}

#[test]
fn leaving_pod_keeps_the_place_that_its_successor_finds() {
    let mut state = ClusterState::new();
    state.apply_node(&kube_node("old", "o", json!({})));
    state.apply_node(&kube_node("n", "p", json!({})));
    state.apply_pod(&kube_pod("moves", "old", "2")).unwrap();
    state.nominate(["uid-moves"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    let mut going = kube_pod("moves", "old", "2");
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(5).wall));
    state.apply_pod(&going).unwrap();
    state.apply_pod(&kube_pod("successor", "n", "2")).unwrap();
    assert_eq!(state.places_lost(), 0);
    assert!(state.snapshot().nominations.contains_key("uid-moves"));
}

/// A node `old` that leaves with pods on it, and a node `n` of two CPUs.
fn deleting(pods: &[(&str, &str)]) -> ClusterState {
    let mut state = ClusterState::new();
    let mut old = kube_node("old", "o", json!({}));
    old.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(5).wall));
    state.apply_node(&old);
    state.apply_node(&kube_node("n", "p", json!({})));
    for (name, cpu) in pods {
        state.apply_pod(&kube_pod(name, "old", cpu)).unwrap();
    }
    state
}

#[test]
fn place_taken_before_its_pod_left_is_made_anew() {
    let mut state = deleting(&[("moves", "1"), ("small", "500m")]);
    state.nominate(["uid-moves", "uid-small"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    assert!(pending(&state, 9999).is_empty(), "it is kept for as long as it takes");
    assert!(state.snapshot().place_is_ready("uid-moves", at(9999)));
    state.apply_pod(&kube_pod("stranger", "n", "500m")).unwrap();
    assert_eq!(state.places_lost(), 0, "there is room for all");
    state.apply_pod(&kube_pod("another", "n", "500m")).unwrap();
    let snapshot = state.snapshot();
    let ready = |uid| snapshot.place_is_ready(uid, at(6));
    assert_eq!((state.places_lost(), ready("uid-moves"), ready("uid-small")), (1, true, false));
    assert_eq!(pending(&state, 6), ["small"], "the smallest that is enough is packed anew");
}

#[test]
fn a_pod_that_waits_loses_its_place_before_one_that_still_runs() {
    let mut state = deleting(&[("moves", "1")]);
    state.apply_pod(&kube_pod("waits", "", "1")).unwrap();
    state.nominate(["uid-moves", "uid-waits"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    state.apply_pod(&kube_pod("stranger", "n", "1500m")).unwrap();
    assert_eq!(pending(&state, 6), ["moves", "waits"], "neither fits any more");
    let mut state = deleting(&[("moves", "1500m")]);
    state.apply_pod(&kube_pod("waits", "", "100m")).unwrap();
    state.nominate(["uid-moves", "uid-waits"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    state.apply_pod(&kube_pod("stranger", "n", "450m")).unwrap();
    assert_eq!(pending(&state, 6), ["moves"], "the one that waits is bound before the other has gone");
}

#[test]
fn protected_pod_gets_its_place_just_before_it_has_to_go() {
    let on_claim = |end: &str, version: &str| {
        let mut claim = launched_with(&kube_claim("c", Some("1"), version), "o");
        claim.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(5).wall));
        claim.metadata.annotations =
            Some([("karpenter.sh/nodeclaim-termination-timestamp".to_owned(), end.to_owned())].into());
        Arc::new(claim)
    };
    let mut protected = kube_pod("moves", "old", "1");
    protected.metadata.annotations = Some([("karpenter.sh/do-not-disrupt".to_owned(), "true".to_owned())].into());
    let mut state = deleting(&[]);
    state.apply_pod(&protected).unwrap();
    assert!(pending(&state, 99_999).is_empty(), "nothing ends its protection");
    state.apply_claim(on_claim("1970-01-01T02:00:00Z", "2"));
    // Two hours less its 30 s, and ten minutes before that.
    let first = 7200 - 30 - 600;
    assert!(pending(&state, first - 1).is_empty());
    assert_eq!(pending(&state, first), ["moves"]);
    state.apply_claim(on_claim("1970-01-01T00:10:00Z", "3"));
    assert_eq!(pending(&state, 0), ["moves"], "its end was brought forward");
    state.nominate(["uid-moves"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    assert!(state.snapshot().place_is_ready("uid-moves", at(500)), "and is kept until it goes");
}

#[test]
fn pod_whose_pdb_asks_for_all_is_unplanned_on_endless_node() {
    let budget = |healthy: i32| {
        serde_json::from_value(json!({
            "metadata": {"name": "all", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"expectedPods": 1, "desiredHealthy": healthy, "currentHealthy": 1, "disruptionsAllowed": 0},
        }))
        .unwrap()
    };
    let mut state = deleting(&[]);
    let mut pod = kube_pod("moves", "old", "1");
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    let ready = serde_json::from_value(json!({"type": "Ready", "status": "True"})).unwrap();
    pod.status.as_mut().unwrap().conditions.as_mut().unwrap().push(ready);
    state.apply_pod(&pod).unwrap();
    state.apply_budget(budget(1));
    assert!(pending(&state, 6).is_empty());
    state.apply_budget(budget(0));
    assert_eq!(pending(&state, 6), ["moves"], "it may be allowed to go at any time");
}

#[test]
fn pod_bound_before_its_claim_has_node_takes_place_of_its_like() {
    let mut state = ClusterState::new();
    for name in ["a", "b"] {
        state.apply_pod(&kube_pod(name, "", "1")).unwrap();
    }
    state.apply_claim(Arc::new(launched_with(&kube_claim("c", Some("1"), "1"), "p")));
    state.apply_node(&kube_node("n", "p", json!({})));
    state.plan_claim(kube_claim("later", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("later".into()), Duration::from_secs(20));
    state.nominate(["uid-b"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    // With its node it gets the labels of that.
    let mut bound = kube_pod("a", "n", "1");
    bound.metadata.labels.get_or_insert_default().insert("topology.kubernetes.io/zone".into(), "a".into());
    state.apply_pod(&bound).unwrap();
    assert_eq!(state.snapshot().expected_on("uid-b", at(0)), Some(&NominationTarget::Claim("later".into())));
}

#[test]
fn pod_whose_room_was_taken_while_planned_is_pending_at_once() {
    let mut state = ClusterState::new();
    state.apply_node(&kube_node("n", "p", json!({})));
    for name in ["a", "b"] {
        state.apply_pod(&kube_pod(name, "", "1")).unwrap();
    }
    state.apply_pod(&kube_pod("stranger", "n", "1")).unwrap();
    state.nominate(["uid-a", "uid-b"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    assert_eq!((pending(&state, 0).len(), state.places_lost()), (1, 1));
}

#[test]
fn pod_whose_room_went_before_claim_was_ready_is_pending_then() {
    let mut state = ClusterState::new();
    state.apply_pod(&kube_pod("a", "", "2")).unwrap();
    let mut claim = launched_with(&kube_claim("c", Some("1"), "1"), "p");
    claim.status.as_mut().unwrap().node_name = "n".into();
    state.apply_claim(Arc::new(claim.clone()));
    state.apply_node(&kube_node("n", "p", json!({})));
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    state.apply_pod(&kube_pod("stranger", "n", "1")).unwrap();
    assert_eq!((pending(&state, 0).len(), state.places_lost()), (0, 0));
    claim.metadata.resource_version = Some("2".into());
    let yes = |type_: &str| {
        serde_json::from_value(json!({"type": type_, "status": "True", "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}))
        .unwrap()
    };
    claim.status.as_mut().unwrap().conditions = ["Launched", "Registered", "Initialized"].map(yes).into();
    state.apply_claim(Arc::new(claim));
    state.expect_until("c", Duration::from_secs(20));
    assert_eq!((pending(&state, 0).len(), state.places_lost()), (1, 1));
}

/// On a node that goes, expected on `n`; the node labels its pods, as Kubernetes 1.35 does.
fn moving(name: &str, going: bool) -> k8s_openapi::api::core::v1::Pod {
    let mut pod = kube_pod(name, "old", "2");
    pod.metadata.labels.get_or_insert_default().insert("topology.kubernetes.io/zone".into(), "a".into());
    if going {
        pod.metadata.resource_version = Some("6".into());
        pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    }
    pod
}

fn two_nodes() -> ClusterState {
    let mut state = ClusterState::new();
    state.apply_node(&kube_node("old", "o", json!({})));
    state.apply_node(&kube_node("n", "p", json!({})));
    state.apply_pod(&moving("moves", false)).unwrap();
    state
}

#[test]
fn successor_is_known_though_predecessor_has_node_labels() {
    let mut state = two_nodes();
    state.nominate(["uid-moves"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    state.apply_pod(&moving("moves", true)).unwrap();
    state.apply_pod(&kube_pod("successor", "", "2")).unwrap();
    assert!(pending(&state, 0).is_empty());
    assert_eq!(state.snapshot().expected_on("uid-successor", at(0)), Some(&NominationTarget::Node("n".into())));
}

#[test]
fn successor_coming_while_predecessor_is_planned_has_its_place() {
    let mut state = two_nodes();
    state.apply_pod(&moving("moves", true)).unwrap();
    state.apply_pod(&kube_pod("successor", "", "2")).unwrap();
    assert_eq!(pending(&state, 0), ["successor"]);
    state.nominate(["uid-moves"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    assert!(pending(&state, 0).is_empty());
    assert!(!state.snapshot().nominations.contains_key("uid-moves"));
}

#[test]
fn pod_going_while_planned_leaves_place_to_later_successor() {
    let mut state = two_nodes();
    state.apply_pod(&moving("moves", true)).unwrap();
    state.nominate(["uid-moves"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    state.apply_pod(&kube_pod("successor", "", "2")).unwrap();
    assert!(pending(&state, 0).is_empty());
}

#[test]
fn object_listed_as_gone_expects_no_pod_and_stays_when_back() {
    let mut state = ClusterState::new();
    for name in ["a", "b"] {
        state.apply_pod(&kube_pod(name, "", "1")).unwrap();
    }
    let claim = || Arc::new(kube_claim("c", Some("1"), "1"));
    let node = kube_node("n", "p", json!({}));
    state.apply_claim(claim());
    state.apply_node(&node);
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    state.nominate(["uid-b"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    state.mark_deleting(["c"], true);
    for kind in [WatchedKind::NodeClaim, WatchedKind::Node] {
        state.list_begins(kind);
        state.list_ends(kind);
    }
    assert!(state.snapshot().nominations.is_empty());
    state.apply_claim(claim());
    state.apply_node(&node);
    assert_eq!(pending(&state, 0), ["a", "b"]);
    assert!(state.snapshot().deleting.is_empty());
}

#[test]
fn pod_gone_while_planned_for_is_expected_nowhere() {
    let mut state = ClusterState::new();
    state.plan_claim(kube_claim("c", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    assert!(!state.snapshot().is_awaited(&NominationTarget::Claim("c".into()), at(0)));
}

#[test]
fn restart_hands_the_place_of_the_going_pod_to_its_successor() {
    let mut state = ClusterState::new();
    let pod = |name: &str, node: &str, hash: &str| {
        let mut pod = kube_pod(name, node, "1");
        pod.metadata.labels =
            Some([("app", "web"), ("pod-template-hash", hash)].map(|(a, b)| (a.to_owned(), b.to_owned())).into());
        pod
    };
    let mut old = kube_node("old", "o", json!({}));
    old.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    state.apply_node(&old);
    state.apply_node(&kube_node("n", "p", json!({})));
    state.apply_pod(&pod("before", "old", "1")).unwrap();
    state.nominate(["uid-before"], &NominationTarget::Node("n".into()), Duration::from_secs(20));
    let must_move = |state: &ClusterState| {
        let snapshot = state.snapshot();
        snapshot.must_move(&snapshot.pods["uid-before"], at(1).wall)
    };
    let target = NominationTarget::Node("n".into());
    assert!(must_move(&state));
    state.roll(["uid-before", "uid-nobody"], true);
    assert!(!must_move(&state));
    assert_eq!(state.snapshot().expected_on("uid-before", at(1)), Some(&target), "its place is kept");
    state.apply_pod(&pod("after", "", "2")).unwrap();
    let snapshot = state.snapshot();
    assert_eq!(
        (snapshot.expected_on("uid-before", at(1)), snapshot.expected_on("uid-after", at(1))),
        (None, Some(&target))
    );
    state.roll(["uid-before"], false);
    assert!(must_move(&state), "it is not restarted after all");
}

#[test]
fn claims_are_found_by_their_machine_whatever_becomes_of_them() {
    let mut state = ClusterState::new();
    let on = |state: &ClusterState| {
        assert!(state.holds_machines(), "{:?}", state.now.machines);
        state.targets_on("n").collect::<Vec<_>>()
    };
    let (claim, node) = (|name: &str| NominationTarget::Claim(name.into()), NominationTarget::Node("n".into()));
    let launched = |name: &str, uid: &str, version: &str, machine: &str| {
        Arc::new(launched_with(&kube_claim(name, Some(uid), version), machine))
    };
    state.plan_claim(kube_claim("b", None, "0"), Resources::new());
    state.apply_claim(launched("b", "1", "1", "p"));
    assert_eq!(on(&state), std::slice::from_ref(&node), "a Node that is not there has no machine");
    state.apply_node(&kube_node("n", "p", json!({})));
    state.apply_claim(launched("a", "2", "2", "p"));
    assert_eq!(on(&state), [claim("a"), claim("b"), node.clone()]);
    state.apply_claim(launched("b", "1", "3", "q"));
    state.apply_claim(launched("a", "2", "4", "p"));
    assert_eq!(on(&state), [claim("a"), node.clone()]);
    state.plan_claim(kube_claim("a", None, "0"), Resources::new());
    state.forget_plans();
    state.delete_claim("b", Some("1"));
    assert_eq!((on(&state), state.now.machines.len()), (vec![node], 1), "the Node names it yet");
    state.delete_node("n", None);
    assert!(state.holds_machines() && state.now.machines.len() == 0);
}
