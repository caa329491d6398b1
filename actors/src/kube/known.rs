//! The objects of a kind that may not be served, as its watch shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_core::cluster_state::Unreadable;
use kube::core::ObjectMeta;

use crate::kube::served::{KindNews, OptionalKind, key_of};

/// A kind of which an object without fields can be made, to stand for one that cannot be read.
pub trait Fieldless: OptionalKind {
    /// The object that has this metadata and nothing else.
    fn fieldless(metadata: ObjectMeta) -> Self;
}

/// An object; with the reason where it cannot be read, which leaves its metadata.
pub type KnownObject<K> = Result<Arc<K>, (Arc<K>, String)>;

/// The objects that the watch has shown, by key.
pub struct KnownObjects<K> {
    all: BTreeMap<String, KnownObject<K>>,
    listed: bool,
    version: Option<&'static str>,
}

/// The effect of news on what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewsEffect {
    /// The kind is not served: there are no objects.
    NotServed,
    /// An object has come, changed or gone, or a list is complete.
    Changed,
    /// Nothing that an actor does something about.
    Nothing,
}

impl<K> Default for KnownObjects<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), listed: false, version: None }
    }
}

impl<K: Fieldless> KnownObjects<K> {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// True if all are known, or the kind is not served.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// The API version that is watched.
    pub fn version(&self) -> Option<&'static str> {
        self.version
    }

    pub fn keys(&self) -> impl Iterator<Item = String> + '_ {
        self.all.keys().cloned()
    }

    pub fn all(&self) -> BTreeMap<String, KnownObject<K>> {
        self.all.clone()
    }

    /// Takes in our own write, unless the object is gone or another one by now.
    pub fn wrote(&mut self, object: K) {
        let known = self.all.get_mut(&key_of(object.meta()));
        if let Some(Ok(known)) = known.filter(|one| matches!(one, Ok(known) if known.meta().uid == object.meta().uid)) {
            *known = Arc::new(object);
        }
    }

    /// Takes in news of the watch.
    pub fn take_news(&mut self, news: KindNews<K>) -> NewsEffect {
        match news {
            KindNews::NotServed => {
                self.listed = true;
                return NewsEffect::NotServed;
            }
            KindNews::Served(version) => {
                (self.version, self.listed) = (Some(version), false);
                return NewsEffect::Nothing;
            }
            KindNews::Seen(object) => drop(self.all.insert(key_of(object.meta()), Ok(Arc::new(*object)))),
            KindNews::Unreadable(object) => self.cannot_read(&object),
            KindNews::Gone(key) => drop(self.all.remove(&key)),
            KindNews::Listed(keys) => self.complete(&keys),
            KindNews::Failed(..) | KindNews::Runs => return NewsEffect::Nothing,
        }
        NewsEffect::Changed
    }

    fn cannot_read(&mut self, object: &Unreadable) {
        let known =
            Err((Arc::new(K::fieldless(object.metadata.clone())), format!("it cannot be read: {}", object.why)));
        self.all.insert(key_of(&object.metadata), known);
    }

    /// A list is complete, with the objects of these keys.
    fn complete(&mut self, keys: &BTreeSet<String>) {
        self.all.retain(|key, _| keys.contains(key));
        self.listed = true;
    }
}
