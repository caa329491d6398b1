//! What EC2 had nothing for, and what pods give up for that.

use super::*;

const REMEMBERED: u64 = 180;

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

/// They are expected on a claim that EC2 has nothing for.
fn refuse(state: &mut ClusterState, second: u64) {
    state.plan_claim(kube_claim("c", None, "0"), Resources::new());
    state.nominate(["uid-soft", "uid-hard"], &Target::Claim("c".into()), Duration::from_secs(second + 20));
    state.sold_out("c", Duration::from_secs(second), Duration::from_secs(second + REMEMBERED));
    state.delete_claim("c", None);
}

/// How far each is relaxed, by name.
fn relaxed(state: &ClusterState, second: u64) -> Vec<(String, u32)> {
    let problem = state.snapshot().planning(&input(second)).problem;
    problem.pods.iter().map(|pod| (pod.name.clone(), pod.relaxed)).collect()
}

fn both(hard: u32, soft: u32) -> Vec<(String, u32)> {
    vec![("hard".into(), hard), ("soft".into(), soft)]
}

#[test]
fn a_second_refusal_costs_a_pod_a_soft_rule_and_none_a_hard_one() {
    let mut state = spread();
    assert_eq!(relaxed(&state, 0), both(0, 0));
    refuse(&mut state, 1);
    assert_eq!(relaxed(&state, 2), both(0, 0), "EC2 may have something else of what it asks for");
    refuse(&mut state, 3);
    assert_eq!(relaxed(&state, 4), both(0, 1));
    refuse(&mut state, 5);
    assert_eq!(relaxed(&state, 6), both(0, 1), "it has no more to give up");
}

#[test]
fn soft_rules_count_again_when_the_refusals_are_forgotten() {
    let mut state = spread();
    refuse(&mut state, 0);
    refuse(&mut state, 10);
    assert_eq!(relaxed(&state, 9 + REMEMBERED), both(0, 1));
    assert_eq!(relaxed(&state, 10 + REMEMBERED), both(0, 0));
    refuse(&mut state, 10 + REMEMBERED);
    assert_eq!(relaxed(&state, 11 + REMEMBERED), both(0, 0), "the first of a new row");
}

#[test]
fn only_pods_expected_on_a_claim_that_ec2_has_nothing_for_give_up_anything() {
    let mut state = spread();
    for second in [1, 2] {
        state.plan_claim(kube_claim("c", None, "0"), Resources::new());
        state.nominate(["uid-soft"], &Target::Claim("c".into()), Duration::from_secs(20));
        state.sold_out("another", Duration::from_secs(second), Duration::from_secs(second + REMEMBERED));
        state.delete_claim("c", None);
    }
    assert_eq!(relaxed(&state, 3), both(0, 0));
}

#[test]
fn what_is_known_of_a_pod_goes_with_it_when_it_is_bound_or_gone_or_the_term_is_over() {
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
fn a_pod_that_is_spread_by_default_gives_that_up_too() {
    let mut state = ClusterState::new();
    let mut pod = kube_pod("soft", "", "1");
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    state.apply_pod(&pod).unwrap();
    let service = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}});
    state.apply(&serde_json::from_value::<k8s_openapi::api::core::v1::Service>(service).unwrap());
    refuse(&mut state, 1);
    refuse(&mut state, 2);
    let default =
        json!({"maxSkew": 3, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let input = PlanningInput { default_spread: vec![serde_json::from_value(default).unwrap()], ..input(3) };
    assert_eq!(state.snapshot().planning(&input).problem.pods[0].relaxed, 1);
}
