//! The store: a table a resource, one counter of versions, and the history that watches replay.
use super::gvr::{Gvr, Key};
use super::meta;
use super::registry::{Registry, ResourceDef, Rid};
pub use super::table::{ChangeKind, Happened, StoredObject, TableChange, written};
use super::table::{Table, TableLimits};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

#[derive(Debug)]
struct Subscriber {
    rids: BTreeSet<Rid>,
    to: mpsc::UnboundedSender<Happened>,
}

/// Everything the server knows. Methods are synchronous and called under one lock.
#[derive(Debug)]
pub struct StoreState {
    /// Served resources.
    pub registry: Registry,
    /// The latest resourceVersion given.
    pub rv: u64,
    /// Seeded: uids and name suffixes.
    pub rng: fastrand::Rng,
    /// The wall time of the request being handled.
    pub now: Timestamp,
    /// Hooks called before a create or update is stored.
    pub admission: Vec<Box<dyn super::admission::Admission>>,
    /// Expressions of admission policies.
    pub(super) compiled: super::policy::CompiledPolicies,
    /// Number of restarts: watches of an earlier life are over.
    pub(super) life: u64,
    pub(super) tables: Vec<Table>,
    by_node: BTreeMap<String, BTreeSet<Key>>,
    by_owner: BTreeMap<String, BTreeSet<(Rid, Key)>>,
    by_uid: BTreeMap<String, (Rid, Key)>,
    /// Work of the garbage collector: what was removed or is being deleted.
    pub(super) garbage: VecDeque<super::writing::gc::Garbage>,
    /// True while the collector is at work.
    pub(super) collecting: bool,
    /// Time at which old events were last looked for.
    pub(super) events_collected: Timestamp,
    /// The logs that somebody writes, by pod.
    pub(super) logs: BTreeMap<Key, Arc<super::viewing::podlog::LogBook>>,
    subscribers: Vec<Subscriber>,
    limits: TableLimits,
    pods: Option<Rid>,
}

impl StoreState {
    /// An empty store with the built-in resources.
    pub fn new(seed: u64, limits: TableLimits) -> Self {
        let registry = Registry::builtin();
        let pods = registry.rid("", "pods");
        let tables = (0..registry.tables()).map(|_| Table::default()).collect();
        StoreState {
            registry,
            rv: 1,
            rng: fastrand::Rng::with_seed(seed),
            now: Timestamp::UNIX_EPOCH,
            admission: Vec::new(),
            compiled: super::policy::CompiledPolicies::default(),
            life: 0,
            tables,
            by_node: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            garbage: VecDeque::new(),
            collecting: false,
            events_collected: Timestamp::UNIX_EPOCH,
            logs: BTreeMap::new(),
            subscribers: Vec::new(),
            limits,
            pods,
        }
    }

    /// Makes room for resources registered since.
    pub fn grow(&mut self) {
        while self.tables.len() < self.registry.tables() {
            // A watch may not resume from before the resource existed under this table.
            self.tables.push(Table::starting_at(self.rv));
        }
    }

    pub fn table(&self, rid: Rid) -> &Table {
        &self.tables[rid]
    }

    /// A resource's table, for a watch to follow.
    pub fn table_mut(&mut self, rid: Rid) -> &mut Table {
        &mut self.tables[rid]
    }

    pub fn get(&self, rid: Rid, key: &Key) -> Option<&Arc<StoredObject>> {
        self.tables[rid].objects.get(key)
    }

    pub fn by_uid(&self, uid: &str) -> Option<&(Rid, Key)> {
        self.by_uid.get(uid)
    }

    /// Objects that name `uid` as an owner.
    pub fn owned_by(&self, uid: &str) -> Vec<(Rid, Key)> {
        self.by_owner.get(uid).map(|set| set.iter().cloned().collect()).unwrap_or_default()
    }

    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<StoredObject>> + use<'a> {
        let keys = self.by_node.get(node);
        let table = self.pods.map(|rid| &self.tables[rid]);
        keys.into_iter().flatten().filter_map(move |key| table.and_then(|t| t.objects.get(key)))
    }

    /// Stores a new state of an object and tells everybody.
    pub fn put(&mut self, rid: Rid, key: Key, value: Value) -> Arc<StoredObject> {
        self.rv += 1;
        let object = Arc::new(StoredObject::new(key.clone(), self.rv, value));
        let old = self.tables[rid].objects.insert(key, object.clone());
        let alike = old.as_ref().is_some_and(|old| self.is_found_alike(rid, old, &object));
        if let Some(old) = old.as_ref().filter(|_| !alike) {
            self.unindex(rid, old);
        }
        if !alike {
            self.index(rid, &object);
        }
        let kind = if old.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.publish(rid, TableChange { kind, object: object.clone(), old, at: Instant::now() });
        object
    }

    /// Takes an object out and tells everybody; the garbage collector looks at what it owned.
    pub fn take_out(&mut self, rid: Rid, key: &Key) -> Option<Arc<StoredObject>> {
        let old = self.tables[rid].objects.remove(key)?;
        self.unindex(rid, &old);
        self.rv += 1;
        let last = Arc::new(StoredObject::new(key.clone(), self.rv, Value::clone(&old.value)));
        let (kind, at) = (ChangeKind::Deleted, Instant::now());
        self.publish(rid, TableChange { kind, object: last.clone(), old: Some(old), at });
        Some(last)
    }

    /// Takes the first `most` objects of a resource out as if they had never been written: watches learn of it only by
    /// listing anew, to which they are made. For a server that was restored from an older state.
    pub fn lose(&mut self, rid: Rid, most: usize) -> Vec<Arc<StoredObject>> {
        let Some(def) = self.registry.def(rid).cloned() else { return Vec::new() };
        let keys: Vec<Key> = self.tables[rid].objects.keys().take(most).cloned().collect();
        let lost: Vec<Arc<StoredObject>> = keys.iter().filter_map(|key| self.tables[rid].objects.remove(key)).collect();
        for object in &lost {
            self.unindex(rid, object);
            self.rv += 1;
            self.record_change(rid, &def, ChangeKind::Deleted, object, Some(object));
        }
        let version = self.rv;
        self.tables[rid].forget_all(version);
        lost
    }

    fn publish(&mut self, rid: Rid, change: TableChange) {
        if let Some(def) = self.registry.def(rid).cloned() {
            self.record_change(rid, &def, change.kind, &change.object, change.old.as_ref());
        }
        self.tables[rid].record(change, self.limits);
    }

    pub(super) fn record_change(
        &mut self,
        rid: Rid,
        def: &ResourceDef,
        kind: ChangeKind,
        object: &StoredObject,
        old: Option<&Arc<StoredObject>>,
    ) {
        self.subscribers.retain(|subscriber| {
            if !subscriber.rids.contains(&rid) {
                return !subscriber.to.is_closed();
            }
            let happened = Happened {
                gvr: Gvr::new(&def.group, &def.stored().name, &def.plural),
                kind,
                key: object.key.clone(),
                old: old.map(|o| o.value.clone()),
                new: object.value.clone(),
            };
            subscriber.to.send(happened).is_ok()
        });
    }

    /// Tells of every later change of these resources, in the order of versions.
    pub fn subscribe(&mut self, rids: BTreeSet<Rid>) -> mpsc::UnboundedReceiver<Happened> {
        let (to, from) = mpsc::unbounded_channel();
        self.subscribers.push(Subscriber { rids, to });
        from
    }

    /// True if two states of an object stand in the same places of the indexes.
    fn is_found_alike(&self, rid: Rid, a: &StoredObject, b: &StoredObject) -> bool {
        meta::text(&a.value, "uid") == meta::text(&b.value, "uid")
            && a.value["metadata"]["ownerReferences"] == b.value["metadata"]["ownerReferences"]
            && (Some(rid) != self.pods || a.value["spec"]["nodeName"] == b.value["spec"]["nodeName"])
    }

    pub(super) fn index(&mut self, rid: Rid, object: &StoredObject) {
        let at = (rid, object.key.clone());
        for owner in meta::owner_uids(&object.value) {
            self.by_owner.entry(owner.to_owned()).or_default().insert(at.clone());
        }
        if Some(rid) == self.pods
            && let Some(node) = object.value["spec"]["nodeName"].as_str().filter(|n| !n.is_empty())
        {
            self.by_node.entry(node.to_owned()).or_default().insert(object.key.clone());
        }
        self.by_uid.insert(meta::text(&object.value, "uid").to_owned(), at);
    }

    pub(super) fn unindex(&mut self, rid: Rid, object: &StoredObject) {
        let at = (rid, object.key.clone());
        for owner in meta::owner_uids(&object.value) {
            forget(&mut self.by_owner, owner, &at);
        }
        if Some(rid) == self.pods
            && let Some(node) = object.value["spec"]["nodeName"].as_str()
        {
            forget(&mut self.by_node, node, &object.key);
        }
        self.by_uid.remove(meta::text(&object.value, "uid"));
    }
}

fn forget<T: Ord>(index: &mut BTreeMap<String, BTreeSet<T>>, name: &str, entry: &T) {
    if let Some(set) = index.get_mut(name) {
        set.remove(entry);
        if set.is_empty() {
            index.remove(name);
        }
    }
}
