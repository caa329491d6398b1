//! One resource's objects, and the history of their changes.
use super::gvr::{Gvr, Key};
use super::meta;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::Notify;
use tokio::time::Instant;

/// One revision of an object. Never changes; its JSON is made once, when somebody needs it.
#[derive(Debug)]
pub struct StoredObject {
    /// Namespace and name of the object.
    pub key: Key,
    /// The store's revision that wrote it.
    pub rv: u64,
    /// As it is stored, in the resource's storage version.
    pub value: Arc<Value>,
    json: OnceLock<Bytes>,
}

impl StoredObject {
    /// A state that is stored under a version.
    pub fn new(key: Key, rv: u64, mut value: Value) -> Self {
        meta::set(&mut value, "resourceVersion", Some(json!(rv.to_string())));
        StoredObject { key, rv, value: Arc::new(value), json: OnceLock::new() }
    }

    /// A state that is not stored (a dry run): it keeps the version that it has.
    pub fn loose(key: Key, value: Value) -> Self {
        let rv = meta::text(&value, "resourceVersion").parse().unwrap_or_default();
        StoredObject { key, rv, value: Arc::new(value), json: OnceLock::new() }
    }

    /// The object as JSON, shared by everybody who is sent it.
    pub fn json(&self) -> Bytes {
        self.json.get_or_init(|| written(&self.value)).clone()
    }
}

/// A value as JSON. Twice as quick as its `to_string`, which goes through a formatter for every word.
pub fn written(value: &Value) -> Bytes {
    // Keys are strings and numbers are finite: nothing in a value cannot be written.
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl ChangeKind {
    /// As in a watch event.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Added => "ADDED",
            ChangeKind::Modified => "MODIFIED",
            ChangeKind::Deleted => "DELETED",
        }
    }
}

/// An entry of the history.
#[derive(Clone, Debug)]
pub struct TableChange {
    /// Added, modified or deleted.
    pub kind: ChangeKind,
    /// The new state; for a deletion the last state, with the version of the deletion.
    pub object: Arc<StoredObject>,
    /// The state before.
    pub old: Option<Arc<StoredObject>>,
    pub at: Instant,
}

/// Message to a subscriber (a controller of the sandbox) about a change.
#[derive(Clone, Debug)]
pub struct Happened {
    /// The resource, in its stored version.
    pub gvr: Gvr,
    /// Added, modified or deleted.
    pub kind: ChangeKind,
    /// Namespace and name of the object.
    pub key: Key,
    /// The state before; none for an addition.
    pub old: Option<Arc<Value>>,
    /// The new state; for a deletion the last state.
    pub new: Arc<Value>,
}

/// Objects and history of one resource.
#[derive(Debug, Default)]
pub struct Table {
    /// The objects as they are now.
    pub objects: BTreeMap<Key, Arc<StoredObject>>,
    /// The latest changes, oldest first.
    pub history: VecDeque<TableChange>,
    /// Version of the newest change that is no longer in the history.
    pub floor: u64,
    /// Wakes watches.
    pub wake: Arc<Notify>,
    /// Revision up to which each open watch has read.
    cursors: Vec<Weak<AtomicU64>>,
}

/// Bounds on the history that a table keeps.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Changes that are kept in any case, for watches that resume.
    pub kept: usize,
    /// Changes that are kept for the sake of open watches that have not read them yet.
    pub lag: usize,
}

impl Table {
    /// An empty table whose history begins after a version.
    pub fn starting_at(rv: u64) -> Self {
        Table { floor: rv, ..Table::default() }
    }

    /// The objects of a namespace, or all.
    pub fn within<'a>(&'a self, namespace: Option<&'a str>) -> Box<dyn Iterator<Item = &'a Arc<StoredObject>> + 'a> {
        match namespace {
            None => Box::new(self.objects.values()),
            Some(ns) => {
                let from = Key::new(ns, "");
                Box::new(self.objects.range(from..).take_while(move |(key, _)| key.namespace == ns).map(|(_, o)| o))
            }
        }
    }

    /// The table as it was at version `rv`; none when the history does not reach back so far.
    pub fn as_of(&self, rv: u64) -> Option<BTreeMap<Key, Arc<StoredObject>>> {
        if rv < self.floor {
            return None;
        }
        let mut objects = self.objects.clone();
        for change in self.history.iter().rev().take_while(|c| c.object.rv > rv) {
            match &change.old {
                Some(old) => objects.insert(old.key.clone(), old.clone()),
                None => objects.remove(&change.object.key),
            };
        }
        Some(objects)
    }

    /// Makes known how far a watch has read, for as long as it keeps the cursor.
    pub fn follow(&mut self, cursor: &Arc<AtomicU64>) {
        self.cursors.retain(|cursor| cursor.strong_count() > 0);
        self.cursors.push(Arc::downgrade(cursor));
    }

    /// Adds a change to the history, forgets what is beyond the limits, and wakes the watches.
    pub fn record(&mut self, change: TableChange, limits: TableLimits) {
        self.history.push_back(change);
        if self.history.len() > limits.kept {
            self.forget(limits);
        }
        self.wake.notify_waiters();
    }

    /// Forgets all history up to a version: whoever watches has to list anew.
    pub fn forget_all(&mut self, version: u64) {
        self.history.clear();
        self.floor = version;
        self.wake.notify_waiters();
    }

    fn forget(&mut self, limits: TableLimits) {
        self.cursors.retain(|cursor| cursor.strong_count() > 0);
        let read = self.cursors.iter().filter_map(Weak::upgrade).map(|cursor| cursor.load(Relaxed)).min();
        while let Some(oldest) = self.history.front().map(|change| change.object.rv) {
            let wanted = read.is_some_and(|read| oldest > read) && self.history.len() <= limits.lag;
            if self.history.len() <= limits.kept || wanted {
                return;
            }
            self.floor = oldest;
            self.history.pop_front();
        }
    }
}
