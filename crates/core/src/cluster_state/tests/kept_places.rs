//! Pods that are nominated to the node planned for them, and the end of the nomination.

use super::*;
use crate::daemons::DaemonShare;

fn nominated(mut pod: KubePod, node: &str) -> KubePod {
    pod.status.as_mut().unwrap().nominated_node_name = Some(node.into());
    pod
}

/// A claim that has been launched, with its node of two CPUs, `n`, that has not been let in.
fn joined() -> ClusterState {
    let mut state = ClusterState::new();
    let mut claim = launched_with(&kube_claim("c", Some("1"), "1"), "p");
    claim.status.as_mut().unwrap().node_name = "n".into();
    state.apply_claim(Arc::new(claim));
    state.apply_node(&kube_node("n", "p", json!({})));
    state
}

fn expect(state: &mut ClusterState, pods: &[(&str, &str)]) {
    for (name, cpu) in pods {
        state.apply_pod(&kube_pod(name, "", cpu)).unwrap();
        state.nominate([format!("uid-{name}").as_str()], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    }
}

fn kept(state: &ClusterState) -> Vec<String> {
    let places = state.snapshot().places_to_keep(&["c".to_owned()].into(), DaemonShare::default(), at(0));
    assert!(places.iter().all(|place| place.node.as_deref() == Some("n") && place.namespace == "default"));
    places.into_iter().map(|place| place.name).collect()
}

#[test]
fn pods_expected_on_a_node_have_places_kept_from_other_pods() {
    let mut state = joined();
    expect(&mut state, &[("small", "500m"), ("large", "1500m")]);
    assert!(kept(&state).is_empty(), "nobody else waits");
    state.apply_pod(&kube_pod("other", "", "250m")).unwrap();
    assert_eq!(kept(&state), ["large", "small"]);
    state.apply_pod(&nominated(kube_pod("large", "", "1500m"), "n")).unwrap();
    assert_eq!(kept(&state), ["small"], "the other has been nominated");
    assert!(state.snapshot().places_to_keep(&["unknown".to_owned()].into(), DaemonShare::default(), at(0)).is_empty());
}

#[test]
fn among_pods_that_are_all_alike_no_place_is_kept() {
    let mut state = joined();
    expect(&mut state, &[("a", "500m"), ("b", "500m")]);
    state.apply_pod(&kube_pod("c", "", "500m")).unwrap();
    assert!(kept(&state).is_empty());
    state.apply_pod(&kube_pod("d", "", "600m")).unwrap();
    assert_eq!(kept(&state), ["a", "b"]);
}

#[test]
fn pods_of_one_job_or_stateful_set_are_alike_whatever_the_name() {
    let mut state = joined();
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        let mut pod = kube_pod(name, "", "500m");
        let own = [("batch.kubernetes.io/job-completion-index".to_owned(), index.to_string())];
        pod.metadata.labels = Some(own.into());
        state.apply_pod(&pod).unwrap();
    }
    state.nominate(["uid-a", "uid-b"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    assert!(kept(&state).is_empty());
}

#[test]
fn nobody_is_nominated_to_a_node_that_is_going() {
    let mut state = joined();
    expect(&mut state, &[("large", "1500m")]);
    state.apply_pod(&kube_pod("other", "", "250m")).unwrap();
    assert_eq!(kept(&state), ["large"]);
    state.mark_deleting(["c"], true);
    assert!(kept(&state).is_empty());
}

#[test]
fn kept_places_are_only_as_many_as_the_node_has_left() {
    let mut state = joined();
    expect(&mut state, &[("a", "1"), ("b", "700m"), ("c", "300m")]);
    state.apply_pod(&kube_pod("other", "", "250m")).unwrap();
    assert_eq!(kept(&state), ["a", "b", "c"]);
    state.apply_pod(&kube_pod("there", "n", "100m")).unwrap();
    assert_eq!(kept(&state), ["a", "b"], "the third would keep all of them waiting");
    state.apply_pod(&kube_pod("there-too", "n", "2")).unwrap();
    assert!(kept(&state).is_empty());
}

#[test]
fn room_for_pods_of_daemon_sets_is_nobodys_kept_place() {
    let mut state = joined();
    expect(&mut state, &[("a", "1"), ("b", "700m"), ("c", "300m")]);
    state.apply_pod(&kube_pod("other", "", "250m")).unwrap();
    let set = json!({"metadata": {"name": "agent", "namespace": "kube-system", "uid": "d"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}}}});
    state.apply_daemon_set(serde_json::from_value(set).unwrap());
    assert_eq!(kept(&state), ["a", "b"]);
}

#[test]
fn claim_is_asked_for_places_while_a_pod_names_another_node() {
    let mut state = joined();
    let others = |state: &ClusterState| state.snapshot().nominations.has_others_at("c");
    expect(&mut state, &[("a", "1"), ("b", "500m")]);
    assert!(others(&state), "neither is nominated");
    state.apply_pod(&nominated(kube_pod("a", "", "1"), "n")).unwrap();
    assert!(others(&state));
    state.apply_pod(&nominated(kube_pod("b", "", "500m"), "n")).unwrap();
    assert!(!others(&state), "both are");
    state.apply_pod(&kube_pod("b", "", "500m")).unwrap();
    assert!(others(&state), "kube-scheduler has taken it back");
    state.apply_pod(&kube_pod("b", "n", "500m")).unwrap();
    assert!(!others(&state), "it is bound");
    let mut moved = launched_with(&kube_claim("c", Some("1"), "2"), "p");
    moved.status.as_mut().unwrap().node_name = "m".into();
    state.apply_claim(Arc::new(moved));
    assert!(others(&state), "the claim has another node now");
    state.delete_pod("uid-a");
    assert!(!others(&state));
}

#[test]
fn nomination_ends_when_its_pod_is_expected_elsewhere() {
    let mut state = joined();
    expect(&mut state, &[("a", "1"), ("b", "500m"), ("bound", "100m")]);
    for (name, cpu) in [("a", "1"), ("b", "500m")] {
        state.apply_pod(&nominated(kube_pod(name, "", cpu), "n")).unwrap();
    }
    state.apply_pod(&kube_pod("bound", "n", "100m")).unwrap();
    let mut written = WrittenPlaces::default();
    for name in ["a", "b", "bound", "gone"] {
        written.note(format!("uid-{name}"), Some("n".to_owned()));
    }
    let over = |state: &ClusterState| {
        let (over, done) = state.snapshot().places_over(&written, at(1));
        let done: Vec<String> = done.into_iter().map(|(uid, _)| uid).collect();
        (over.into_iter().map(|place| (place.name, place.node)).collect::<Vec<_>>(), done)
    };
    assert_eq!(over(&state), (vec![], vec!["uid-bound".to_owned(), "uid-gone".to_owned()]));
    state.plan_claim(kube_claim("later", None, "0"), Resources::new());
    state.nominate(["uid-a"], &NominationTarget::Claim("later".into()), Duration::from_secs(20));
    assert_eq!(over(&state).0, [("a".to_owned(), None)]);
    state.apply_pod(&nominated(kube_pod("a", "", "1"), "other")).unwrap();
    let (places, done) = over(&state);
    assert!(places.is_empty() && done.contains(&"uid-a".to_owned()), "what it says now is not ours");
}

#[test]
fn pod_kube_scheduler_preempts_for_is_not_packed_nominated_is() {
    let mut state = ClusterState::new();
    state.apply_node(&kube_node("n", "p", json!({})));
    state.apply_pod(&nominated(kube_pod("a", "", "1"), "n")).unwrap();
    assert_eq!(pending(&state, 0), ["a"]);
    state.apply_pod(&kube_pod("victim", "n", "2")).unwrap();
    assert_eq!(pending(&state, 0), ["a"]);
    let mut going = kube_pod("victim", "n", "2");
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    state.apply_pod(&going).unwrap();
    assert!(pending(&state, 0).is_empty());
    state.delete_pod("uid-victim");
    assert_eq!(pending(&state, 0), ["a"]);
    state.delete_node("n", Some("uid-n"));
    assert_eq!(pending(&state, 0), ["a"], "the node that it is nominated to is gone");
}

/// The first of three pods of a StatefulSet, which is expected on the node that has joined, and a pod of a Deployment that is
/// expected on another one, which has not.
fn set_and_other(other: &str) -> ClusterState {
    let mut state = joined();
    let set: k8s_openapi::api::apps::v1::StatefulSet = serde_json::from_value(json!({
        "metadata": {"name": "store", "namespace": "default"},
        "spec": {"replicas": 3, "serviceName": "store", "selector": {}, "template": {}}}))
    .unwrap();
    state.apply(&set);
    state.apply_pod(&owned("store-0", "", "apps/v1", "StatefulSet")).unwrap();
    state.nominate(["uid-store-0"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    state.plan_claim(kube_claim("later", None, "0"), Resources::new());
    state.apply_pod(&kube_pod("web", "", other)).unwrap();
    state.nominate(["uid-web"], &NominationTarget::Claim("later".into()), Duration::from_secs(20));
    state
}

#[test]
fn node_for_pods_still_to_come_is_let_in_after_awaited_ones() {
    let comes_last = |state: &ClusterState| state.snapshot().comes_last("c", at(0));
    let mut state = set_and_other("500m");
    assert!(comes_last(&state), "the other pod would take what the second pod of the set is to have");
    assert!(!state.snapshot().comes_last("later", at(0)), "that one is for nobody who is to come");
    assert!(!comes_last(&set_and_other("3")), "the other does not fit there");
    state.apply_pod(&kube_pod("web", "elsewhere", "500m")).unwrap();
    assert!(!comes_last(&state), "nobody waits any more");
    let mut whole = set_and_other("500m");
    for name in ["store-1", "store-2"] {
        whole.apply_pod(&owned(name, "n", "apps/v1", "StatefulSet")).unwrap();
    }
    assert!(!comes_last(&whole), "all of the set are there, and what waits is nominated");
}
