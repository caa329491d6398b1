//! Look-ups of a record, kept as entries come, so that no check has to read all claims, nodes or pods.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Claim, NodeRecord, PodRecord};

/// Keys of some objects, by what they are looked up by.
type KeySets<K> = BTreeMap<K, BTreeSet<String>>;

/// Namespace, and a name or an owner in it.
type Namespaced = (String, String);

/// Claims, machines, nodes and pods that belong together.
#[derive(Default)]
pub(super) struct RecordIndex {
    /// Uids of living claims, by their instance.
    claims_by_instance: KeySets<String>,
    /// Uids of living claims that have no instance, by their token.
    claims_awaiting: KeySets<String>,
    /// Uids of all claims that there were, by their name.
    claims_by_name: KeySets<String>,
    /// Ids of machines, by their token.
    machines_by_token: KeySets<String>,
    /// Names of nodes, by their instance.
    nodes_by_instance: KeySets<String>,
    /// Uids of pods, by their node; of those that have one.
    pods_by_node: KeySets<String>,
    pods_by_owner: KeySets<Namespaced>,
    pods_by_name: KeySets<Namespaced>,
}

/// Key by which a living claim is found: its instance, or its token while it has none.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClaimKey {
    Instance(String),
    Token(String),
}

impl ClaimKey {
    /// None of a claim that is gone.
    pub fn of_claim(claim: &Claim) -> Option<Self> {
        let key = || match claim.instance.as_str() {
            "" => Self::Token(claim.token.clone()),
            id => Self::Instance(id.to_owned()),
        };
        claim.gone.is_none().then(key)
    }
}

impl RecordIndex {
    /// A claim was found by the one key, and is by the other.
    pub fn claim_changed(&mut self, uid: &str, before: Option<&ClaimKey>, after: Option<&ClaimKey>) {
        if before == after {
            return;
        }
        if let Some(key) = before {
            let (sets, key) = self.claims_by(key);
            remove(sets, key, uid);
        }
        if let Some(key) = after {
            let (sets, key) = self.claims_by(key);
            insert(sets, key, uid);
        }
    }

    fn claims_by<'a>(&mut self, key: &'a ClaimKey) -> (&mut KeySets<String>, &'a String) {
        match key {
            ClaimKey::Instance(id) => (&mut self.claims_by_instance, id),
            ClaimKey::Token(token) => (&mut self.claims_awaiting, token),
        }
    }

    pub fn claim_named(&mut self, uid: &str, name: &String) {
        insert(&mut self.claims_by_name, name, uid);
    }

    /// A machine has this token, from its beginning.
    pub fn machine_came(&mut self, id: &str, token: &String) {
        insert(&mut self.machines_by_token, token, id);
    }

    /// A node is about to change, or to go.
    pub fn node_leaves(&mut self, name: &str, node: &NodeRecord) {
        remove(&mut self.nodes_by_instance, &node.instance, name);
    }

    /// A node has changed.
    pub fn node_is(&mut self, name: &str, node: &NodeRecord) {
        insert(&mut self.nodes_by_instance, &node.instance, name);
    }

    /// A pod is about to change, or to go.
    pub fn pod_leaves(&mut self, uid: &str, pod: &PodRecord) {
        remove(&mut self.pods_by_node, &pod.node, uid);
        remove(&mut self.pods_by_owner, &(pod.namespace.clone(), pod.owner.clone()), uid);
        remove(&mut self.pods_by_name, &(pod.namespace.clone(), pod.name.clone()), uid);
    }

    /// A pod has changed.
    pub fn pod_is(&mut self, uid: &str, pod: &PodRecord) {
        if !pod.node.is_empty() {
            insert(&mut self.pods_by_node, &pod.node, uid);
        }
        insert(&mut self.pods_by_owner, &(pod.namespace.clone(), pod.owner.clone()), uid);
        insert(&mut self.pods_by_name, &(pod.namespace.clone(), pod.name.clone()), uid);
    }

    /// Uids of the living claims that have an instance.
    pub fn claims_of(&self, instance: &str) -> impl Iterator<Item = &String> {
        self.claims_by_instance.get(instance).into_iter().flatten()
    }

    /// True if a living claim without an instance has the token.
    pub fn is_awaited(&self, token: &str) -> bool {
        self.claims_awaiting.contains_key(token)
    }

    /// Uids of all claims that there were under a name.
    pub fn claims_named(&self, name: &str) -> impl Iterator<Item = &String> {
        self.claims_by_name.get(name).into_iter().flatten()
    }

    /// Ids of the machines that have a token.
    pub fn machines_with(&self, token: &str) -> impl Iterator<Item = &String> {
        self.machines_by_token.get(token).into_iter().flatten()
    }

    pub fn nodes_of(&self, instance: &str) -> impl Iterator<Item = &String> {
        self.nodes_by_instance.get(instance).into_iter().flatten()
    }

    /// Uids of the pods on each node that has some.
    pub fn pods_by_node(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.pods_by_node
    }

    /// Uids of a workload's pods.
    pub fn pods_of(&self, namespace: &str, owner: &str) -> impl Iterator<Item = &String> {
        self.pods_by_owner.get(&(namespace.to_owned(), owner.to_owned())).into_iter().flatten()
    }

    /// Uids of the pods of a name.
    pub fn pods_named(&self, namespace: &str, name: &str) -> impl Iterator<Item = &String> {
        self.pods_by_name.get(&(namespace.to_owned(), name.to_owned())).into_iter().flatten()
    }
}

fn insert<K: Ord + Clone>(sets: &mut KeySets<K>, key: &K, one: &str) {
    match sets.get_mut(key) {
        Some(set) => drop(set.insert(one.to_owned())),
        None => drop(sets.insert(key.clone(), BTreeSet::from([one.to_owned()]))),
    }
}

fn remove<K: Ord>(sets: &mut KeySets<K>, key: &K, one: &str) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(one);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
