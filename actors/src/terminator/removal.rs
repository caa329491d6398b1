//! Records of claims and Nodes on their way out.

use std::collections::BTreeMap;

use dovetail_core::disruption::RemovalReason;
use dovetail_core::termination::reports::DrainReports;
use dovetail_core::termination::reports::others::OthersWait;
use dovetail_core::termination::{AnnouncedEnd, RemovalPhase};
use k8s_openapi::api::core::v1::Node;
use kube::Resource;

use super::Terminator;
use super::rollouts::Restart;
use crate::context::book::Key;
use crate::context::refusals::Refusals;
use crate::messages::TraceContext;

/// A claim or Node that may be going; its phase is in the book beside it.
#[derive(Default)]
pub(super) struct Removal {
    /// Steps that the API server refuses.
    pub refused: Refusals,
    /// Claim: reason for its deletion, if this term decided it.
    pub reason: Option<(RemovalReason, TraceContext)>,
    /// Claim: the announced end of its instance.
    pub announced: Option<Announced>,
    /// Claim: last report that its instance is not its own.
    pub not_owned: Option<String>,
    /// Node: its drain, once it has been looked at.
    pub drain: Option<DrainProgress>,
    /// Node: it was let go here and is still there.
    pub held: Option<HeldByOthers>,
    /// Node: the restarts of Deployments within its drain, by the namespace and name of the ReplicaSet.
    pub rollouts: BTreeMap<String, Restart>,
}

/// A claim whose instance ends.
pub(super) struct Announced {
    pub end: AnnouncedEnd,
    pub trace: TraceContext,
    /// Its end is being written down again.
    pub writing: bool,
}

/// Progress of a Node's drain, for the log.
#[derive(Default)]
pub(super) struct DrainProgress {
    /// Reason for its deletion, as known at the first look.
    pub reason: String,
    pub reports: DrainReports,
    /// Evicted and not told yet.
    pub evicted: Vec<String>,
    /// Deleted and not told yet.
    pub deleted: Vec<String>,
}

/// A Node that others hold.
pub(super) struct HeldByOthers {
    pub node_claim: String,
    pub trace: Option<TraceContext>,
    pub wait: OthersWait,
}

impl Terminator {
    /// True if the object is being deleted and is ours to take away.
    pub(super) fn is_going(&self, key: &Key) -> bool {
        self.known.phase(key).is_some_and(RemovalPhase::is_going)
    }

    /// Objects that are being deleted.
    pub(super) fn going_keys(&self) -> Vec<Key> {
        self.known.under_way().filter(|(_, phase)| phase.is_going()).map(|(key, _)| key.clone()).collect()
    }

    /// Everything that goes is to be looked at. Returns false if nothing goes.
    pub(super) fn mark_going(&mut self) -> bool {
        let going = self.going_keys();
        let any = !going.is_empty();
        self.known.marked.extend(going);
        any
    }

    /// The object is in the phase of its next step; without one it stays, or goes without us.
    pub(super) fn enter_phase(&mut self, key: &Key, phase: Option<RemovalPhase>) {
        let announced = || self.known.get(key)?.announced.as_ref().map(|_| RemovalPhase::Announced);
        let phase = phase.or_else(announced);
        self.known.enter(key, phase);
    }

    /// Progress of a Node's drain, if the Node is there.
    pub(super) fn drain_progress(&mut self, node: &str) -> Option<&mut DrainProgress> {
        Some(self.known.get_mut(&Key::node(node))?.drain.get_or_insert_default())
    }

    /// The reason for a claim's deletion that this term decided, with the trace of that decision.
    pub(super) fn own_decision(&self, claim: &str) -> Option<(RemovalReason, TraceContext)> {
        self.known.get(&Key::claim(claim))?.reason
    }
}

/// True if it is being deleted: an API server restored from a backup may have it as it was before, and then it stays.
pub(super) fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// The id of a Node's instance.
pub(super) fn instance_id_of(node: &Node) -> Option<&str> {
    dovetail_api::names::instance_id(crate::context::book::provider_id_of_node(node))
}
