//! Spot capacity without a queue to hear its interruptions by.

use std::collections::BTreeSet;

use dovetail_api::names::labels;
use dovetail_api::v1::{NodeClaim, NodePool, NodeSelectorOperator};

/// Nodes and pools whose interruptions are not received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unheard {
    /// How many nodes are spot.
    pub nodes: usize,
    /// Names of pools that have such a node, or that name spot among their capacity types.
    pub pools: BTreeSet<String>,
}

/// What of the cluster uses spot.
#[must_use]
pub fn unheard<'a>(claims: impl Iterator<Item = &'a NodeClaim>, pools: impl Iterator<Item = &'a NodePool>) -> Unheard {
    let mut found = Unheard::default();
    for claim in claims {
        let label = |key: &str| claim.metadata.labels.as_ref()?.get(key);
        if label(labels::CAPACITY_TYPE).is_some_and(|one| one == labels::SPOT) {
            found.nodes += 1;
            found.pools.extend(label(labels::NODE_POOL).cloned());
        }
    }
    for pool in pools {
        let mut named = pool.spec.template.spec.requirements.iter();
        let asks = named.any(|one| {
            one.key == labels::CAPACITY_TYPE
                && one.operator == NodeSelectorOperator::In
                && one.values.iter().any(|one| one == labels::SPOT)
        });
        if asks && pool.metadata.deletion_timestamp.is_none() {
            found.pools.extend(pool.metadata.name.clone());
        }
    }
    found
}
