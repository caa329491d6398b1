//! Objects that end with what holds them: the objects in a namespace, the objects of a custom kind, events after an hour.
use crate::apiserver::gvr::Key;
use crate::apiserver::meta;
use crate::apiserver::registry::{ResourceDef, Rid};
use crate::apiserver::store::StoreState;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Time for which an event is kept after it was last written (kube-apiserver's `--event-ttl`).
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
/// Time between two looks for old events.
const EVENT_COLLECTION_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

impl StoreState {
    /// True if objects of a resource hold others: namespaces and definitions of kinds do, and go when they are empty.
    pub(in crate::apiserver) fn has_contents(&self, rid: Rid) -> bool {
        self.is_namespace(rid) || self.registry.def(rid).is_some_and(|def| def.kind == "CustomResourceDefinition")
    }

    pub(in crate::apiserver) fn is_namespace(&self, rid: Rid) -> bool {
        self.registry.def(rid).is_some_and(|def| def.kind == "Namespace" && def.group.is_empty())
    }

    /// True while the definition of a custom kind is being deleted.
    pub(in crate::apiserver) fn kind_is_ending(&self, def: &ResourceDef) -> bool {
        self.definition_of(def).is_some_and(|(rid, key)| self.get(rid, &key).is_some_and(|o| meta::deleting(&o.value)))
    }

    fn definition_of(&self, def: &ResourceDef) -> Option<(Rid, Key)> {
        let rid = self.registry.rid("apiextensions.k8s.io", "customresourcedefinitions").filter(|_| def.custom)?;
        Some((rid, Key::new("", &format!("{}.{}", def.plural, def.group))))
    }

    /// Looks at what held an object that is gone.
    pub(in crate::apiserver) fn check_containers(&mut self, rid: Rid, namespace: &str) {
        if let Some((definitions, key)) = self.registry.def(rid).and_then(|def| self.definition_of(def)) {
            self.check_contents(definitions, &key);
        }
        if let Some(spaces) = self.registry.rid("", "namespaces").filter(|_| !namespace.is_empty()) {
            self.check_contents(spaces, &Key::new("", namespace));
        }
    }

    /// Empties a namespace or a kind that is being deleted, and removes it when it is empty.
    pub(in crate::apiserver) fn check_contents(&mut self, rid: Rid, key: &Key) {
        let Some(object) = self.get(rid, key).filter(|o| meta::deleting(&o.value)).cloned() else { return };
        for (content, at) in self.contents(rid, &object.value) {
            self.delete_dependent(content, &at);
        }
        if meta::finalizers(&object.value).is_empty() && self.contents(rid, &object.value).is_empty() {
            self.remove(rid, key);
        }
    }

    fn contents(&self, rid: Rid, holder: &Value) -> Vec<(Rid, Key)> {
        if self.is_namespace(rid) {
            let name = meta::text(holder, "name");
            let tables = (0..self.registry.tables()).filter(|r| self.registry.def(*r).is_some_and(|d| d.namespaced));
            return tables.flat_map(|r| self.table(r).within(Some(name)).map(move |o| (r, o.key.clone()))).collect();
        }
        let (group, plural) = (&holder["spec"]["group"], &holder["spec"]["names"]["plural"]);
        let kind = self.registry.rid(group.as_str().unwrap_or_default(), plural.as_str().unwrap_or_default());
        kind.into_iter().flat_map(|r| self.table(r).objects.keys().map(move |key| (r, key.clone()))).collect()
    }

    /// Forgets events that nobody has written for an hour.
    pub(in crate::apiserver) fn expire_events(&mut self, rid: Rid) {
        if self.now.duration_since(self.events_collected) < EVENT_COLLECTION_INTERVAL {
            return;
        }
        self.events_collected = self.now;
        let old = |event: &Value| self.now.duration_since(last_seen(event)) > EVENT_TTL;
        let gone: Vec<Key> =
            self.table(rid).objects.values().filter(|o| old(&o.value)).map(|o| o.key.clone()).collect();
        for key in gone {
            self.take_out(rid, &key);
        }
    }
}

/// Time at which an event was last written, by its own times.
fn last_seen(event: &Value) -> Timestamp {
    let times = ["/metadata/creationTimestamp", "/lastTimestamp", "/eventTime", "/series/lastObservedTime"];
    let read = |path: &&str| event.pointer(path).and_then(Value::as_str).and_then(|text| text.parse().ok());
    times.iter().filter_map(read).max().unwrap_or(Timestamp::UNIX_EPOCH)
}
