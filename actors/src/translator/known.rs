//! Objects of one alpha kind, as their watch shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_core::cluster_state::Unreadable;
use dovetail_core::say_once::SayOnce;
use kube::ResourceExt;
use kube_runtime::watcher::Event;

/// Alpha objects of one kind as its watch has them, and what was last written to each.
pub struct KnownObjects<K> {
    all: BTreeMap<String, Arc<K>>,
    /// While a list starts over: what it has shown.
    listing: Option<BTreeSet<String>>,
    /// True while a watch has begun and not shown everything yet.
    unlisted: bool,
    /// Names of those of which something has been said, with their uids.
    said: SayOnce<String, String>,
}

impl<K> Default for KnownObjects<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), listing: None, unlisted: false, said: SayOnce::default() }
    }
}

impl<K: ResourceExt> KnownObjects<K> {
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
                let listed = self.listing.take().unwrap_or_default();
                self.all.retain(|name, _| listed.contains(name));
                self.unlisted = false;
            }
        }
    }

    /// Forgets an object that is gone, or cannot be read any more.
    pub fn forget(&mut self, name: &str) {
        self.all.remove(name);
        self.said.gone(name);
    }

    /// True if everything is known; also if the kind is not served.
    pub fn is_listed(&self) -> bool {
        !self.unlisted
    }

    /// True if there is no object.
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

    /// Returns the objects that were not reported yet, neither by this leader nor, by `is_reported`, on the object; they count as
    /// reported.
    pub fn take_unreported(&mut self, is_reported: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let mut untold = Vec::new();
        for (name, object) in &self.all {
            let uid = object.uid().unwrap_or_default();
            if self.said.is_news(name.clone(), uid) && !is_reported(object) {
                untold.push(object.clone());
            }
        }
        untold
    }
}

/// Alpha objects that are there and cannot be read, as `KIND/NAME`.
#[derive(Default)]
pub struct Unread {
    all: BTreeMap<String, Unreadable>,
    /// Objects of a kind whose list has started over and has not shown them yet: they count until it ends.
    stale: BTreeSet<String>,
}

impl Unread {
    /// Takes an object that cannot be read.
    pub fn insert(&mut self, key: String, object: Unreadable) {
        self.stale.remove(&key);
        self.all.insert(key, object);
    }

    /// Forgets an object that is gone or readable again.
    pub fn remove(&mut self, key: &str) {
        self.stale.remove(key);
        self.all.remove(key);
    }

    /// Takes an event of the watch of a kind, which may show that an object is readable again or gone.
    pub fn heard<K: ResourceExt>(&mut self, event: &Event<K>, kind: &str) {
        let of_kind = |key: &str| key.strip_prefix(kind).is_some_and(|rest| rest.starts_with('/'));
        match event {
            Event::Init => self.stale.extend(self.all.keys().filter(|key| of_kind(key)).cloned()),
            Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => {
                self.remove(&format!("{kind}/{}", object.name_any()));
            }
            Event::InitDone => {
                let gone: Vec<String> = self.stale.iter().filter(|key| of_kind(key)).cloned().collect();
                gone.iter().for_each(|key| self.remove(key));
            }
        }
    }

    /// True if there is no object.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Names of the objects as `KIND/NAME`.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// Readable parts of each object.
    pub fn values(&self) -> impl Iterator<Item = &Unreadable> {
        self.all.values()
    }
}

#[cfg(test)]
mod tests {
    use dovetail_api::v1alpha1::{AWSNodeTemplate, AWSNodeTemplateSpec};

    use super::*;

    #[test]
    fn unreadable_object_counts_until_a_list_ends_without_it() {
        let mut unread = Unread::default();
        for name in ["a", "b", "c"] {
            unread.insert(format!("AWSNodeTemplate/{name}"), Unreadable::default());
        }
        let read = |name: &str| AWSNodeTemplate::new(name, AWSNodeTemplateSpec::default());
        unread.heard(&Event::<AWSNodeTemplate>::Init, "AWSNodeTemplate");
        assert_eq!(unread.keys().count(), 3);
        unread.heard(&Event::InitApply(read("a")), "AWSNodeTemplate");
        unread.insert("AWSNodeTemplate/b".to_owned(), Unreadable::default());
        unread.heard(&Event::<AWSNodeTemplate>::InitDone, "AWSNodeTemplate");
        assert_eq!(unread.keys().collect::<Vec<_>>(), ["AWSNodeTemplate/b"]);
    }

    #[test]
    fn kind_with_begun_watch_is_known_once_its_list_ends() {
        let mut known = KnownObjects::<AWSNodeTemplate>::default();
        assert!(known.is_listed(), "it is not served");
        known.begin();
        known.apply(Event::Init);
        known.apply(Event::InitApply(AWSNodeTemplate::new("a", AWSNodeTemplateSpec::default())));
        assert!(!known.is_listed());
        known.apply(Event::InitDone);
        assert!(known.is_listed() && known.get("a").is_some());
    }
}
