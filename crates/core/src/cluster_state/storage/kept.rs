//! Kinds of which only facts are kept, each with its key and its facts.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    LimitRange as KubeLimitRange, Namespace as KubeNamespace, PersistentVolume, PersistentVolumeClaim,
    ReplicationController, Service,
};
use k8s_openapi::api::node::v1::RuntimeClass as KubeRuntimeClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::default_spread::{STATEFUL_SET, of_replica_set, of_replication_controller, of_service, selector_key};
use super::super::{Table, WatchedKind, namespaced};
use super::{OrderedSet, Storage};
use crate::admission::{LimitRange, RuntimeClass};
use crate::problem::Namespace;
use crate::volumes::{ClassFacts, VolumeClaimFacts, VolumeFacts, attachments_of};

/// An object of the API of which the state keeps only facts.
pub trait KeptFacts {
    /// The kind under which its lists begin and end.
    const KIND: WatchedKind;
    fn key(&self) -> String;
    /// Keeps it, or forgets it; true if packing may see a difference.
    fn update(&self, storage: &mut Storage, there: bool) -> bool;
}

/// Puts facts under a key, or takes them out; true if that changed anything.
pub(super) fn put<V: PartialEq + Clone>(table: &mut Table<V>, key: String, facts: Option<V>) -> bool {
    match facts {
        Some(facts) if table.get(&key).is_some_and(|known| **known == facts) => false,
        Some(facts) => {
            Arc::make_mut(table).insert(key, Arc::new(facts));
            true
        }
        None => table.contains_key(&key) && Arc::make_mut(table).remove(&key).is_some(),
    }
}

macro_rules! kept {
    ($($object:ty: $kind:ident, $key:path, $table:ident, $facts:path;)*) => {$(
        impl KeptFacts for $object {
            const KIND: WatchedKind = WatchedKind::$kind;

            fn key(&self) -> String {
                $key(&self.metadata)
            }

            fn update(&self, storage: &mut Storage, there: bool) -> bool {
                let facts = if there { $facts(self).into() } else { None };
                put(&mut storage.$table, self.key(), facts)
            }
        }
    )*};
}

fn by_name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

fn namespace_of(one: &KubeNamespace) -> Namespace {
    Namespace { name: by_name(&one.metadata), labels: one.metadata.labels.clone().unwrap_or_default() }
}

kept! {
    KubeNamespace: Namespace, by_name, namespaces, namespace_of;
    PersistentVolumeClaim: PersistentVolumeClaim, namespaced, claims, VolumeClaimFacts::from_claim;
    PersistentVolume: PersistentVolume, by_name, volumes, VolumeFacts::from_volume;
    StorageClass: StorageClass, by_name, classes, ClassFacts::from_class;
    CSINode: CsiNode, by_name, csi_nodes, attachments_of;
    Service: Service, namespaced, services, of_service;
    ReplicaSet: ReplicaSet, replica_set, selectors, of_replica_set;
    ReplicationController: ReplicationController, replication_controller, selectors, of_replication_controller;
    KubeLimitRange: LimitRange, namespaced, limit_ranges, limit_range_of;
    KubeRuntimeClass: RuntimeClass, by_name, runtime_classes, runtime_class_of;
}

fn limit_range_of(range: &KubeLimitRange) -> LimitRange {
    LimitRange::from_json(&serde_json::to_value(range).unwrap_or_default())
}

fn runtime_class_of(class: &KubeRuntimeClass) -> RuntimeClass {
    RuntimeClass::from_json(&serde_json::to_value(class).unwrap_or_default())
}

fn replica_set(meta: &ObjectMeta) -> String {
    selector_key("ReplicaSet", &namespaced(meta))
}

fn replication_controller(meta: &ObjectMeta) -> String {
    selector_key("ReplicationController", &namespaced(meta))
}

impl KeptFacts for StatefulSet {
    const KIND: WatchedKind = WatchedKind::StatefulSet;

    fn key(&self) -> String {
        namespaced(&self.metadata)
    }

    fn update(&self, storage: &mut Storage, there: bool) -> bool {
        let selector = self.spec.as_ref().filter(|_| there).map(|spec| spec.selector.clone());
        let selects = put(&mut storage.selectors, selector_key(STATEFUL_SET, &self.key()), selector);
        put(&mut storage.ordered_sets, self.key(), OrderedSet::from_stateful_set(self).filter(|_| there)) || selects
    }
}
