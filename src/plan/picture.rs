//! Manifests that are a picture of a cluster, such as `kubectl get nodes,pods,… -A -o yaml` prints: with Nodes among them, what was
//! read from an API server is there already, and is not planned once more.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_actors::catalogue::types_of_class;
use dovetail_api::manifest::{Manifest, Objects};
use dovetail_api::names::labels;
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_cloud::unavailable::Unavailable;
use dovetail_core::InstanceType;
use dovetail_core::cluster_state::ClusterState;
use dovetail_input::Mistake;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::CSINode;
use serde::de::DeserializeOwned;

/// Kinds that bring pods, DaemonSets apart: those count on every node.
const BRINGS_PODS: [&str; 6] = ["Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet", "CronJob"];
/// Kinds that only a picture reads.
const OF_A_PICTURE: [&str; 4] = ["Node", "NodeClaim", "PodDisruptionBudget", "CSINode"];

/// The part of the manifests that is there already.
pub(super) struct Picture {
    nodes: Vec<Node>,
    claims: Vec<NodeClaim>,
    pods: Vec<Pod>,
    budgets: Vec<PodDisruptionBudget>,
    volumes: Vec<CSINode>,
}

/// True if an API server has stored it.
fn is_stored(manifest: &Manifest) -> bool {
    manifest.object["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty())
}

/// True for a pod that an API server has stored, with its state.
fn is_there(manifest: &Manifest) -> bool {
    manifest.kind == "Pod" && is_stored(manifest) && manifest.object["status"]["phase"].is_string()
}

impl Picture {
    /// Takes what is there out of the manifests; `None` where there is no Node among them.
    ///
    /// # Errors
    /// A Node or a Pod that cannot be read.
    pub(super) fn take_from(
        manifests: &mut Vec<Manifest>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, Vec<Mistake>> {
        if !manifests.iter().any(|one| one.kind == "Node" && !one.foreign) {
            return Ok(None);
        }
        let mut mistakes = Vec::new();
        let nodes = all(manifests, &mut mistakes, |one| one.kind == "Node");
        let pods: Vec<Pod> = all(manifests, &mut mistakes, is_there);
        let budgets = all(manifests, &mut mistakes, |one| one.kind == "PodDisruptionBudget");
        let volumes = all(manifests, &mut mistakes, |one| one.kind == "CSINode");
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let claims = Objects::from_manifests(manifests).node_claims;
        let brings = |one: &Manifest| is_stored(one) && BRINGS_PODS.contains(&one.kind.as_str());
        if pods.is_empty() {
            let what = "there are Nodes among the manifests and no Pods with their state: all nodes count as empty";
            warnings.push(format!("{what} (kubectl get nodes,pods,… -A -o yaml)"));
        } else {
            // The pods that they have are among the pods.
            manifests.retain(|one| !brings(one));
        }
        manifests.retain(|one| !is_there(one) && !OF_A_PICTURE.contains(&one.kind.as_str()));
        if !manifests.iter().any(|one| one.kind == "DaemonSet") {
            warnings.push(
                "there are Nodes and no DaemonSets among the manifests: new nodes are planned without any".into(),
            );
        }
        Ok(Some(Self { nodes, claims, pods, budgets, volumes }))
    }

    /// The region that the nodes' labels name; none if they name several or none.
    pub(super) fn region(&self) -> Option<String> {
        let label = |node: &Node| node.metadata.labels.as_ref()?.get(labels::REGION).cloned();
        let named: BTreeSet<String> = self.nodes.iter().filter_map(label).collect();
        let mut named = named.into_iter();
        named.next().filter(|_| named.next().is_none())
    }

    /// The newest time that the objects show: that of the picture, or shortly before.
    pub(super) fn taken_at(&self) -> Timestamp {
        let made = self.pods.iter().map(|pod| &pod.metadata).chain(self.nodes.iter().map(|node| &node.metadata));
        let made = made.filter_map(|metadata| metadata.creation_timestamp.as_ref());
        let statuses = self.nodes.iter().filter_map(|node| node.status.as_ref());
        let heard = statuses.flat_map(|status| status.conditions.iter().flatten());
        let heard = heard.filter_map(|condition| condition.last_heartbeat_time.as_ref());
        made.chain(heard).map(|time| time.0).max().unwrap_or_default()
    }

    /// Puts it into the state. Pools and classes are not in it.
    pub(super) fn apply(self, state: &mut ClusterState, warnings: &mut Vec<String>) {
        self.claims.into_iter().filter(|claim| claim.spec.node_class_ref.is_ec2()).for_each(|claim| {
            state.apply_claim(Arc::new(claim));
        });
        self.nodes.iter().for_each(|node| {
            state.apply_node(node);
        });
        for pod in &self.pods {
            if let Err(why) = state.apply_pod(pod) {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                warnings.push(format!("pod {name} is left out: {why}"));
            }
        }
        self.budgets.into_iter().for_each(|budget| {
            state.apply_budget(budget);
        });
        self.volumes.iter().for_each(|node| {
            state.apply(node);
        });
    }
}

/// Instance types of a class as its status has resolved it; `None` where the manifest has no such status.
pub(super) fn resolved_types(
    catalogue: &RegionCatalogue,
    class: &EC2NodeClass,
) -> Option<Result<Vec<Arc<InstanceType>>, String>> {
    let status = class.status.as_ref().filter(|status| !status.subnets.is_empty())?;
    let found = types_of_class(catalogue, class, status, vec![], &Settings::default(), &Unavailable::default());
    Some(found.map(|(types, _)| types))
}

/// The manifests of a sort as objects, with their namespaces.
fn all<K: DeserializeOwned>(
    manifests: &[Manifest],
    mistakes: &mut Vec<Mistake>,
    wanted: impl Fn(&Manifest) -> bool,
) -> Vec<K> {
    let mut found = Vec::new();
    for manifest in manifests.iter().filter(|one| !one.foreign && wanted(one)) {
        let mut object = manifest.object.clone();
        if let Some(namespace) = &manifest.namespace {
            object["metadata"]["namespace"] = namespace.clone().into();
        }
        match serde_json::from_value(object) {
            Ok(one) => found.push(one),
            Err(why) => mistakes.push(Mistake {
                file: manifest.file.clone(),
                line: manifest.line,
                field: format!("{}/{}", manifest.kind, manifest.name),
                what: why.to_string(),
                allowed: String::new(),
            }),
        }
    }
    found
}
