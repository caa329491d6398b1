//! The quotas of a cluster, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::autoscaling::CapacityQuota;

use super::Quota;

/// Most quotas that are held, the first by name: each is looked at for each node and each instance type in every plan.
pub const MOST_QUOTAS: usize = 100;

/// A quota as it is known: its object, and its meaning or why it has none.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenQuota {
    /// The object; of one that cannot be read the metadata alone.
    pub object: Arc<CapacityQuota>,
    pub read: Result<Quota, String>,
}

impl WrittenQuota {
    /// Reads an object.
    #[must_use]
    pub fn new(object: CapacityQuota) -> Self {
        Self { read: Quota::from_object(&object), object: Arc::new(object) }
    }

    /// An object that cannot be read, with the reason.
    #[must_use]
    pub fn unreadable(object: CapacityQuota, why: &str) -> Self {
        Self { object: Arc::new(object), read: Err(format!("it cannot be read: {why}")) }
    }
}

/// All quotas, by name; cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct QuotaBook(Arc<BTreeMap<String, WrittenQuota>>);

impl QuotaBook {
    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Quotas by name.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, WrittenQuota> {
        &self.0
    }

    /// The quotas that are held: those that can be read, the first [`MOST_QUOTAS`] by name.
    pub fn held(&self) -> impl Iterator<Item = &Quota> {
        self.0.values().filter_map(|one| one.read.as_ref().ok()).take(MOST_QUOTAS)
    }

    /// Keeps a quota as it is now. Answers true if its meaning has changed: a new status is none.
    pub fn insert(&mut self, quota: WrittenQuota) -> bool {
        let name = quota.object.metadata.name.clone().unwrap_or_default();
        let news = self.0.get(&name).is_none_or(|known| known.read != quota.read);
        Arc::make_mut(&mut self.0).insert(name, quota);
        news
    }

    /// Forgets a quota that is gone. Answers true if it was known.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.contains_key(name) && Arc::make_mut(&mut self.0).remove(name).is_some()
    }

    /// Keeps only quotas whose name satisfies `keep`. Answers true if any goes.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let news = self.0.keys().any(|name| !keep(name));
        if news {
            Arc::make_mut(&mut self.0).retain(|name, _| keep(name));
        }
        news
    }
}
