//! NodePools as disruption reads them.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_api::names::annotations;
use dovetail_api::names::conditions::READY;
use dovetail_api::v1::{ConsolidationPolicy, NodePool, is_true};
use dovetail_api::validation::{self, Wrong};
use jiff::{SignedDuration, Timestamp};

use crate::adoption;
use crate::cluster_state::Snapshot;
use crate::labels::ZONE;
use crate::lifecycle::claim::packing_requirement;
use crate::requirements::Requirements;

/// The reason that keeps nodes of a pool that does not consolidate.
pub const NEVER: &str = "its NodePool does not consolidate: consolidateAfter is Never, or it is static";
/// The reason that keeps nodes with pods in a pool whose empty nodes go.
pub const EMPTY_ONLY: &str = "its NodePool's consolidationPolicy is WhenEmpty, and it has pods";

/// Says if a pool's nodes go, or are only watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observing {
    /// Not observed: nodes go.
    No,
    /// Observed: nodes that would go are reported instead.
    Yes,
    /// The annotation has another value, which is kept here: nothing goes before it is clear.
    Unclear(String),
}

/// Pools that may have nodes in a zone: their class has a subnet there, and their requirements allow it.
pub fn pools_in_zone<'a>(snapshot: &'a Snapshot, zone: &'a str) -> impl Iterator<Item = &'a NodePool> {
    let may = move |pool: &&NodePool| {
        let class = pool.spec.template.spec.node_class_ref.name_for(snapshot.provider);
        let class = class.and_then(|name| snapshot.classes.get(name));
        let status = class.and_then(|class| class.status.as_ref());
        let written: Vec<_> = pool.spec.template.spec.requirements.iter().map(packing_requirement).collect();
        let asked = Requirements::from_written(&written).unwrap_or_default();
        status.is_some_and(|status| status.subnets.iter().any(|subnet| subnet.zone == zone))
            && asked.get(ZONE).is_none_or(|one| one.has(zone))
    };
    snapshot.pools.values().map(AsRef::as_ref).filter(may)
}

#[derive(Clone, Debug)]
pub struct DisruptionPool<'a> {
    /// The NodePool as it is written.
    pub pool: &'a NodePool,
    /// `ttlSecondsAfterEmpty` of the Provisioner that it was: exact, and without budgets.
    pub ttl: Option<SignedDuration>,
    /// consolidateAfter; `None` is Never, or a static pool.
    pub after: Option<SignedDuration>,
    /// Says if its nodes go, or are only watched.
    pub observing: Observing,
}

impl<'a> DisruptionPool<'a> {
    pub fn from_pool(pool: &'a NodePool) -> Self {
        let annotation = |key: &str| pool.metadata.annotations.as_ref().and_then(|own| own.get(key));
        let seconds = annotation(annotations::TTL_SECONDS_AFTER_EMPTY).and_then(|text| text.parse::<u32>().ok());
        let after = pool.spec.disruption.consolidate_after.get().filter(|_| pool.spec.replicas.is_none());
        Self {
            pool,
            ttl: seconds
                .filter(|_| pool.spec.replicas.is_none())
                .map(|seconds| SignedDuration::from_secs(i64::from(seconds))),
            after: after.and_then(signed),
            observing: match annotation(annotations::DISRUPTION).map(String::as_str) {
                // Karpenter has had it: nothing goes before it is taken over, and held back or not.
                None if pool.metadata.annotations.as_ref().is_some_and(adoption::is_foreign) => Observing::Yes,
                None | Some("") => Observing::No,
                Some("observe") => Observing::Yes,
                Some(other) => Observing::Unclear(other.to_owned()),
            },
        }
    }

    /// True if its policy lets nodes go that have pods.
    pub fn moves_pods(&self) -> bool {
        self.pool.spec.disruption.consolidation_policy != ConsolidationPolicy::WhenEmpty
    }

    /// True if nodes can be launched for it.
    pub fn is_ready(&self) -> bool {
        self.pool.status.as_ref().is_some_and(|status| is_true(&status.conditions, READY))
    }

    /// Errors in its annotations and budgets, as sentences.
    pub fn mistakes(&self, now: Timestamp) -> Vec<String> {
        let mut all = super::allowed(self.pool, super::RemovalReason::Empty, 0, now).mistakes;
        all.extend(super::open_outside(self.pool));
        let wrong = validation::own::of_pool(self.pool).into_iter();
        all.extend(wrong.map(|(field, Wrong { what, allowed })| format!("{field}: {what} (allowed: {allowed})")));
        all
    }
}

fn signed(time: Duration) -> Option<SignedDuration> {
    SignedDuration::try_from(time).ok()
}

pub fn pools(snapshot: &Snapshot) -> BTreeMap<&str, DisruptionPool<'_>> {
    snapshot.pools.iter().map(|(name, pool)| (name.as_str(), DisruptionPool::from_pool(pool))).collect()
}
