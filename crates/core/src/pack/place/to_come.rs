//! Pods that are still to come have had their part in the choice of nodes; the answer is about those that wait.

use crate::pack::model::plan::Packing;
use crate::problem::Problem;

/// Takes pods that are to come out of an answer, and the nodes that are for them alone.
pub(crate) fn taken_out(problem: &Problem, mut packing: Packing) -> Packing {
    let waits = |pod: &usize| !problem.pods[*pod].to_come;
    if problem.pods.iter().all(|pod| !pod.to_come) {
        return packing;
    }
    packing.claims.iter_mut().for_each(|claim| claim.pods.retain(waits));
    packing.claims.retain(|claim| !claim.pods.is_empty());
    packing.on_existing.iter_mut().for_each(|(_, pods)| pods.retain(waits));
    packing.on_existing.retain(|(_, pods)| !pods.is_empty());
    packing.unscheduled.retain(|(pod, _)| waits(pod));
    packing.sum_prices();
    packing
}
