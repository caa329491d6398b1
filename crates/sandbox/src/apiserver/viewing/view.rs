//! The form in which a client sees an object: its version, and whether it wants it whole, its metadata only, or a table.
use crate::apiserver::columns;
use crate::apiserver::custom::versions;
use crate::apiserver::error::Result;
use crate::apiserver::registry::{FoundResource, api_version};
use crate::apiserver::store::{StoredObject, written};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Form of the answer, by the `Accept` header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseForm {
    /// The whole object.
    #[default]
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `Table`, each row with so much of its object.
    Table(Include),
}

/// Part of its object that a row of a table carries (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// `metadata` alone, which is what kubectl asks for.
    #[default]
    Metadata,
    /// All.
    Object,
}

impl ResponseForm {
    /// Reads an `Accept` header: the first of its choices that the server has.
    pub fn from_accept(accept: &str, include: Include) -> Self {
        for choice in accept.split(',') {
            let parameter = |name: &str| {
                let mut all = choice.split(';').skip(1).map(str::trim);
                all.find_map(|p| p.strip_prefix(name)).unwrap_or_default()
            };
            match (parameter("as="), parameter("v=")) {
                ("", _) => return ResponseForm::Whole,
                ("Table", "v1") => return ResponseForm::Table(include),
                ("PartialObjectMetadata" | "PartialObjectMetadataList", _) => return ResponseForm::Metadata,
                _ => {}
            }
        }
        ResponseForm::Whole
    }
}

/// A resource in the version and form that a client asked for.
#[derive(Clone, Debug)]
pub struct ResourceView {
    found: FoundResource,
    form: ResponseForm,
    plain: bool,
    now: Timestamp,
}

impl ResourceView {
    pub fn new(found: &FoundResource, form: ResponseForm, now: Timestamp) -> Self {
        let plain = form == ResponseForm::Whole
            && found.group == found.def.group
            && found.version.name == found.def.stored().name;
        ResourceView { found: found.clone(), form, plain, now }
    }

    /// From now on ages are counted to this time.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    pub fn json(&self, object: &StoredObject) -> Bytes {
        if self.plain { object.json() } else { written(&self.convert(&object.value)) }
    }

    /// `apiVersion` and `kind` of the objects seen.
    pub fn type_meta(&self) -> (String, &str) {
        match self.form {
            ResponseForm::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
            ResponseForm::Table(_) => ("meta.k8s.io/v1".to_owned(), "Table"),
            ResponseForm::Whole => (api_version(&self.found.group, &self.found.version.name), &self.found.def.kind),
        }
    }

    /// `apiVersion` of the objects written.
    pub fn api_version(&self) -> String {
        api_version(&self.found.group, &self.found.version.name)
    }

    /// `apiVersion` and `kind` of lists.
    pub fn list_meta(&self) -> (String, &str) {
        match self.form {
            ResponseForm::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList"),
            ResponseForm::Table(_) => ("meta.k8s.io/v1".to_owned(), "Table"),
            ResponseForm::Whole => {
                (api_version(&self.found.group, &self.found.version.name), &self.found.def.list_kind)
            }
        }
    }

    /// The definitions of a table's columns; none for other forms.
    pub fn columns(&self) -> Option<Value> {
        matches!(self.form, ResponseForm::Table(_)).then(|| columns::definitions(&self.found))
    }

    /// An object as an item of a list; a row, if the list is a table.
    pub fn item(&self, object: &StoredObject) -> Bytes {
        match self.form {
            ResponseForm::Table(include) => Bytes::from(self.row(&object.value, include).to_string()),
            ResponseForm::Whole if !self.found.def.custom => untyped(self.json(object)),
            _ => self.json(object),
        }
    }

    fn row(&self, stored: &Value, include: Include) -> Value {
        let object = match include {
            Include::None => Value::Null,
            Include::Metadata => ResourceView::new(&self.found, ResponseForm::Metadata, self.now).convert(stored),
            Include::Object => ResourceView::new(&self.found, ResponseForm::Whole, self.now).convert(stored),
        };
        if versions::is_older(&self.found) {
            let seen = versions::down(&self.found, stored);
            return json!({"cells": columns::cells(&self.found, &seen, self.now), "object": object});
        }
        json!({"cells": columns::cells(&self.found, stored, self.now), "object": object})
    }

    /// A stored object as the client sees it.
    pub fn convert(&self, stored: &Value) -> Value {
        if self.plain {
            return stored.clone();
        }
        let (version, kind) = self.type_meta();
        match self.form {
            ResponseForm::Metadata => {
                return json!({"apiVersion": version, "kind": kind, "metadata": stored["metadata"]});
            }
            ResponseForm::Table(include) => {
                let metadata = json!({"resourceVersion": stored["metadata"]["resourceVersion"]});
                return json!({"kind": kind, "apiVersion": version, "metadata": metadata,
                    "columnDefinitions": columns::definitions(&self.found), "rows": [self.row(stored, include)]});
            }
            ResponseForm::Whole if versions::is_older(&self.found) => return versions::down(&self.found, stored),
            ResponseForm::Whole => {}
        }
        let mut seen = stored.clone();
        if self.found.group == "events.k8s.io" {
            rename_event(&mut seen, false);
        }
        seen["apiVersion"] = json!(version);
        seen
    }

    /// The object as a patch in this view's version sees it.
    pub fn patched(&self, stored: &Value) -> Value {
        ResourceView::new(&self.found, ResponseForm::Whole, self.now).convert(stored)
    }

    /// A client's object as it is stored, and the fields that an older version does not know.
    ///
    /// # Errors
    /// As [`versions::up`].
    pub fn to_stored(&self, mut written: Value, whole: bool) -> Result<(Value, Vec<String>)> {
        if versions::is_older(&self.found) && written.is_object() {
            return versions::up(&self.found, written, whole);
        }
        if self.found.group == "events.k8s.io" {
            rename_event(&mut written, true);
        }
        if written.is_object() {
            written["apiVersion"] = json!(self.found.def.api_version());
            written["kind"] = json!(self.found.def.kind);
        }
        Ok((written, Vec::new()))
    }
}

/// An item of a built-in kind's list, which says nothing of version and kind: the list does. Both stand at the beginning,
/// or else the object is read again.
fn untyped(json: Bytes) -> Bytes {
    let rest = json.strip_prefix(b"{\"apiVersion\":\"").and_then(|rest| {
        let rest = &rest[rest.iter().position(|byte| *byte == b'"')?..];
        let rest = rest.strip_prefix(b"\",\"kind\":\"")?;
        rest[rest.iter().position(|byte| *byte == b'"')?..].strip_prefix(b"\",")
    });
    if let Some(rest) = rest {
        return Bytes::from([b"{", rest].concat());
    }
    let Ok(Value::Object(mut map)) = serde_json::from_slice(&json) else { return json };
    map.retain(|name, _| name != "apiVersion" && name != "kind");
    Bytes::from(Value::Object(map).to_string())
}

/// Fields of events that have other names in `events.k8s.io/v1` than in the core group.
const EVENT_FIELDS: [(&str, &str); 8] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
    ("reportingInstance", "reportingInstance"),
];

fn rename_event(event: &mut Value, to_core: bool) {
    let Some(map) = event.as_object_mut() else { return };
    for (new, core) in EVENT_FIELDS {
        let (from, to) = if to_core { (new, core) } else { (core, new) };
        if from != to
            && let Some(value) = map.remove(from)
        {
            map.insert(to.to_owned(), value);
        }
    }
}
