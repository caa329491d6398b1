//! Savings Plans and Reserved Instances: the part of them that nothing uses.

use dovetail_actors::replica::ReplicaView;
use dovetail_core::commitments::{Commitment, OtherUses};
use dovetail_core::paid_machines::Running;
use dovetail_observability::metrics::MetricsPage;

/// Commitments that are in force, and what takes of them.
pub(crate) struct Unused<'a> {
    /// Each with the dollars an hour of it that nothing uses.
    pub by_commitment: Vec<(&'a Commitment, f64)>,
    pub running: Running,
}

/// `None` where no commitments are in force.
pub(crate) fn unused(view: &ReplicaView) -> Option<Unused<'_>> {
    if view.commitments.is_empty() {
        return None;
    }
    // Nobody uses what others had lately and have no more.
    let others = OtherUses { now: view.commitments.others().now.clone(), ..OtherUses::default() };
    let running = Running::from_snapshot(&view.snapshot, &view.types).beside(&others);
    let unused = view.commitments.unused(&running.all_uses());
    let part = |id: &str| unused.iter().find(|unused| unused.id == id).map_or(0.0, |unused| unused.dollars);
    let by_commitment = view.commitments.iter().map(|one| (one, part(&one.id))).collect();
    Some(Unused { by_commitment, running })
}

/// Writes nothing where no commitments are in force.
pub(super) fn commitments(page: &mut MetricsPage, view: &ReplicaView) {
    let Some(Unused { by_commitment, running }) = unused(view) else { return };
    let help = "Nodes that may use commitments and whose on-demand price is not known: while there are any, commitments do not count";
    page.gauge("dovetail_commitment_nodes_without_price", help);
    page.sample("dovetail_commitment_nodes_without_price", &[], running.unpriced.len() as f64);
    let help = "Dollars an hour that this cluster and others of the account pay on demand beyond what each would pay with the commitments to itself";
    page.gauge("dovetail_commitment_contention_dollars_per_hour", help);
    let contention = view.commitments.contention(&running.own_uses(), &running.others);
    page.sample("dovetail_commitment_contention_dollars_per_hour", &[], contention);
    let name = "dovetail_commitment_unused_dollars_per_hour";
    page.gauge(name, "Part of what a commitment costs an hour that nothing uses");
    for (one, unused) in by_commitment {
        page.sample(name, &[("commitment", &one.id)], unused);
    }
}
