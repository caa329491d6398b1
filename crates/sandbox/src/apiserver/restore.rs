//! An API server that is restarted, and one whose store is put back to an older state, as `etcdutl snapshot restore
//! --bump-revision … --mark-compacted` does it: objects have the versions that they had then, the next version is beyond
//! all that anybody has seen, and whoever watches has to list anew.
use super::gvr::{Gvr, Key};
use super::registry::{ResourceDef, Rid};
use super::store::{ChangeKind, StoreState, StoredObject};
use super::{ApiServer, meta};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number by which versions jump, as etcd's manual has it.
const BUMP: u64 = 1_000_000_000;

/// Resources that a restore leaves as they are: the cluster's own controllers have caught up with them when the server answers
/// again.
const KEPT: [&str; 5] = ["volumeattachments", "persistentvolumes", "persistentvolumeclaims", "csinodes", "events"];

#[derive(Clone)]
pub struct StoreSnapshot(BTreeMap<Rid, BTreeMap<Key, Arc<StoredObject>>>);

impl std::fmt::Debug for StoreSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({} tables)", self.0.len())
    }
}

/// An object that a restored store has otherwise than the store had it before.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Group, version and resource that it is stored as.
    pub gvr: Gvr,
    /// As it was before; none for one that had gone.
    pub before: Option<Arc<Value>>,
    /// As it is now; none for one that came later.
    pub after: Option<Arc<Value>>,
}

impl ApiServer {
    pub fn snapshot(&self) -> StoreSnapshot {
        let state = self.lock();
        let tables = state
            .tables
            .iter()
            .enumerate()
            .filter(|(rid, _)| state.registry.def(*rid).is_some_and(|def| restored(def)));
        StoreSnapshot(tables.map(|(rid, table)| (rid, table.objects.clone())).collect())
    }

    /// Ends every watch, and forgets what watches could resume from.
    pub fn restart(&self) {
        self.lock().restart();
    }

    /// Puts the store back to what it was, and restarts. Answers what is different now.
    pub fn restore(&self, snapshot: &StoreSnapshot) -> Vec<Restored> {
        let mut state = self.lock();
        let mut all = Vec::new();
        for (rid, objects) in &snapshot.0 {
            let Some(def) = state.registry.def(*rid).cloned() else { continue };
            let gvr = Gvr::new(&def.group, &def.stored().name, &def.plural);
            let changed = state.put_back(*rid, &def, objects);
            all.extend(changed.into_iter().map(|(before, after)| Restored { gvr: gvr.clone(), before, after }));
        }
        state.rv += BUMP;
        state.restart();
        all
    }
}

type Pair = (Option<Arc<Value>>, Option<Arc<Value>>);

impl StoreState {
    fn restart(&mut self) {
        self.life += 1;
        let version = self.rv;
        self.tables.iter_mut().for_each(|table| table.forget_all(version));
    }

    /// Gives a table other objects. The cluster's controllers are told object by object; a pod that is not what it was
    /// is to them one that went and another that came, as to a kubelet that starts anew.
    fn put_back(&mut self, rid: Rid, def: &ResourceDef, objects: &BTreeMap<Key, Arc<StoredObject>>) -> Vec<Pair> {
        let now = std::mem::replace(&mut self.tables[rid].objects, objects.clone());
        let mut keys: Vec<&Key> = now.keys().chain(objects.keys()).collect();
        keys.sort();
        keys.dedup();
        let mut changed = Vec::new();
        for key in keys {
            let (before, after) = (now.get(key), objects.get(key));
            if before.map(|one| one.rv) == after.map(|one| one.rv) {
                continue;
            }
            before.into_iter().for_each(|one| self.unindex(rid, one));
            after.into_iter().for_each(|one| self.index(rid, one));
            let same = |a: &StoredObject, b: &StoredObject| meta::text(&a.value, "uid") == meta::text(&b.value, "uid");
            match (before, after) {
                (Some(before), Some(after)) if def.plural != "pods" && same(before, after) => {
                    self.record_change(rid, def, ChangeKind::Modified, after, Some(before));
                }
                _ => {
                    if let Some(before) = before {
                        self.record_change(rid, def, ChangeKind::Deleted, before, Some(before));
                    }
                    if let Some(after) = after {
                        self.record_change(rid, def, ChangeKind::Added, after, None);
                    }
                }
            }
            changed.push((before.map(|one| one.value.clone()), after.map(|one| one.value.clone())));
        }
        changed
    }
}

fn restored(def: &ResourceDef) -> bool {
    !KEPT.contains(&def.plural.as_str())
}
