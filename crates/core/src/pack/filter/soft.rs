//! Bound on the preferences of a pod that count: the heaviest do. They are given up one after the other, so each costs work,
//! and nothing else bounds how many a pod may state.
//!
//! All kinds count together: preferred node affinity, preferred pod affinity and anti-affinity by their weight. Spread that may
//! be broken (`ScheduleAnyway`) has no weight; it counts as the heaviest, since kube-scheduler scores it in full. Among equals
//! the order is spread, node affinity, pod affinity, pod anti-affinity, then that of the pod's specification.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::pod::{Pod, is_soft};
use crate::problem::Problem;

/// Largest number of a pod's soft terms that count.
pub const MOST_SOFT_TERMS: usize = 32;

/// Weight of a spread that may be broken: as much as a term can have.
const SPREAD_WEIGHT: i32 = 100;

/// The kinds of soft terms, in the order of equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Spread,
    Node,
    Affinity,
    AntiAffinity,
}

/// A soft term of a pod, by weight, kind and place in its list: the heaviest sorts first.
type Term = (Reverse<i32>, Kind, usize);

fn terms(pod: &Pod) -> Vec<Term> {
    let spread = pod.topology_spread_constraints.iter().enumerate().filter(|(_, one)| is_soft(one));
    let mut all: Vec<Term> = spread.map(|(at, _)| (Reverse(SPREAD_WEIGHT), Kind::Spread, at)).collect();
    let Some(affinity) = &pod.affinity else { return all };
    let mut add = |kind: Kind, weights: &mut dyn Iterator<Item = i32>| {
        all.extend(weights.enumerate().map(|(at, weight)| (Reverse(weight), kind, at)));
    };
    if let Some(own) = &affinity.node_affinity {
        let terms = own.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        add(Kind::Node, &mut terms.map(|term| term.weight));
    }
    if let Some(own) = &affinity.pod_affinity {
        let terms = own.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        add(Kind::Affinity, &mut terms.map(|term| term.weight));
    }
    if let Some(own) = &affinity.pod_anti_affinity {
        let terms = own.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        add(Kind::AntiAffinity, &mut terms.map(|term| term.weight));
    }
    all
}

/// Number of soft terms that a pod states beyond those that count.
#[must_use]
pub fn ignored_soft_terms(pod: &Pod) -> usize {
    // Most pods state none.
    if pod.affinity.is_none() && pod.topology_spread_constraints.len() <= MOST_SOFT_TERMS {
        return 0;
    }
    terms(pod).len().saturating_sub(MOST_SOFT_TERMS)
}

/// Number of rules of any kind that a pod states, hard and soft: its distance from a plain one.
pub(crate) fn rules_of(pod: &Pod) -> usize {
    let affinity = pod.affinity.as_ref();
    let node = affinity.and_then(|all| all.node_affinity.as_ref());
    let node = node.and_then(|all| all.required_during_scheduling_ignored_during_execution.as_ref());
    let near = affinity.and_then(|all| all.pod_affinity.as_ref());
    let near = near.and_then(|all| all.required_during_scheduling_ignored_during_execution.as_ref());
    let far = affinity.and_then(|all| all.pod_anti_affinity.as_ref());
    let far = far.and_then(|all| all.required_during_scheduling_ignored_during_execution.as_ref());
    let hard = node.map_or(0, |all| all.node_selector_terms.len()) + near.map_or(0, Vec::len) + far.map_or(0, Vec::len);
    let volumes = pod.shared_volumes.len() + pod.volume_topology.len();
    hard + terms(pod).len() + volumes + pod.topology_spread_constraints.len() + pod.host_ports.len()
}

/// The problem with no more soft terms of any pod than count.
pub(crate) fn with_heaviest(problem: &Problem) -> Cow<'_, Problem> {
    let is_heavy = |pod: &&mut Pod| ignored_soft_terms(pod) > 0;
    if problem.pods.iter().all(|pod| ignored_soft_terms(pod) == 0) {
        return Cow::Borrowed(problem);
    }
    let mut other = problem.clone();
    other.pods.iter_mut().filter(is_heavy).for_each(keep_heaviest);
    Cow::Owned(other)
}

/// Takes the soft terms that do not count out of a pod.
fn keep_heaviest(pod: &mut Pod) {
    let mut all = terms(pod);
    all.sort_unstable();
    let kept: BTreeSet<(Kind, usize)> = all.into_iter().take(MOST_SOFT_TERMS).map(|(_, kind, at)| (kind, at)).collect();
    let mut at = 0;
    pod.topology_spread_constraints.retain(|one| {
        at += 1;
        !is_soft(one) || kept.contains(&(Kind::Spread, at - 1))
    });
    let Some(affinity) = &mut pod.affinity else { return };
    if let Some(own) = &mut affinity.node_affinity {
        retain(&mut own.preferred_during_scheduling_ignored_during_execution, Kind::Node, &kept);
    }
    if let Some(own) = &mut affinity.pod_affinity {
        retain(&mut own.preferred_during_scheduling_ignored_during_execution, Kind::Affinity, &kept);
    }
    if let Some(own) = &mut affinity.pod_anti_affinity {
        retain(&mut own.preferred_during_scheduling_ignored_during_execution, Kind::AntiAffinity, &kept);
    }
}

fn retain<T>(terms: &mut Option<Vec<T>>, kind: Kind, kept: &BTreeSet<(Kind, usize)>) {
    let mut at = 0;
    terms.iter_mut().for_each(|terms| {
        terms.retain(|_| {
            at += 1;
            kept.contains(&(kind, at - 1))
        });
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn pod(weights: std::ops::Range<i32>) -> Pod {
        let preferred: Vec<Value> = weights
            .map(|weight| {
                json!({"weight": weight, "preference": {"matchExpressions": [
                    {"key": "k", "operator": "In", "values": [weight.to_string()]}]}})
            })
            .collect();
        let spread = json!([
            {"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            {"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]);
        serde_json::from_value(json!({"name": "p", "topologySpreadConstraints": spread, "affinity": {"nodeAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}))
        .unwrap()
    }

    #[test]
    fn the_heaviest_terms_count_and_spread_before_them() {
        let problem = Problem { pods: vec![pod(1..51)], ..Problem::default() };
        assert_eq!(ignored_soft_terms(&problem.pods[0]), 19);
        let kept = &with_heaviest(&problem).pods[0];
        assert_eq!(kept.topology_spread_constraints.len(), 2, "what is required stays, and what counts as heaviest");
        let terms = kept.affinity.as_ref().unwrap().node_affinity.as_ref().unwrap();
        let weights: Vec<i32> = terms
            .preferred_during_scheduling_ignored_during_execution
            .as_ref()
            .unwrap()
            .iter()
            .map(|term| term.weight)
            .collect();
        assert_eq!(weights, (20..51).collect::<Vec<_>>());
    }

    #[test]
    fn a_pod_with_few_is_what_it_was() {
        let problem = Problem { pods: vec![pod(1..32)], ..Problem::default() };
        assert!(matches!(with_heaviest(&problem), Cow::Borrowed(_)));
    }
}
