//! The garbage collector: dependents follow their owners. Runs within each write.
use crate::apiserver::gvr::Key;
use crate::apiserver::meta;
use crate::apiserver::registry::{FoundResource, Rid};
use crate::apiserver::store::{StoreState, StoredObject};
use crate::apiserver::writing::delete::DeleteOptions;
use serde_json::{Value, json};

/// The finalizer of an owner that waits for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents have to be let go.
pub const ORPHAN: &str = "orphan";

/// Something to look at.
#[derive(Clone, Debug)]
pub enum Garbage {
    /// An object with this uid is gone.
    Gone(String),
    /// An object is being deleted.
    Ending(Rid, Key),
    /// An object was written that has owners.
    Owned(Rid, Key),
    /// Something of this resource, in this namespace, is gone.
    Content(Rid, String),
}

impl StoreState {
    /// Notes an object that the collector has to look at.
    pub(in crate::apiserver) fn watch_garbage(&mut self, rid: Rid, object: &StoredObject) {
        if !meta::owner_uids(&object.value).is_empty() {
            self.garbage.push_back(Garbage::Owned(rid, object.key.clone()));
        }
        if meta::deleting(&object.value) {
            self.garbage.push_back(Garbage::Ending(rid, object.key.clone()));
        }
    }

    /// Does all that the collector has to do. What its own deletions add is taken up by the same loop, not by one
    /// within it: a namespace of thousands must not need as deep a stack.
    pub fn collect(&mut self) {
        if std::mem::replace(&mut self.collecting, true) {
            return;
        }
        while let Some(next) = self.garbage.pop_front() {
            match next {
                Garbage::Gone(uid) => {
                    for (rid, key) in self.owned_by(&uid) {
                        self.check_owners(rid, &key);
                    }
                }
                Garbage::Owned(rid, key) => self.check_owners(rid, &key),
                Garbage::Ending(rid, key) => self.check_ending(rid, &key),
                Garbage::Content(rid, namespace) => self.check_containers(rid, &namespace),
            }
        }
        self.collecting = false;
    }

    /// Deletes an object whose owners are all gone, or drops the references to those that are.
    fn check_owners(&mut self, rid: Rid, key: &Key) {
        let Some(object) = self.get(rid, key).cloned() else { return };
        self.wake_waiting_owners(&object);
        let owners = object.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let (alive, gone): (Vec<Value>, Vec<Value>) = owners.into_iter().partition(|o| self.owner_exists(o));
        if gone.is_empty() {
            return;
        }
        if alive.is_empty() {
            self.delete_dependent(rid, key);
        } else {
            let mut kept = Value::clone(&object.value);
            meta::set(&mut kept, "ownerReferences", Some(json!(alive)));
            self.put(rid, key.clone(), kept);
        }
    }

    /// An owner of a kind that is not served counts as there: nobody can tell.
    fn owner_exists(&self, owner: &Value) -> bool {
        let uid = owner["uid"].as_str().unwrap_or_default();
        let (version, kind) =
            (owner["apiVersion"].as_str().unwrap_or_default(), owner["kind"].as_str().unwrap_or_default());
        self.by_uid(uid).is_some() || self.registry.rid_of_kind(version, kind).is_none()
    }

    pub(in crate::apiserver) fn wake_waiting_owners(&mut self, object: &StoredObject) {
        for uid in meta::owner_uids(&object.value) {
            if let Some((rid, key)) = self.by_uid(uid).cloned()
                && self.get(rid, &key).is_some_and(|owner| meta::deleting(&owner.value))
            {
                self.garbage.push_back(Garbage::Ending(rid, key));
            }
        }
    }

    pub(in crate::apiserver) fn delete_dependent(&mut self, rid: Rid, key: &Key) {
        let already = self.get(rid, key).is_none_or(|object| meta::deleting(&object.value));
        let found = self.registry.def(rid).map(|def| FoundResource {
            rid,
            def: def.clone(),
            version: def.versions[def.storage].clone(),
            group: def.group.clone(),
        });
        if let Some(found) = found.filter(|_| !already) {
            let options = DeleteOptions {
                propagation: Some(crate::apiserver::writing::delete::Propagation::Background),
                ..DeleteOptions::default()
            };
            // It was there a line above; a refusal could only say that it is not.
            let _ = self.delete(&found, key, &options);
        }
    }

    /// Moves an object that is being deleted on, as far as its dependents allow.
    fn check_ending(&mut self, rid: Rid, key: &Key) {
        if self.has_contents(rid) {
            return self.check_contents(rid, key);
        }
        let Some(object) = self.get(rid, key).cloned() else { return };
        let uid = meta::text(&object.value, "uid").to_owned();
        let finalizers = meta::finalizers(&object.value);
        if finalizers.contains(&ORPHAN) {
            for (dependent, at) in self.owned_by(&uid) {
                self.let_go(dependent, &at, &uid);
            }
            return self.release(rid, key, ORPHAN);
        }
        if finalizers.contains(&FOREGROUND) {
            let dependents = self.owned_by(&uid);
            for (dependent, at) in &dependents {
                self.delete_dependent(*dependent, at);
            }
            let blocked =
                self.owned_by(&uid).iter().any(|(r, k)| self.get(*r, k).is_some_and(|o| blocks(&o.value, &uid)));
            if !blocked {
                self.release(rid, key, FOREGROUND);
            }
        }
    }

    fn let_go(&mut self, rid: Rid, key: &Key, owner: &str) {
        let Some(object) = self.get(rid, key) else { return };
        let mut kept = Value::clone(&object.value);
        let owners = kept["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let rest: Vec<Value> = owners.into_iter().filter(|o| o["uid"] != owner).collect();
        meta::set(&mut kept, "ownerReferences", (!rest.is_empty()).then(|| json!(rest)));
        self.put(rid, key.clone(), kept);
    }

    fn release(&mut self, rid: Rid, key: &Key, finalizer: &str) {
        let Some(object) = self.get(rid, key) else { return };
        let mut kept = Value::clone(&object.value);
        let rest: Vec<&str> = meta::finalizers(&object.value).into_iter().filter(|f| *f != finalizer).collect();
        meta::set(&mut kept, "finalizers", (!rest.is_empty()).then(|| json!(rest)));
        self.put(rid, key.clone(), kept);
        self.finish_if_done(rid, key);
    }
}

fn blocks(dependent: &Value, owner: &str) -> bool {
    let owners = dependent["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|list| list.iter().any(|o| o["uid"] == owner && o["blockOwnerDeletion"] == true))
}
