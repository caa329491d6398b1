//! Deletion costs of pods: ReplicaSets that are scaled in give up their pods on nodes that are to go (feature gate
//! PodDeletionCostManagement; docs/decisions/084).
//!
//! ```text
//! nodes ──► ranks: leaving │ drifted, within the budget │ others, within the budget │ not ranked
//!                     └─ lowest number ─┴──── ascending numbers ────┘                     │
//!                                       └──► one value for a node's pods                no value
//!                                            less: pods with a user's value, or with a hard topology spread
//! ```
//!
//! A pod is written only where its value changes, and a ranked node keeps its value as long as the order allows it. Our own
//! values are marked ([`DeletionCost`]): a successor knows them by that, and so does who takes them off when the gate is closed.

mod pace;
mod rank;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;

pub use pace::WritePace;

use crate::cluster_state::{Moment, PodEntry, Snapshot};
use crate::disruption::OffersByClass;
use crate::disruption::machines::{NodeAndClaim, machines};
use crate::pod::DeletionCost;

/// Value of pods on nodes that are being disrupted: the lowest that Kubernetes knows.
pub const LEAVING: i32 = i32::MIN;

/// Change of one pod's annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostChange {
    /// The value and its mark are written.
    Set(i32),
    /// Our value is taken off, and its mark.
    Remove,
    /// The mark is taken off; the value beside it, if there is one, is a user's.
    Unmark,
}

/// A pod whose annotations are to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostWrite {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// Its `metadata.resourceVersion`: a pod that has changed since is decided anew. None where it is no number.
    pub version: Option<u64>,
    /// Its node's name.
    pub node: String,
    /// The NodePool of its node, empty where that is gone.
    pub pool: String,
    pub change: CostChange,
}

/// Decision on all pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostPlan {
    /// Values of the nodes that have one, by node.
    pub values: BTreeMap<String, i32>,
    /// Changes that are due, the most urgent first.
    pub writes: Vec<CostWrite>,
}

/// Decides the values of all pods. `default_spread` has the constraints that kube-scheduler applies to pods without any.
#[must_use]
pub fn plan_deletion_costs(
    snapshot: &Snapshot,
    offers: &OffersByClass,
    default_spread: &[TopologySpreadConstraint],
    now: Moment,
) -> CostPlan {
    let machines = machines(snapshot, now);
    let ranked = rank::rank_nodes(snapshot, &machines, offers, now.wall);
    let hard_by_default = default_spread.iter().any(is_hard);
    let current: Vec<Option<i32>> = ranked.in_order.iter().map(|machine| current_value(machine)).collect();
    let values = values::ascending(&current);
    let leaving = ranked.leaving.iter().map(|machine| (*machine, LEAVING));
    let valued: Vec<(&NodeAndClaim<'_>, i32)> = leaving.chain(ranked.in_order.iter().copied().zip(values)).collect();
    let mut plan = CostPlan::default();
    for (machine, value) in &valued {
        plan.values.insert(machine.node.name.clone(), *value);
        let pods = machine.load.into_iter().flat_map(|load| load.pods.values());
        for pod in pods.filter(|pod| is_counted(pod)) {
            let wanted = (!spreads_hard(pod, hard_by_default)).then_some(*value);
            plan.writes.extend(write_of(pod, wanted, &machine.claim.pool));
        }
    }
    let others = snapshot.pods.values().filter(|pod| {
        pod.deletion_cost != DeletionCost::Unset && !(plan.values.contains_key(&pod.node_name) && is_counted(pod))
    });
    plan.writes.extend(others.filter_map(|pod| write_of(pod, None, pool_of(snapshot, pod))));
    plan
}

/// Changes by which every value of ours goes.
#[must_use]
pub fn remove_deletion_costs(snapshot: &Snapshot) -> Vec<CostWrite> {
    snapshot.pods.values().filter_map(|pod| write_of(pod, None, pool_of(snapshot, pod))).collect()
}

/// The change that gives a pod a value, or none; `None` if it is so, or not ours to change.
fn write_of(pod: &PodEntry, wanted: Option<i32>, pool: &str) -> Option<CostWrite> {
    if !pod.is_active() {
        return None;
    }
    let change = match (pod.deletion_cost, wanted) {
        (DeletionCost::OfUser, _) | (DeletionCost::Unset, None) => return None,
        (DeletionCost::Ours(known), Some(value)) if known == value => return None,
        (DeletionCost::Overwritten, _) | (DeletionCost::TakenOff, None) => CostChange::Unmark,
        (DeletionCost::Ours(_), None) => CostChange::Remove,
        (_, Some(value)) => CostChange::Set(value),
    };
    Some(CostWrite {
        uid: pod.pod.uid.clone(),
        namespace: pod.pod.namespace.clone(),
        name: pod.pod.name.clone(),
        version: pod.resource_version,
        node: pod.node_name.clone(),
        pool: pool.to_owned(),
        change,
    })
}

/// True if a ReplicaSet goes by the pod's value: no other controller does.
fn is_counted(pod: &PodEntry) -> bool {
    let of_set = pod.controller.as_ref().is_some_and(|key| key.starts_with("ReplicaSet/"));
    of_set && pod.is_active() && !pod.unreadable
}

/// True if a rule of the pod's spread must not be broken: going by nodes would break it, where ReplicaSets alone keep to it
/// roughly.
fn spreads_hard(pod: &PodEntry, hard_by_default: bool) -> bool {
    let own = &pod.pod.topology_spread_constraints;
    if own.is_empty() { hard_by_default } else { own.iter().any(is_hard) }
}

fn is_hard(constraint: &TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable == "DoNotSchedule"
}

/// The value that a node's pods have by us, other than that of a node that leaves; the least where they differ.
fn current_value(machine: &NodeAndClaim<'_>) -> Option<i32> {
    let pods = machine.load.into_iter().flat_map(|load| load.pods.values());
    let ours = pods.filter(|pod| is_counted(pod)).filter_map(|pod| match pod.deletion_cost {
        DeletionCost::Ours(value) => Some(value),
        _ => None,
    });
    ours.filter(|value| *value != LEAVING).min()
}

/// The NodePool of a pod's node.
fn pool_of<'a>(snapshot: &'a Snapshot, pod: &PodEntry) -> &'a str {
    let node = snapshot.nodes.get(&pod.node_name);
    node.and_then(|node| node.labels.get(crate::labels::NODE_POOL)).map(String::as_str).unwrap_or_default()
}
