//! A Node object of kwok as an instance, and back: nothing is known of the instance but what stands on its Node. Pure.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::REBOOT_PRE_BOOT_ID;
use dovetail_api::names::provider::KWOK_SCHEME;
use dovetail_api::names::{labels, tags, taints};
use dovetail_core::lifecycle::claim::to_quantities;
use dovetail_core::{InstanceType, NodeSelectorRequirement, Offering, Operator};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::cloud::Instance;
use crate::hash::fnv;
use crate::launch::{LaunchRequest, LaunchedInstance};

/// Annotation and label by which kwok's controller knows the Nodes that it pretends to run, and its value.
pub const FAKE: (&str, &str) = ("kwok.x-k8s.io/node", "fake");
/// Label by which Karpenter's installation of kwok divides Nodes among controllers, and the number of its values.
const PARTITION: (&str, u64) = ("kwok-partition", 10);
/// Label that eks-node-viewer reads a node's price from.
const PRICE: &str = "eks-node-viewer/instance-price";
/// Annotation with what a cloud would know of the instance.
pub const RECORD: &str = "dovetail.dev/kwok-instance";

/// The facts that a cloud would know of an instance, as its Node's annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRecord {
    instance_type: String,
    zone: String,
    capacity_type: String,
    launched_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    /// Tags, as an instance of EC2 has them.
    pub tags: BTreeMap<String, String>,
}

impl InstanceRecord {
    /// The record of an instance that is over.
    pub fn ended(self, at: Timestamp) -> Self {
        Self { ended_at: self.ended_at.or(Some(at)), ..self }
    }

    /// The record as an annotation's text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The record of a Node; `None` of one that this provider has not made.
    pub fn from_node(node: &Node) -> Option<Self> {
        serde_json::from_str(node.metadata.annotations.as_ref()?.get(RECORD)?).ok()
    }
}

/// The type and offering that are taken of those that a launch may have.
pub struct Choice<'a> {
    /// Instance type.
    pub instance_type: &'a InstanceType,
    /// The cheapest of its offerings.
    pub offering: &'a Offering,
}

/// Most characters of a pool's name in a Node's: the whole is the value of a label, which has 63 at most.
const OF_POOL: usize = 46;

/// Name of a launch's Node: the same launch has the same names, however often it is repeated.
pub fn name_of(request: &LaunchRequest, number: u32) -> String {
    let pool: String = request.node_pool.chars().take(OF_POOL).collect();
    // A claim that somebody made by hand may have no pool.
    let begin = Some(pool.trim_end_matches(['.', '-'])).filter(|pool| !pool.is_empty()).unwrap_or("kwok");
    format!("{begin}-{:016x}", fnv(&format!("{}/{number}", request.token)))
}

/// The Node of a launch, as it is to be created. The registrar adds what only the claim knows.
pub fn node_of(
    request: &LaunchRequest,
    choice: &Choice<'_>,
    name: &str,
    tags: BTreeMap<String, String>,
    now: Timestamp,
) -> Node {
    let Choice { instance_type, offering } = choice;
    let mut own = request.labels.clone();
    let settled = request.requirements.iter().chain(&instance_type.requirements).chain(&offering.requirements);
    own.extend(settled.filter_map(only_value));
    let more = [
        (labels::HOSTNAME, name.to_owned()),
        (labels::INSTANCE_TYPE, instance_type.name.clone()),
        (labels::ZONE, offering.zone.clone()),
        (labels::CAPACITY_TYPE, offering.capacity_type.clone()),
        (PRICE, format!("{:.6}", offering.price)),
        (PARTITION.0, partition_of(name)),
        (FAKE.0, FAKE.1.to_owned()),
        (tags::LAUNCH_TOKEN, request.token.clone()),
    ];
    own.extend(more.map(|(key, value)| (key.to_owned(), value)));
    let record = InstanceRecord {
        instance_type: instance_type.name.clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type.clone(),
        launched_at: Some(now),
        ended_at: None,
        tags,
    };
    let annotations = [(FAKE.0.to_owned(), FAKE.1.to_owned()), (RECORD.to_owned(), record.text())];
    let guard =
        Taint { key: taints::UNREGISTERED.to_owned(), effect: taints::NO_EXECUTE.to_owned(), ..Taint::default() };
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(own),
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("{KWOK_SCHEME}{name}")),
            taints: Some(vec![guard]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(to_quantities(&instance_type.capacity)),
            allocatable: Some(to_quantities(&instance_type.allocatable())),
            phase: Some("Pending".to_owned()),
            node_info: Some(NodeSystemInfo { boot_id: boot_id("", name), ..NodeSystemInfo::default() }),
            ..NodeStatus::default()
        }),
    }
}

/// The boot ID of a Node that follows on the one before: another, and always the same other.
fn boot_id(before: &str, name: &str) -> String {
    format!("kwok-{:016x}", fnv(&format!("{name}/{before}")))
}

/// The boot ID that a reboot gives a Node. The ID from before the reboot stands on the Node while it lasts.
pub fn next_boot_id(node: &Node) -> String {
    let noted = node.metadata.annotations.as_ref().and_then(|own| own.get(REBOOT_PRE_BOOT_ID));
    let current = || node.status.as_ref()?.node_info.as_ref().map(|info| &info.boot_id);
    let before = noted.or_else(current).map_or("", String::as_str);
    boot_id(before, node.metadata.name.as_deref().unwrap_or_default())
}

fn only_value(one: &NodeSelectorRequirement) -> Option<(String, String)> {
    match (one.operator, one.values.as_slice()) {
        (Operator::In, [only]) => Some((one.key.clone(), only.clone())),
        _ => None,
    }
}

/// `partition-a` to `partition-j`.
fn partition_of(name: &str) -> String {
    let letter = u8::try_from(fnv(name) % PARTITION.1).unwrap_or_default();
    format!("partition-{}", char::from(b'a' + letter))
}

/// The instance of a Node; `None` of a Node that this provider has not made.
pub fn instance_of(node: &Node) -> Option<Instance> {
    let record = InstanceRecord::from_node(node)?;
    let id = node.spec.as_ref()?.provider_id.clone().filter(|id| id.starts_with(KWOK_SCHEME))?;
    // The process that marked it may have died before it deleted the Node: then its end is still to be asked for.
    let ended_at = record.ended_at.filter(|_| node.metadata.deletion_timestamp.is_some());
    Some(Instance {
        id,
        state: if ended_at.is_some() { "terminated" } else { "running" }.to_owned(),
        instance_type: record.instance_type,
        zone: record.zone,
        capacity_type: record.capacity_type,
        private_dns_name: node.metadata.name.clone().unwrap_or_default(),
        launched_at: record.launched_at,
        ended_at,
        tags: record.tags,
        ..Instance::default()
    })
}

/// The instance of a Node as the answer to its launch.
pub fn launched(node: &Node, price: f64) -> Option<LaunchedInstance> {
    let Instance { id, instance_type, zone, capacity_type, .. } = instance_of(node)?;
    Some(LaunchedInstance { id, instance_type, zone, capacity_type, price, ..LaunchedInstance::default() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use dovetail_api::v1::{EC2NodeClass, EC2NodeClassSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::kwok::catalogue::generic_types;

    #[test]
    fn a_node_says_all_of_its_instance_and_is_named_by_its_launch() {
        let class = Arc::new(EC2NodeClass::new("default", EC2NodeClassSpec::default()));
        let mut request = LaunchRequest::new("dt-0a-1", "default", class);
        request.labels = [("team".to_owned(), "a".to_owned())].into();
        let types = generic_types().unwrap();
        let choice = Choice { instance_type: &types[0], offering: &types[0].offerings[0] };
        let name = name_of(&request, 0);
        assert_eq!(name, name_of(&request.clone(), 0));
        assert_ne!(name, name_of(&request, 1));
        let long = LaunchRequest { node_pool: format!("{}.b{}", "a".repeat(45), "c".repeat(200)), ..request.clone() };
        let of_long = name_of(&long, 0);
        assert!(of_long.len() <= 63 && of_long.starts_with("aaa") && !of_long.contains(".-"), "{of_long}");
        let alone = LaunchRequest { node_pool: String::new(), ..request.clone() };
        assert!(name_of(&alone, 0).starts_with("kwok-"), "a claim without a pool");
        let tags = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let node = node_of(&request, &choice, &name, tags.clone(), Timestamp::UNIX_EPOCH);
        let own = node.metadata.labels.clone().unwrap();
        for (key, value) in [
            ("team", "a"),
            (labels::ZONE, "test-zone-a"),
            (labels::CAPACITY_TYPE, "spot"),
            (labels::KWOK_INSTANCE_FAMILY, "c"),
            (FAKE.0, FAKE.1),
        ] {
            assert_eq!(own.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert!(own[PARTITION.0].starts_with("partition-"));
        let status = node.status.clone().unwrap();
        assert_eq!((&*status.capacity.unwrap()["cpu"].0, &*status.allocatable.unwrap()["cpu"].0), ("1", "900m"));
        let instance = instance_of(&node).unwrap();
        assert_eq!((instance.id.as_str(), instance.state.as_str()), (&*format!("kwok://{name}"), "running"));
        assert_eq!((instance.tags, instance.private_dns_name.as_str()), (tags, name.as_str()));
        assert_eq!(instance_of(&Node::default()), None, "whoever made that");
    }

    #[test]
    fn an_instance_that_is_over_stays_so() {
        let record = InstanceRecord::default().ended(Timestamp::UNIX_EPOCH).ended(Timestamp::MAX);
        assert_eq!(record.ended_at, Some(Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn a_marked_node_that_nobody_deleted_is_still_an_instance() {
        let record = InstanceRecord::default().ended(Timestamp::UNIX_EPOCH);
        let mut node = Node {
            metadata: ObjectMeta {
                annotations: Some([(RECORD.to_owned(), record.text())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec { provider_id: Some(format!("{KWOK_SCHEME}a")), ..NodeSpec::default() }),
            ..Node::default()
        };
        let there = instance_of(&node).unwrap();
        assert_eq!((there.state.as_str(), there.ended_at), ("running", None));
        node.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let over = instance_of(&node).unwrap();
        assert_eq!((over.state.as_str(), over.ended_at), ("terminated", Some(Timestamp::UNIX_EPOCH)));
    }
}
