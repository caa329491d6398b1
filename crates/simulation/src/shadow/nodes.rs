//! Nodes of the cluster in the copy. Those of NodePools that were there at the beginning are, with their instances: what becomes
//! of them is the replica's to decide. Nodes of no NodePool come and go as in the cluster. What the provisioner of the cluster has
//! launched since is not there: the copy has nodes of its own instead.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use dovetail_api::names::{TERMINATION_FINALIZER, labels, tags};
use dovetail_core::lifecycle::hash::{OF_CLASS, OF_POOL};
use dovetail_sandbox::apiserver::{EC2_NODE_CLASSES, Key, NODE_CLAIMS, NODE_POOLS, NODES};
use dovetail_sandbox::region::{CapacityType, TakenOver};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::class;
use super::kinds::text;
use super::mirror::{Mirror, fresh, is_of_a_pool};

impl Mirror {
    /// A NodeClaim: one that was there at the beginning, launched and not about to go, is in the copy.
    pub(super) fn claim(&mut self, key: &Key, original: &Arc<Value>) {
        let launched = !text(original, &["status", "providerID"]).is_empty();
        if self.begun || !launched || original["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        self.before.insert(key.name.clone());
        self.take_over(original, &key.name, Some(&key.name));
        let class = text(original, &["spec", "nodeClassRef", "name"]);
        let pool = text(original, &["metadata", "labels", labels::NODE_POOL]);
        let mut claim = fresh(original);
        for (keys, kind, name) in [(OF_CLASS, &EC2_NODE_CLASSES, class), (OF_POOL, &NODE_POOLS, pool)] {
            class::take_hash_off(&mut claim, keys, self.original(kind, "", name).map(|object| &**object));
        }
        claim["metadata"]["finalizers"] = json!([TERMINATION_FINALIZER]);
        let mut status = original["status"].clone();
        if let Some(status) = status.as_object_mut() {
            // The copy has other images: nothing is known to be drifted by its image.
            status.remove("imageID");
        }
        let api = &self.copy.api;
        let created = api.create(&NODE_CLAIMS, "", claim);
        let created = created.and_then(|_| api.patch_status(&NODE_CLAIMS, "", &key.name, &json!({"status": status})));
        self.said(&NODE_CLAIMS, key, created.err());
    }

    pub(super) fn node(&mut self, key: &Key, original: &Arc<Value>) {
        let claim = self.claim_of(original);
        let ours = claim.as_ref().is_some_and(|claim| self.before.contains(claim));
        if (is_of_a_pool(original) || claim.is_some()) && !ours {
            return;
        }
        if let Some(there) = self.copy.api.get(&NODES, "", &key.name) {
            // The operator decides whether pods may come, where nobody else does.
            let unschedulable = &original["spec"]["unschedulable"];
            if claim.is_none() && there["spec"]["unschedulable"] != *unschedulable {
                let patch = json!({"spec": {"unschedulable": unschedulable}});
                self.said(&NODES, key, self.copy.api.patch(&NODES, "", &key.name, &patch).err());
            }
            return;
        }
        let gone = claim.as_ref().is_some_and(|claim| self.copy.api.get(&NODE_CLAIMS, "", claim).is_none());
        if gone || original["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        self.take_over(original, &key.name, claim.as_deref());
        let mut node = fresh(original);
        node["status"] = original["status"].clone();
        if text(original, &["spec", "providerID"]).is_empty() {
            node["spec"]["providerID"] = json!(format!("shadow:///{}", key.name));
        }
        if claim.is_some() {
            node["metadata"]["finalizers"] = json!([TERMINATION_FINALIZER]);
        }
        let refused = self.copy.api.create(&NODES, "", node).err();
        self.said(&NODES, key, refused);
    }

    /// The NodeClaim of a Node, by its instance.
    fn claim_of(&self, node: &Value) -> Option<String> {
        let (name, provider) = (text(node, &["metadata", "name"]), text(node, &["spec", "providerID"]));
        let claims = self.originals.get(&NODE_CLAIMS)?;
        let of = |claim: &Value| {
            let own = text(claim, &["status", "providerID"]);
            (!own.is_empty() && own == provider) || text(claim, &["status", "nodeName"]) == name
        };
        claims.iter().find(|(_, claim)| of(claim)).map(|(key, _)| key.name.clone())
    }

    /// The instance of a NodeClaim or Node is the copy's as well, under its name as a Node.
    fn take_over(&self, object: &Value, name: &str, claim: Option<&str>) {
        let provider = match text(object, &["status", "providerID"]) {
            "" => text(object, &["spec", "providerID"]),
            of_claim => of_claim,
        };
        let id = provider.rsplit('/').next().filter(|id| !id.is_empty()).unwrap_or(name);
        let hostname = match text(object, &["status", "nodeName"]) {
            "" => name,
            of_claim => of_claim,
        };
        let label = |key: &str| object["metadata"]["labels"][key].as_str().unwrap_or_default();
        let spot = label(labels::CAPACITY_TYPE) == "spot" || label("eks.amazonaws.com/capacityType") == "SPOT";
        let created = text(object, &["metadata", "creationTimestamp"]).parse::<Timestamp>();
        let architecture = if label("kubernetes.io/arch") == "arm64" { "arm64" } else { "x86_64" };
        self.copy.region.take_over(TakenOver {
            id: id.to_owned(),
            hostname: hostname.to_owned(),
            private_ip: address(object).or_else(|| of_hostname(hostname)).unwrap_or(Ipv4Addr::LOCALHOST),
            instance_type: label(labels::INSTANCE_TYPE).to_owned(),
            zone: label(labels::ZONE).to_owned(),
            capacity_type: if spot { CapacityType::Spot } else { CapacityType::OnDemand },
            architecture: architecture.to_owned(),
            launched: created.unwrap_or(Timestamp::UNIX_EPOCH),
            tags: claim.map(|claim| self.tags(claim, label(labels::NODE_POOL))).unwrap_or_default(),
        });
    }

    /// Tags by which an instance is one of the copy's cluster and of this claim.
    fn tags(&self, claim: &str, pool: &str) -> BTreeMap<String, String> {
        let cluster = self.copy.region.config().cluster_name.clone();
        BTreeMap::from([
            (tags::owned_by(&cluster), tags::OWNED.to_owned()),
            (tags::CLUSTER_NAME.to_owned(), cluster),
            (tags::CLUSTER_UID.to_owned(), self.copy.uid.clone()),
            (tags::NODE_POOL.to_owned(), pool.to_owned()),
            (tags::NODE_CLAIM.to_owned(), claim.to_owned()),
        ])
    }
}

/// A Node's own address.
fn address(node: &Value) -> Option<Ipv4Addr> {
    let all = node["status"]["addresses"].as_array().into_iter().flatten();
    all.filter(|one| one["type"] == "InternalIP").find_map(|one| one["address"].as_str()?.parse().ok())
}

/// `10.0.1.7` of `ip-10-0-1-7.ec2.internal`.
fn of_hostname(name: &str) -> Option<Ipv4Addr> {
    let (host, _) = name.strip_prefix("ip-")?.split_once('.')?;
    host.replace('-', ".").parse().ok()
}
