//! Records of claims and Nodes: all that an actor knows of an object lies in one record, and [`Book::gone`] drops all of it.
//!
//! ```text
//! watch ─► note ─► record: latest, phase, and what the actor keeps ─► gone
//!            │ another uid: a new record
//! marked: look at it ─► busy: one effect at a time
//! ```
//!
//! A book is filled by what the API server lists, and a record goes with its object: it is as large as the cluster. Only an effect
//! outlives its record: until it ends, no other begins under that name. An actor that follows no objects, or has to do with one
//! before it is there, begins a record itself (`open`) and drops it when nothing is kept of it (`close`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use dovetail_api::v1::NodeClaim;
use k8s_openapi::api::core::v1::Node;
use kube::Resource;
use kube::api::ObjectMeta;

/// Name of a claim or Node. Nodes come first: what a claim waits for is looked at before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Node(String),
    Claim(String),
}

impl Key {
    pub fn node(name: &str) -> Self {
        Self::Node(name.to_owned())
    }

    pub fn claim(name: &str) -> Self {
        Self::Claim(name.to_owned())
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Claim(name) => name,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Claim(name) => write!(f, "nodeclaim {name}"),
        }
    }
}

/// An object as it was last seen.
pub enum Latest {
    Node(Arc<Node>),
    Claim(Arc<NodeClaim>),
}

impl Latest {
    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Node(node) => node.meta(),
            Self::Claim(claim) => claim.meta(),
        }
    }

    fn key(&self) -> Key {
        let name = self.meta().name.clone().unwrap_or_default();
        if matches!(self, Self::Node(_)) { Key::Node(name) } else { Key::Claim(name) }
    }

    fn provider_id(&self) -> &str {
        match self {
            Self::Node(node) => provider_id_of_node(node),
            Self::Claim(claim) => provider_id_of(claim),
        }
    }

    fn as_node(&self) -> Option<&Arc<Node>> {
        if let Self::Node(node) = self { Some(node) } else { None }
    }

    fn as_claim(&self) -> Option<&Arc<NodeClaim>> {
        if let Self::Claim(claim) = self { Some(claim) } else { None }
    }
}

/// Records of claims and Nodes: `R` is what the actor keeps of one, `P` how far one is that is under way.
pub struct Book<R, P = ()> {
    /// With the object as it was last seen; without, for an actor that follows no objects, or before it is there.
    records: BTreeMap<Key, (Option<Latest>, R)>,
    /// Claims and Nodes of each machine, by provider ID.
    machines: BTreeMap<String, BTreeSet<Key>>,
    /// Phases of those under way.
    phases: BTreeMap<Key, P>,
    /// Those to be looked at.
    pub marked: BTreeSet<Key>,
    /// Those with an effect that has not ended.
    pub busy: BTreeSet<Key>,
}

impl<R, P> Default for Book<R, P> {
    fn default() -> Self {
        let (records, machines, phases) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { records, machines, phases, marked: BTreeSet::new(), busy: BTreeSet::new() }
    }
}

impl<R: Default, P: Copy> Book<R, P> {
    /// An object is there or has changed.
    pub fn note(&mut self, latest: Latest) {
        let key = latest.key();
        let before = self.records.get(&key).and_then(|(before, _)| before.as_ref());
        match before.map(|before| before.meta().uid.clone()) {
            // Another object has come under its name, of which nothing is known.
            Some(uid) if uid != latest.meta().uid => drop(self.gone(&key)),
            _ => self.unindex(&key),
        }
        // All that have no provider ID would seem to be one machine.
        if !latest.provider_id().is_empty() {
            self.machines.entry(latest.provider_id().to_owned()).or_default().insert(key.clone());
        }
        let own = self.records.remove(&key).map(|(_, own)| own).unwrap_or_default();
        self.records.insert(key, (Some(latest), own));
    }

    /// Drops all that is known of an object, and returns what the actor kept of it.
    pub fn gone(&mut self, key: &Key) -> Option<R> {
        self.unindex(key);
        self.phases.remove(key);
        self.marked.remove(key);
        self.records.remove(key).map(|(_, own)| own)
    }

    fn unindex(&mut self, key: &Key) {
        let Some((Some(latest), _)) = self.records.get(key) else { return };
        if let Some(keys) = self.machines.get_mut(latest.provider_id()) {
            keys.remove(key);
            if keys.is_empty() {
                self.machines.remove(latest.provider_id());
            }
        }
    }

    /// The record under this key, which begins now if there is none: what is kept of an object before it is there.
    pub fn open(&mut self, key: &Key) -> &mut R {
        &mut self.records.entry(key.clone()).or_default().1
    }

    /// Drops the record of an object that is not followed, is in no phase, and of which nothing is kept.
    pub fn close(&mut self, key: &Key, is_empty: impl Fn(&R) -> bool) {
        let unseen = self.records.get(key).is_some_and(|(latest, own)| latest.is_none() && is_empty(own));
        if unseen && !self.phases.contains_key(key) {
            self.records.remove(key);
        }
    }

    /// All records, Nodes first.
    pub fn records(&self) -> impl Iterator<Item = (&Key, &R)> {
        self.records.iter().map(|(key, (_, own))| (key, own))
    }

    pub fn get(&self, key: &Key) -> Option<&R> {
        self.records.get(key).map(|(_, own)| own)
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<&mut R> {
        self.records.get_mut(key).map(|(_, own)| own)
    }

    /// A claim as it was last seen.
    pub fn claim(&self, name: &str) -> Option<&Arc<NodeClaim>> {
        self.records.get(&Key::claim(name))?.0.as_ref()?.as_claim()
    }

    /// A Node as it was last seen.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.records.get(&Key::node(name))?.0.as_ref()?.as_node()
    }

    /// All claims, by name.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<NodeClaim>> {
        self.records.range(Key::claim("")..).filter_map(|(_, (latest, _))| latest.as_ref()?.as_claim())
    }

    /// All Nodes with what is kept of them, by name.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = (&Arc<Node>, &mut R)> {
        let nodes = self.records.range_mut(..Key::claim(""));
        nodes.filter_map(|(_, (latest, own))| Some((latest.as_ref()?.as_node()?, own)))
    }

    /// Number of claims, and of Nodes.
    pub fn count(&self) -> (usize, usize) {
        let seen = self.records.values().filter_map(|(latest, _)| latest.as_ref());
        seen.fold((0, 0), |(claims, nodes), latest| match latest {
            Latest::Claim(_) => (claims + 1, nodes),
            Latest::Node(_) => (claims, nodes + 1),
        })
    }

    /// The claims that name a Node's machine, by name.
    pub fn claims_of(&self, node: &Node) -> Vec<Arc<NodeClaim>> {
        self.machine(provider_id_of_node(node)).filter_map(Latest::as_claim).cloned().collect()
    }

    /// The Nodes of the machine that a claim names, by name.
    pub fn nodes_of(&self, claim: &NodeClaim) -> Vec<Arc<Node>> {
        self.machine(provider_id_of(claim)).filter_map(Latest::as_node).cloned().collect()
    }

    fn machine(&self, provider_id: &str) -> impl Iterator<Item = &Latest> {
        let keys = self.machines.get(provider_id).into_iter().flatten();
        keys.filter_map(|key| self.records.get(key)?.0.as_ref())
    }

    /// Phase of an object that is under way.
    pub fn phase(&self, key: &Key) -> Option<P> {
        self.phases.get(key).copied()
    }

    /// An object that is known is in a phase now, or in none any more.
    pub fn enter(&mut self, key: &Key, phase: Option<P>) {
        match phase.filter(|_| self.records.contains_key(key)) {
            Some(phase) => drop(self.phases.insert(key.clone(), phase)),
            None => drop(self.phases.remove(key)),
        }
    }

    /// Objects under way with their phases, Nodes first.
    pub fn under_way(&self) -> impl Iterator<Item = (&Key, P)> {
        self.phases.iter().map(|(key, phase)| (key, *phase))
    }
}

/// A claim's provider ID, empty while it has none.
pub fn provider_id_of(claim: &NodeClaim) -> &str {
    claim.status.as_ref().map_or("", |status| status.provider_id.as_str())
}

/// A Node's provider ID, empty while it has none.
pub fn provider_id_of_node(node: &Node) -> &str {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn claim(name: &str, uid: &str, provider_id: &str) -> Arc<NodeClaim> {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "uid": uid},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}},
            "status": {"providerID": provider_id},
        });
        Arc::new(serde_json::from_value(claim).unwrap())
    }

    fn node(name: &str, provider_id: &str) -> Arc<Node> {
        let node = json!({"metadata": {"name": name, "uid": "1"}, "spec": {"providerID": provider_id}});
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn key(name: &str) -> Key {
        Key::Claim(name.to_owned())
    }

    #[test]
    fn nothing_of_an_object_outlives_it_but_its_effect() {
        let mut book = Book::<u32, u8>::default();
        book.note(Latest::Claim(claim("a", "1", "m")));
        *book.get_mut(&key("a")).unwrap() = 7;
        book.enter(&key("a"), Some(1));
        book.marked.insert(key("a"));
        book.busy.insert(key("a"));
        assert_eq!(book.gone(&key("a")), Some(7));
        assert!(book.claim("a").is_none() && book.claims_of(&node("n", "m")).is_empty());
        assert!(book.machines.is_empty() && book.marked.is_empty() && book.under_way().next().is_none());
        assert!(book.busy.contains(&key("a")), "its effect has not ended");
        book.note(Latest::Claim(claim("a", "1", "")));
        assert_eq!((book.get(&key("a")), book.phase(&key("a"))), (Some(&0), None));
    }

    #[test]
    fn record_may_begin_before_its_object_and_ends_when_empty() {
        let mut book = Book::<u32, u8>::default();
        *book.open(&key("a")) = 7;
        book.enter(&key("a"), Some(1));
        book.close(&key("a"), |own| *own == 7);
        assert_eq!(book.get(&key("a")), Some(&7), "it is under way");
        book.enter(&key("a"), None);
        book.close(&key("a"), |own| *own == 0);
        assert_eq!(book.get(&key("a")), Some(&7), "something is kept of it");
        book.note(Latest::Claim(claim("a", "1", "m")));
        book.close(&key("a"), |own| *own == 7);
        assert_eq!((book.get(&key("a")), book.records().count()), (Some(&7), 1), "it is followed");
        book.open(&key("b"));
        book.close(&key("b"), |own| *own == 0);
        assert_eq!((book.get(&key("b")), book.claim("b")), (None, None));
    }

    #[test]
    fn record_stays_with_its_uid_and_begins_anew_with_another() {
        let mut book = Book::<u32, u8>::default();
        book.note(Latest::Claim(claim("a", "1", "m")));
        *book.get_mut(&key("a")).unwrap() = 7;
        book.enter(&key("a"), Some(1));
        book.note(Latest::Claim(claim("a", "1", "other")));
        assert_eq!((book.get(&key("a")), book.phase(&key("a"))), (Some(&7), Some(1)));
        book.note(Latest::Claim(claim("a", "2", "other")));
        assert_eq!((book.get(&key("a")), book.phase(&key("a"))), (Some(&0), None));
    }

    #[test]
    fn a_machine_is_the_claims_and_nodes_of_one_provider_id() {
        let mut book = Book::<(), ()>::default();
        let claims = [claim("b", "1", "m"), claim("a", "1", "m"), claim("c", "1", "")];
        claims.into_iter().for_each(|one| book.note(Latest::Claim(one)));
        [node("n", "m"), node("none", "")].into_iter().for_each(|one| book.note(Latest::Node(one)));
        let names = |claims: Vec<Arc<NodeClaim>>| claims.iter().map(|one| one.name_any()).collect::<Vec<_>>();
        assert_eq!(names(book.claims_of(&node("n", "m"))), ["a", "b"]);
        assert!(book.claims_of(&node("none", "")).is_empty(), "those without one are not one machine");
        book.note(Latest::Claim(claim("a", "1", "other")));
        assert_eq!(names(book.claims_of(&node("n", "m"))), ["b"]);
        assert_eq!(book.nodes_of(&claim("b", "1", "m")).len(), 1);
        assert_eq!(book.count(), (3, 2));
    }

    #[test]
    fn nodes_are_looked_at_before_claims_and_each_once() {
        let mut book = Book::<(), u8>::default();
        book.marked.extend([key("a"), Key::node("z"), key("a")]);
        assert_eq!(book.marked.iter().map(ToString::to_string).collect::<Vec<_>>(), ["node z", "nodeclaim a"]);
    }
}
