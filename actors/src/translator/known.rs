//! Objects of one alpha kind, as their watch shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use kube_runtime::watcher::Event;

/// See the module.
pub struct Known<K> {
    all: BTreeMap<String, Arc<K>>,
    /// While a list starts over: what it has shown.
    listing: Option<BTreeSet<String>>,
    /// Whether a watch has begun and has not shown all there is yet.
    unlisted: bool,
    /// Names of those of which something has been said, with their uids.
    said: BTreeMap<String, String>,
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), listing: None, unlisted: false, said: BTreeMap::new() }
    }
}

impl<K: ResourceExt> Known<K> {
    /// A watch begins.
    pub fn begin(&mut self) {
        self.unlisted = true;
    }

    /// The watch has said something.
    pub fn apply(&mut self, event: Event<K>) {
        match event {
            Event::Init => self.listing = Some(BTreeSet::new()),
            Event::InitApply(object) | Event::Apply(object) => {
                let name = object.name_any();
                self.listing.iter_mut().for_each(|listing| listing.extend([name.clone()]));
                self.all.insert(name, Arc::new(object));
            }
            Event::Delete(object) => self.forget(&object.name_any()),
            Event::InitDone => {
                let shown = self.listing.take().unwrap_or_default();
                self.all.retain(|name, _| shown.contains(name));
                self.unlisted = false;
            }
        }
    }

    /// It is gone, or cannot be read any more.
    pub fn forget(&mut self, name: &str) {
        self.all.remove(name);
        self.said.remove(name);
    }

    /// Whether what is known is all there is: also where the kind is not served.
    pub fn is_listed(&self) -> bool {
        !self.unlisted
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &K> {
        self.all.values().map(AsRef::as_ref)
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<&K> {
        self.all.get(name).map(AsRef::as_ref)
    }

    /// Those of which nothing has been said yet, neither by this leader nor, by `is_told`, on the object; they count as told.
    pub fn take_untold(&mut self, is_told: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let mut untold = Vec::new();
        for (name, object) in &self.all {
            let uid = object.uid().unwrap_or_default();
            if self.said.insert(name.clone(), uid.clone()) != Some(uid) && !is_told(object) {
                untold.push(object.clone());
            }
        }
        untold
    }
}

/// Whether the event shows that the object of that key, `KIND/NAME`, can be read, or is gone.
pub fn is_read<K: ResourceExt>(event: &Event<K>, key: &str, kind: &str) -> bool {
    let of = |object: &K| key.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/')) == Some(&*object.name_any());
    match event {
        // A list says anew which cannot be read.
        Event::Init => key.strip_prefix(kind).is_some_and(|rest| rest.starts_with('/')),
        Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => of(object),
        Event::InitDone => false,
    }
}
