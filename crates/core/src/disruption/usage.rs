//! Usage of a pool's nodes together, as its status has it (core spec 1.1).

use std::collections::BTreeMap;

use dovetail_api::v1::NodePool;

use super::RemovalReason;
use super::emptiness::PoolNodeTotals;
use super::machines::machines;
use crate::cluster_state::{ClaimEntry, Moment, NodeEntry, Snapshot};
use crate::lifecycle::claim::{from_quantities, to_quantities};
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS, Resources};

/// Usage of a pool's nodes: of those that stay, there or launched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Sum of the nodes' capacities; the resource `nodes` counts them.
    pub resources: Resources,
}

impl PoolUsage {
    #[must_use]
    pub fn nodes(&self) -> i64 {
        self.resources.get(NODES)
    }

    /// True if the pool's status has the same.
    #[must_use]
    pub fn is_said_by(&self, pool: &NodePool) -> bool {
        pool.status
            .as_ref()
            .is_some_and(|status| status.nodes == self.nodes() && status.resources == to_quantities(&self.resources))
    }
}

#[must_use]
pub fn usage(snapshot: &Snapshot) -> BTreeMap<String, PoolUsage> {
    let mut all: BTreeMap<&str, PoolUsage> = snapshot.pools.keys().map(|name| (name.as_str(), none())).collect();
    let stays = |entry: &&std::sync::Arc<ClaimEntry>| {
        !entry.provider_id().is_empty() && !entry.facts.deleting && !snapshot.is_refused(&entry.facts.name)
    };
    for entry in snapshot.claims.values().filter(stays) {
        let node = snapshot.node_of(entry).map(AsRef::as_ref);
        let stays = node.is_none_or(|node| !node.deleting);
        if let Some(sum) = all.get_mut(entry.facts.pool.as_str()).filter(|_| stays) {
            add(&mut sum.resources, entry, node);
        }
    }
    all.into_iter().map(|(name, usage)| (name.to_owned(), usage)).collect()
}

/// Numbers of nodes that use the pools' budgets up, by pool, for each reason that budgets know (core spec 5.3): those that
/// disruption counts, of what the cluster shows.
#[must_use]
pub fn nodes_using_budgets(snapshot: &Snapshot, now: Moment) -> BTreeMap<&str, Vec<(RemovalReason, usize)>> {
    let mut totals: BTreeMap<&str, PoolNodeTotals> =
        snapshot.pools.keys().map(|name| (name.as_str(), PoolNodeTotals::default())).collect();
    for machine in machines(snapshot, now) {
        if let Some(own) = totals.get_mut(machine.claim.pool.as_str()) {
            own.count(&machine, machine.deleting);
        }
    }
    let by_reason = |own: PoolNodeTotals| RemovalReason::OF_BUDGETS.map(|reason| (reason, own.used_for(reason))).into();
    totals.into_iter().map(|(name, own)| (name, by_reason(own))).collect()
}

/// A usage of nothing, with the resources that are always named.
fn none() -> PoolUsage {
    let always = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES];
    PoolUsage { resources: always.into_iter().map(|name| (name.to_owned(), 0)).collect() }
}

/// The Node's capacity; until it is initialized, what it does not say yet is what the cloud promised.
fn add(sum: &mut Resources, entry: &ClaimEntry, node: Option<&NodeEntry>) {
    match node.filter(|_| entry.facts.initialized.is_some()) {
        Some(node) => sum.add(&node.capacity),
        None => {
            let promised = entry.claim.status.as_ref().map(|status| from_quantities(&status.capacity));
            let mut own = promised.unwrap_or_default();
            for (name, amount) in node.iter().flat_map(|node| node.capacity.iter()).filter(|(_, amount)| *amount != 0) {
                own.set(name, amount);
            }
            sum.add(&own);
        }
    }
    sum.set(NODES, sum.get(NODES) + 1);
}
