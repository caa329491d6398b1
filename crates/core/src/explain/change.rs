//! Changes to a pod or a NodePool that may let the pod run, each applied to a copy of the packing problem for trial.

use std::fmt;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, Taint, Toleration};
use serde::Serialize;

use super::outcome::Placement;
use crate::labels;
use crate::pod::Pod;
use crate::problem::{Pool, Problem};
use crate::requirements::Operator;
use crate::resources::format_amount;

/// One change. Amounts are in the unit of [`crate::resources`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Change {
    /// The pod tolerates a taint.
    Tolerate { key: String, value: Option<String>, effect: String },
    /// The pod does without a key of its nodeSelector.
    DropNodeSelector { key: String },
    /// The pod does without a key of its required node affinity.
    DropNodeAffinity { key: String },
    /// The pod requests no more than this of a resource.
    LowerRequest { resource: String, to: i64 },
    /// The pod does without its topology spread over a key.
    DropSpread { topology_key: String },
    /// The pod does without its required pod affinity over a key.
    DropPodAffinity { topology_key: String },
    /// The pod does without its required pod anti-affinity over a key.
    DropPodAntiAffinity { topology_key: String },
    /// The pool's limit of a resource is raised to this.
    RaiseLimit { pool: String, resource: String, to: i64 },
    /// The pool's requirement on a key allows these values too.
    AllowInPool { pool: String, key: String, values: Vec<String> },
    /// The pool does without its requirements on a key.
    DropFromPool { pool: String, key: String },
    /// The pool's nodes get a label.
    LabelPool { pool: String, key: String, value: String },
    /// The pool's `minValues` of a key is lowered to this.
    LowerMinValues { pool: String, key: String, to: u32 },
}

/// Changes that together let a pod run, by trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    pub changes: Vec<Change>,
    /// The changes as a sentence without its end.
    pub sentence: String,
    /// The place that the pod has with them.
    pub then: Placement,
}

impl Suggestion {
    #[must_use]
    pub fn new(changes: Vec<Change>, then: Placement) -> Self {
        let sentence = changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", and ");
        Self { changes, sentence, then }
    }
}

impl Change {
    /// The toleration of one taint.
    #[must_use]
    pub fn tolerating(taint: &Taint) -> Self {
        let value = taint.value.clone().filter(|value| !value.is_empty());
        Self::Tolerate { key: taint.key.clone(), value, effect: taint.effect.clone() }
    }

    /// Changes the problem, in which the pod has this index.
    pub fn apply(&self, problem: &mut Problem, pod: usize) {
        if let Some(pool) = self.pool() {
            if let Some(pool) = problem.node_pools.iter_mut().find(|one| one.name == *pool) {
                self.apply_to_pool(pool);
            }
        } else if let Some(pod) = problem.pods.get_mut(pod) {
            self.apply_to_pod(pod);
        }
    }

    /// The pool that is changed; `None` where it is the pod.
    #[must_use]
    pub fn pool(&self) -> Option<&str> {
        match self {
            Self::RaiseLimit { pool, .. }
            | Self::AllowInPool { pool, .. }
            | Self::DropFromPool { pool, .. }
            | Self::LabelPool { pool, .. }
            | Self::LowerMinValues { pool, .. } => Some(pool),
            _ => None,
        }
    }

    fn apply_to_pool(&self, pool: &mut Pool) {
        match self {
            Self::RaiseLimit { resource, to, .. } => pool.limits.set(resource.clone(), *to),
            Self::AllowInPool { key, values, .. } => {
                for one in pool.requirements.iter_mut().filter(|one| same(&one.key, key)) {
                    match one.operator {
                        Operator::In => {
                            one.values.extend(
                                values.iter().filter(|value| !one.values.contains(value)).cloned().collect::<Vec<_>>(),
                            );
                        }
                        Operator::NotIn => one.values.retain(|value| !values.contains(value)),
                        _ => {}
                    }
                }
                pool.requirements.retain(|one| !(one.operator == Operator::NotIn && one.values.is_empty()));
            }
            Self::DropFromPool { key, .. } => pool.requirements.retain(|one| !same(&one.key, key)),
            Self::LabelPool { key, value, .. } => drop(pool.labels.insert(key.clone(), value.clone())),
            Self::LowerMinValues { key, to, .. } => {
                let all = pool.requirements.iter_mut().filter(|one| same(&one.key, key));
                all.for_each(|one| one.min_values = one.min_values.map(|_| *to).filter(|to| *to > 0));
            }
            _ => {}
        }
    }

    fn apply_to_pod(&self, pod: &mut Pod) {
        match self {
            Self::Tolerate { key, value, effect } => pod.tolerations.push(Toleration {
                key: Some(key.clone()),
                operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
                value: value.clone(),
                effect: Some(effect.clone()),
                toleration_seconds: None,
            }),
            Self::DropNodeSelector { key } => pod.node_selector.retain(|own, _| own != key),
            Self::DropNodeAffinity { key } => drop_node_affinity(pod, key),
            Self::LowerRequest { resource, to } => pod.requests.set(resource.clone(), *to),
            Self::DropSpread { topology_key } => {
                pod.topology_spread_constraints.retain(|one| one.topology_key != *topology_key);
            }
            Self::DropPodAffinity { topology_key } => {
                let own = pod.affinity.as_mut().and_then(|all| all.pod_affinity.as_mut());
                drop_terms(
                    own.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_mut()),
                    topology_key,
                );
            }
            Self::DropPodAntiAffinity { topology_key } => {
                let own = pod.affinity.as_mut().and_then(|all| all.pod_anti_affinity.as_mut());
                drop_terms(
                    own.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_mut()),
                    topology_key,
                );
            }
            _ => {}
        }
    }
}

/// True if two keys are spellings of one label.
pub(super) fn same(one: &str, other: &str) -> bool {
    labels::stable(one) == labels::stable(other)
}

fn drop_terms(terms: Option<&mut Vec<PodAffinityTerm>>, topology_key: &str) {
    terms.into_iter().for_each(|terms| terms.retain(|term| term.topology_key != topology_key));
}

/// Terms of a pod's required node affinity.
pub(super) fn node_terms(pod: &Pod) -> &[NodeSelectorTerm] {
    let nodes = pod.affinity.as_ref().and_then(|all| all.node_affinity.as_ref());
    let required = nodes.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
    required.map_or(&[], |one| one.node_selector_terms.as_slice())
}

/// Removes a key from required node affinity. A term that is empty then would match no node: all of it goes.
fn drop_node_affinity(pod: &mut Pod, key: &str) {
    let Some(nodes) = pod.affinity.as_mut().and_then(|all| all.node_affinity.as_mut()) else { return };
    let Some(required) = &mut nodes.required_during_scheduling_ignored_during_execution else { return };
    let of_key = |one: &NodeSelectorRequirement| same(&one.key, key);
    for term in &mut required.node_selector_terms {
        term.match_expressions.iter_mut().for_each(|all| all.retain(|one| !of_key(one)));
    }
    let empty = |term: &NodeSelectorTerm| {
        term.match_expressions.as_ref().is_none_or(Vec::is_empty)
            && term.match_fields.as_ref().is_none_or(Vec::is_empty)
    };
    if required.node_selector_terms.iter().any(empty) {
        nodes.required_during_scheduling_ignored_during_execution = None;
    }
}

/// The change as an order, without its end.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tolerate { key, value: Some(value), effect } => {
                write!(f, "let the pod tolerate the taint {key}={value}:{effect}")
            }
            Self::Tolerate { key, value: None, effect } => write!(f, "let the pod tolerate the taint {key}:{effect}"),
            Self::DropNodeSelector { key } => write!(f, "remove {key} from the pod's nodeSelector"),
            Self::DropNodeAffinity { key } => write!(f, "remove {key} from the pod's required node affinity"),
            Self::LowerRequest { resource, to } => {
                write!(f, "lower the pod's request of {resource} to {} in all", format_amount(resource, *to))
            }
            Self::DropSpread { topology_key } => {
                write!(f, "remove the pod's topology spread over {topology_key}, or let it be ScheduleAnyway")
            }
            Self::DropPodAffinity { topology_key } => {
                write!(f, "remove the pod's required pod affinity over {topology_key}")
            }
            Self::DropPodAntiAffinity { topology_key } => {
                write!(f, "remove the pod's required pod anti-affinity over {topology_key}")
            }
            Self::RaiseLimit { pool, resource, to } => {
                write!(f, "raise spec.limits.{resource} of nodepool {pool} to {}", format_amount(resource, *to))
            }
            Self::AllowInPool { pool, key, values } => {
                write!(f, "allow {} for {key} in the requirements of nodepool {pool}", values.join(", "))
            }
            Self::DropFromPool { pool, key } => write!(f, "remove {key} from the requirements of nodepool {pool}"),
            Self::LabelPool { pool, key, value } => {
                write!(f, "give the nodes of nodepool {pool} the label {key}={value} (spec.template.metadata.labels)")
            }
            Self::LowerMinValues { pool, key, to: 0 } => write!(f, "remove minValues of {key} from nodepool {pool}"),
            Self::LowerMinValues { pool, key, to } => write!(f, "lower minValues of {key} in nodepool {pool} to {to}"),
        }
    }
}
