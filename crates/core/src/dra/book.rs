//! Claims, classes and slices of a cluster, by their keys; cloning is cheap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::resource::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::claim::{Claim, ClassSelectors, read_class};
use super::slice::{Slice, gather_pools};

/// Most devices that are known of a cluster: slices beyond them are faulty.
const MOST_DEVICES: usize = 200_000;

/// Objects of a kind by key, `namespace/name` or `name`.
#[derive(Clone, Debug)]
pub struct Known<V>(Arc<BTreeMap<String, Arc<V>>>);

impl<V> Default for Known<V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<V: PartialEq> Known<V> {
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, Arc<V>> {
        &self.0
    }

    /// Keeps an object as it is now. Answers true if its meaning has changed.
    fn insert(&mut self, key: String, value: V) -> bool {
        let news = self.0.get(&key).is_none_or(|known| **known != value);
        if news {
            Arc::make_mut(&mut self.0).insert(key, Arc::new(value));
        }
        news
    }

    /// Keeps only objects whose key satisfies `keep`. Answers true if any goes.
    pub fn retain_keys(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let news = self.0.keys().any(|key| !keep(key));
        if news {
            Arc::make_mut(&mut self.0).retain(|key, _| keep(key));
        }
        news
    }

    /// Forgets an object that is gone. Answers true if it was known.
    pub fn remove(&mut self, key: &str) -> bool {
        self.0.contains_key(key) && Arc::make_mut(&mut self.0).remove(key).is_some()
    }
}

/// All that is known of a cluster's devices; nothing where they are not asked for.
#[derive(Clone, Debug, Default)]
pub struct DeviceBook {
    pub claims: Known<Claim>,
    pub classes: Known<ClassSelectors>,
    pub slices: Known<Slice>,
    /// Number of devices in all slices.
    devices: usize,
}

impl DeviceBook {
    /// True if nothing of devices is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.all().is_empty() && self.classes.all().is_empty() && self.slices.all().is_empty()
    }

    /// Keeps a claim as it is now. Answers true if its meaning has changed.
    pub fn apply_claim(&mut self, object: &ResourceClaim) -> bool {
        let claim = Claim::from_object(object);
        self.claims.insert(claim.key(), claim)
    }

    /// Keeps a claim that cannot be read.
    pub fn apply_unreadable_claim(&mut self, metadata: &ObjectMeta, why: &str) -> bool {
        let claim = Claim {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            wish: Err(format!("it cannot be read: {why}")),
            allocation: None,
            users: BTreeSet::new(),
            used_by_others: false,
        };
        self.claims.insert(claim.key(), claim)
    }

    /// Keeps a class as it is now. Answers true if its meaning has changed.
    pub fn apply_class(&mut self, object: &DeviceClass) -> bool {
        self.classes.insert(object.metadata.name.clone().unwrap_or_default(), read_class(object))
    }

    /// Keeps a class that cannot be read.
    pub fn apply_unreadable_class(&mut self, metadata: &ObjectMeta, why: &str) -> bool {
        self.classes.insert(metadata.name.clone().unwrap_or_default(), Err(format!("it cannot be read: {why}")))
    }

    /// Keeps a slice as it is now. Answers true if its meaning has changed. Devices beyond what is believed of a cluster are not
    /// kept: their pool is faulty then, and others stay.
    pub fn apply_slice(&mut self, object: &ResourceSlice) -> bool {
        let mut slice = Slice::from_object(object);
        let others = self.devices - self.slices.0.get(&slice.name).map_or(0, |one| one.devices.len());
        if others + slice.devices.len() > MOST_DEVICES {
            slice.devices.clear();
            slice.fault = Some(format!("the cluster publishes more than {MOST_DEVICES} devices"));
        }
        self.devices = others + slice.devices.len();
        self.slices.insert(slice.name.clone(), slice)
    }

    /// Forgets a slice that is gone. Answers true if it was known.
    pub fn remove_slice(&mut self, name: &str) -> bool {
        self.devices -= self.slices.0.get(name).map_or(0, |one| one.devices.len());
        self.slices.remove(name)
    }

    /// Keeps only slices whose name satisfies `keep`. Answers true if any goes.
    pub fn retain_slices(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let news = self.slices.retain_keys(keep);
        self.devices = self.slices.0.values().map(|one| one.devices.len()).sum();
        news
    }

    /// The same without the devices that several nodes can use.
    #[must_use]
    pub(crate) fn of_nodes(&self) -> Self {
        let mut own = self.clone();
        let slices = self.slices.all();
        own.retain_slices(|name| slices.get(name).is_some_and(|slice| slice.node().is_some()));
        own
    }

    /// The first of these drivers, comma-separated, that has not published all devices of a node yet: it has no pool of the node
    /// alone, or none that is complete.
    #[must_use]
    pub fn unpublished_driver(&self, drivers: &str, node: &str) -> Option<String> {
        let own = self.slices.0.values().filter(|slice| slice.node() == Some(node));
        let pools = gather_pools(own, |slice| slice.node() == Some(node));
        let published = |driver: &&str| pools.iter().any(|pool| pool.driver == **driver && pool.is_usable());
        let mut asked = drivers.split(',').map(str::trim).filter(|driver| !driver.is_empty());
        asked.find(|driver| !published(driver)).map(str::to_owned)
    }

    /// Forgets a slice that cannot be read: its pool is not complete without it.
    pub fn apply_unreadable_slice(&mut self, metadata: &ObjectMeta) -> bool {
        self.remove_slice(metadata.name.as_deref().unwrap_or_default())
    }
}
