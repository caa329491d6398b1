//! The API server as the cluster's own parts use it: synchronously, by kind and key.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::cache::{CachedObject, Key};
use super::kind::Kind;
use crate::apiserver::{ApiError, ApiServer, DeleteOptions, Gvr, Happened};

/// A handle on the API server.
#[derive(Clone, Debug)]
pub(crate) struct Kube {
    api: ApiServer,
}

impl Kube {
    pub(crate) fn new(api: ApiServer) -> Self {
        Self { api }
    }

    /// The API server itself.
    pub(crate) fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Every later change of the kinds that the cluster looks at.
    pub(crate) fn subscribe(&self) -> UnboundedReceiver<Happened> {
        let all: Vec<Gvr> = Kind::ALL.iter().map(|kind| kind.gvr().clone()).collect();
        self.api.subscribe(&all)
    }

    pub(crate) fn list(&self, kind: Kind) -> Vec<CachedObject> {
        self.api.list(kind.gvr())
    }

    pub(crate) fn get(&self, kind: Kind, key: &Key) -> Option<CachedObject> {
        self.api.get(kind.gvr(), &key.namespace, &key.name)
    }

    /// Creates an object in the namespace that its metadata names.
    pub(crate) fn create(&self, kind: Kind, object: Value) -> Result<CachedObject, ApiError> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let created = self.api.create(kind.gvr(), &namespace, object);
        if let Err(error) = &created {
            tracing::debug!(kind = kind.name(), namespace, name, %error, "create refused");
        }
        created
    }

    /// Changes an object as it is now. Nothing happens when it is gone or the change is refused.
    pub(crate) fn modify(&self, kind: Kind, key: &Key, change: impl FnOnce(&mut Value)) {
        let Some(current) = self.get(kind, key) else { return };
        let mut object = Value::clone(&current);
        change(&mut object);
        if object != *current {
            note(kind, key, self.api.update(kind.gvr(), object));
        }
    }

    /// Changes the status of an object as it is now, if `change` says that there is something to change.
    pub(crate) fn modify_status(&self, kind: Kind, key: &Key, change: impl FnOnce(&mut Value) -> bool) {
        let Some(current) = self.get(kind, key) else { return };
        let mut object = Value::clone(&current);
        if change(&mut object) {
            note(kind, key, self.api.update_status(kind.gvr(), object));
        }
    }

    /// Asks for an object's deletion; pods end in their own time unless `grace` says otherwise.
    pub(crate) fn delete(&self, kind: Kind, key: &Key, grace: Option<i64>) {
        let options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        note(kind, key, self.api.delete(kind.gvr(), &key.namespace, &key.name, &options));
    }

    /// Asks for a pod's deletion if it is still the one with this uid.
    pub(crate) fn delete_pod(&self, key: &Key, uid: &str, grace: i64) {
        let options =
            DeleteOptions { grace_period_seconds: Some(grace), uid: Some(uid.to_owned()), ..DeleteOptions::default() };
        note(Kind::Pod, key, self.api.delete(Kind::Pod.gvr(), &key.namespace, &key.name, &options));
    }

    /// Binds a pod to a node, if it is still the one with this uid.
    pub(crate) fn bind(&self, key: &Key, uid: &str, node: &str) -> Result<Arc<Value>, ApiError> {
        match self.get(Kind::Pod, key) {
            Some(pod) if pod["metadata"]["uid"] == uid => self.api.bind(&key.namespace, &key.name, node),
            _ => Err(ApiError::not_found("", "pods", &key.name)),
        }
    }
}

/// A refusal is no error of the cluster's: what was to change has changed meanwhile, and its event comes.
fn note<T>(kind: Kind, key: &Key, result: Result<T, ApiError>) {
    if let Err(error) = result {
        tracing::debug!(kind = kind.name(), %key, %error, "write refused");
    }
}
