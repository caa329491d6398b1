//! Facts, read off NodeClaims and pods as the API server shows them. No field of an object is required: an absent one is not
//! known.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::names::{annotations, conditions, labels};
use serde_json::Value;

use super::fact::{Fact, ShadowNode};

/// $/h by instance type, zone and capacity type.
pub type PriceLookup<'a> = &'a dyn Fn(&str, &str, &str) -> Option<f64>;

/// Memory of the objects of one side.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    /// NodeClaims: true for those whose launch has been reported, false for those that are there and not launched.
    claims: BTreeMap<String, bool>,
    /// NodeClaims by the name of their Node.
    nodes: BTreeMap<String, String>,
    /// Pods that are followed.
    pods: BTreeSet<String>,
}

impl Observer {
    /// A NodeClaim is there, or has changed; `before`: it was there when the shadow began.
    pub fn claim(&mut self, claim: &Value, before: bool, prices: PriceLookup<'_>) -> Vec<Fact> {
        let name = text(claim, &["metadata", "name"]);
        if name.is_empty() {
            return Vec::new();
        }
        let node = text(claim, &["status", "nodeName"]);
        if !node.is_empty() {
            self.nodes.insert(node.to_owned(), name.to_owned());
        }
        let launched = !text(claim, &["status", "providerID"]).is_empty();
        let known = self.claims.entry(name.to_owned()).or_default();
        let mut facts = Vec::new();
        if launched && !std::mem::replace(known, true) {
            facts.push(Fact::Launched(machine(claim, before, prices)));
        }
        if *known && claim["metadata"]["deletionTimestamp"].is_string() {
            facts.push(Fact::Leaves { claim: name.to_owned(), reason: reason(claim) });
        }
        facts
    }

    pub fn claim_gone(&mut self, name: &str) -> Vec<Fact> {
        self.nodes.retain(|_, claim| claim != name);
        let launched = self.claims.remove(name).unwrap_or(false);
        launched.then(|| Fact::Gone { claim: name.to_owned() }).into_iter().collect()
    }

    /// NodeClaims that are there no longer; `there` are all that the API server has.
    #[must_use]
    pub fn missed_claims(&self, there: &BTreeSet<String>) -> Vec<String> {
        self.claims.keys().filter(|name| !there.contains(*name)).cloned().collect()
    }

    /// A pod is there, or has changed. Pods that go with their node, of DaemonSets and of the kubelet itself, are not followed.
    pub fn pod(&mut self, pod: &Value) -> Vec<Fact> {
        let name = format!("{}/{}", text(pod, &["metadata", "namespace"]), text(pod, &["metadata", "name"]));
        if goes_with_its_node(pod) {
            return Vec::new();
        }
        let known = !self.pods.insert(name.clone());
        let mut facts = Vec::new();
        let deleting = pod["metadata"]["deletionTimestamp"].is_string();
        if is_evicted(pod) {
            facts.push(Fact::Evicted { pod: name.clone() });
        }
        let node = text(pod, &["spec", "nodeName"]);
        let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        let finished = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
        if !node.is_empty() {
            facts.push(Fact::Placed { claim: self.nodes.get(node).cloned(), pod: name });
        } else if !deleting && !finished && !gated {
            facts.push(Fact::Waits { pod: name });
        } else if finished && known && facts.is_empty() {
            // It has ended without ever having had a node: it no longer waits.
            self.pods.remove(&name);
            facts.push(Fact::Ended { pod: name });
        }
        facts
    }

    pub fn pod_gone(&mut self, namespace: &str, name: &str) -> Vec<Fact> {
        let pod = format!("{namespace}/{name}");
        self.pods.remove(&pod).then_some(Fact::Ended { pod }).into_iter().collect()
    }

    /// Pods that are there no longer, as `namespace` and `name`; `there` are all that the API server has.
    #[must_use]
    pub fn missed_pods(&self, there: &BTreeSet<String>) -> Vec<(String, String)> {
        let missed = self.pods.iter().filter(|pod| !there.contains(*pod));
        missed.filter_map(|pod| pod.split_once('/').map(|(one, two)| (one.to_owned(), two.to_owned()))).collect()
    }
}

/// True if a pod is one of a DaemonSet or of the kubelet's own.
#[must_use]
pub fn goes_with_its_node(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| matches!(text(owner, &["kind"]), "DaemonSet" | "Node"))
}

/// True if the API server has granted its eviction.
fn is_evicted(pod: &Value) -> bool {
    let all = pod["status"]["conditions"].as_array();
    all.into_iter().flatten().any(|one| {
        one["type"] == "DisruptionTarget" && one["status"] == "True" && one["reason"] == "EvictionByEvictionAPI"
    })
}

fn machine(claim: &Value, before: bool, prices: PriceLookup<'_>) -> ShadowNode {
    let label = |key: &str| claim["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
    let (instance_type, zone) = (label(labels::INSTANCE_TYPE), label(labels::ZONE));
    let capacity_type = label(labels::CAPACITY_TYPE);
    let pods = &claim["spec"]["resources"]["requests"]["pods"];
    let options = claim["spec"]["requirements"].as_array().into_iter().flatten();
    let options = options.filter(|one| one["key"] == labels::INSTANCE_TYPE && one["operator"] == "In");
    ShadowNode {
        claim: text(claim, &["metadata", "name"]).to_owned(),
        node_pool: label(labels::NODE_POOL),
        price_per_hour: prices(&instance_type, &zone, &capacity_type),
        instance_type,
        zone,
        capacity_type,
        pods: pods.as_u64().or_else(|| pods.as_str()?.parse().ok()),
        options: options.map(|one| one["values"].as_array().map_or(0, Vec::len)).max().unwrap_or(0),
        before,
    }
}

/// The reason that a NodeClaim goes: that of its condition, or of the annotation if Dovetail ends it.
fn reason(claim: &Value) -> String {
    let all = claim["status"]["conditions"].as_array();
    let of_condition = all.into_iter().flatten().find(|one| one["type"] == conditions::DISRUPTION_REASON);
    let of_condition = of_condition.map(|one| text(one, &["reason"])).filter(|reason| !reason.is_empty());
    // The annotation has a reason and a time.
    let annotation = text(claim, &["metadata", "annotations", annotations::END_REASON]);
    let annotation = annotation.split(' ').next().unwrap_or_default();
    match (of_condition, annotation) {
        (Some(reason), _) => reason.to_owned(),
        (None, "") => "Deleted".to_owned(),
        (None, annotation) => annotation.to_owned(),
    }
}

fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    path.iter().fold(value, |at, key| &at[*key]).as_str().unwrap_or_default()
}
