//! To `recorder`.

use std::time::Duration;

use actix::Message;
use k8s_openapi::api::core::v1::ObjectReference;
use serde::Serialize;

/// Reference to an event's object; empty parts are left out.
pub fn reference(api_version: &str, kind: &str, namespace: &str, name: &str, uid: &str) -> ObjectReference {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ObjectReference {
        api_version: some(api_version),
        kind: some(kind),
        namespace: some(namespace),
        name: some(name),
        uid: some(uid),
        ..ObjectReference::default()
    }
}

/// Write a Kubernetes event, unless the same was written lately. Order.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Record {
    pub object: ObjectReference,
    /// True for a Warning, false for a Normal event.
    pub warning: bool,
    /// Reason, as in core spec 7.2.
    pub reason: &'static str,
    pub message: String,
    /// Time during which the same event is not repeated.
    pub quiet: Duration,
    /// Group of objects that share the quiet time; the event's object alone when `None`.
    pub quiet_for_all_of: Option<String>,
}

impl Record {
    /// A Normal event that is not repeated for two minutes.
    pub fn normal(object: ObjectReference, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            object,
            warning: false,
            reason,
            message: message.into(),
            quiet: Duration::from_secs(120),
            quiet_for_all_of: None,
        }
    }

    /// A Warning that is not repeated for two minutes.
    pub fn warning(object: ObjectReference, reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, ..Self::normal(object, reason, message) }
    }

    /// The same event with another quiet time.
    pub fn quiet_for(self, quiet: Duration) -> Self {
        Self { quiet, ..self }
    }

    /// The same event for a whole group: said at one of the objects, its quiet time holds for the others too.
    pub fn once_for_all_of(self, objects: impl Into<String>) -> Self {
        Self { quiet_for_all_of: Some(objects.into()), ..self }
    }
}

/// A Kubernetes event of ours, as the console shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedEvent {
    /// Its time, in seconds since 1970.
    pub at: i64,
    /// Object that it is about.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// True for a Warning, false for a Normal event.
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// False if it could not be written: the cluster does not have it.
    pub written: bool,
}
