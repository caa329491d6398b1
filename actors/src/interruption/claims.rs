//! The claims of a snapshot by their instances: messages come by the thousand, and each names an instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_cloud::cloud;
use dovetail_core::cluster_state::{ClaimEntry, Snapshot};

/// NodeClaims of one snapshot, by the id of their EC2 instance.
pub(super) struct ClaimsByInstance<'s> {
    pub snapshot: &'s Snapshot,
    by_instance: BTreeMap<&'s str, &'s Arc<ClaimEntry>>,
}

impl<'s> ClaimsByInstance<'s> {
    /// The claims of a snapshot by instance, computed once for all messages that are compared with it.
    pub fn from_snapshot(snapshot: &'s Snapshot) -> Self {
        let known = |entry: &'s Arc<ClaimEntry>| Some((cloud::instance_id(entry.provider_id())?, entry));
        let own = snapshot.claims.values().filter(|entry| !snapshot.is_refused(&entry.facts.name));
        // If two claims name one instance, the first counts.
        Self { snapshot, by_instance: own.rev().filter_map(known).collect() }
    }

    pub fn on(&self, instance: &str) -> Option<&'s Arc<ClaimEntry>> {
        self.by_instance.get(instance).copied()
    }
}
