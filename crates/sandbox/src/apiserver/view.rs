//! The form in which a client sees an object: its version, and whether it wants the metadata only.
use super::registry::{Found, api_version};
use super::store::Object;
use bytes::Bytes;
use serde_json::{Value, json};

/// What the `Accept` header asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The whole object.
    #[default]
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

impl Form {
    /// Reads an `Accept` header. Forms that the server does not have (tables) fall back to the whole object, as the
    /// header's further choices allow.
    pub fn of(accept: &str) -> Self {
        let first = accept.split(',').find(|choice| choice.contains("as=PartialObjectMetadata"));
        if first.is_some_and(|_| !accept.trim_start().starts_with("application/json,")) {
            Form::Metadata
        } else {
            Form::Whole
        }
    }
}

/// How a client sees a resource.
#[derive(Clone, Debug)]
pub struct View {
    found: Found,
    form: Form,
    plain: bool,
}

impl View {
    /// The view of a request.
    pub fn new(found: &Found, form: Form) -> Self {
        let plain =
            form == Form::Whole && found.group == found.def.group && found.version.name == found.def.stored().name;
        View { found: found.clone(), form, plain }
    }

    /// An object as JSON.
    pub fn json(&self, object: &Object) -> Bytes {
        if self.plain { object.json() } else { Bytes::from(self.convert(&object.value).to_string()) }
    }

    /// `apiVersion` and `kind` of the objects seen.
    pub fn type_meta(&self) -> (String, &str) {
        match self.form {
            Form::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
            Form::Whole => (api_version(&self.found.group, &self.found.version.name), &self.found.def.kind),
        }
    }

    /// `apiVersion` and `kind` of lists.
    pub fn list_meta(&self) -> (String, &str) {
        match self.form {
            Form::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList"),
            Form::Whole => (api_version(&self.found.group, &self.found.version.name), &self.found.def.list_kind),
        }
    }

    /// A stored object as the client sees it.
    pub fn convert(&self, stored: &Value) -> Value {
        if self.plain {
            return stored.clone();
        }
        let (version, kind) = self.type_meta();
        if self.form == Form::Metadata {
            return json!({"apiVersion": version, "kind": kind, "metadata": stored["metadata"]});
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
        View::new(&self.found, Form::Whole).convert(stored)
    }

    /// What a client wrote, as it is stored.
    pub fn to_stored(&self, mut written: Value) -> Value {
        if self.found.group == "events.k8s.io" {
            rename_event(&mut written, true);
        }
        if written.is_object() {
            written["apiVersion"] = json!(self.found.def.api_version());
            written["kind"] = json!(self.found.def.kind);
        }
        written
    }
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
