//! A pod as scheduling sees it.

mod container_sizes;
mod drain_facts;
mod eviction_cost;
mod from_kube;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

pub use container_sizes::ContainerSizes;
pub use drain_facts::DrainFacts;
pub use eviction_cost::{DeletionCost, eviction_cost};
pub use from_kube::{PodError, effective_limits, effective_requests, limits_of_containers, requests_of_containers};
use k8s_openapi::api::core::v1::{Affinity, Taint, Toleration, TopologySpreadConstraint};
pub(crate) use rules::{covers, is_soft};
use serde::{Deserialize, Serialize};

use crate::expendable::ExpendableCutoff;
use crate::labels;
use crate::requirements::NodeSelectorRequirement;
use crate::resources::Resources;

/// The reason that a pod with claims for devices gets no node where these are not asked for.
pub(crate) const NO_DEVICES: &str = "dynamic resource allocation (spec.resourceClaims) is not supported yet";
/// End of a reason that names a rule which packing does not know yet.
pub(crate) const NOT_SUPPORTED: &str = " is not supported yet";

/// Beginning of the uid of a pod that is no object: the room of one, which a capacity buffer holds.
pub(crate) const ROOM_UID: &str = "capacity-buffer.";
/// The same of room that a ProvisioningRequest has booked.
pub(crate) const BOOKED_UID: &str = "provisioning-request.";

/// A pod, as far as scheduling needs it. Fields are named as in a Pod's metadata and spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pod {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// `metadata.uid`.
    #[serde(default)]
    pub uid: String,
    /// `metadata.labels`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its effective requests; the `pods: 1` that each pod takes is added when it is packed.
    #[serde(default)]
    pub requests: Resources,
    /// Labels that its node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Node affinity, pod affinity and pod anti-affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Rules by which it is spread with others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Taints that it tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Its priority; more is served first where limits bind.
    #[serde(default)]
    pub priority: i32,
    /// Ports that it takes on its node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_ports: Vec<HostPort>,
    /// Time at which the API server created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<jiff::Timestamp>,
    /// Places of its volumes: its node has to meet one of these lists; any node will do if empty. Attachments that only this
    /// pod's volumes take are among the requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_topology: Vec<Vec<NodeSelectorRequirement>>,
    /// Volumes that other pods use too, by name, with the resource that counts them: a node attaches each once, however
    /// many of its pods use it. They are not among the requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared_volumes: BTreeMap<String, String>,
    /// The reason that no node would do whatever is launched, such as a claim for a volume that is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// True if it is not there yet: an ordinal of an ordered StatefulSet that is still to come. It counts when a node is
    /// chosen; nothing is launched for it alone, and nothing is answered for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_come: bool,
    /// True if it does without its preferences: EC2 has had nothing for them for too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relaxed: bool,
    /// Names of existing nodes that are out for it, as kube-scheduler has refused them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused_nodes: BTreeSet<String>,
    /// Number of changes of nodes: existing nodes that have seen no more than this are all out for it, as kube-scheduler has
    /// refused them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_as_of: Option<u64>,
    /// True while another pod like it tries a new node: until then it may be on existing nodes only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existing_only: bool,
    /// Its claims for devices, by dynamic resource allocation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PodClaim>,
    /// True if its node may be no spot node, as its workload has enough replicas there ([`crate::spot_share`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub off_spot: bool,
    /// The cutoff that its priority is below: it gets no place, and waits for room that is left. Unset for all others.
    #[serde(default, skip_serializing_if = "ExpendableCutoff::is_unset")]
    pub expendable_below: ExpendableCutoff,
}

impl Pod {
    /// True if it has claims for devices, whether or not they ask for any.
    pub(crate) fn has_claims(&self) -> bool {
        !self.devices.is_empty() || self.blocked.as_deref() == Some(NO_DEVICES)
    }

    /// Removes the host from the places of its volumes. A pod that has to leave its node gets another place without it, as in
    /// Karpenter: data on the host is lost to it in any case.
    pub(crate) fn forget_host(&mut self) {
        for place in &mut self.volume_topology {
            place.retain(|one| labels::stable(&one.key) != labels::HOSTNAME);
        }
        if self.volume_topology.iter().any(Vec::is_empty) {
            self.volume_topology.clear();
        }
    }

    /// True if it is no object, but room that is held.
    #[must_use]
    pub fn is_room(&self) -> bool {
        self.uid.starts_with(ROOM_UID) || self.is_booked()
    }

    /// True if it is no object, but room that a ProvisioningRequest has booked.
    #[must_use]
    pub fn is_booked(&self) -> bool {
        self.uid.starts_with(BOOKED_UID)
    }

    /// The uid of the pod that is there: its own, or, for a pod that is still to come, that of the pod which it follows.
    #[must_use]
    pub fn base_uid(&self) -> &str {
        self.uid.split_once('/').map_or(self.uid.as_str(), |(base, _)| base)
    }

    /// True if it states a rule that need not be kept: preferred affinity of any kind, or spread that may be broken.
    #[must_use]
    pub fn prefers_anything(&self) -> bool {
        let affinity = self.affinity.as_ref();
        let nodes = affinity.and_then(|one| one.node_affinity.as_ref());
        let nodes = nodes.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
        let pod_affinity = affinity.and_then(|one| one.pod_affinity.as_ref());
        let pod_affinity =
            pod_affinity.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
        let pod_anti_affinity = affinity.and_then(|one| one.pod_anti_affinity.as_ref());
        let pod_anti_affinity =
            pod_anti_affinity.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
        nodes.is_some_and(|all| !all.is_empty())
            || pod_affinity.into_iter().chain(pod_anti_affinity).any(|all| !all.is_empty())
            || self.topology_spread_constraints.iter().any(is_soft)
    }

    /// True if it may be on a node with the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| covers(toleration, taint))
    }
}

/// A claim for devices in a pod's spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodClaim {
    /// Its name in the pod.
    pub name: String,
    /// Name of the ResourceClaim; unset until it has been made from its template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

/// A port that a pod takes on its node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostPort {
    /// Number of the host's port.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(default = "default_protocol")]
    pub protocol: String,
    /// The address it is bound to; `0.0.0.0`, `::` and nothing mean every address.
    #[serde(default)]
    pub ip: String,
}

impl HostPort {
    /// True if both cannot be on one node: same port and protocol, and the same address or one of them any address.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        let any = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || any(&self.ip) || any(&other.ip))
    }
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn default_protocol() -> String {
    "TCP".to_owned()
}
