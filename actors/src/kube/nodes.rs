//! Writes to Nodes: what we own of metadata and taints, resting on the version read.

use dovetail_core::lifecycle::patch;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};

use crate::kube::calls::{CallError, Calls, Conflicts};
use crate::kube::claims::REPEATED_FOR;
use crate::reading::LenientApi;

/// Nodes at the API server.
#[derive(Clone)]
pub struct Nodes {
    calls: Calls,
    api: LenientApi<Node>,
}

impl Nodes {
    pub fn new(calls: Calls) -> Self {
        let api = LenientApi::all(calls.client.clone());
        Self { calls, api }
    }

    pub async fn get(&self, name: &str) -> Result<Node, CallError> {
        self.calls.run(&format!("get node {name}"), || self.api.get(name)).await
    }

    /// The Node as it stands now, asked once.
    ///
    /// # Errors
    /// As [`Calls::once`].
    pub async fn now(&self, name: &str) -> Result<Node, CallError> {
        self.calls.once(self.api.get(name)).await
    }

    /// Writes labels, annotations, finalizers, owners and taints of a Node that is `there`.
    ///
    /// # Errors
    /// [`CallError::Conflict`] when the Node has changed since it was read.
    pub async fn write(&self, there: &Node, wanted: &Node) -> Result<Node, CallError> {
        self.calls.merge(&self.api, &there.name_any(), patch::node(there, wanted)).await
    }

    /// Changes what [`Nodes::write`] writes, on what is there when that has changed.
    ///
    /// # Errors
    /// [`CallError::NotFound`] when it is gone.
    pub async fn change(&self, mut node: Node, change: impl Fn(&Node) -> Option<Node>) -> Result<Node, CallError> {
        let mut conflicts = Conflicts::default();
        while let Some(wanted) = change(&node) {
            match self.write(&node, &wanted).await {
                Err(CallError::Conflict(_)) => {
                    conflicts.pause(&self.calls, &node.name_any()).await;
                    node = self.same(&node).await?;
                }
                other => return other,
            }
        }
        Ok(node)
    }

    /// Deletes a Node as it is here: what has changed, or is not to be had for a while, is to be looked at again by whoever has
    /// decided. Answers it as it stands, held by finalizers.
    ///
    /// # Errors
    /// [`CallError::NotFound`] when it is gone, [`CallError::Conflict`] when it has changed, and as [`Calls::run_for`].
    pub async fn delete_as_seen(&self, node: &Node) -> Result<Node, CallError> {
        let name = node.name_any();
        let only = Preconditions { uid: node.uid(), resource_version: node.resource_version() };
        let params = DeleteParams::default().preconditions(only);
        let deleting = || self.api.delete(&name, &params);
        let answer = self.calls.run_for(REPEATED_FOR, &format!("delete node {name}"), deleting).await?;
        answer.ok_or(CallError::NotFound(name))
    }

    /// Reads the same Node as it stands now; another Node of its name does not count.
    ///
    /// # Errors
    /// [`CallError::NotFound`] when it is gone.
    pub async fn same(&self, node: &Node) -> Result<Node, CallError> {
        let there = self.get(&node.name_any()).await?;
        if there.uid() == node.uid() { Ok(there) } else { Err(CallError::NotFound(node.name_any())) }
    }
}
