//! Nodes that carry a taint in their first minutes which their NodeClaim does not know of: an agent's, mostly, that takes it off when
//! it is there. The pods that such a node was launched for wait for that: they are planned nowhere else, and the node is not empty.
//!
//! ```text
//! initialized ── tainted, its own pods wait ── the taint goes ──► kube-scheduler's turn
//!                   └── 5 m ──► as any node that is not used (docs/decisions/037)
//! ```

use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::taints::{NO_EXECUTE, NO_SCHEDULE, is_ephemeral, is_of_disruption};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;

use crate::cluster_state::{ClaimEntry, ClusterState, Moment, PodEntry, Snapshot};
use crate::pod::Pod;

/// Time after a node's initialization during which a taint counts as one of the node's start.
const FIRST_MINUTES: SignedDuration = SignedDuration::from_mins(5);
/// Prefix of Kubernetes' own taints, such as a cordon's or that of a full disk: never taints of a node's start.
const OF_KUBERNETES: &str = "node.kubernetes.io/";
/// Most pods that a report names.
const MOST_PODS: usize = 10;

/// A node whose own pods wait for a taint of its first minutes, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct TaintAwaited {
    /// The claim of the node.
    pub claim: Arc<ClaimEntry>,
    /// The taint that they wait for.
    pub taint: Taint,
    /// Time until which the node's own pods wait for the taint to go.
    pub until: Timestamp,
    /// Up to `MOST_PODS` of the pods that wait.
    pub pods: Vec<Arc<Pod>>,
}

impl Snapshot {
    /// The taint of a node's first minutes for which the pods that the claim was launched for wait.
    #[must_use]
    pub fn awaited_taint(&self, entry: &ClaimEntry, now: Timestamp) -> Option<&Taint> {
        let facts = &entry.facts;
        let young = facts.initialized.is_some_and(|since| now.duration_since(since) < FIRST_MINUTES);
        if young { self.undeclared_taint(entry) } else { None }
    }

    /// A taint of a claim's node that the claim does not know of, and that keeps pods off, while no pod has come to the node.
    pub(super) fn undeclared_taint(&self, entry: &ClaimEntry) -> Option<&Taint> {
        let facts = &entry.facts;
        let node = self.nodes.get(&facts.node).filter(|node| node.ready && !node.taints.is_empty())?;
        // If pods have come to the node, the taint is not one of its start.
        if self.loads.get(&facts.node).is_some_and(|load| load.visitors > 0) {
            return None;
        }
        let own = |taint: &Taint| {
            entry.claim.spec.taints.iter().any(|own| own.key == taint.key && own.effect == taint.effect)
        };
        node.taints.iter().find(|taint| {
            [NO_SCHEDULE, NO_EXECUTE].contains(&taint.effect.as_str())
                && !taint.key.starts_with(OF_KUBERNETES)
                && !is_of_disruption(&taint.key)
                && !is_ephemeral(&taint.key, &taint.effect)
                && !own(taint)
        })
    }

    /// True if a pod that is expected on a claim's node waits for a taint of its first minutes.
    pub(in crate::cluster_state) fn waits_for_taint(
        &self,
        claim: &str,
        pod: Option<&PodEntry>,
        now: Timestamp,
    ) -> bool {
        let Some(entry) = self.claims.get(claim) else { return false };
        self.awaited_taint(entry, now).is_some_and(|taint| pod.is_none_or(|pod| !pod.pod.tolerates(taint)))
    }
}

impl ClusterState {
    /// Nodes whose own pods have waited for a taint for `patience`, the time that kube-scheduler otherwise has; each is
    /// reported once.
    pub fn taints_awaited(&mut self, patience: Duration, now: Moment) -> Vec<TaintAwaited> {
        let mut found = Vec::new();
        let names: Vec<String> = self.uses.tainted(patience, now.monotonic);
        for name in names {
            let Some(entry) = self.now.claims.get(&name).cloned() else { continue };
            let Some(taint) = self.now.awaited_taint(&entry, now.wall).cloned() else { continue };
            let workloads: Vec<&String> = entry.facts.launched_for.iter().map(|(workload, _)| workload).collect();
            let waits = |pod: &&Arc<PodEntry>| pod.waits_for_node() && workloads.contains(&&pod.workload);
            let pods = self.now.unbound().filter(waits).take(MOST_PODS).map(|pod| pod.pod.clone()).collect();
            let since = entry.facts.initialized.unwrap_or(now.wall);
            let until = since.checked_add(FIRST_MINUTES).unwrap_or(Timestamp::MAX);
            self.uses.note_taint_reported(&name);
            found.push(TaintAwaited { claim: entry, taint, until, pods });
        }
        found
    }
}
