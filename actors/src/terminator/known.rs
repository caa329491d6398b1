//! Claims and Nodes, and which of them are one machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use dovetail_api::v1::NodeClaim;
use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};

/// Name of an object on its way out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A Node, by name: it is drained before its claim is looked at.
    Node(String),
    /// A claim, by name.
    Claim(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Claim(name) => write!(f, "nodeclaim {name}"),
        }
    }
}

/// Claims and Nodes that are to be looked at, and which belongs to which.
#[derive(Default)]
pub struct KnownNodes {
    /// Claims by name.
    pub claims: BTreeMap<String, Arc<NodeClaim>>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    claims_of: BTreeMap<String, BTreeSet<String>>,
    nodes_of: BTreeMap<String, BTreeSet<String>>,
}

impl KnownNodes {
    /// A claim is there or has changed.
    pub fn apply_claim(&mut self, claim: Arc<NodeClaim>) {
        let name = claim.name_any();
        // Its provider ID may be another by now: the index goes by the one that was known.
        self.forget_claim(&name);
        index(&mut self.claims_of, of_claim(&claim), &name);
        self.claims.insert(name, claim);
    }

    /// A claim is gone. Answers what was known of it.
    pub fn forget_claim(&mut self, name: &str) -> Option<Arc<NodeClaim>> {
        let claim = self.claims.remove(name)?;
        unindex(&mut self.claims_of, of_claim(&claim), name);
        Some(claim)
    }

    /// A Node is there or has changed.
    pub fn apply_node(&mut self, node: Arc<Node>) {
        let name = node.name_any();
        self.forget_node(&name);
        index(&mut self.nodes_of, of_node(&node), &name);
        self.nodes.insert(name, node);
    }

    /// A Node is gone. Answers what was known of it.
    pub fn forget_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let node = self.nodes.remove(name)?;
        unindex(&mut self.nodes_of, of_node(&node), name);
        Some(node)
    }

    pub fn claims_of(&self, node: &Node) -> Vec<Arc<NodeClaim>> {
        let names = self.claims_of.get(of_node(node)).into_iter().flatten();
        names.filter_map(|name| self.claims.get(name).cloned()).collect()
    }

    pub fn nodes_of(&self, claim: &NodeClaim) -> Vec<Arc<Node>> {
        let names = self.nodes_of.get(of_claim(claim)).into_iter().flatten();
        names.filter_map(|name| self.nodes.get(name).cloned()).collect()
    }
}

/// The claim's provider id, empty while it has none.
pub fn of_claim(claim: &NodeClaim) -> &str {
    claim.status.as_ref().map_or("", |status| status.provider_id.as_str())
}

/// The Node's provider id, empty while it has none.
pub fn of_node(node: &Node) -> &str {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default()
}

pub fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

fn index(by_provider: &mut BTreeMap<String, BTreeSet<String>>, provider_id: &str, name: &str) {
    // All that have none would seem to belong together.
    if !provider_id.is_empty() {
        by_provider.entry(provider_id.to_owned()).or_default().insert(name.to_owned());
    }
}

fn unindex(by_provider: &mut BTreeMap<String, BTreeSet<String>>, provider_id: &str, name: &str) {
    if let Some(names) = by_provider.get_mut(provider_id) {
        names.remove(name);
        if names.is_empty() {
            by_provider.remove(provider_id);
        }
    }
}
