//! A Node as the cluster state keeps it.

use std::collections::BTreeMap;

use dovetail_api::names::provider::Provider;
use dovetail_api::names::{annotations, labels, taints};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};

use crate::cluster_state::objects::reboot::RebootNote;
use crate::cluster_state::unwell::{UnhealthyCondition, unwell};
use crate::lifecycle::{claim::from_quantities, initialization::is_ready};
use crate::resources::Resources;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeEntry {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.providerID`, empty until the cloud is known.
    pub provider_id: String,
    /// `metadata.labels`, the hostname's added where it is absent.
    pub labels: BTreeMap<String, String>,
    /// Its taints; a cordon counts as one.
    pub taints: Vec<Taint>,
    /// Capacity of the machine.
    pub capacity: Resources,
    /// The part of the capacity that pods may use.
    pub allocatable: Resources,
    /// True if its kubelet says Ready.
    pub ready: bool,
    /// Conditions for which it is to be repaired.
    pub unwell: Vec<UnhealthyCondition>,
    pub deleting: bool,
    /// Key of the annotation that forbids its disruption: `karpenter.sh/do-not-disrupt`, or where that is absent
    /// `karpenter.sh/do-not-consolidate`, its earlier name.
    pub do_not_disrupt: Option<&'static str>,
    /// True if its annotation `karpenter.sh/do-not-repair` says so.
    pub do_not_repair: bool,
    /// `status.nodeInfo.bootID`, empty where it is not known.
    pub boot_id: String,
    /// Its reboot for repair, while there is one.
    pub reboot: Option<RebootNote>,
    /// Time since which it is empty, as a leader has written it down for a pool with a TTL.
    pub emptied: Option<Timestamp>,
    /// `metadata.resourceVersion` as a number; none where it is no number, or is doubted.
    pub resource_version: Option<u64>,
}

impl NodeEntry {
    /// Reads a Node of the API, of EC2's.
    #[must_use]
    pub fn from_kube(node: &Node) -> Self {
        Self::for_provider(node, Provider::Ec2)
    }

    /// Reads a Node of the API, of a provider's.
    #[must_use]
    pub fn for_provider(node: &Node, provider: Provider) -> Self {
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let mut own_taints = spec.taints.unwrap_or_default();
        if spec.unschedulable == Some(true) && !own_taints.iter().any(|taint| taint.key == taints::UNSCHEDULABLE) {
            own_taints.push(cordon());
        }
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut own_labels = node.metadata.labels.clone().unwrap_or_default();
        own_labels.entry(labels::HOSTNAME.into()).or_insert_with(|| name.clone());
        let own = node.metadata.annotations.as_ref();
        let annotation = |key: &str| own.and_then(|all| all.get(key)).map(String::as_str);
        Self {
            name,
            do_not_disrupt: [annotations::DO_NOT_DISRUPT, annotations::DO_NOT_CONSOLIDATE]
                .into_iter()
                .find(|key| annotation(key).is_some())
                .filter(|key| annotation(key) == Some("true")),
            do_not_repair: annotation(annotations::DO_NOT_REPAIR) == Some("true"),
            emptied: annotation(annotations::EMPTINESS_TIMESTAMP).and_then(|text| text.parse().ok()),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            provider_id: spec.provider_id.unwrap_or_default(),
            labels: own_labels,
            taints: own_taints,
            capacity: from_quantities(&status.capacity.unwrap_or_default()),
            allocatable: from_quantities(&status.allocatable.unwrap_or_default()),
            ready: is_ready(node),
            boot_id: status.node_info.map(|info| info.boot_id).unwrap_or_default(),
            reboot: RebootNote::from_node(node),
            unwell: unwell(node, provider),
            deleting: node.metadata.deletion_timestamp.is_some(),
            resource_version: node.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()),
        }
    }

    /// True if it was made for a NodePool: it carries the label of a class, of whatever provider there is here.
    #[must_use]
    pub fn managed(&self) -> bool {
        Provider::ALL.iter().any(|provider| self.labels.contains_key(provider.class().label))
    }

    /// True if the label's value is `true`.
    #[must_use]
    pub fn is_labelled(&self, key: &str) -> bool {
        self.labels.get(key).is_some_and(|value| value == "true")
    }
}

/// The taint that a cordon is.
pub(in crate::cluster_state) fn cordon() -> Taint {
    Taint { key: taints::UNSCHEDULABLE.into(), effect: taints::NO_SCHEDULE.into(), ..Taint::default() }
}
