//! Gauges of pools: limits, usage and budgets.

use dovetail_actors::replica::ReplicaView;
use dovetail_core::disruption::{self, RemovalReason};
use dovetail_core::resources::NODES;
use dovetail_observability::metrics::MetricsPage;

use super::amount;

pub(super) fn pools(page: &mut MetricsPage, view: &ReplicaView) {
    let snapshot = &view.snapshot;
    page.gauge("karpenter_nodepools_limit", "What a pool's nodes may have together");
    for (name, pool) in snapshot.pools.iter() {
        let limits =
            pool.spec.limits.as_ref().map(dovetail_core::lifecycle::claim::from_quantities).unwrap_or_default();
        for (resource, _) in limits.iter() {
            let own = [("resource_type", resource), ("nodepool", name.as_str())];
            page.sample("karpenter_nodepools_limit", &own, amount(resource, &limits));
        }
    }
    let usage = disruption::usage(snapshot);
    page.gauge("karpenter_nodepools_usage", "What a pool's nodes have together");
    for (name, usage) in &usage {
        for (resource, _) in usage.resources.iter() {
            let own = [("resource_type", resource), ("nodepool", name.as_str())];
            page.sample("karpenter_nodepools_usage", &own, amount(resource, &usage.resources));
        }
    }
    page.gauge("karpenter_nodepools_allowed_disruptions", "How many nodes of a pool its budgets let go at a time");
    for (name, pool) in snapshot.pools.iter() {
        let total = usage.get(name).map_or(0, |usage| usize::try_from(usage.resources.get(NODES)).unwrap_or(0));
        for reason in RemovalReason::OF_BUDGETS {
            let allowed = disruption::allowed(pool, reason, total, view.now.wall).after(0).min(total);
            let own = [("nodepool", name.as_str()), ("reason", reason.label())];
            page.sample("karpenter_nodepools_allowed_disruptions", &own, allowed as f64);
        }
    }
    consuming_budgets(page, view);
}

fn consuming_budgets(page: &mut MetricsPage, view: &ReplicaView) {
    page.gauge("karpenter_nodepools_nodes_consuming_budgets", "How many nodes of a pool use its budgets up");
    for (name, by_reason) in disruption::nodes_using_budgets(&view.snapshot, view.now) {
        for (reason, nodes) in by_reason {
            let own = [("nodepool", name), ("reason", reason.label())];
            page.sample("karpenter_nodepools_nodes_consuming_budgets", &own, nodes as f64);
        }
    }
}
