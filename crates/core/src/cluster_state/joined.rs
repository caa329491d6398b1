//! Nodes and claims joined by provider id: one entry a machine, whether it is there or on its way (core spec 0.4).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::{labels, taints};
use k8s_openapi::api::core::v1::Taint;

use super::objects::node::cordon;
use super::{ClaimEntry, NodeEntry, NominationTarget, Snapshot};
use crate::lifecycle::claim::{from_quantities, packing_requirement};
use crate::requirements::Operator;
use crate::resources::{NODES, Resources};

/// The objects by which a joined node is known.
#[derive(Clone, Debug)]
pub enum NodeSource {
    /// A Node that no NodePool made, or whose claim is gone.
    Node(Arc<NodeEntry>),
    /// A claim whose Node is not there yet.
    Claim(Arc<ClaimEntry>),
    /// A Node and its claim.
    Both(Arc<NodeEntry>, Arc<ClaimEntry>),
}

impl NodeSource {
    #[must_use]
    pub fn claim_name(&self) -> Option<&str> {
        match self {
            Self::Node(_) => None,
            Self::Claim(entry) | Self::Both(_, entry) => entry.claim.metadata.name.as_deref(),
        }
    }
}

/// A machine, there or on its way.
#[derive(Clone, Debug)]
pub struct JoinedNode {
    /// The objects by which it is known.
    pub source: NodeSource,
    /// The Node's name, or the claim's while there is none.
    pub name: String,
    /// Name of its pool, empty if it has none.
    pub pool: String,
    /// Labels: the claim's until it is registered, then the Node's.
    pub labels: BTreeMap<String, String>,
    /// Taints; until it is initialized without those that are removed by themselves.
    pub taints: Vec<Taint>,
    /// Capacity of the machine, `nodes: 1` included.
    pub capacity: Resources,
    /// The part of the capacity that pods may use.
    pub allocatable: Resources,
    /// True if it is ready for pods.
    pub initialized: bool,
    /// True if nothing may be planned on it.
    pub deleting: bool,
    /// True if it is leaving only because a command holds it: until it is removed it counts for its pool's limits.
    pub held: bool,
}

impl JoinedNode {
    #[must_use]
    pub fn claim_name(&self) -> Option<&str> {
        self.source.claim_name()
    }

    /// The targets under which pods may be expected on it.
    pub(super) fn targets(&self) -> [Option<NominationTarget>; 2] {
        [
            self.node_name().map(|name| NominationTarget::Node(name.to_owned())),
            self.claim_name().map(|name| NominationTarget::Claim(name.to_owned())),
        ]
    }

    /// The target at which pods planned on it are expected: its claim until it is ready for pods, which may take longer than
    /// kube-scheduler is given for a ready node.
    #[must_use]
    pub fn target(&self) -> NominationTarget {
        match (self.claim_name(), self.node_name()) {
            (Some(claim), _) if !self.initialized => NominationTarget::Claim(claim.to_owned()),
            (_, Some(name)) => NominationTarget::Node(name.to_owned()),
            (Some(claim), None) => NominationTarget::Claim(claim.to_owned()),
            (None, None) => NominationTarget::Node(self.name.clone()),
        }
    }

    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        match &self.source {
            NodeSource::Claim(_) => None,
            NodeSource::Node(node) | NodeSource::Both(node, _) => Some(&node.name),
        }
    }
}

impl NodeSource {
    /// Name of its pool, empty if it has none.
    pub(super) fn pool(&self) -> &str {
        match self {
            Self::Node(node) => node.labels.get(labels::NODE_POOL).map_or("", String::as_str),
            Self::Claim(entry) | Self::Both(_, entry) => &entry.facts.pool,
        }
    }

    /// Labels: the claim's until it is registered, then the Node's.
    pub(super) fn labels(&self) -> Cow<'_, BTreeMap<String, String>> {
        match self {
            Self::Both(node, entry) if !node.is_labelled(labels::REGISTERED) => Cow::Owned(claim_labels(entry)),
            Self::Node(node) | Self::Both(node, _) => Cow::Borrowed(&node.labels),
            Self::Claim(entry) => Cow::Owned(claim_labels(entry)),
        }
    }

    /// Capacity of the machine, `nodes: 1` included.
    pub(super) fn capacity(&self) -> Resources {
        match self {
            Self::Node(node) => counted(node.capacity.clone()),
            Self::Claim(entry) => counted(promised(entry).0),
            Self::Both(node, entry) => {
                let mut capacity = node.capacity.clone();
                if !(node.is_labelled(labels::REGISTERED) && node.is_labelled(labels::INITIALIZED)) {
                    fill(&mut capacity, &promised(entry).0);
                }
                counted(capacity)
            }
        }
    }
}

impl Snapshot {
    /// All machines, Nodes by name first, then claims without a Node by name.
    #[must_use]
    pub fn joined(&self) -> Vec<JoinedNode> {
        self.machines().iter().map(|source| self.join(source)).collect()
    }

    /// The objects of each machine, in the order of [`Snapshot::joined`].
    pub(super) fn machines(&self) -> Vec<NodeSource> {
        let mut all = Vec::with_capacity(self.nodes.len() + self.claims.len());
        for node in self.nodes.values() {
            // While none has registered, several Nodes may be a claim's: it is there once.
            let claim = self.claim_of(node).filter(|claim| self.node_name_of(claim) == Some(node.name.as_str()));
            match claim {
                Some(claim) => all.push(NodeSource::Both(node.clone(), claim.clone())),
                None if counts_alone(node) => all.push(NodeSource::Node(node.clone())),
                None => {}
            }
        }
        let alone = self.claims.values().filter(|entry| self.has_no_node(entry));
        all.extend(alone.map(|entry| NodeSource::Claim(entry.clone())));
        all
    }

    /// True if a claim's machine is there without a Node.
    fn has_no_node(&self, claim: &ClaimEntry) -> bool {
        !self.is_refused(&claim.facts.name) && !self.is_joined(claim)
    }

    /// The objects of a claim's machine; `None` if the claim is refused, or if its machine counts for another claim.
    pub(super) fn machine_of(&self, claim: &Arc<ClaimEntry>) -> Option<NodeSource> {
        if self.has_no_node(claim) {
            return Some(NodeSource::Claim(claim.clone()));
        }
        let node = self.node_of(claim)?;
        let own = self.claim_of(node).filter(|own| own.facts.name == claim.facts.name)?;
        Some(NodeSource::Both(node.clone(), own.clone()))
    }

    /// Joins the objects of one machine.
    pub(super) fn join(&self, source: &NodeSource) -> JoinedNode {
        match source {
            NodeSource::Node(node) => self.node_alone(node),
            NodeSource::Claim(entry) => self.claim_alone(entry),
            NodeSource::Both(node, entry) => self.both(node, entry),
        }
    }

    fn node_alone(&self, node: &Arc<NodeEntry>) -> JoinedNode {
        JoinedNode {
            name: node.name.clone(),
            pool: node.labels.get(labels::NODE_POOL).cloned().unwrap_or_default(),
            labels: node.labels.clone(),
            taints: self.with_cordon(node, node.taints.clone()),
            capacity: counted(node.capacity.clone()),
            allocatable: node.allocatable.clone(),
            initialized: !node.managed() || node.is_labelled(labels::INITIALIZED),
            deleting: self.deleting.nodes.contains(&node.name),
            held: false,
            source: NodeSource::Node(node.clone()),
        }
    }

    fn claim_alone(&self, entry: &Arc<ClaimEntry>) -> JoinedNode {
        let claim = &entry.claim;
        let name = claim.metadata.name.clone().unwrap_or_default();
        let (capacity, allocatable) = promised(entry);
        let allocatable = self.really(entry, allocatable);
        JoinedNode {
            pool: entry.facts.pool.clone(),
            labels: claim_labels(entry),
            taints: claim.spec.taints.clone(),
            capacity: counted(capacity),
            allocatable,
            initialized: false,
            deleting: self.deleting.claims.contains(&name),
            held: false,
            source: NodeSource::Claim(entry.clone()),
            name,
        }
    }

    fn both(&self, node: &Arc<NodeEntry>, entry: &Arc<ClaimEntry>) -> JoinedNode {
        let registered = node.is_labelled(labels::REGISTERED);
        let initialized = registered && node.is_labelled(labels::INITIALIZED);
        let (mut capacity, mut allocatable) = (node.capacity.clone(), node.allocatable.clone());
        if !initialized {
            let promised = promised(entry);
            fill(&mut capacity, &promised.0);
            fill(&mut allocatable, &promised.1);
        }
        let node_taints = if registered { &node.taints } else { &entry.claim.spec.taints };
        let passes = |taint: &Taint| {
            taints::is_ephemeral(&taint.key, &taint.effect)
                || entry.claim.spec.startup_taints.iter().any(|own| own.key == taint.key && own.effect == taint.effect)
        };
        let own_taints = node_taints.iter().filter(|taint| initialized || !passes(taint)).cloned().collect();
        JoinedNode {
            name: node.name.clone(),
            pool: entry.facts.pool.clone(),
            labels: if registered { node.labels.clone() } else { claim_labels(entry) },
            taints: self.with_cordon(node, own_taints),
            capacity: counted(capacity),
            allocatable,
            initialized,
            deleting: self.deleting.nodes.contains(&node.name),
            held: self.deleting.held.contains(&node.name),
            source: NodeSource::Both(node.clone(), entry.clone()),
        }
    }

    /// A Node's taints; in a zone that the cluster is shifted away from with a cordon, which EKS puts on it as well.
    fn with_cordon(&self, node: &NodeEntry, mut own: Vec<Taint>) -> Vec<Taint> {
        if self.shifted_zones.of_labels(&node.labels).is_some()
            && !own.iter().any(|one| one.key == taints::UNSCHEDULABLE)
        {
            own.push(cordon());
        }
        own
    }
}

/// A managed Node is ignored until the cloud has said which machine it is.
fn counts_alone(node: &NodeEntry) -> bool {
    !node.managed()
        || (!node.provider_id.is_empty()
            && (node.labels.contains_key(labels::INSTANCE_TYPE) || node.is_labelled(labels::INITIALIZED)))
}

/// The resources that a claim's node will have: those that the cloud reported, or else the expected capacity (at most) and
/// the requests.
fn promised(entry: &ClaimEntry) -> (Resources, Resources) {
    let requested = from_quantities(&entry.claim.spec.resources.requests);
    match entry.claim.status.as_ref().filter(|status| !status.allocatable.is_empty()) {
        Some(status) => (from_quantities(&status.capacity), from_quantities(&status.allocatable)),
        None if entry.expected_capacity.is_empty() => (requested.clone(), requested),
        None => (entry.expected_capacity.clone(), requested),
    }
}

/// A claim's labels, with those that its requirements leave no choice about.
fn claim_labels(entry: &ClaimEntry) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for requirement in entry.claim.spec.requirements.iter().map(packing_requirement) {
        if let (Operator::In, [only]) = (requirement.operator, requirement.values.as_slice()) {
            all.insert(requirement.key, only.clone());
        }
    }
    all.extend(entry.claim.metadata.labels.clone().unwrap_or_default());
    all
}

fn counted(mut capacity: Resources) -> Resources {
    capacity.set(NODES, 1);
    capacity
}

fn fill(values: &mut Resources, from: &Resources) {
    for (name, amount) in from.iter() {
        if values.get(name) == 0 {
            values.set(name, amount);
        }
    }
}
