//! DaemonSets: the pod that each would put on a node, and whether it would.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod as KubePod, Taint, Toleration};

use crate::pod::Pod;
use crate::requirements::{NodeSelectorRequirement, Requirement, Requirements};

/// The pod that a DaemonSet puts on each of its nodes, with the tolerations that its controller adds. `None` when its
/// quantities make no sense.
pub fn pod_of(set: &DaemonSet) -> Option<Pod> {
    let template = &set.spec.as_ref()?.template;
    let mut pod = KubePod {
        metadata: template.metadata.clone().unwrap_or_default(),
        spec: template.spec.clone(),
        ..KubePod::default()
    };
    pod.metadata.name.clone_from(&set.metadata.name);
    pod.metadata.namespace.clone_from(&set.metadata.namespace);
    pod.metadata.uid = set.metadata.uid.as_ref().map(|uid| format!("daemon-{uid}"));
    let mut pod = Pod::from_kube(&pod).ok()?;
    let always = |key: &str, effect: &str| Toleration {
        key: Some(key.into()),
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Toleration::default()
    };
    for (key, effect) in ADDED {
        pod.tolerations.push(always(key, effect));
    }
    Some(pod)
}

/// Tolerations that the DaemonSet controller gives each of its pods.
const ADDED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Whether a DaemonSet's pod lands on a node with these labels and taints.
pub fn lands_on(pod: &Pod, labels: &BTreeMap<String, String>, taints: &[Taint]) -> bool {
    let hard = taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
    hard.into_iter().all(|taint| pod.tolerations.iter().any(|toleration| tolerates(toleration, taint)))
        && pod.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && affinity_allows(pod, labels)
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect)
        && ((key.is_empty() && exists)
            || (key == taint.key
                && (exists
                    || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default())))
}

fn affinity_allows(pod: &Pod, labels: &BTreeMap<String, String>) -> bool {
    let node_affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node_affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| term_allows(term, labels)))
}

fn term_allows(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>) -> bool {
    let node = Requirements::from_labels(labels);
    let mut written = term.match_expressions.iter().flatten();
    written.all(|one| {
        let Ok(one) = NodeSelectorRequirement::from_kube(one) else { return false };
        let Ok(wanted) = Requirement::from_written(&one) else { return false };
        match node.get(&one.key) {
            Some(found) => found.intersects(&wanted),
            None => wanted.allows_absence(),
        }
    })
}
