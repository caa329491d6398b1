//! The claims of a static pool, by what becomes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels::NODE_POOL;
use dovetail_api::v1::NodePool;

use super::{ClaimEntry, ClaimFacts, Snapshot, WatchedKind};
use crate::lifecycle::ClaimStage;
use crate::lifecycle::claim::from_quantities;
use crate::resources::NODES;

/// The claims of a static pool.
#[derive(Clone, Debug)]
pub struct ReplicaCount<'a> {
    pub pool: &'a NodePool,
    /// `spec.replicas`.
    pub desired: usize,
    /// Claims that stay, created or planned.
    pub active: Vec<&'a Arc<ClaimEntry>>,
    /// Claims that stay until their successors stand.
    pub outgoing: Vec<&'a Arc<ClaimEntry>>,
    /// Number of claims that go.
    pub going: usize,
    /// Number of claims of the pool that cannot be read: they count as active.
    pub unread: usize,
}

impl ReplicaCount<'_> {
    /// Number of nodes that the pool lacks. While a claim waits for its successor, that one comes in addition to it.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.desired.saturating_sub(self.standing())
    }

    /// Number of claims beyond `replicas`.
    #[must_use]
    pub fn surplus(&self) -> usize {
        self.standing().saturating_sub(self.desired)
    }

    /// Number of claims that `spec.limits.nodes` leaves room for. All claims count, those too that go.
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit().map_or(usize::MAX, |limit| limit.saturating_sub(self.all()))
    }

    /// `spec.limits.nodes`.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        let limits = from_quantities(self.pool.spec.limits.as_ref()?);
        let named = limits.iter().any(|(name, _)| name == NODES);
        named.then(|| usize::try_from(limits.get(NODES)).unwrap_or_default())
    }

    /// Number of all claims, whatever becomes of them.
    #[must_use]
    pub fn all(&self) -> usize {
        self.standing() + self.outgoing.len() + self.going
    }

    /// Number of claims that stay.
    #[must_use]
    pub fn standing(&self) -> usize {
        self.active.len() + self.unread
    }

    /// Number of claims without an instance.
    #[must_use]
    pub fn unlaunched(&self) -> usize {
        self.active.iter().filter(|entry| entry.provider_id().is_empty()).count()
    }

    /// Number of nodes that are initialized and stay.
    #[must_use]
    pub fn initialized(&self) -> usize {
        self.active.iter().filter(|entry| entry.facts.stage == Some(ClaimStage::Initialized)).count()
    }

    /// Number of nodes that stay and are ready for pods.
    #[must_use]
    pub fn ready(&self, snapshot: &Snapshot) -> usize {
        let is_ready = |entry: &&&Arc<ClaimEntry>| {
            let node = snapshot.nodes.get(&entry.facts.node);
            entry.facts.stage == Some(ClaimStage::Initialized) && node.is_some_and(|node| node.ready)
        };
        self.active.iter().filter(is_ready).count()
    }
}

impl Snapshot {
    /// The claims of each static pool, by its name. `asked` returns true for a claim, by uid, whose removal is asked for and
    /// not seen yet.
    #[must_use]
    pub fn replica_counts(&self, asked: impl Fn(&str) -> bool) -> BTreeMap<&str, ReplicaCount<'_>> {
        let mut all: BTreeMap<&str, ReplicaCount<'_>> = BTreeMap::new();
        for (name, pool) in self.pools.iter() {
            let Some(desired) = pool.spec.replicas else { continue };
            let desired = usize::try_from(desired).unwrap_or_default();
            let (active, outgoing) = (Vec::new(), Vec::new());
            all.insert(name, ReplicaCount { pool, desired, active, outgoing, going: 0, unread: 0 });
        }
        if all.is_empty() {
            return all;
        }
        for entry in self.claims.values() {
            let Some(count) = all.get_mut(entry.facts.pool.as_str()) else { continue };
            if entry.facts.deleting || asked(&entry.facts.uid) {
                count.going += 1;
            } else if self.is_outgoing(&entry.facts) {
                count.outgoing.push(entry);
            } else {
                count.active.push(entry);
            }
        }
        for (claim, object) in self.unreadable_of(WatchedKind::NodeClaim) {
            let own = object.metadata.labels.as_ref().and_then(|own| own.get(NODE_POOL));
            let count = own.and_then(|pool| all.get_mut(pool.as_str()));
            if let Some(count) = count.filter(|_| !self.claims.contains_key(claim)) {
                count.unread += 1;
            }
        }
        all
    }

    /// True if a claim goes once another stands in its stead, or because its Node goes.
    fn is_outgoing(&self, claim: &ClaimFacts) -> bool {
        claim.disruption_reason || self.deleting.claims.contains(&claim.name)
    }

    /// True if a claim is one of a static pool's `replicas`: it is needed, whatever pods are expected on it.
    #[must_use]
    pub fn is_replica(&self, claim: &str) -> bool {
        let Some(entry) = self.claims.get(claim) else { return false };
        let is_static = self.pools.get(&entry.facts.pool).is_some_and(|pool| pool.spec.replicas.is_some());
        is_static
            && self.replica_counts(|_| false).get(entry.facts.pool.as_str()).is_some_and(|count| count.surplus() == 0)
    }
}
