//! Demands of a pod's claims on a node: VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use serde::Deserialize;
use serde_json::Value;

use super::class::PodClass;
use super::filter::FilterReason;
use super::node::NodeInfo;
use super::selector::SelectorTerm;
use super::state::SchedulerState;
use crate::cluster::cache::{CachedObject, ClusterCache, Key};
use crate::cluster::kind::Kind;
use crate::cluster::quantity;

/// Demands of a pod's claims.
#[derive(Debug, Default)]
pub(crate) struct VolumePlan {
    /// For each volume that is there and bound to some place: where.
    bound: Vec<Vec<SelectorTerm>>,
    /// Claims whose volumes wait for the pod's node.
    pub delayed: Vec<Delayed>,
    /// All claims (namespace, name): each takes one of the node's attachments.
    claims: Vec<(String, String)>,
    /// A claim may be used by one pod, and is.
    in_use: bool,
}

/// A claim that waits for its first consumer.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub claim: Key,
    /// Volumes that are there and would do, with where they can be used (anywhere when empty).
    candidates: Vec<(String, Vec<SelectorTerm>)>,
    /// A volume can be made, in these places (anywhere when empty).
    made_in: Option<Vec<SelectorTerm>>,
}

impl Delayed {
    /// The volume that would be taken for a pod on this node; none when one has to be made.
    pub(crate) fn candidate(&self, node: &NodeInfo) -> Option<&str> {
        let suits =
            |terms: &[SelectorTerm]| terms.is_empty() || terms.iter().any(|t| t.matches(&node.name, &node.labels));
        self.candidates.iter().find(|(_, terms)| suits(terms)).map(|(name, _)| name.as_str())
    }
}

impl VolumePlan {
    /// The demands of the class's claims, or the reason for which no node would do.
    pub(crate) fn new(cache: &ClusterCache, state: &SchedulerState, class: &PodClass) -> Result<Self, String> {
        let mut plan = Self::default();
        for name in &class.claims {
            let key = Key::new(&class.namespace, name);
            let Some(claim) = cache.get(Kind::PersistentVolumeClaim, &key) else {
                return Err(format!("persistentvolumeclaim \"{name}\" not found"));
            };
            plan.add(cache, key, claim)?;
            let id = (class.namespace.clone(), name.clone());
            plan.in_use |= only_one_pod(claim) && state.nodes().any(|(_, node)| node.claims.contains_key(&id));
            plan.claims.push(id);
        }
        Ok(plan)
    }

    fn add(&mut self, cache: &ClusterCache, key: Key, claim: &Value) -> Result<(), String> {
        if claim["metadata"]["deletionTimestamp"].is_string() {
            return Err(format!("persistentvolumeclaim \"{}\" is being deleted", key.name));
        }
        if let Some(volume) = bound_volume(claim) {
            let Some(volume) = cache.named(Kind::PersistentVolume, volume) else {
                return Err(format!("persistentvolume \"{volume}\" not found"));
            };
            let places = node_terms(volume);
            self.bound.extend([places, zones(volume)].into_iter().filter(|terms| !terms.is_empty()));
            return Ok(());
        }
        let class_name = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
        let class = cache.named(Kind::StorageClass, class_name);
        if !class.is_some_and(|c| c["volumeBindingMode"] == "WaitForFirstConsumer") {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        let made_in = class.filter(|c| c["provisioner"] != "kubernetes.io/no-provisioner").map(allowed);
        let candidates = cache
            .all(Kind::PersistentVolume)
            .filter(|(_, volume)| would_do(volume, claim, class_name))
            .map(|(key, volume)| (key.name.clone(), node_terms(volume)))
            .collect();
        self.delayed.push(Delayed { claim: key, candidates, made_in });
        Ok(())
    }

    /// The reason for which the node is refused, if it is.
    pub(crate) fn judge(&self, node: &NodeInfo) -> Option<FilterReason> {
        if self.in_use {
            return Some(FilterReason::ClaimInUse);
        }
        let fresh = self.claims.iter().filter(|c| !node.claims.contains_key(*c)).count();
        if fresh > 0 && node.volume_limit.is_some_and(|limit| node.claims.len() + fresh > limit) {
            return Some(FilterReason::VolumeCount);
        }
        let holds = |terms: &[SelectorTerm]| terms.iter().any(|t| t.matches(&node.name, &node.labels));
        if !self.bound.iter().all(|terms| holds(terms)) {
            return Some(FilterReason::VolumeConflict);
        }
        let can_be_had = |d: &Delayed| {
            d.candidate(node).is_some() || d.made_in.as_ref().is_some_and(|terms| terms.is_empty() || holds(terms))
        };
        (!self.delayed.iter().all(can_be_had)).then_some(FilterReason::NoVolume)
    }
}

/// The volume that a claim is bound to, once both sides know of it.
pub(crate) fn bound_volume(claim: &Value) -> Option<&str> {
    let bound = claim["metadata"]["annotations"].get("pv.kubernetes.io/bind-completed").is_some();
    claim["spec"]["volumeName"].as_str().filter(|name| bound && !name.is_empty())
}

fn only_one_pod(claim: &Value) -> bool {
    claim["spec"]["accessModes"].as_array().is_some_and(|m| m.iter().any(|m| m == "ReadWriteOncePod"))
}

/// The required node affinity of a volume.
fn node_terms(volume: &CachedObject) -> Vec<SelectorTerm> {
    let terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"].as_array();
    terms
        .into_iter()
        .flatten()
        .filter_map(|t| NodeSelectorTerm::deserialize(t).ok())
        .map(|t| SelectorTerm::new(&t))
        .collect()
}

/// Places that a volume's labels allow, beside its node affinity (kube-scheduler's `VolumeZone`): several values are parted by
/// `__`, and the keys of old mean those that followed them.
fn zones(volume: &CachedObject) -> Vec<SelectorTerm> {
    let stable = |key: &str| match key {
        "topology.kubernetes.io/zone" | "failure-domain.beta.kubernetes.io/zone" => Some("topology.kubernetes.io/zone"),
        "topology.kubernetes.io/region" | "failure-domain.beta.kubernetes.io/region" => {
            Some("topology.kubernetes.io/region")
        }
        _ => None,
    };
    let requirement = |(key, value): (&String, &Value)| {
        let values: Vec<String> = value.as_str()?.split("__").map(|one| one.trim().to_owned()).collect();
        let said = values.iter().all(|one| !one.is_empty());
        said.then_some(NodeSelectorRequirement {
            key: stable(key)?.to_owned(),
            operator: "In".to_owned(),
            values: Some(values),
        })
    };
    let all: Vec<NodeSelectorRequirement> =
        volume["metadata"]["labels"].as_object().into_iter().flatten().filter_map(requirement).collect();
    let term = NodeSelectorTerm { match_expressions: Some(all), match_fields: None };
    if term.match_expressions.as_ref().is_some_and(Vec::is_empty) { vec![] } else { vec![SelectorTerm::new(&term)] }
}

/// `allowedTopologies` of a storage class.
fn allowed(class: &CachedObject) -> Vec<SelectorTerm> {
    let term = |written: &Value| {
        let expressions = written["matchLabelExpressions"].as_array().into_iter().flatten();
        let requirement = |e: &Value| NodeSelectorRequirement {
            key: e["key"].as_str().unwrap_or_default().to_owned(),
            operator: "In".to_owned(),
            values: Vec::<String>::deserialize(&e["values"]).ok(),
        };
        SelectorTerm::new(&NodeSelectorTerm {
            match_expressions: Some(expressions.map(requirement).collect()),
            match_fields: None,
        })
    };
    class["allowedTopologies"].as_array().into_iter().flatten().map(term).collect()
}

/// True if a volume is free and could be bound to the claim.
fn would_do(volume: &Value, claim: &Value, class: &str) -> bool {
    let size = |text: &Value| text.as_str().and_then(|t| quantity::parse("storage", t)).unwrap_or(0);
    let modes = |o: &Value| Vec::<String>::deserialize(&o["spec"]["accessModes"]).unwrap_or_default();
    let offered = modes(volume);
    volume["spec"]["claimRef"].is_null()
        && volume["spec"]["storageClassName"].as_str().unwrap_or_default() == class
        && size(&volume["spec"]["capacity"]["storage"]) >= size(&claim["spec"]["resources"]["requests"]["storage"])
        && modes(claim).iter().all(|m| offered.contains(m))
}
