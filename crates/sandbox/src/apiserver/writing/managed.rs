//! `metadata.managedFields`: who owns which field.
//!
//! Only clients are tracked: a write of the sandbox's own controllers takes the fields that it changes from their
//! owners, and gives them to nobody.
use crate::apiserver::meta;
use crate::apiserver::registry::{FoundResource, api_version};
use crate::apiserver::writing::fields::{Fields, compare};
use crate::apiserver::writing::shape::SchemaPosition;
use crate::apiserver::writing::write::WriteOptions;
use jiff::Timestamp;
use serde_json::{Value, json};

/// One entry of `managedFields`.
#[derive(Clone, Debug)]
pub struct ManagedFieldsEntry {
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// Version of the kind that the fields are written in.
    pub api_version: String,
    /// Subresource that they are written through; empty for none.
    pub subresource: String,
    /// Time of the manager's last change.
    pub time: String,
    pub fields: Fields,
}

impl ManagedFieldsEntry {
    pub fn new(found: &FoundResource, operation: &str, options: &WriteOptions, now: Timestamp) -> Self {
        ManagedFieldsEntry {
            manager: options.manager.clone().unwrap_or_default(),
            operation: operation.to_owned(),
            api_version: api_version(&found.group, &found.version.name),
            subresource: options.subresource.clone(),
            time: meta::seconds(now),
            fields: Fields::default(),
        }
    }

    /// True if two entries are of one manager, operation, version and subresource.
    pub fn same_owner(&self, other: &ManagedFieldsEntry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && self.api_version == other.api_version
    }

    /// True if a written entry is of the same manager, operation, version and subresource.
    fn is_owner_of(&self, written: &Value) -> bool {
        let is = |field: &str, own: &str| written[field].as_str().unwrap_or_default() == own;
        is("manager", &self.manager)
            && is("operation", &self.operation)
            && is("subresource", &self.subresource)
            && is("apiVersion", &self.api_version)
    }

    /// The entry's manager as conflicts name it.
    pub fn named(&self) -> String {
        let mut name = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            name.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == "Update" {
            name.push_str(&format!(" using {} at {}", self.api_version, self.time));
        }
        name
    }

    fn from_json(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        ManagedFieldsEntry {
            manager: text("manager"),
            operation: text("operation"),
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: Fields::from_fields_v1(&value["fieldsV1"]),
        }
    }

    fn write(&self) -> Value {
        let mut value = json!({"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version,
            "time": self.time, "fieldsType": "FieldsV1", "fieldsV1": self.fields.write()});
        if !self.subresource.is_empty() {
            value["subresource"] = json!(self.subresource);
        }
        value
    }
}

pub fn entries(object: &Value) -> Vec<ManagedFieldsEntry> {
    object["metadata"]["managedFields"]
        .as_array()
        .map(|list| list.iter().map(ManagedFieldsEntry::from_json).collect())
        .unwrap_or_default()
}

/// Writes the entries that own something.
pub fn set_entries(object: &mut Value, entries: &[ManagedFieldsEntry]) {
    let list: Vec<Value> = entries.iter().filter(|e| !e.fields.is_empty()).map(ManagedFieldsEntry::write).collect();
    meta::set(object, "managedFields", (!list.is_empty()).then(|| json!(list)));
}

/// Takes what nobody can own out of a set: what names the object, and what the server writes.
pub fn strip(fields: &mut Fields) {
    for name in ["f:apiVersion", "f:kind"] {
        fields.remove(name);
    }
    if let Some(metadata) = fields.part("f:metadata") {
        for name in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "selfLink",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
        ] {
            metadata.remove(&format!("f:{name}"));
        }
        if let Some(owners) = metadata.part("f:ownerReferences") {
            owners.whole_items();
        }
        if metadata.is_empty() {
            fields.remove("f:metadata");
        }
    }
}

/// Takes of a client's managed fields what can be read. Where the fields of an entry cannot, all of it counts as not sent; an entry
/// that is null is an empty one.
pub fn read_sent(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(list) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) else { return };
    list.iter_mut().filter(|entry| entry.is_null()).for_each(|entry| *entry = json!({}));
    let unreadable = |entry: &Value| !matches!(entry["fieldsV1"], Value::Null | Value::Object(_));
    if list.iter().any(unreadable) {
        metadata.remove("managedFields");
    }
}

/// Takes managed fields that a client leaves as they are stored out of what it writes: most of a small object, and known to be
/// right.
pub fn set_aside(old: &Value, new: &mut Value, options: &WriteOptions) -> Option<Value> {
    let stored = old["metadata"].get("managedFields")?;
    let metadata = new.get_mut("metadata")?.as_object_mut()?;
    if options.manager.is_none() || metadata.get("managedFields") != Some(stored) {
        return None;
    }
    metadata.remove("managedFields")
}

/// Puts them back.
pub fn put_back(object: &mut Value, aside: Option<Value>) {
    if aside.is_some() {
        meta::set(object, "managedFields", aside);
    }
}

/// True if a client asks for managed fields to be forgotten: an empty list, or one empty entry.
fn is_reset(object: &Value) -> bool {
    let empty = |entry: &Value| entry.as_object().is_some_and(serde_json::Map::is_empty);
    object["metadata"]["managedFields"].as_array().is_some_and(|list| list.len() < 2 && list.iter().all(empty))
}

/// Notes who changed what by a create or an update.
pub fn track(found: &FoundResource, old: Option<&Value>, new: &mut Value, options: &WriteOptions, now: Timestamp) {
    if old.is_some() && options.subresource.is_empty() && options.manager.is_some() && is_reset(new) {
        return set_entries(new, &[]);
    }
    // Managed fields that a client sends count, as in kube-apiserver: any user may write there what they like.
    let sends = !written_entries(new).is_empty();
    if options.manager.is_none() && !sends && old.is_none_or(|old| written_entries(old).is_empty()) {
        return;
    }
    let (mut changed, mut removed) = compare(old.unwrap_or(&json!({})), new, SchemaPosition::from_resource(found));
    strip(&mut changed);
    strip(&mut removed);
    changed.mark_new(old.unwrap_or(&json!({})), new, found.def.custom);
    removed.mark_new(new, old.unwrap_or(&json!({})), found.def.custom);
    let written = old.filter(|_| !sends).map_or_else(|| written_entries(new), written_entries);
    let read = || written.iter().map(ManagedFieldsEntry::from_json).collect::<Vec<_>>();
    if changed.is_empty() && removed.is_empty() {
        let entries = read();
        return set_entries(new, &entries);
    }
    let mut mine = ManagedFieldsEntry::new(found, "Update", options, now);
    let at = already_mine(written, &mine, &changed).filter(|_| options.manager.is_some() && removed.is_empty());
    if let Some(at) = at {
        return set_time(old, new, at, mine.time);
    }
    let mut entries = read();
    for entry in &mut entries {
        entry.fields = entry.fields.without(&changed).without(&removed);
    }
    if options.manager.is_some() {
        mine.fields = changed;
        match entries.iter_mut().find(|e| e.same_owner(&mine)) {
            Some(entry) => {
                entry.fields.union(&mine.fields);
                entry.time = mine.time;
            }
            None => entries.push(mine),
        }
    }
    set_entries(new, &entries);
}

/// The entry that owns all of what has changed already, and alone: then only its time does. So it is with every renewal
/// of a Lease, for which none of them is read.
fn already_mine(written: &[Value], mine: &ManagedFieldsEntry, changed: &Fields) -> Option<usize> {
    let at = written.iter().position(|entry| mine.is_owner_of(entry))?;
    let others = written.iter().enumerate().filter(|(other, _)| *other != at);
    let alone = others.into_iter().all(|(_, other)| !changed.touches(&other["fieldsV1"]));
    (alone && changed.lies_in(&written[at]["fieldsV1"])).then_some(at)
}

fn written_entries(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The entries as they were, one of them with another time.
fn set_time(old: Option<&Value>, new: &mut Value, at: usize, time: String) {
    let mut entries = old.map(|old| old["metadata"]["managedFields"].clone()).unwrap_or_default();
    entries[at]["time"] = Value::String(time);
    meta::set(new, "managedFields", Some(entries));
}

/// True if two objects' metadata are the same but for what changes at every write: the version and the times of managed fields.
pub fn same_but_for_times(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let counts = |(name, value): &(&String, &Value)| *name != "resourceVersion" && !value.is_null();
    let same = |name: &str, a: &Value, b: &Value| {
        if name == "managedFields" { entries_same_but_for_times(a, b) } else { a == b }
    };
    a.iter().filter(counts).count() == b.iter().filter(counts).count()
        && a.iter().filter(counts).all(|(name, value)| b.get(name).is_some_and(|other| same(name, value, other)))
}

fn entries_same_but_for_times(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_array(), b.as_array()) else { return a == b };
    let untimed = |entry: &Value| entry.as_object().map_or(0, |map| map.keys().filter(|key| *key != "time").count());
    let same = |a: &Value, b: &Value| {
        let members = a.as_object().into_iter().flatten();
        untimed(a) == untimed(b)
            && members.filter(|(key, _)| *key != "time").all(|(key, value)| b.get(key) == Some(value))
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}
