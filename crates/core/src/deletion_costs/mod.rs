//! Deletion costs of pods: ReplicaSets that are scaled in give up their pods on nodes that are to go (feature gate
//! PodDeletionCostManagement; docs/decisions/084).
//!
//! ```text
//! nodes ──► ranks: leaving │ drifted, within the budget │ others, within the budget │ not ranked
//!                     └─ lowest number ─┴──── ascending numbers ────┘                     │
//!                                       └──► one value for a node's pods                no value
//!                                            less: pods with a user's value, with a hard topology spread, or that
//!                                            ask to be left alone
//! ```
//!
//! A pod is written only where its value changes, and a ranked node keeps its value as long as the order allows it. Our own
//! values are marked ([`DeletionCost`]): a successor knows them by that, and so does who takes them off when the gate is closed.

mod memory;
mod order;
mod pace;
mod rank;
#[cfg(test)]
mod tests;
mod values;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::TopologySpreadConstraint;

pub use memory::{KEPT_FOR, ValuedNodes};
pub use pace::WritePace;

use self::order::DueWrites;
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

/// Decides the values of all pods. `default_spread` has the constraints that kube-scheduler applies to pods without any, and
/// `before` the nodes that had values at the look before.
#[must_use]
pub fn plan_deletion_costs(
    snapshot: &Snapshot,
    offers: &OffersByClass,
    default_spread: &[TopologySpreadConstraint],
    before: &mut ValuedNodes,
    now: Moment,
) -> CostPlan {
    let machines = machines(snapshot, now);
    let may_have = MayHave { hard_by_default: default_spread.iter().any(is_hard), now: now.wall };
    let valued = machines.iter().filter(|machine| current_value(machine, may_have).is_some());
    before.begin(valued.map(|machine| machine.node.name.as_str()), now.monotonic);
    let judge = |machine: &NodeAndClaim<'_>| rank::judge(machine, snapshot, now);
    let ranked = rank::rank_nodes(snapshot, &machines, offers, before, now, judge);
    before.note(ranked.in_order.iter().map(|one| (one.machine.node.name.as_str(), one.may_go)), now.monotonic);
    let current: Vec<Option<i32>> = ranked.in_order.iter().map(|one| current_value(one.machine, may_have)).collect();
    let values = values::ascending(&current);
    let leaving = ranked.leaving.iter().map(|machine| (*machine, LEAVING));
    let in_order = ranked.in_order.iter().map(|one| one.machine).zip(values);
    let (mut values, mut writes) = (BTreeMap::new(), DueWrites::default());
    for (machine, value) in leaving.chain(in_order) {
        values.insert(machine.node.name.clone(), value);
        for pod in counted_pods(machine) {
            let wanted = may_have.value(pod).then_some(value);
            writes.add(pod, now.wall, write_of(pod, wanted, &machine.claim.pool));
        }
    }
    let others = snapshot.pods.values().filter(|pod| {
        pod.deletion_cost != DeletionCost::Unset && !(values.contains_key(&pod.node_name) && is_counted(pod))
    });
    for pod in others {
        writes.add(pod, now.wall, write_of(pod, None, pool_of(snapshot, pod)));
    }
    CostPlan { values, writes: writes.in_order() }
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

/// Pods of a node that have its value unless their rules forbid it.
fn counted_pods<'a>(machine: &NodeAndClaim<'a>) -> impl Iterator<Item = &'a PodEntry> {
    let pods = machine.load.into_iter().flat_map(|load| load.pods.values()).map(AsRef::as_ref);
    pods.filter(|pod| is_counted(pod))
}

/// Rules of pods that keep them from having a value.
#[derive(Clone, Copy)]
struct MayHave {
    /// True if kube-scheduler's default for pods without a rule is one that must not be broken.
    hard_by_default: bool,
    now: Timestamp,
}

impl MayHave {
    /// True if a pod may have a value: it does not ask to be left alone, and no rule of its spread must hold. Going by nodes
    /// would break such a rule, where ReplicaSets alone keep to it roughly.
    fn value(self, pod: &PodEntry) -> bool {
        let own = &pod.pod.topology_spread_constraints;
        let is_hard = if own.is_empty() { self.hard_by_default } else { own.iter().any(is_hard) };
        !is_hard && !pod.do_not_disrupt.holds(self.now)
    }
}

fn is_hard(constraint: &TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable == "DoNotSchedule"
}

/// The value that most of a node's pods have by us, other than that of a node that leaves; of several the least. A single pod
/// may have copied its value from its template.
fn current_value(machine: &NodeAndClaim<'_>, may_have: MayHave) -> Option<i32> {
    let mut numbers: BTreeMap<i32, usize> = BTreeMap::new();
    for pod in counted_pods(machine).filter(|pod| may_have.value(pod)) {
        if let DeletionCost::Ours(value) = pod.deletion_cost {
            *numbers.entry(value).or_default() += 1;
        }
    }
    numbers.remove(&LEAVING);
    numbers.into_iter().max_by_key(|(value, pods)| (*pods, Reverse(*value))).map(|(value, _)| value)
}

/// The NodePool of a pod's node.
fn pool_of<'a>(snapshot: &'a Snapshot, pod: &PodEntry) -> &'a str {
    let node = snapshot.nodes.get(&pod.node_name);
    node.and_then(|node| node.labels.get(crate::labels::NODE_POOL)).map(String::as_str).unwrap_or_default()
}
