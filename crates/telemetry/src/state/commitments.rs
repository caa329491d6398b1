//! Savings Plans and Reserved Instances: the part of them that nothing uses.

use dovetail_actors::replica::ReplicaView;
use dovetail_core::paid_machines::Running;
use dovetail_observability::metrics::MetricsPage;

/// Writes nothing where no commitments are in force.
pub(super) fn commitments(page: &mut MetricsPage, view: &ReplicaView) {
    if view.commitments.is_empty() {
        return;
    }
    let running = Running::from_snapshot(&view.snapshot, &view.types);
    let help = "Nodes that may use commitments and whose on-demand price is not known: while there are any, commitments do not count";
    page.gauge("dovetail_commitment_nodes_without_price", help);
    page.sample("dovetail_commitment_nodes_without_price", &[], running.unpriced.len() as f64);
    let name = "dovetail_commitment_unused_dollars_per_hour";
    page.gauge(name, "Part of what a commitment costs an hour that nothing uses");
    let unused = view.commitments.unused(&running.all_uses());
    for one in view.commitments.iter() {
        let own = unused.iter().find(|unused| unused.id == one.id).map_or(0.0, |unused| unused.dollars);
        page.sample(name, &[("commitment", &one.id)], own);
    }
}
