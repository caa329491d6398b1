//! Places at home: pods that have to move and are alike may have each other's places, so each gets one in its own zone (or
//! whatever else they are spread by, or kept apart by) where there is one.
//!
//! Packing counts pods that have to move as gone. kube-scheduler counts them until they are. A pod whose place is in another
//! zone would leave a hole at home: its successor may not be bound in the other zone until others have left that, and a hole at
//! home waits for a node that is still on its way.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster_state::{Planning, Snapshot};
use crate::pack::{Packing, PlannedClaim, alike};
use crate::pod::{Pod, is_soft};

/// Most classes of pods that are told apart; the pods of others keep the places that packing gave them.
const MOST_CLASSES: usize = 500;

/// Exchanges places among pods that are alike and have to move: each has one in its own domain where there is one.
pub fn stay(snapshot: &Snapshot, planning: &Planning, packing: &mut Packing) {
    let pods = &planning.problem.pods;
    let moves = |at: &usize| snapshot.is_bound(&pods[*at].uid) && !keys(&pods[*at]).is_empty();
    let mut classes: Vec<(Pod, Vec<Slot>)> = Vec::new();
    for (bin, of_bin) in bins(packing).enumerate() {
        for (index, pod) in of_bin.iter().enumerate().filter(|(_, pod)| moves(pod)) {
            let slot = Slot { bin, index, pod: *pod };
            let own = anywhere(&pods[*pod]);
            match classes.iter().position(|(example, _)| alike(example, &own)) {
                Some(class) => classes[class].1.push(slot),
                None if classes.len() < MOST_CLASSES => classes.push((own, vec![slot])),
                None => {}
            }
        }
    }
    for (_, class) in classes.iter().filter(|(_, class)| class.len() > 1) {
        exchange(snapshot, planning, packing, class);
    }
}

/// A pod without the labels that it gets with its node (Kubernetes 1.35).
fn anywhere(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.labels.retain(|key, _| ![crate::labels::ZONE, crate::labels::REGION].contains(&key.as_str()));
    pod
}

/// A place in the answer, and the pod that packing gave it.
#[derive(Clone, Copy)]
struct Slot {
    /// The planned node, or the existing one after those.
    bin: usize,
    /// Index among the bin's pods.
    index: usize,
    pod: usize,
}

fn bins(packing: &Packing) -> impl Iterator<Item = &Vec<usize>> {
    packing.claims.iter().map(|claim| &claim.pods).chain(packing.on_existing.iter().map(|(_, pods)| pods))
}

/// Gives the slots of a class to its pods anew: first to each pod one at home, in their order, then the other slots.
fn exchange(snapshot: &Snapshot, planning: &Planning, packing: &mut Packing, class: &[Slot]) {
    let keys = keys(&planning.problem.pods[class[0].pod]);
    let mut free: BTreeMap<Vec<Option<String>>, Vec<Slot>> = BTreeMap::new();
    for slot in class.iter().rev() {
        free.entry(domain_of_bin(planning, packing, slot.bin, &keys)).or_default().push(*slot);
    }
    let mut away = Vec::new();
    let mut given = Vec::new();
    for slot in class {
        let home = domain_of_pod(snapshot, &planning.problem.pods[slot.pod], &keys);
        match free.get_mut(&home).and_then(Vec::pop) {
            Some(own) => given.push((own, slot.pod)),
            None => away.push(slot.pod),
        }
    }
    given.extend(free.into_values().flatten().zip(away));
    for (slot, pod) in given {
        let claims = packing.claims.len();
        let pods = match packing.claims.get_mut(slot.bin) {
            Some(claim) => &mut claim.pods,
            None => &mut packing.on_existing[slot.bin - claims].1,
        };
        pods[slot.index] = pod;
    }
}

/// The topology keys by which a pod has to be spread, or kept apart from others; not the host's, as every place is on another.
fn keys(pod: &Pod) -> Vec<String> {
    let hard = pod.topology_spread_constraints.iter().filter(|one| !is_soft(one)).map(|one| &one.topology_key);
    let apart = pod.affinity.as_ref().and_then(|all| all.pod_anti_affinity.as_ref());
    let apart = apart.and_then(|all| all.required_during_scheduling_ignored_during_execution.as_ref());
    let keys = hard.chain(apart.into_iter().flatten().map(|term| &term.topology_key));
    keys.filter(|key| *key != crate::labels::HOSTNAME).cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

fn domain_of_pod(snapshot: &Snapshot, pod: &Pod, keys: &[String]) -> Vec<Option<String>> {
    let node = snapshot.pods.get(&pod.uid).and_then(|entry| snapshot.nodes.get(&entry.node_name));
    keys.iter().map(|key| node?.labels.get(key).cloned()).collect()
}

fn domain_of_bin(planning: &Planning, packing: &Packing, bin: usize, keys: &[String]) -> Vec<Option<String>> {
    let existing = || {
        let (node, _) = packing.on_existing.get(bin.checked_sub(packing.claims.len())?)?;
        planning.existing.get(*node)
    };
    let value = |key: &String| match packing.claims.get(bin) {
        Some(claim) => only_value(claim, key),
        None => existing()?.labels.get(key).cloned(),
    };
    keys.iter().map(value).collect()
}

/// The value that a planned node will have for a label, if it is settled.
fn only_value(claim: &PlannedClaim, key: &str) -> Option<String> {
    let mut said = claim.requirements.iter().filter(|one| one.key == key && one.values.len() == 1);
    said.find(|one| one.operator == crate::requirements::Operator::In).map(|one| one.values[0].clone())
}

#[cfg(test)]
mod tests;
