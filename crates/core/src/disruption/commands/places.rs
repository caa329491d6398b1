//! Where the pods of claims that are to go would be, as packing has it: what a [`Wanted`] becomes a [`Command`] by.

use std::sync::Arc;

use super::{Command, Wanted};
use crate::cluster_state::{Leaving, Planning, PlanningInput, PodEntry, Snapshot};
use crate::pack::Packing;

/// The packing problem of the pods of these claims' nodes, as if the nodes were leaving.
#[must_use]
pub fn problem_of(wanted: &Wanted, snapshot: &Snapshot, input: &PlanningInput) -> Planning {
    let mut without = snapshot.clone();
    let mut leaving = Leaving::clone(&snapshot.leaving);
    for claim in &wanted.claims {
        leaving.claims.insert(claim.claim.clone());
        leaving.nodes.extend(Some(claim.node.clone()).filter(|node| !node.is_empty()));
    }
    without.leaving = Arc::new(leaving);
    let nodes = wanted.claims.iter().filter_map(|claim| snapshot.loads.get(&claim.node));
    let pods: Vec<&Arc<PodEntry>> =
        nodes.flat_map(|load| load.pods.values()).filter(|pod| pod.is_active() && pod.reschedulable()).collect();
    without.planning_for(input, &pods)
}

/// The command by a packing of that problem.
///
/// # Errors
/// A pod that would have no place, and why.
pub fn command_of(wanted: Wanted, planning: &Planning, packing: Packing) -> Result<Command, String> {
    let problem = &planning.problem;
    if let Some((pod, why)) = packing.unscheduled.first() {
        let pod = &problem.pods[*pod];
        return Err(format!("pod {}/{} would have no place: {why}", pod.namespace, pod.name));
    }
    let uids = |pods: &[usize]| pods.iter().map(|pod| problem.pods[*pod].uid.clone()).collect::<Vec<_>>();
    Ok(Command {
        wanted,
        on_existing: packing.on_existing.iter().map(|(node, pods)| (*node, uids(pods))).collect(),
        pods: problem.pods.iter().map(|pod| pod.uid.clone()).collect(),
        price_before: 0.0,
        price_after: packing.claims.iter().map(|claim| claim.price).sum(),
        price_move: false,
        replacements: packing.claims,
    })
}
