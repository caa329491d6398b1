//! Nodes beforehand that a Karpenter has launched and left: the instance with its tags, the NodeClaim with its stamps and
//! conditions, the Node with its labels, finalizer and owner, as Karpenter 1.14 leaves them.

use std::collections::BTreeMap;

use dovetail_api::names::{TERMINATION_FINALIZER, labels, tags};
use dovetail_cloud::catalogue::RegionCatalogue;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SandboxCluster;
use super::cache::Key;
use super::kind::Kind;
use crate::apiserver::{ApiError, NODE_CLAIMS};
use crate::region::{CapacityType, RegionInstance};

/// NodePool and EC2NodeClass of a Karpenter's nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KarpenterOwnership {
    /// The NodePool that they were launched for.
    pub node_pool: String,
    /// The EC2NodeClass that they were launched by.
    pub node_class: String,
}

/// Hashes and their versions. The versions are of an older Karpenter, as nobody has hashed the pool and the class of these nodes:
/// what leads next stamps them anew.
const STAMPS: [(&str, &str); 5] = [
    ("karpenter.sh/nodepool-hash", "7061396432467889021"),
    ("karpenter.sh/nodepool-hash-version", "v2"),
    ("karpenter.k8s.aws/ec2nodeclass-hash", "4950366118253097694"),
    ("karpenter.k8s.aws/ec2nodeclass-hash-version", "v5"),
    ("karpenter.k8s.aws/tagged", "true"),
];

/// Conditions that it leaves True on a NodeClaim whose node is in use.
const CONDITIONS: [&str; 5] = ["Launched", "Registered", "Initialized", "ConsistentStateFound", "Ready"];

impl KarpenterOwnership {
    /// The name of the NodeClaim of the node that is placed as the so-manieth.
    pub(super) fn claim(&self, number: usize) -> String {
        format!("{}-{number:05}", self.node_pool)
    }

    pub(super) fn tags(&self, cluster: &str, claim: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            (tags::owned_by(cluster), tags::OWNED.to_owned()),
            (tags::CLUSTER_NAME.to_owned(), cluster.to_owned()),
            (tags::NODE_POOL.to_owned(), self.node_pool.clone()),
            (tags::NODE_CLASS.to_owned(), self.node_class.clone()),
            (tags::NODE_CLAIM.to_owned(), claim.to_owned()),
        ])
    }

    /// Labels of NodeClaim and Node beside those that its kubelet gives a Node.
    pub(super) fn labels(&self, instance: &RegionInstance, catalogue: &RegionCatalogue) -> BTreeMap<String, String> {
        let capacity_type = match instance.capacity_type {
            CapacityType::Spot => labels::SPOT,
            _ => labels::ON_DEMAND,
        };
        let mut all = vec![
            (labels::NODE_POOL, self.node_pool.clone()),
            (labels::EC2_NODE_CLASS, self.node_class.clone()),
            (labels::CAPACITY_TYPE, capacity_type.to_owned()),
            (labels::INSTANCE_TYPE, instance.instance_type.clone()),
            (labels::ZONE, instance.zone.clone()),
            (labels::OS, "linux".to_owned()),
            (labels::ARCH, if instance.architecture == "arm64" { "arm64" } else { "amd64" }.to_owned()),
        ];
        if let Some(info) = catalogue.instance_type(&instance.instance_type) {
            let family = info.family();
            let category: String = family.chars().take_while(char::is_ascii_lowercase).collect();
            let generation: String = family.chars().skip(category.len()).take_while(char::is_ascii_digit).collect();
            all.extend([
                (labels::INSTANCE_FAMILY, family.to_owned()),
                (labels::INSTANCE_SIZE, info.size().to_owned()),
                (labels::INSTANCE_CATEGORY, category),
                (labels::INSTANCE_GENERATION, generation),
                (labels::INSTANCE_CPU, info.vcpus.to_string()),
                (labels::INSTANCE_MEMORY, info.memory_mib.to_string()),
            ]);
        }
        all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

impl SandboxCluster {
    /// Writes the NodeClaim of a Node that is there, and what registration leaves on the Node.
    pub(super) fn claimed(
        &mut self,
        of: &KarpenterOwnership,
        claim: &str,
        instance: &RegionInstance,
        own: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        let api = self.ctx.kube.api().clone();
        let stamps: BTreeMap<&str, &str> = STAMPS.into();
        let requirements: Vec<Value> = [labels::INSTANCE_TYPE, labels::CAPACITY_TYPE]
            .iter()
            .map(|key| json!({"key": key, "operator": "In", "values": [own.get(*key)]}))
            .collect();
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": claim, "labels": own, "annotations": stamps, "finalizers": [TERMINATION_FINALIZER]},
            "spec": {"expireAfter": "720h", "requirements": requirements, "resources": {"requests": {"cpu": "100m"}},
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": of.node_class}},
        });
        let created = api.create(&NODE_CLAIMS, "", object)?;
        let key = Key::new("", &instance.hostname);
        let node = self.ctx.kube.get(Kind::Node, &key).map(|node| Value::clone(&node)).unwrap_or_default();
        let now = self.ctx.now();
        let condition = |type_: &&str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now});
        let conditions: Vec<Value> = CONDITIONS.iter().map(condition).collect();
        let status = json!({"status": {
            "providerID": instance.provider_id(), "imageID": instance.image_id, "nodeName": instance.hostname,
            "conditions": conditions,
            "capacity": node["status"]["capacity"], "allocatable": node["status"]["allocatable"]}});
        api.patch_status(&NODE_CLAIMS, "", claim, &status)?;
        let uid = created["metadata"]["uid"].clone();
        self.ctx.kube.modify(Kind::Node, &key, |node| {
            let meta = &mut node["metadata"];
            for (key, value) in stamps {
                meta["annotations"][key] = json!(value);
            }
            for key in [labels::REGISTERED, labels::INITIALIZED] {
                meta["labels"][key] = json!("true");
            }
            meta["finalizers"] = json!([TERMINATION_FINALIZER]);
            meta["ownerReferences"] = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim,
                "uid": uid, "blockOwnerDeletion": true}]);
        });
        Ok(())
    }
}
