//! Claims that EC2 has nothing for, and preferences that pods do without because of that.

use super::*;

/// A pod that would be spread over zones, and one that has to be.
fn spread() -> ClusterState {
    let mut state = ClusterState::new();
    for (name, what) in [("soft", "ScheduleAnyway"), ("hard", "DoNotSchedule")] {
        let mut pod = kube_pod(name, "", "1");
        let constraint = json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": what});
        let spec = pod.spec.as_mut().unwrap();
        spec.topology_spread_constraints = Some(vec![serde_json::from_value(constraint).unwrap()]);
        state.apply_pod(&pod).unwrap();
    }
    state
}

/// Expects the pods on a claim that EC2 then refuses at `second`.
fn refuse(state: &mut ClusterState, second: u64) {
    state.plan_claim(kube_claim("c", None, "0"), Resources::new());
    state.nominate(["uid-soft", "uid-hard"], &NominationTarget::Claim("c".into()), Duration::from_secs(second + 20));
    state.sold_out("c", Duration::from_secs(second));
    state.delete_claim("c", None);
}

/// The pods that do without what they prefer.
fn relaxed(state: &ClusterState, second: u64) -> Vec<String> {
    relaxed_with(state, &input(second))
}

fn relaxed_with(state: &ClusterState, input: &PlanningInput) -> Vec<String> {
    let problem = state.snapshot().planning(input).problem;
    problem.pods.iter().filter(|pod| pod.relaxed).map(|pod| pod.name.clone()).collect()
}

#[test]
fn pod_drops_preferences_refused_for_fifteen_seconds() {
    let mut state = spread();
    refuse(&mut state, 100);
    refuse(&mut state, 114);
    assert!(relaxed(&state, 120).is_empty(), "EC2 may have something else of what it prefers");
    refuse(&mut state, 115);
    assert_eq!(relaxed(&state, 115), ["soft"], "and no pod without what it has to have");
    // A launch that EC2 throttles takes minutes.
    refuse(&mut state, 500);
    assert_eq!(relaxed(&state, 501), ["soft"]);
}

#[test]
fn with_preferences_ignored_there_is_nothing_to_do_without() {
    let mut state = spread();
    refuse(&mut state, 1);
    refuse(&mut state, 20);
    let ignoring = PlanningInput { preferences: crate::problem::PreferencePolicy::Ignore, ..input(21) };
    assert_eq!((relaxed(&state, 21).len(), relaxed_with(&state, &ignoring).len()), (1, 0));
}

#[test]
fn a_refusal_of_long_ago_has_nothing_to_do_with_the_next() {
    let mut state = spread();
    refuse(&mut state, 0);
    refuse(&mut state, 15);
    assert_eq!(relaxed(&state, 615), ["soft"]);
    assert!(relaxed(&state, 616).is_empty());
    refuse(&mut state, 616);
    assert!(relaxed(&state, 617).is_empty(), "the first of a new row");
    refuse(&mut state, 631);
    assert_eq!(relaxed(&state, 632), ["soft"]);
}

#[test]
fn only_pods_expected_on_a_sold_out_claim_drop_preferences() {
    let mut state = spread();
    for second in [1, 30] {
        state.plan_claim(kube_claim("c", None, "0"), Resources::new());
        state.nominate(["uid-soft"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
        state.sold_out("another", Duration::from_secs(second));
        state.delete_claim("c", None);
    }
    assert!(relaxed(&state, 31).is_empty());
}

#[test]
fn sold_out_memory_ends_with_bound_or_gone_pod_or_the_term() {
    let refused = || {
        let mut state = spread();
        refuse(&mut state, 1);
        state
    };
    let kept = |state: &ClusterState| state.snapshot().sold_out.keys().cloned().collect::<Vec<_>>();
    let mut state = refused();
    assert_eq!(kept(&state), ["uid-hard", "uid-soft"]);
    state.delete_pod("uid-hard");
    assert_eq!(kept(&state), ["uid-soft"]);
    state.apply_pod(&kube_pod("soft", "n", "1")).unwrap();
    assert!(kept(&state).is_empty());
    let mut state = refused();
    state.forget_plans();
    assert!(kept(&state).is_empty());
}

#[test]
fn a_pod_that_is_spread_by_default_does_without_that_too() {
    let mut state = ClusterState::new();
    let mut pod = kube_pod("soft", "", "1");
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    state.apply_pod(&pod).unwrap();
    let service = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}});
    state.apply(&serde_json::from_value::<k8s_openapi::api::core::v1::Service>(service).unwrap());
    refuse(&mut state, 1);
    refuse(&mut state, 16);
    let default =
        json!({"maxSkew": 3, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let input = PlanningInput { default_spread: vec![serde_json::from_value(default).unwrap()], ..input(17) };
    assert_eq!(relaxed_with(&state, &input), ["soft"]);
}

#[test]
fn coming_pod_goes_by_the_uid_of_the_pod_it_follows() {
    let of = |uid: &str| crate::pod::Pod { uid: uid.into(), ..crate::pod::Pod::default() }.base_uid().to_owned();
    assert_eq!((of("uid-a"), of("uid-a/db-1"), of("")), ("uid-a".into(), "uid-a".into(), String::new()));
}

#[test]
fn coming_pod_drops_what_the_pod_it_follows_does_without() {
    let mut state = ClusterState::new();
    let set = json!({"metadata": {"name": "soft", "namespace": "default"}, "spec": {"replicas": 3, "serviceName": "soft",
        "selector": {}, "template": {}}});
    state.apply(&serde_json::from_value::<k8s_openapi::api::apps::v1::StatefulSet>(set).unwrap());
    let mut pod = owned("soft-0", "", "apps/v1", "StatefulSet");
    pod.metadata.uid = Some("uid-soft".into());
    let constraint =
        json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let spec = pod.spec.as_mut().unwrap();
    spec.topology_spread_constraints = Some(vec![serde_json::from_value(constraint).unwrap()]);
    state.apply_pod(&pod).unwrap();
    refuse(&mut state, 1);
    assert!(relaxed(&state, 2).is_empty());
    refuse(&mut state, 16);
    assert_eq!(relaxed(&state, 17), ["soft-0", "soft-1", "soft-2"]);
}
