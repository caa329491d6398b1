//! Reasons that keep a node that could go (core spec 5.2): its own annotation, and that of its pods or the PodDisruptionBudget
//! that protects them.

use jiff::Timestamp;

use super::machines::NodeAndClaim;
use crate::cluster_state::{DoNotDisrupt, PodEntry, Snapshot};
use crate::termination::drain::ends_with_its_node;

/// A node that could go and may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its claim's name.
    pub claim: String,
    /// Its claim's uid.
    pub uid: String,
    /// Its Node's name.
    pub node: String,
    pub node_uid: String,
    /// The reason that keeps it, as a sentence without its end.
    pub why: String,
    /// True if the reason was another at the look before.
    pub news: bool,
}

/// The reason why a machine may not go, and the time at which that ends by itself.
pub fn why(machine: &NodeAndClaim<'_>, snapshot: &Snapshot, now: Timestamp) -> Option<(String, Option<Timestamp>)> {
    held(machine, now)
        .or_else(|| protected(machine, snapshot, now).or_else(|| shared(machine, snapshot)).map(|why| (why, None)))
}

/// The reason if a pod on it would get no devices elsewhere, as somebody who stays uses them too.
fn shared(machine: &NodeAndClaim<'_>, snapshot: &Snapshot) -> Option<String> {
    let mut moving = pods(machine).filter(|pod| pod.is_active() && pod.reschedulable());
    moving.find_map(|pod| snapshot.held_by_claims(pod))
}

/// The reason if the cluster is shifted away from its zone, or if the node or a pod on it asks to be left alone, with the time at
/// which that ends. DaemonSets' pods and mirror pods are asked as well.
pub fn held(machine: &NodeAndClaim<'_>, now: Timestamp) -> Option<(String, Option<Timestamp>)> {
    held_by_node(machine).or_else(|| asked_by_pod(machine, now))
}

/// The same, whatever its pods ask for.
pub fn held_by_node(machine: &NodeAndClaim<'_>) -> Option<(String, Option<Timestamp>)> {
    if let Some(shifted) = machine.shifted {
        return Some((shifted.to_string(), shifted.until));
    }
    machine.node.do_not_disrupt.map(|annotation| (format!("the node has the annotation {annotation}"), None))
}

/// The reason if a pod on it would keep it, be it by its own annotation or a PodDisruptionBudget.
pub fn by_pods(machine: &NodeAndClaim<'_>, snapshot: &Snapshot, now: Timestamp) -> Option<(String, Option<Timestamp>)> {
    asked_by_pod(machine, now).or_else(|| protected(machine, snapshot, now).map(|why| (why, None)))
}

/// The reason if a pod on it asks to be left alone, with the time at which that ends.
pub fn asked_by_pod(machine: &NodeAndClaim<'_>, now: Timestamp) -> Option<(String, Option<Timestamp>)> {
    if let Some(pod) = pods(machine).find(|pod| pod.is_active() && pod.unreadable) {
        return Some((format!("pod {} cannot be read", name(pod)), None));
    }
    let mut holding = pods(machine).filter(|pod| pod.is_active() && pod.do_not_disrupt.holds(now));
    let pod = holding.next()?;
    let why = format!("pod {} has the annotation {}", name(pod), pod.asks_by);
    let until = match pod.do_not_disrupt {
        DoNotDisrupt::Until(end) => Some(end),
        _ => None,
    };
    Some((why, until))
}

fn pods<'a>(machine: &NodeAndClaim<'a>) -> impl Iterator<Item = &'a PodEntry> {
    machine.load.into_iter().flat_map(|load| load.pods.values()).map(AsRef::as_ref)
}

/// The reason if a PodDisruptionBudget would refuse the eviction of a pod on it. Judged pod by pod.
pub fn protected(machine: &NodeAndClaim<'_>, snapshot: &Snapshot, now: Timestamp) -> Option<String> {
    let evicted = |pod: &&PodEntry| pod.is_active() && !pod.do_not_disrupt.holds(now) && !ends_with_its_node(pod);
    let pods = machine.load.into_iter().flat_map(|load| load.pods.values()).map(AsRef::as_ref);
    pods.filter(evicted).find_map(|pod| {
        let mut covering = snapshot.budgets_of(&pod.pod);
        let budget = covering.next()?;
        // Its Deployment's rollout keeps the budget.
        if snapshot.moves_by_rollout(pod) {
            return None;
        }
        if let Some(other) = covering.next() {
            return Some(format!("pod {} is covered by pdb {} and pdb {}", name(pod), budget.name(), other.name()));
        }
        let refuses = budget.refuses_now(pod.ready);
        refuses.then(|| format!("pdb {} prevents the eviction of pod {}", budget.name(), name(pod)))
    })
}

/// Pods on a machine whose annotation cannot be read, with its text.
pub fn nonsense<'a>(machine: &NodeAndClaim<'a>) -> impl Iterator<Item = (&'a PodEntry, &'a str)> {
    let pods = machine.load.into_iter().flat_map(|load| load.pods.values());
    pods.filter_map(|pod| match &pod.do_not_disrupt {
        DoNotDisrupt::Invalid(text) => Some((pod.as_ref(), text.as_str())),
        _ => None,
    })
}

fn name(pod: &PodEntry) -> String {
    format!("{}/{}", pod.pod.namespace, pod.pod.name)
}
