//! A node as the scheduler sees it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use serde::Deserialize;
use serde_json::Value;

use super::resources::{ResourceAmounts, ResourceColumns, WrittenQuantities};
use super::selector::Labels;
use super::spec::SpecHostPort;

/// The node and what its pods take of it.
#[derive(Debug)]
pub(crate) struct NodeInfo {
    pub name: String,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub allocatable: ResourceAmounts,
    pub used: ResourceAmounts,
    /// CPU and memory as scores count them.
    pub used_nonzero: [i64; 2],
    pub ports: Vec<SpecHostPort>,
    /// Claims (namespace, name) in use here, with how many pods use each.
    pub claims: BTreeMap<(String, String), u32>,
    /// Volumes that its driver can attach, if it says (CSINode).
    pub volume_limit: Option<usize>,
    /// The index of the node's value for each topology key in use, in the order of [`super::state::TopologyValues`].
    pub domains: Vec<Option<usize>>,
    /// Raised with each change of name, labels, taints or `unschedulable`.
    pub version: u64,
}

/// Fields of a Node object that matter here.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct NodeObject {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Meta {
    labels: Labels,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Spec {
    taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Status {
    allocatable: WrittenQuantities,
    capacity: WrittenQuantities,
}

impl NodeObject {
    pub(crate) fn from_node(node: &Value) -> Self {
        Self::deserialize(node).unwrap_or_default()
    }
}

impl NodeInfo {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: Labels::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: ResourceAmounts::default(),
            used: ResourceAmounts::default(),
            used_nonzero: [0; 2],
            ports: Vec::new(),
            claims: BTreeMap::new(),
            volume_limit: None,
            domains: Vec::new(),
            version: 0,
        }
    }

    /// Takes over the object's present form and says whether anything that scheduling sees has changed.
    pub(crate) fn update(&mut self, object: NodeObject, version: u64, names: &mut ResourceColumns) -> bool {
        let written =
            if object.status.allocatable.is_empty() { &object.status.capacity } else { &object.status.allocatable };
        let allocatable = names.parse_amounts(written);
        let (labels, Spec { taints, unschedulable }) = (object.metadata.labels, object.spec);
        let same =
            self.version > 0 && labels == self.labels && taints == self.taints && unschedulable == self.unschedulable;
        if !same {
            (self.labels, self.taints, self.unschedulable, self.version) = (labels, taints, unschedulable, version);
        }
        let same_room = allocatable == self.allocatable;
        self.allocatable = allocatable;
        !(same && same_room)
    }

    /// The first taint with one of the effects that none of the tolerations covers.
    pub(crate) fn untolerated<'a>(&'a self, tolerations: &[Toleration], effects: &[&str]) -> Option<&'a Taint> {
        self.taints.iter().find(|t| effects.contains(&t.effect.as_str()) && !tolerates(tolerations, t))
    }
}

pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|t| covers(t, taint))
}

/// True if a toleration covers a taint: an empty key with `Exists` covers all, an empty effect every effect.
pub(crate) fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |s: &Option<String>| s.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (if key.is_empty() { exists } else { key == taint.key })
        && (exists || text(&toleration.value) == text(&taint.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, effect: &str) -> Taint {
        Taint { key: key.into(), effect: effect.into(), value: None, time_added: None }
    }

    #[test]
    fn empty_key_tolerates_all_taints_and_empty_effect_all_effects() {
        let all = Toleration { operator: Some("Exists".into()), ..Toleration::default() };
        let key = Toleration { key: Some("a".into()), operator: Some("Exists".into()), ..Toleration::default() };
        assert!(covers(&all, &taint("x", "NoExecute")));
        assert!(covers(&key, &taint("a", "NoSchedule")) && !covers(&key, &taint("b", "NoSchedule")));
    }

    #[test]
    fn equal_needs_the_same_value() {
        let equal = Toleration { key: Some("a".into()), value: Some("v".into()), ..Toleration::default() };
        assert!(!covers(&equal, &taint("a", "NoSchedule")));
        assert!(covers(&equal, &Taint { value: Some("v".into()), ..taint("a", "NoSchedule") }));
    }
}
