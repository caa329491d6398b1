//! Notes on nodes with pods where no pool consolidates them: known without asking packing.

use jiff::{SignedDuration, Timestamp};

use super::question::StayingNode;
use crate::cluster_state::{Moment, Snapshot};
use crate::disruption::look::disrupted;
use crate::disruption::machines::{NodeAndClaim, machines};
use crate::disruption::methods::ConsolidationSettings;
use crate::disruption::pools::{DisruptionPool, EMPTY_ONLY, NEVER, pools};

/// Nodes with pods that their pools' policies keep, each with the setting that keeps it. Nodes that are younger than the settings
/// want, empty, leaving, or about to be used are left out: their time comes, or emptiness sees to them.
#[must_use]
pub fn kept_by_policy(snapshot: &Snapshot, settings: &ConsolidationSettings, now: Moment) -> Vec<StayingNode> {
    let views = pools(snapshot);
    let all = machines(snapshot, now);
    let kept = all.iter().filter(|machine| settled(machine, settings.least_age, now.wall)).filter_map(|machine| {
        let why = views.get(machine.claim.pool.as_str()).and_then(policy)?;
        Some(StayingNode { node: disrupted(machine), why, blocked: false })
    });
    kept.collect()
}

/// True if a node has pods, and has been there for a while.
fn settled(machine: &NodeAndClaim<'_>, least_age: SignedDuration, now: Timestamp) -> bool {
    let age = machine.claim.initialized.map(|since| now.duration_since(since));
    !machine.deleting && !machine.empty() && !machine.nominated && age.is_some_and(|age| age >= least_age)
}

/// The pool's setting that keeps a node that has pods, whatever could be saved.
pub(super) fn policy(view: &DisruptionPool<'_>) -> Option<String> {
    let pool = view.pool.metadata.name.as_deref().unwrap_or_default();
    if view.ttl.is_some() {
        return Some(format!(
            "ttlSecondsAfterEmpty of provisioner {pool} removes empty nodes only: consolidation.enabled moves pods"
        ));
    }
    if view.after.is_none() {
        return Some(NEVER.into());
    }
    (!view.moves_pods()).then(|| EMPTY_ONLY.into())
}
