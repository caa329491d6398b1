//! Nodes that are about to go, and the pods on them that need a place elsewhere (core spec 0.4, "marked for deletion",
//! and 3.1, "also scheduled each round").

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{ClaimEntry, ClusterState, Moment, NodeEntry, PodEntry, Snapshot, Target};
use crate::lifecycle::{self, Stage};

/// What is about to go: claim or Node is being deleted, or the cloud takes the instance away, or we have decided so.
/// Nothing is planned on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Claims, by name.
    pub claims: BTreeSet<String>,
    /// Nodes, by name.
    pub nodes: BTreeSet<String>,
}

impl Leaving {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.nodes.is_empty()
    }

    /// Whether a claim as it is now changes anything here.
    pub(super) fn concerns_claim(&self, name: &str, entry: &ClaimEntry, same_machine: bool) -> bool {
        self.claims.contains(name) != entry.says_it_leaves() || (!self.is_empty() && !same_machine)
    }

    /// Whether a Node as it is now changes anything here.
    pub(super) fn concerns_node(&self, node: &NodeEntry, same_machine: bool) -> bool {
        self.nodes.contains(&node.name) != node.deleting || (!self.is_empty() && !same_machine)
    }
}

impl ClusterState {
    /// Claims are about to be deleted, or are not after all; known before the API server is told.
    pub fn mark_leaving<'a>(&mut self, claims: impl IntoIterator<Item = &'a str>, leaving: bool) {
        for name in claims {
            if leaving {
                self.marked.insert(name.to_owned());
            } else {
                self.marked.remove(name);
            }
        }
        self.look_who_leaves();
    }

    /// How often a node or a claim that was to stay has begun to leave.
    #[must_use]
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Finds out anew what is leaving.
    pub(super) fn look_who_leaves(&mut self) {
        let leaving = self.now.who_leaves(&self.marked);
        if leaving == *self.now.leaving {
            return;
        }
        let known = &self.now.leaving;
        let more = !leaving.claims.is_subset(&known.claims) || !leaving.nodes.is_subset(&known.nodes);
        self.departures += u64::from(more);
        self.now.leaving = Arc::new(leaving);
    }
}

impl Snapshot {
    fn who_leaves(&self, marked: &BTreeSet<String>) -> Leaving {
        let goes = |name: &str, entry: &ClaimEntry| entry.says_it_leaves() || marked.contains(name);
        let mut leaving = Leaving {
            claims: self.claims.iter().filter(|(name, one)| goes(name, one)).map(|(name, _)| name.clone()).collect(),
            nodes: self.nodes.values().filter(|node| node.deleting).map(|node| node.name.clone()).collect(),
        };
        if leaving.is_empty() {
            return leaving;
        }
        // A machine leaves as a whole: its claim with its Node, its Node with its claim.
        let whole = leaving.claims.iter().filter(|name| !self.is_refused(name));
        let of_claims = whole.filter_map(|name| self.claims.get(name)).map(|entry| entry.provider_id());
        let of_nodes = leaving.nodes.iter().filter_map(|name| self.nodes.get(name)).map(|node| &*node.provider_id);
        let machines: BTreeSet<&str> = of_claims.chain(of_nodes).filter(|id| !id.is_empty()).collect();
        let claims = self.claims.iter().filter(|(_, entry)| machines.contains(entry.provider_id()));
        let nodes = self.nodes.values().filter(|node| machines.contains(&*node.provider_id));
        let (claims, nodes): (Vec<_>, Vec<_>) =
            (claims.map(|(name, _)| name.clone()).collect(), nodes.map(|node| node.name.clone()).collect());
        leaving.claims.extend(claims);
        leaving.nodes.extend(nodes);
        leaving
    }

    /// Whether a bound pod needs a place elsewhere: its node is leaving, and it can and will be moved (core spec 3.1,
    /// "currently reschedulable").
    #[must_use]
    pub fn must_move(&self, entry: &PodEntry, now: Timestamp) -> bool {
        self.leaving.nodes.contains(&entry.node_name)
            && entry.reschedulable()
            && !entry.do_not_disrupt.holds(now)
            && !self.budgets_forbid(&entry.pod)
    }

    /// Whether a pod is on a node already.
    #[must_use]
    pub fn is_bound(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|entry| !entry.node_name.is_empty())
    }

    /// The pods on a leaving node that need a place elsewhere, by uid.
    #[must_use]
    pub fn movers(&self, node: &str, now: Timestamp) -> Vec<&Arc<PodEntry>> {
        let load = self.loads.get(node).into_iter().flat_map(|load| load.pods.values());
        load.filter(|entry| self.must_move(entry, now)).collect()
    }

    /// Whether the place that a pod is expected at is ready for it.
    #[must_use]
    pub fn place_is_ready(&self, uid: &str, now: Moment) -> bool {
        match self.expected_on(uid, now) {
            None => false,
            Some(Target::Claim(name)) => {
                self.claims.get(name).is_some_and(|entry| lifecycle::stage(&entry.claim) == Some(Stage::Initialized))
            }
            Some(Target::Node(name)) => self.nodes.get(name).is_some_and(|node| node.ready),
        }
    }
}
