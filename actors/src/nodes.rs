//! Writes to Nodes: what we own of metadata and taints, resting on the version read.

use dovetail_core::lifecycle::patch;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};

use crate::calls::{CallError, Calls};

/// Nodes at the API server.
#[derive(Clone)]
pub struct Nodes {
    calls: Calls,
    api: Api<Node>,
}

impl Nodes {
    /// By these calls.
    pub fn new(calls: Calls) -> Self {
        let api = Api::all(calls.client.clone());
        Self { calls, api }
    }

    /// The Node as it stands.
    pub async fn get(&self, name: &str) -> Result<Node, CallError> {
        self.calls.run(&format!("get node {name}"), || self.api.get(name)).await
    }

    /// Writes labels, annotations, finalizers, owners and taints.
    ///
    /// # Errors
    /// [`CallError::Conflict`] when the Node has changed since it was read.
    pub async fn write(&self, node: &Node) -> Result<Node, CallError> {
        self.calls.merge(&self.api, &node.name_any(), patch::node(node)).await
    }
}
