//! `metadata.managedFields`: who owns which field.
//!
//! Only clients are tracked: a write of the sandbox's own controllers takes the fields that it changes from their
//! owners, and gives them to nobody.
use super::fields::{Fields, compare};
use super::meta;
use super::registry::{Found, api_version};
use super::shape::Shape;
use super::write::WriteOptions;
use jiff::Timestamp;
use serde_json::{Value, json};

/// One entry of `managedFields`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Who.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// In which version of the kind.
    pub api_version: String,
    /// Through which subresource; empty for none.
    pub subresource: String,
    /// Since when.
    pub time: String,
    /// What.
    pub fields: Fields,
}

impl Entry {
    /// A new entry of a write.
    pub fn new(found: &Found, operation: &str, options: &WriteOptions, now: Timestamp) -> Self {
        Entry {
            manager: options.manager.clone().unwrap_or_default(),
            operation: operation.to_owned(),
            api_version: api_version(&found.group, &found.version.name),
            subresource: options.subresource.clone(),
            time: meta::seconds(now),
            fields: Fields::default(),
        }
    }

    /// Whether two entries are of one manager, operation, version and subresource.
    pub fn same_owner(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && self.api_version == other.api_version
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

    fn read(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Entry {
            manager: text("manager"),
            operation: text("operation"),
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: Fields::read(&value["fieldsV1"]),
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

/// All entries of an object.
pub fn entries(object: &Value) -> Vec<Entry> {
    object["metadata"]["managedFields"]
        .as_array()
        .map(|list| list.iter().map(Entry::read).collect())
        .unwrap_or_default()
}

/// Writes the entries that own something.
pub fn set_entries(object: &mut Value, entries: &[Entry]) {
    let list: Vec<Value> = entries.iter().filter(|e| !e.fields.is_empty()).map(Entry::write).collect();
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

/// Notes who changed what by a create or an update.
pub fn track(found: &Found, old: Option<&Value>, new: &mut Value, options: &WriteOptions, now: Timestamp) {
    let mut entries = old.map(entries).unwrap_or_default();
    if options.manager.is_none() && entries.is_empty() {
        return;
    }
    let (mut changed, mut removed) = compare(old.unwrap_or(&json!({})), new, Shape::of(found));
    strip(&mut changed);
    strip(&mut removed);
    changed.mark_new(old.unwrap_or(&json!({})), new, found.def.custom);
    removed.mark_new(new, old.unwrap_or(&json!({})), found.def.custom);
    if changed.is_empty() && removed.is_empty() {
        return set_entries(new, &entries);
    }
    for entry in &mut entries {
        entry.fields = entry.fields.without(&changed).without(&removed);
    }
    if options.manager.is_some() {
        let mut mine = Entry::new(found, "Update", options, now);
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

/// Metadata without what changes at every write: the version and the times of managed fields.
pub fn without_times(metadata: &Value) -> Value {
    let mut metadata = metadata.clone();
    let Some(map) = metadata.as_object_mut() else { return metadata };
    map.remove("resourceVersion");
    map.retain(|_, value| !value.is_null());
    for entry in map.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        entry["time"] = Value::Null;
    }
    metadata
}
