//! Limits of a NodePool: the resources counted for them, and the rest that is left to a claim made by an earlier leader.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::labels;
use dovetail_api::v1::{NodeClaim, NodePool, NodeSelectorOperator};
use dovetail_api::validation::own::max_cost_of_pool;
use jiff::Timestamp;

use super::pool_cost;
use crate::cluster_state::{ClaimEntry, JoinedNode, NodeSource, Snapshot};
use crate::instance_type::InstanceType;
use crate::lifecycle::claim::from_quantities;
use crate::pack::LimitsLeft;
use crate::resources::{DOLLARS, Resources, amount_of_dollars};

/// Reason why the cloud is not asked for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRequest {
    /// Reason as counted by metrics.
    pub label: &'static str,
    pub reason: &'static str,
    /// The reason in words.
    pub why: &'static str,
}

/// The claim's node class is not there.
pub const NO_CLASS: NoRequest = NoRequest {
    label: "nodeclass_not_ready",
    reason: "NodeClassNotReady",
    why: "its EC2NodeClass is not there or not resolved",
};
const NO_ROOM: NoRequest = NoRequest {
    label: "limits",
    reason: "LimitsReached",
    why: "an earlier leader has made it, and what has been planned since leaves no room for it in its NodePool's limits",
};
const NO_QUOTA: NoRequest = NoRequest {
    label: "quota",
    reason: "QuotaReached",
    why: "a CapacityQuota leaves no room for it beside what is there and what was created before it",
};

impl Snapshot {
    /// The candidates that a claim may still get when it is launched. Packing has checked those that were planned in this term
    /// against their pools' limits; against quotas all are looked at again, as others plan beside packing, and a quota may be
    /// lower than it was.
    ///
    /// # Errors
    /// The reason if there are none left.
    pub fn still_allowed(
        &self,
        claim: &NodeClaim,
        candidates: Vec<Arc<InstanceType>>,
        types: &[Arc<InstanceType>],
        adopted: bool,
    ) -> Result<Vec<Arc<InstanceType>>, NoRequest> {
        if candidates.is_empty() {
            return Ok(candidates);
        }
        let left = if adopted { self.within_limits(claim, &candidates, types) } else { candidates };
        if left.is_empty() {
            return Err(NO_ROOM);
        }
        let left = self.within_quotas(claim, left, types);
        if left.is_empty() { Err(NO_QUOTA) } else { Ok(left) }
    }

    /// The `candidates` that a claim may still get: its pool's limits have room for them beside all nodes of the pool, all
    /// planned ones, and the most that claims made before this one may get. If a leader was cut off in the middle of its plan and
    /// its last creations came late, its successor has planned without them. `types` are all types of the claim's class.
    #[must_use]
    pub fn within_limits(
        &self,
        claim: &NodeClaim,
        candidates: &[Arc<InstanceType>],
        types: &[Arc<InstanceType>],
    ) -> Vec<Arc<InstanceType>> {
        let pool = claim.metadata.labels.as_ref().and_then(|own| own.get(labels::NODE_POOL)).map_or("", String::as_str);
        let Some(limits) = self.pools.get(pool).map(|pool| limits_of(pool)).filter(|limits| !limits.is_empty()) else {
            return candidates.to_vec();
        };
        let counts = |source: &NodeSource| match source {
            NodeSource::Claim(entry) if entry.is_open() => age(&entry.claim) < age(claim),
            NodeSource::Claim(entry) => entry.claim.metadata.name != claim.metadata.name,
            NodeSource::Node(_) | NodeSource::Both(..) => true,
        };
        let others: Vec<_> = self
            .machines()
            .iter()
            .filter(|source| source.pool() == pool && counts(source))
            .map(|source| self.join(source))
            .collect();
        let used = with_cost(usage(others.iter(), types), &limits, others.iter(), types);
        let limits = LimitsLeft::new(&limits, &used);
        let wanted = pool_cost::requirements(claim);
        let allowed = |one: &&Arc<InstanceType>| {
            let mut capacity = one.capacity.clone();
            capacity.set(DOLLARS, pool_cost::dearest(&wanted, one));
            limits.allow(&capacity)
        };
        candidates.iter().filter(allowed).cloned().collect()
    }
}

/// Limits of a pool: those of its spec, and its ceiling of dollars an hour where that can be read.
pub(in crate::cluster_state) fn limits_of(pool: &NodePool) -> Resources {
    let mut limits = pool.spec.limits.as_ref().map(from_quantities).unwrap_or_default();
    if let Ok(Some(dollars)) = max_cost_of_pool(pool) {
        limits.set(DOLLARS, amount_of_dollars(dollars));
    }
    limits
}

/// A pool's usage with what its nodes cost, where its limits ask for that.
pub(in crate::cluster_state) fn with_cost<'a>(
    mut usage: Resources,
    limits: &Resources,
    machines: impl Iterator<Item = &'a JoinedNode>,
    types: &[Arc<InstanceType>],
) -> Resources {
    if limits.find(DOLLARS).is_some() {
        usage.set(DOLLARS, pool_cost::cost(machines, types));
    }
    usage
}

/// Order of claims that nobody has planned with: the earlier goes first.
pub(super) fn age(claim: &NodeClaim) -> (Option<Timestamp>, Option<&String>) {
    (claim.metadata.creation_timestamp.as_ref().map(|time| time.0), claim.metadata.name.as_ref())
}

/// Resources that the staying machines of a pool have together, or may have.
pub(in crate::cluster_state) fn usage<'a>(
    machines: impl Iterator<Item = &'a JoinedNode>,
    types: &[Arc<InstanceType>],
) -> Resources {
    let mut sum = Resources::new();
    for node in machines.filter(|node| !node.deleting || node.held) {
        match &node.source {
            NodeSource::Claim(entry) if entry.is_open() => sum.add(&most(entry, &node.capacity, types)),
            _ => sum.add(&node.capacity),
        }
    }
    sum
}

/// The most resources that a claim may get that an earlier leader has made and the cloud has not answered.
fn most(entry: &ClaimEntry, asked: &Resources, types: &[Arc<InstanceType>]) -> Resources {
    let named = entry.claim.spec.requirements.iter().filter(|one| one.key == labels::INSTANCE_TYPE);
    let allowed: BTreeSet<&String> =
        named.filter(|one| one.operator == NodeSelectorOperator::In).flat_map(|one| &one.values).collect();
    let mut most = asked.clone();
    types.iter().filter(|one| allowed.contains(&one.name)).for_each(|one| most.max(&one.capacity));
    most
}
