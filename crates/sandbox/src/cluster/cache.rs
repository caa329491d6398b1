//! The controllers' view of the cluster: the latest state of each object, and pods by owner and by node.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use crate::apiserver::Key;

use super::kind::Kind;
use super::pod::PodView;
use super::scheduler::node::{NodeInfo, NodeObject};
use super::scheduler::resources::ResourceColumns;

/// A revision of an object; never changes.
pub(crate) type CachedObject = Arc<Value>;

/// The latest state of everything that the controllers look at.
#[derive(Debug, Default)]
pub(crate) struct ClusterCache {
    tables: BTreeMap<Kind, BTreeMap<Key, CachedObject>>,
    pods: BTreeMap<Key, Rc<PodView>>,
    /// By the uid of the controlling owner: what it owns.
    owned: BTreeMap<String, BTreeSet<(Kind, Key)>>,
    by_node: BTreeMap<String, BTreeSet<Key>>,
    nodes: BTreeMap<String, Rc<NodeInfo>>,
    node_versions: u64,
}

impl ClusterCache {
    pub(crate) fn get(&self, kind: Kind, key: &Key) -> Option<&CachedObject> {
        self.tables.get(&kind)?.get(key)
    }

    pub(crate) fn named(&self, kind: Kind, name: &str) -> Option<&CachedObject> {
        self.get(kind, &Key::new("", name))
    }

    /// All objects of a kind, by namespace and name.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = (&Key, &CachedObject)> {
        self.tables.get(&kind).into_iter().flatten()
    }

    /// The objects of a kind in a namespace.
    pub(crate) fn within<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a CachedObject)> {
        let from = Key::new(namespace, "");
        let table = self.tables.get(&kind);
        table.into_iter().flat_map(move |t| t.range(from.clone()..)).take_while(move |(k, _)| k.namespace == namespace)
    }

    pub(crate) fn pod(&self, key: &Key) -> Option<&Rc<PodView>> {
        self.pods.get(key)
    }

    pub(crate) fn pods_within<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Rc<PodView>> {
        let from = Key::new(namespace, "");
        self.pods.range(from..).take_while(move |(k, _)| k.namespace == namespace).map(|(_, pod)| pod)
    }

    /// The pods that an owner controls, by name.
    pub(crate) fn pods_of(&self, owner_uid: &str) -> Vec<Rc<PodView>> {
        self.owned_by(owner_uid)
            .filter(|(kind, _)| *kind == Kind::Pod)
            .filter_map(|(_, k)| self.pods.get(k).cloned())
            .collect()
    }

    /// Objects that an owner controls.
    pub(crate) fn owned_by(&self, owner_uid: &str) -> impl Iterator<Item = &(Kind, Key)> {
        self.owned.get(owner_uid).into_iter().flatten()
    }

    pub(crate) fn pods_on(&self, node: &str) -> Vec<Rc<PodView>> {
        self.by_node.get(node).into_iter().flatten().filter_map(|k| self.pods.get(k).cloned()).collect()
    }

    /// A node's labels and taints, read.
    pub(crate) fn node(&self, name: &str) -> Option<&Rc<NodeInfo>> {
        self.nodes.get(name)
    }

    /// All nodes, read, by name.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Rc<NodeInfo>> {
        self.nodes.values()
    }

    /// Takes a new state in; `None` means that the object is gone.
    pub(crate) fn put(&mut self, kind: Kind, key: &Key, object: Option<&CachedObject>) {
        let table = self.tables.entry(kind).or_default();
        let old = match object {
            Some(object) => table.insert(key.clone(), object.clone()),
            None => table.remove(key),
        };
        self.index_owner(kind, key, old.as_deref(), object.map(|o| &**o));
        match kind {
            Kind::Pod => self.put_pod(key, object),
            Kind::Node => self.put_node(key, object),
            _ => {}
        }
    }

    fn index_owner(&mut self, kind: Kind, key: &Key, old: Option<&Value>, new: Option<&Value>) {
        let (before, after) = (old.and_then(controller_uid), new.and_then(controller_uid));
        if before == after {
            return;
        }
        if let Some(owner) = before {
            forget(&mut self.owned, owner, &(kind, key.clone()));
        }
        if let Some(owner) = after {
            self.owned.entry(owner.to_owned()).or_default().insert((kind, key.clone()));
        }
    }

    fn put_pod(&mut self, key: &Key, object: Option<&CachedObject>) {
        let new = object.map(|o| Rc::new(PodView::from_pod(key, o)));
        let old = match &new {
            Some(pod) => self.pods.insert(key.clone(), pod.clone()),
            None => self.pods.remove(key),
        };
        let (before, after) = (old.as_ref().and_then(|p| p.node.clone()), new.and_then(|p| p.node.clone()));
        if before == after {
            return;
        }
        if let Some(node) = before {
            forget(&mut self.by_node, &node, key);
        }
        if let Some(node) = after {
            self.by_node.entry(node).or_default().insert(key.clone());
        }
    }

    fn put_node(&mut self, key: &Key, object: Option<&CachedObject>) {
        let Some(object) = object else {
            self.nodes.remove(&key.name);
            return;
        };
        self.node_versions += 1;
        let mut node = NodeInfo::new(&key.name);
        node.update(NodeObject::from_node(object), self.node_versions, &mut ResourceColumns::new());
        self.nodes.insert(key.name.clone(), Rc::new(node));
    }
}

pub(crate) fn controller_uid(object: &Value) -> Option<&str> {
    controller(object)?["uid"].as_str()
}

/// The owner reference of the controller.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|o| o["controller"] == true)
}

fn forget<T: Ord>(index: &mut BTreeMap<String, BTreeSet<T>>, name: &str, entry: &T) {
    if let Some(set) = index.get_mut(name) {
        set.remove(entry);
        if set.is_empty() {
            index.remove(name);
        }
    }
}
