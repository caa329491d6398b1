//! Machines: the claims and Nodes that name one provider ID, joined with each change (core spec 0.4). Packing, disruption, usage and
//! telemetry ask here for a claim's Node or a Node's claim, so that all give one answer.
//!
//! Others may write a claim's status and a Node's spec, so that several objects may name one machine. Its claim is, of those that
//! `owner` has not refused, the last by name that has registered with one of its Nodes, or the last if none has. Its Node is the
//! one that has registered for that claim or, while none has, the first by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster_state::{ClaimEntry, ClusterState, NodeEntry, NominationTarget, Snapshot};

/// Names of the claims and Nodes of each machine, by provider ID. For look-up only: a hash map has no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineIndex(FxHashMap<String, MachineObjects>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MachineObjects {
    claims: BTreeSet<String>,
    nodes: BTreeSet<String>,
}

impl MachineIndex {
    /// Moves a claim's or Node's name from one machine to another; an empty provider ID is none.
    fn move_name(
        &mut self,
        kind: fn(&mut MachineObjects) -> &mut BTreeSet<String>,
        name: &str,
        (before, now): (&str, &str),
    ) {
        if let Some(objects) = self.0.get_mut(before) {
            kind(objects).remove(name);
            if objects.claims.is_empty() && objects.nodes.is_empty() {
                self.0.remove(before);
            }
        }
        if !now.is_empty() {
            kind(self.0.entry(now.to_owned()).or_default()).insert(name.to_owned());
        }
    }

    /// Number of machines.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl ClusterState {
    /// Keeps a claim as it is now.
    pub(super) fn put_claim(&mut self, name: String, entry: ClaimEntry) {
        let (machine, node) = (entry.provider_id().to_owned(), entry.facts.node.clone());
        self.said_to_leave.note_claim(&name, entry.says_it_leaves());
        let known = Arc::make_mut(&mut self.now.claims).insert(name.clone(), Arc::new(entry));
        if known.as_ref().is_none_or(|known| known.facts.node != node) {
            self.note_node_of(&name);
        }
        self.move_claim(&name, known.as_ref().map_or("", |known| known.provider_id()), &machine);
    }

    /// Forgets a claim.
    pub(super) fn take_claim(&mut self, name: &str) {
        self.said_to_leave.note_claim(name, false);
        if let Some(known) = Arc::make_mut(&mut self.now.claims).remove(name) {
            self.move_claim(name, known.provider_id(), "");
        }
    }

    /// Keeps a Node as it is now.
    pub(super) fn put_node(&mut self, entry: NodeEntry) {
        let (name, machine) = (entry.name.clone(), entry.provider_id.clone());
        self.said_to_leave.note_node(&name, entry.deleting);
        let known = Arc::make_mut(&mut self.now.nodes).insert(name.clone(), Arc::new(entry));
        self.move_node(&name, known.as_ref().map_or("", |known| &known.provider_id), &machine);
    }

    /// Forgets a Node.
    pub(super) fn take_node(&mut self, name: &str) {
        self.said_to_leave.note_node(name, false);
        if let Some(known) = Arc::make_mut(&mut self.now.nodes).remove(name) {
            self.move_node(name, &known.provider_id, "");
        }
    }

    // The index is copied only when a machine gets or loses an object, which few events do.
    fn move_claim(&mut self, name: &str, before: &str, now: &str) {
        if before != now {
            Arc::make_mut(&mut self.now.machines).move_name(|objects| &mut objects.claims, name, (before, now));
        }
    }

    fn move_node(&mut self, name: &str, before: &str, now: &str) {
        if before != now {
            Arc::make_mut(&mut self.now.machines).move_name(|objects| &mut objects.nodes, name, (before, now));
        }
    }

    /// The targets that are a node, in their order: the claims of its machine, which pods are bound to before these say which
    /// node they have, and itself.
    pub(super) fn targets_on(&self, node: &str) -> impl Iterator<Item = NominationTarget> {
        let machine = self.now.nodes.get(node).map(|entry| entry.provider_id.as_str());
        let claims = machine.into_iter().flat_map(|machine| self.now.claim_names_on(machine));
        claims.cloned().map(NominationTarget::Claim).chain([NominationTarget::Node(node.to_owned())])
    }

    /// True if the index is what a look at all claims and Nodes would find.
    #[cfg(test)]
    pub(super) fn holds_machines(&self) -> bool {
        let mut all = MachineIndex::default();
        for (name, entry) in self.now.claims.iter() {
            all.move_name(|objects| &mut objects.claims, name, ("", entry.provider_id()));
        }
        for (name, entry) in self.now.nodes.iter() {
            all.move_name(|objects| &mut objects.nodes, name, ("", &entry.provider_id));
        }
        all == *self.now.machines
    }
}

impl Snapshot {
    /// Names of the claims on which a machine is written, in their order.
    pub(super) fn claim_names_on(&self, provider_id: &str) -> impl DoubleEndedIterator<Item = &String> {
        self.machines.0.get(provider_id).into_iter().flat_map(|objects| &objects.claims)
    }

    /// Names of the Nodes that name a machine, in their order.
    pub fn node_names_on(&self, provider_id: &str) -> impl Iterator<Item = &String> {
        self.machines.0.get(provider_id).into_iter().flat_map(|objects| &objects.nodes)
    }

    /// The claim that a machine counts for.
    pub(super) fn claim_on(&self, provider_id: &str) -> Option<&Arc<ClaimEntry>> {
        let entries = self.claim_names_on(provider_id).filter(|name| !self.is_refused(name));
        let entries = entries.filter_map(|name| self.claims.get(name));
        let nodes = || self.node_names_on(provider_id);
        // One that `owner` has not judged yet may only copy the ID of a registered one.
        entries.max_by_key(|entry| nodes().any(|node| *node == entry.facts.node))
    }

    /// The claim whose machine a Node is.
    #[must_use]
    pub fn claim_of(&self, node: &NodeEntry) -> Option<&Arc<ClaimEntry>> {
        self.claim_on(&node.provider_id).filter(|claim| claim.facts.may_be_on(&node.name))
    }

    /// Name of the Node of a claim's machine.
    pub(super) fn node_name_of(&self, claim: &ClaimEntry) -> Option<&str> {
        self.node_names_on(claim.provider_id()).map(String::as_str).find(|name| claim.facts.may_be_on(name))
    }

    /// The Node of a claim's machine.
    #[must_use]
    pub fn node_of(&self, claim: &ClaimEntry) -> Option<&Arc<NodeEntry>> {
        self.nodes.get(self.node_name_of(claim)?)
    }

    /// True if the machine that is written on a claim counts as a Node, be it for this claim or for another that names it.
    pub(super) fn is_joined(&self, claim: &ClaimEntry) -> bool {
        self.claim_on(claim.provider_id()).is_some_and(|own| self.node_name_of(own).is_some())
    }
}
