//! The packing problem: the workload file, or the control plane's knowledge in the same form.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};

use crate::daemons::DaemonShare;
use crate::instance_type::InstanceType;
use crate::pod::Pod;
use crate::quotas::Quota;
use crate::requirements::NodeSelectorRequirement;
use crate::resources::{PODS, Resources};

/// Everything that a packing depends on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Problem {
    #[serde(default)]
    pub name: String,
    /// Description of the problem, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Policy for preferences: tried before they are given up, or ignored.
    #[serde(default)]
    pub preference_policy: PreferencePolicy,
    /// Policy for `minValues` that cannot be kept.
    #[serde(default, skip_serializing_if = "MinValuesPolicy::is_strict")]
    pub min_values_policy: MinValuesPolicy,
    /// Keys that a provider defines on its nodes, beside those that every provider does.
    #[serde(default)]
    pub well_known_labels: Vec<String>,
    /// The NodePools, in any order.
    pub node_pools: Vec<Pool>,
    /// NodePools that may not be used now: the reason of a pod that none of the others takes names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<UnusablePool>,
    pub instance_types: Vec<Arc<InstanceType>>,
    /// The pods that wait for a node.
    pub pods: Vec<Pod>,
    /// Nodes that are there or on their way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub existing_nodes: Vec<ExistingNode>,
    /// Quotas on nodes by their labels, over all pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Quota>,
    /// One pod of each DaemonSet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemon_pods: Vec<Pod>,
    /// The share of a node that DaemonSets take at most.
    #[serde(default, skip_serializing_if = "DaemonShare::is_default")]
    pub daemon_share: DaemonShare,
    /// The namespaces, which rules between pods may choose by label; none when they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Namespace>,
}

/// A NodePool that may not be used now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnusablePool {
    /// Name of the NodePool.
    pub pool: String,
    /// The reason, such as `it is not Ready`.
    pub why: String,
}

/// A namespace, as far as rules between pods look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Problem {
    /// The policy for a pod's preferences: they are ignored once it is relaxed.
    #[must_use]
    pub fn preferences_of(&self, pod: &Pod) -> PreferencePolicy {
        if pod.relaxed { PreferencePolicy::Ignore } else { self.preference_policy }
    }
}

/// Policy for preferred terms (setting `PREFERENCE_POLICY`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreferencePolicy {
    /// They are tried as if required, and given up one by one where nothing else helps.
    #[default]
    Respect,
    /// They are ignored from the start.
    Ignore,
}

/// Policy for `minValues` that cannot be kept (setting `MIN_VALUES_POLICY`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinValuesPolicy {
    /// The node is not planned.
    #[default]
    Strict,
    /// The demand is lowered to the available values, and the claim says so.
    BestEffort,
}

impl MinValuesPolicy {
    fn is_strict(&self) -> bool {
        *self == Self::Strict
    }
}

/// A NodePool as packing sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// Name of the NodePool.
    pub name: String,
    /// Weight: pools of more weight are tried first.
    #[serde(default)]
    pub weight: i32,
    /// Labels of its nodes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Requirements on its nodes.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Taints of its nodes, which pods have to tolerate.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Taints that a node only starts with; packing ignores them.
    #[serde(default)]
    pub startup_taints: Vec<Taint>,
    /// Limits of all its nodes together; a resource that is not named is not limited.
    #[serde(default)]
    pub limits: Resources,
    /// Resources of its nodes now, `nodes` included.
    #[serde(default)]
    pub usage: Resources,
    /// The aim of its packing.
    #[serde(default)]
    pub policy: Policy,
    /// Minimum number of its nodes, under `node-groups`; its limit of `nodes` is the maximum.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_nodes: u32,
    /// The problem's instance types that it may use, by index; all when `None`.
    #[serde(default)]
    pub instance_types: Option<Vec<usize>>,
    #[serde(default)]
    pub node_class: Option<String>,
    /// Percent by which a node may be dearer in a zone where the pool has fewer nodes; 0 for no balance.
    #[serde(default, skip_serializing_if = "is_none_at_all")]
    pub zone_balance: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_none_at_all(percent: &u8) -> bool {
    *percent == 0
}

/// The aim of a pool's packing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The lowest price for the pods that are placed.
    #[default]
    Cost,
    /// Karpenter's way: fill a planned node while any instance type still fits.
    FewestNodes,
    /// Cluster Autoscaler's way, for comparison: the pool is a group of fixed types, each of which has to hold a node's
    /// pods.
    NodeGroups,
}

impl Policy {
    /// The policy of that name, as a setting or an annotation spells it; `node-groups` is no policy of a cluster.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "cost" => Some(Self::Cost),
            "fewest-nodes" => Some(Self::FewestNodes),
            _ => None,
        }
    }

    /// Its name in the setting `PACKING_POLICY` and in `plan --policy`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::FewestNodes => "fewest-nodes",
            Self::NodeGroups => "node-groups",
        }
    }
}

/// A node that is there, or a NodeClaim whose node is on its way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExistingNode {
    /// Name of the Node, or of the NodeClaim.
    pub name: String,
    /// Labels that the Node has or will have.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its taints; those that go away when it is ready are left out by the caller.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Resources that it has for pods.
    pub allocatable: Resources,
    /// Requests of its pods, `pods` included. A workload file may leave it out ([`ExistingNode::count_used`]).
    #[serde(default)]
    pub used: Resources,
    /// True if it is ready for pods; such nodes are filled first.
    #[serde(default)]
    pub initialized: bool,
    /// Its pods, as far as topology rules may count them.
    #[serde(default)]
    pub pods: Vec<Arc<Pod>>,
    /// Requests of DaemonSets' pods that are still to land on it.
    #[serde(default)]
    pub daemon_requests: Resources,
    /// Names of the volumes that it has attached and that pods share; they are counted in `used`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub volumes: BTreeSet<String>,
    /// The number of changes of nodes at its own last one, to be compared with a pod's `refusedAsOf`.
    #[serde(default, skip_serializing_if = "is_unchanged")]
    pub changed: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_unchanged(number: &u64) -> bool {
    *number == 0
}

impl ExistingNode {
    /// Computes `used` from the node's pods if the file leaves it out: a node that carries pods uses something.
    pub fn count_used(&mut self) {
        if !self.used.is_empty() {
            return;
        }
        let mut attached: BTreeMap<&String, &String> = BTreeMap::new();
        for pod in &self.pods {
            self.used.add(&pod.requests);
            attached.extend(&pod.shared_volumes);
        }
        for (volume, resource) in attached {
            self.used.set(resource, self.used.get(resource).saturating_add(1));
            self.volumes.insert(volume.clone());
        }
        if !self.pods.is_empty() {
            self.used.set(PODS, i64::try_from(self.pods.len()).unwrap_or(i64::MAX));
        }
    }
}
