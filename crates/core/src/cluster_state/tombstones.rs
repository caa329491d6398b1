//! Objects that are gone, so that a late answer to a write does not revive one.

use std::collections::{BTreeSet, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Most objects remembered.
const MOST: usize = 4096;

/// The uids of objects that are gone, the latest of them.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    uids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Tombstones {
    /// Remembers an object that is gone.
    pub fn remember(&mut self, uid: Option<&str>) {
        let Some(uid) = uid else { return };
        if self.uids.insert(uid.to_owned()) {
            self.order.push_back(uid.to_owned());
        }
        if self.order.len() > MOST
            && let Some(first) = self.order.pop_front()
        {
            self.uids.remove(&first);
        }
    }

    /// Forgets that an object is gone.
    pub fn open(&mut self, uid: &str) {
        if self.uids.remove(uid) {
            self.order.retain(|one| one != uid);
        }
    }

    /// True if an object is known to be gone.
    pub fn hold(&self, meta: &ObjectMeta) -> bool {
        meta.uid.as_ref().is_some_and(|uid| self.uids.contains(uid))
    }
}
