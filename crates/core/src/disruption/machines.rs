//! Nodes that have both a claim and a Node, as disruption sees them. Made anew at every look, so it copies nothing: the tables
//! that are sorted by node name are walked side by side.

use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;

use jiff::Timestamp;
use rustc_hash::FxHashSet;

use crate::clock::at_the_latest;
use crate::cluster_state::{
    ClaimFacts, Load, Moment, NodeEntry, NominationTarget, PodMoves, RebootState, Snapshot, WatchedKind,
};
use crate::zonal_shift::Shifted;

#[derive(Clone, Copy, Debug)]
pub struct NodeAndClaim<'a> {
    /// The Node as the API server has it.
    pub node: &'a NodeEntry,
    /// Facts of the NodeClaim that it belongs to.
    pub claim: &'a ClaimFacts,
    /// Pods that are bound to it.
    pub load: Option<&'a Load>,
    /// Times at which pods last came or went.
    pub moves: Option<PodMoves>,
    /// True if a pod that waits, or has to leave its own node, is expected on it, or may have been in vain: that is judged
    /// first.
    pub nominated: bool,
    /// True if it is on its way out: an object is being deleted, the instance ends, or that is decided.
    pub deleting: bool,
    /// The shift away from its zone, where there is one: it is left alone.
    pub shifted: Option<&'a Shifted>,
}

impl NodeAndClaim<'_> {
    /// True while its instance is rebooted as a repair, and if it has not come back until it is gone.
    pub fn reboots(&self) -> bool {
        let failed = matches!(self.claim.reboot, Some(RebootState::Failed(_))) && self.node.reboot.is_some();
        failed || self.claim.reboot.is_some_and(RebootState::is_running)
    }

    /// True if pods can run on it.
    pub fn initialized(&self) -> bool {
        self.claim.initialized.is_some()
    }

    /// True if nothing but DaemonSets' pods and mirror pods is on it; a pod that is ending still is.
    pub fn vacant(&self) -> bool {
        self.load.is_none_or(|load| load.visitors == 0)
    }

    /// True if no pod on it is worth keeping it for (core spec 5.4).
    pub fn empty(&self) -> bool {
        self.load.is_none_or(|load| load.costly == 0)
    }

    /// Latest time of the last pod event that is known: where only the claim has it, it is cut to whole seconds.
    pub fn last_pod_event(&self) -> Option<Timestamp> {
        let seen = self.moves.and_then(|moves| moves.event);
        match self.claim.last_pod_event {
            Some(written) if seen.is_none_or(|seen| seen < written) => Some(at_the_latest(written)),
            _ => seen,
        }
    }
}

/// All machines by node name.
pub fn machines(snapshot: &Snapshot, now: Moment) -> Vec<NodeAndClaim<'_>> {
    let expected = expected(snapshot, now);
    let any_leaves = !snapshot.deleting.is_empty();
    let (mut loads, mut moves) = (Walk::new(&snapshot.loads), Walk::new(&snapshot.moves));
    let mut all = Vec::with_capacity(snapshot.claims.len());
    for node in snapshot.nodes.values() {
        let (load, moved) = (loads.advance_to(&node.name), moves.advance_to(&node.name));
        let Some(claim) = snapshot.claim_of(node).map(|claim| &claim.facts) else { continue };
        // A Node or claim that cannot be read is not removed by our own decision.
        let unread = |kind, name| snapshot.unreadable(kind, name).is_some();
        if unread(WatchedKind::Node, &node.name) || unread(WatchedKind::NodeClaim, &claim.name) {
            continue;
        }
        let is_expected = !expected.is_empty()
            && (expected.contains(&(true, node.name.as_str())) || expected.contains(&(false, claim.name.as_str())));
        let nominated = is_expected || snapshot.unjudged.contains(&claim.name);
        let deleting = node.deleting || claim.deleting || (any_leaves && snapshot.deleting.nodes.contains(&node.name));
        all.push(NodeAndClaim {
            node,
            claim,
            load: load.map(AsRef::as_ref),
            moves: moved.copied(),
            nominated,
            deleting,
            shifted: snapshot.shifted_zones.of_labels(&node.labels),
        });
    }
    all
}

/// Places where pods are expected: nodes (`true`) and claims (`false`) by name.
fn expected(snapshot: &Snapshot, now: Moment) -> FxHashSet<(bool, &str)> {
    let keys = snapshot.expected_places(now).map(|target| match target {
        NominationTarget::Node(name) => (true, name.as_str()),
        NominationTarget::Claim(name) => (false, name.as_str()),
    });
    keys.chain(made_room_at(snapshot).map(|node| (true, node))).collect()
}

/// Nodes at which kube-scheduler makes room for a pod that waits, where pods are expendable: an expendable pod that goes for it
/// would leave the node empty before it comes.
fn made_room_at(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    let pods = snapshot.unbound().filter(|_| !snapshot.expendable.is_unset());
    let waiting = pods.filter(|entry| entry.is_active() && !entry.expendable);
    waiting.filter_map(|entry| entry.nominated.as_deref())
}

/// A sorted table read once from its beginning to its end, by keys that only grow.
struct Walk<'a, V>(Peekable<btree_map::Iter<'a, String, V>>);

impl<'a, V> Walk<'a, V> {
    fn new(table: &'a BTreeMap<String, V>) -> Self {
        Self(table.iter().peekable())
    }

    fn advance_to(&mut self, key: &str) -> Option<&'a V> {
        while self.0.next_if(|(own, _)| own.as_str() < key).is_some() {}
        self.0.next_if(|(own, _)| own.as_str() == key).map(|(_, value)| value)
    }
}
