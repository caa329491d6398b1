//! Pods that packing fails with are found by halves and left out; all others are packed together.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_core::pack::{Isolated, Isolation, Options, Packing, PackingError, Reason, solve_within};
use dovetail_core::problem::Policy;
use dovetail_core::{Pod, Problem};
use proptest::prelude::*;
use serde_json::{Value, json};

fn error() -> PackingError {
    PackingError::Panic { message: "a fault of the test".into() }
}

/// So many workloads of two pods each, `w0` to `wN`.
fn problem(workloads: usize) -> Problem {
    let pod = |at: usize| {
        json!({"name": format!("w{}-{at}", at / 2), "labels": {"app": format!("w{}", at / 2)},
            "requests": {"cpu": format!("{}m", 100 + 10 * (at / 2)), "memory": "64Mi"}})
    };
    let pods: Vec<Value> = (0..2 * workloads).map(pod).collect();
    let offering = json!({"zone": "a", "capacityType": "on-demand", "price": 0.1, "available": true});
    serde_json::from_value(json!({"nodePools": [{"name": "p"}], "pods": pods, "instanceTypes": [
        {"name": "m", "capacity": {"cpu": "4", "memory": "32Gi", "pods": "20"}, "offerings": [offering]}]}))
    .unwrap()
}

/// Drives it by a solver that fails where `breaks` says so of the pods asked about, and counts what it was asked.
fn driven(problem: &Problem, breaks: impl Fn(&Problem) -> bool) -> (Isolated, usize) {
    let mut isolation = Isolation::new(Arc::new(problem.clone()), Options::default(), |_| None);
    for asked_so_far in 1.. {
        let asked = isolation.asked();
        let answer = if breaks(&asked.problem) { Err(error()) } else { solve_within(&asked.problem, &asked.options) };
        if let Some(isolated) = isolation.answered(answer) {
            return (isolated, asked_so_far);
        }
        assert!(asked_so_far < 60, "it ends");
    }
    unreachable!()
}

fn has(problem: &Problem, app: &str) -> bool {
    problem.pods.iter().any(|pod| pod.labels.get("app").is_some_and(|own| own == app))
}

fn apps_of<'a>(problem: &Problem, pods: impl IntoIterator<Item = &'a usize>) -> BTreeSet<String> {
    pods.into_iter().map(|pod| problem.pods[*pod].labels["app"].clone()).collect()
}

fn placed(packing: &Packing) -> usize {
    packing.claims.iter().map(|claim| claim.pods.len()).sum()
}

#[test]
fn sound_problem_is_solved_once_with_the_solvers_own_answer() {
    let problem = problem(5);
    let (isolated, asked) = driven(&problem, |_| false);
    assert_eq!((asked, &isolated.error, isolated.left_out.len()), (1, &None, 0));
    assert_eq!(isolated.packing, solve_within(&problem, &Options::default()).unwrap());
}

#[test]
fn what_fails_by_cost_alone_is_packed_by_fewest_nodes() {
    let problem = problem(5);
    let (isolated, asked) = driven(&problem, |asked| asked.node_pools[0].policy == Policy::Cost);
    assert_eq!((asked, isolated.error, isolated.left_out.len()), (2, Some(error()), 0));
    assert_eq!(placed(&isolated.packing), 10);
}

#[test]
fn breaking_workload_is_left_out_whole_and_others_cost_the_same() {
    let problem = problem(40);
    let (isolated, asked) = driven(&problem, |asked| has(asked, "w17"));
    assert!(asked <= 16, "asked {asked} times for one of 40");
    assert_eq!(isolated.left_out.len(), 1);
    assert!(isolated.left_out[0].alone);
    assert_eq!(apps_of(&problem, &isolated.left_out[0].pods), BTreeSet::from(["w17".to_owned()]));
    assert_eq!(placed(&isolated.packing), 78);
    assert_eq!(isolated.packing.unscheduled.len(), 2);
    assert!(
        matches!(&*isolated.packing.unscheduled[0].1, Reason::PackingFailed { error } if error.contains("fault of the test"))
    );
    // As cheap as if it had never been there.
    let mut without = problem.clone();
    without.pods.retain(|pod| pod.labels["app"] != "w17");
    let alone = solve_within(&without, &Options::default()).unwrap();
    assert!((alone.total_price - isolated.packing.total_price).abs() < 1e-9);
}

#[test]
fn of_two_conflicting_workloads_the_one_with_rules_is_left_out() {
    let mut problem = problem(10);
    let shared = problem.pods.iter_mut().filter(|pod| pod.labels["app"] == "w2");
    shared.for_each(|pod| _ = pod.shared_volumes.insert("v".into(), "attachable-volumes-csi-x".into()));
    let (isolated, _) = driven(&problem, |asked| has(asked, "w2") && has(asked, "w7"));
    assert_eq!(
        apps_of(&problem, isolated.left_out.iter().flat_map(|one| &one.pods)),
        BTreeSet::from(["w2".to_owned()])
    );
}

#[test]
fn when_everything_fails_everybody_is_left_out_and_it_ends() {
    let problem = problem(100);
    let (isolated, asked) = driven(&problem, |_| true);
    assert!(asked <= 30, "{asked}");
    assert_eq!((placed(&isolated.packing), isolated.packing.unscheduled.len()), (0, 200));
    assert!(isolated.left_out.iter().any(|one| !one.alone), "too many to be told apart at once");
}

#[test]
fn pods_are_alike_within_a_stateful_set_not_across_namespaces() {
    let pod = |namespace: &str, name: &str| -> Pod {
        serde_json::from_value(json!({"name": name, "namespace": namespace,
            "labels": {"app": "a", "statefulset.kubernetes.io/pod-name": name}}))
        .unwrap()
    };
    assert!(dovetail_core::pack::alike(&pod("a", "s-0"), &pod("a", "s-1")));
    assert!(!dovetail_core::pack::alike(&pod("a", "s-0"), &pod("b", "s-0")));
}

#[test]
fn pods_left_out_from_start_get_a_reason_and_are_never_solved() {
    let problem = problem(4);
    let bad = |pod: &Pod| pod.labels["app"] == "w1";
    let mut isolation = Isolation::new(Arc::new(problem.clone()), Options::default(), |pod| bad(pod).then(error));
    let asked = isolation.asked();
    assert!(!has(&asked.problem, "w1"));
    let isolated = isolation.answered(solve_within(&asked.problem, &asked.options)).unwrap();
    assert_eq!((isolated.left_out.len(), placed(&isolated.packing), isolated.packing.unscheduled.len()), (0, 6, 2));
    assert!(isolated.packing.unscheduled.iter().all(|(pod, _)| bad(&problem.pods[*pod])));
    assert_eq!(common::violations(&problem, &isolated.packing), [""; 0]);
}

/// A hundred workloads of the namespace `evil`, and five of `good`.
fn two_namespaces() -> Problem {
    let mut problem = problem(105);
    for (at, pod) in problem.pods.iter_mut().enumerate() {
        let namespace = if (100..110).contains(&at) { "good" } else { "evil" };
        namespace.clone_into(&mut pod.namespace);
    }
    problem
}

fn is_evil(pod: &Pod) -> bool {
    pod.namespace == "evil"
}

#[test]
fn workloads_of_one_namespace_leave_all_others_their_places() {
    let problem = two_namespaces();
    let (isolated, asked) = driven(&problem, |asked| asked.pods.iter().any(is_evil));
    assert!(asked <= 28, "{asked}");
    assert_eq!((placed(&isolated.packing), isolated.packing.unscheduled.len()), (10, 200));
    assert!(isolated.left_out.iter().all(|one| one.of_one_namespace));
}

#[test]
fn attempts_that_meet_their_bound_have_one_together() {
    let problem = two_namespaces();
    let mut isolation = Isolation::new(Arc::new(problem.clone()), Options::default(), |_| None);
    let (all, mut lost) = (dovetail_core::pack::most_steps(&problem), 0);
    let isolated = loop {
        let asked = isolation.asked();
        let own = asked.options.most_steps.unwrap_or(all);
        let answer = match asked.problem.pods.iter().any(is_evil) {
            true => Err(PackingError::Bound { steps: own }),
            false => solve_within(&asked.problem, &asked.options),
        };
        lost += if answer.is_err() { own } else { 0 };
        if let Some(isolated) = isolation.answered(answer) {
            break isolated;
        }
    };
    assert_eq!((placed(&isolated.packing), isolated.packing.unscheduled.len()), (10, 200));
    assert!(lost <= all * 5 / 2, "{lost} of {all}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_culprits_leave_every_pod_answered_and_are_found_exactly(
        workloads in 1..40usize,
        culprits in prop::collection::btree_set(0..40usize, 0..3),
    ) {
        let problem = problem(workloads);
        let culprits: BTreeSet<String> = culprits.into_iter().filter(|at| *at < workloads).map(|at| format!("w{at}")).collect();
        let (isolated, _) = driven(&problem, |asked| culprits.iter().any(|app| has(asked, app)));
        prop_assert_eq!(common::violations(&problem, &isolated.packing), Vec::<String>::new());
        let found = apps_of(&problem, isolated.left_out.iter().flat_map(|one| &one.pods));
        prop_assert_eq!(found, culprits);
        let again = driven(&problem, |_| false).0;
        prop_assert_eq!(again, driven(&problem, |_| false).0);
    }
}
