//! A pod's node affinity and its soft rules as a list of alternatives, tried in order: what relaxing would do, decided
//! once.

use indexmap::IndexMap;
use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorTerm};
use rustc_hash::FxBuildHasher;

use crate::labels;
use crate::pod::Pod;
use crate::problem::PreferencePolicy;
use crate::requirements::{NodeSelectorRequirement, Operator, Requirements};

/// One way to satisfy a pod's node selector and node affinity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Alternative {
    pub requirements: Requirements,
    /// True if `PreferNoSchedule` taints are tolerated.
    pub forgiving: bool,
    /// Soft rules between pods that are given up.
    pub given_up: GivenUp,
    /// True if it has nothing but what the pod requires. Any node that another alternative allows, a hard one allows too.
    pub hard: bool,
}

/// Numbers of soft rules given up, by kind, the heaviest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct GivenUp {
    /// Preferred pod affinity.
    pub pod_affinity: usize,
    /// Preferred pod anti-affinity.
    pub pod_anti_affinity: usize,
    /// Topology spread that may be broken.
    pub spread: usize,
}

/// The alternatives of a pod with the soft rules `soft`, in the order of relaxation (spec core 3.6): required terms one after
/// the other with the heaviest preference and all soft rules; then without preferred pod affinity, anti-affinity, node
/// affinity, soft spread, one at a time; then each required term without any, at last with `PreferNoSchedule` taints tolerated.
/// The terms without preferences come again because a pod that Kubernetes could place must not be lost to a preference.
///
/// # Errors
/// Names the error in the pod, as a sentence.
pub(crate) fn alternatives(
    pod: &Pod,
    policy: PreferencePolicy,
    forgiveness_helps: bool,
    soft: GivenUp,
) -> Result<Vec<Alternative>, String> {
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let selector = Requirements::from_labels(&pod.node_selector);
    let required = required_terms(affinity)?;
    let preferred = match policy {
        PreferencePolicy::Respect => preferred_terms(affinity),
        PreferencePolicy::Ignore => vec![],
    };
    // Each alternative once, with `true` if it is hard.
    let mut found: IndexMap<(Requirements, bool, GivenUp), bool, FxBuildHasher> = IndexMap::default();
    let mut push = |[term, preference]: [Option<&Requirements>; 2], forgiving, given_up| {
        let mut requirements = selector.clone();
        [term, preference].into_iter().flatten().for_each(|part| requirements.intersect(part));
        *found.entry((requirements, forgiving, given_up)).or_default() |= preference.is_none() && given_up == soft;
    };
    let terms: Vec<Option<&Requirements>> =
        if required.is_empty() { vec![None] } else { required.iter().map(Some).collect() };
    let last = terms[terms.len() - 1];
    let heaviest = preferred.first();
    let mut given_up = GivenUp::default();
    if heaviest.is_some() || soft != given_up {
        terms.iter().for_each(|term| push([*term, heaviest], false, given_up));
    }
    for pod_affinity in 1..=soft.pod_affinity {
        given_up.pod_affinity = pod_affinity;
        push([last, heaviest], false, given_up);
    }
    for pod_anti_affinity in 1..=soft.pod_anti_affinity {
        given_up.pod_anti_affinity = pod_anti_affinity;
        push([last, heaviest], false, given_up);
    }
    for lighter in preferred.iter().skip(1) {
        push([last, Some(lighter)], false, given_up);
    }
    if soft.spread > 0 {
        push([last, None], false, given_up);
    }
    for spread in 1..=soft.spread {
        given_up.spread = spread;
        push([last, None], false, given_up);
    }
    terms.iter().for_each(|term| push([*term, None], false, soft));
    if forgiveness_helps {
        terms.iter().for_each(|term| push([*term, None], true, soft));
    }
    let one = |((requirements, forgiving, given_up), hard)| Alternative { requirements, forgiving, given_up, hard };
    Ok(found.into_iter().map(one).collect())
}

/// Work to read the alternatives of a pod, in requirements on one key: the terms are unbounded, and each alternative repeats
/// the node selector.
pub(crate) fn work(pod: &Pod) -> usize {
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let lengths = required.iter().flat_map(|required| &required.node_selector_terms);
    let lengths = lengths.map(|term| term.match_expressions.as_ref().map_or(0, Vec::len));
    let (terms, longest) = lengths.fold((1_usize, 1), |(terms, longest), length| (terms + 1, length.max(longest)));
    let each = pod.node_selector.len().saturating_add(longest);
    let ways: usize = pod.volume_topology.iter().map(|way| way.len().saturating_add(1)).sum::<usize>().max(1);
    terms.saturating_mul(each).saturating_mul(ways)
}

/// The alternatives, each with every way in which the pod's volumes can be had. They bind its node, and nothing that is counted
/// for topology (spec core 3.8).
///
/// # Errors
/// Names the error in the places of its volumes, as a sentence.
pub(crate) fn where_volumes_can_be(found: Vec<Alternative>, pod: &Pod) -> Result<Vec<Alternative>, String> {
    if pod.volume_topology.is_empty() {
        return Ok(found);
    }
    let places: Result<Vec<Requirements>, _> = pod.volume_topology.iter().map(Requirements::from_written).collect();
    let places = places.map_err(|error| format!("volume topology: {error}"))?;
    let within = |one: &Alternative, place: &Requirements| {
        let mut one = one.clone();
        one.requirements.intersect(place);
        one
    };
    Ok(found.iter().flat_map(|one| places.iter().map(move |place| within(one, place))).collect())
}

fn required_terms(affinity: Option<&NodeAffinity>) -> Result<Vec<Requirements>, String> {
    let Some(selector) =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref())
    else {
        return Ok(vec![]);
    };
    let mut terms = Vec::new();
    for term in &selector.node_selector_terms {
        // An empty term matches nothing.
        if says_something(term) {
            terms.push(requirements_of_term(term)?);
        }
    }
    if terms.is_empty() {
        return Err("required node affinity has no term that a node could match".into());
    }
    Ok(terms)
}

/// The preferred terms, heaviest first; an invalid one is no preference.
fn preferred_terms(affinity: Option<&NodeAffinity>) -> Vec<Requirements> {
    let mut terms: Vec<_> = affinity
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .flatten()
        .filter(|term| says_something(&term.preference))
        .filter_map(|term| Some((term.weight, requirements_of_term(&term.preference).ok()?)))
        .collect();
    terms.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    terms.into_iter().map(|(_, term)| term).collect()
}

fn says_something(term: &NodeSelectorTerm) -> bool {
    [&term.match_expressions, &term.match_fields].into_iter().flatten().any(|list| !list.is_empty())
}

fn requirements_of_term(term: &NodeSelectorTerm) -> Result<Requirements, String> {
    let written: Result<Vec<_>, _> =
        term.match_expressions.iter().flatten().map(NodeSelectorRequirement::from_kube).collect();
    let mut written = written.map_err(|error| format!("node affinity: {error}"))?;
    for field in term.match_fields.iter().flatten() {
        written.push(of_field(field)?);
    }
    Requirements::from_written(&written).map_err(|error| format!("node affinity: {error}"))
}

/// Reads a term of `matchFields` as a requirement on [`labels::NODE_NAME_FIELD`].
fn of_field(field: &k8s_openapi::api::core::v1::NodeSelectorRequirement) -> Result<NodeSelectorRequirement, String> {
    let mut written =
        NodeSelectorRequirement::from_kube(field).map_err(|error| format!("node affinity, matchFields: {error}"))?;
    if written.key != "metadata.name" || !matches!(written.operator, Operator::In | Operator::NotIn) {
        return Err(format!("node affinity: matchFields {written} (allowed: metadata.name, In or NotIn)"));
    }
    labels::NODE_NAME_FIELD.clone_into(&mut written.key);
    Ok(written)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pod(affinity: serde_json::Value) -> Pod {
        Pod { affinity: serde_json::from_value(affinity).unwrap(), ..Pod::default() }
    }

    fn told(pod: &Pod, policy: PreferencePolicy, forgiveness: bool) -> Vec<String> {
        let all = alternatives(pod, policy, forgiveness, GivenUp::default()).unwrap();
        all.iter().map(|one| format!("{}{}", one.requirements, if one.forgiving { " forgiving" } else { "" })).collect()
    }

    fn in_(key: &str, value: &str) -> serde_json::Value {
        serde_json::json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]})
    }

    #[test]
    fn terms_are_tried_with_heaviest_preference_first_then_without() {
        let pod = pod(serde_json::json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [in_("z", "a"), in_("z", "b")]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": in_("p", "light")}, {"weight": 9, "preference": in_("p", "heavy")}],
        }}));
        let told = told(&pod, PreferencePolicy::Respect, true);
        assert_eq!(
            told,
            [
                "p In [heavy], z In [a]",
                "p In [heavy], z In [b]",
                "p In [light], z In [b]",
                "z In [a]",
                "z In [b]",
                "z In [a] forgiving",
                "z In [b] forgiving",
            ]
        );
    }

    #[test]
    fn soft_rules_are_given_up_one_at_a_time_in_spec_order() {
        let pod = pod(serde_json::json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": in_("p", "x")}]}}));
        let soft = GivenUp { pod_affinity: 1, pod_anti_affinity: 2, spread: 1 };
        let all = alternatives(&pod, PreferencePolicy::Respect, false, soft).unwrap();
        let told: Vec<_> = all
            .iter()
            .map(|one| {
                let GivenUp { pod_affinity, pod_anti_affinity, spread } = one.given_up;
                (pod_affinity, pod_anti_affinity, one.requirements.is_empty(), spread)
            })
            .collect();
        assert_eq!(
            told,
            [(0, 0, false, 0), (1, 0, false, 0), (1, 1, false, 0), (1, 2, false, 0), (1, 2, true, 0), (1, 2, true, 1)]
        );
    }

    #[test]
    fn ignored_preferences_leave_the_required_terms() {
        let pod = pod(serde_json::json!({"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": in_("p", "x")}],
        }}));
        assert_eq!(told(&pod, PreferencePolicy::Ignore, false), [""]);
    }

    #[test]
    fn fields_are_a_node_s_name_and_nothing_else() {
        let of = |field: serde_json::Value| {
            let term = serde_json::json!({"matchFields": [field]});
            pod(serde_json::json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}))
        };
        let name = |operator: &str| serde_json::json!({"key": "metadata.name", "operator": operator, "values": ["n"]});
        assert_eq!(told(&of(name("NotIn")), PreferencePolicy::Respect, false), ["field:metadata.name NotIn [n]"]);
        for bad in [name("Gt"), serde_json::json!({"key": "spec.x", "operator": "In", "values": ["n"]})] {
            let error = alternatives(&of(bad), PreferencePolicy::Respect, false, GivenUp::default()).unwrap_err();
            assert!(error.contains("allowed: metadata.name"), "{error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let term = serde_json::json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]});
        let bad = pod(serde_json::json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}));
        let error = alternatives(&bad, PreferencePolicy::Respect, false, GivenUp::default()).unwrap_err();
        assert!(error.contains("Near") && error.contains("allowed"), "{error}");
    }
}
