//! Default spread constraints: the constraints that a cluster's kube-scheduler is configured to apply to pods without any, with
//! the selector that it deduces from their Services and controllers (core spec 3.7).

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ReplicationController, Service, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, OwnerReference};

use super::Snapshot;
use crate::pod::Pod;

/// Kinds of controllers of which the selector is known.
const KINDS: [(&str, &str); 3] = [("v1", REPLICATION_CONTROLLER), ("apps/v1", REPLICA_SET), ("apps/v1", STATEFUL_SET)];
const REPLICATION_CONTROLLER: &str = "ReplicationController";
const REPLICA_SET: &str = "ReplicaSet";
pub(super) const STATEFUL_SET: &str = "StatefulSet";

/// The key of a controller among the selectors.
pub(super) fn selector_key(kind: &str, namespaced: &str) -> String {
    format!("{kind}/{namespaced}")
}

/// The key of a pod's controller, where it is of a kind that counts.
pub(super) fn controller(namespace: &str, owners: &[OwnerReference]) -> Option<String> {
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let known = KINDS.contains(&(owner.api_version.as_str(), owner.kind.as_str()));
    known.then(|| selector_key(&owner.kind, &format!("{namespace}/{}", owner.name)))
}

/// The selector of a Service; `None` if it selects nothing.
pub(super) fn of_service(service: &Service) -> Option<BTreeMap<String, String>> {
    service.spec.as_ref().and_then(|spec| spec.selector.clone()).filter(|selector| !selector.is_empty())
}

pub(super) fn of_replica_set(set: &ReplicaSet) -> Option<LabelSelector> {
    set.spec.as_ref().map(|spec| spec.selector.clone())
}

/// The selector of a ReplicationController, as a `LabelSelector`.
pub(super) fn of_replication_controller(controller: &ReplicationController) -> Option<LabelSelector> {
    let match_labels = controller.spec.as_ref()?.selector.clone();
    Some(LabelSelector { match_labels, match_expressions: None })
}

impl Snapshot {
    /// Gives pods without constraints of their own the defaults.
    pub(super) fn spread_by_default(&self, defaults: &[TopologySpreadConstraint], pods: &mut [Pod]) {
        if defaults.is_empty() {
            return;
        }
        type Alike = (String, BTreeMap<String, String>, Option<String>);
        let mut known: BTreeMap<Alike, Option<LabelSelector>> = BTreeMap::new();
        for pod in pods.iter_mut().filter(|pod| pod.topology_spread_constraints.is_empty()) {
            let controller = self.pods.get(pod.base_uid()).and_then(|entry| entry.controller.clone());
            let alike = (pod.namespace.clone(), pod.labels.clone(), controller);
            let selector = known.entry(alike).or_insert_with_key(|(namespace, labels, controller)| {
                self.deduced(namespace, labels, controller.as_deref())
            });
            let Some(selector) = selector else { continue };
            let with_selector = |constraint: &TopologySpreadConstraint| TopologySpreadConstraint {
                label_selector: Some(selector.clone()),
                ..constraint.clone()
            };
            pod.topology_spread_constraints = defaults.iter().map(with_selector).collect();
        }
    }

    /// The labels of all Services that select the pod, joined with the selector of its controller; `None` if there are neither.
    fn deduced(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        controller: Option<&str>,
    ) -> Option<LabelSelector> {
        let mut merged: BTreeMap<String, String> = BTreeMap::new();
        let first = format!("{namespace}/");
        let here = self.storage.services.range(first.clone()..).take_while(|(key, _)| key.starts_with(&first));
        for (_, selector) in here.filter(|(_, own)| own.iter().all(|(key, value)| labels.get(key) == Some(value))) {
            merged.extend(selector.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        let mut selector = LabelSelector::default();
        if let Some((key, own)) = controller.and_then(|key| Some((key, self.storage.selectors.get(key)?))) {
            if key.starts_with(REPLICATION_CONTROLLER) {
                merged.extend(own.match_labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
            } else {
                // Both the Services' labels and the controller's own must match, also where they name the same key.
                let equal = |(key, value): (&String, &String)| LabelSelectorRequirement {
                    key: key.clone(),
                    operator: "In".to_owned(),
                    values: Some(vec![value.clone()]),
                };
                let mut all: Vec<_> = own.match_labels.iter().flatten().map(equal).collect();
                all.extend(own.match_expressions.iter().flatten().cloned());
                selector.match_expressions = Some(all).filter(|all| !all.is_empty());
            }
        }
        selector.match_labels = Some(merged).filter(|merged| !merged.is_empty());
        (selector.match_labels.is_some() || selector.match_expressions.is_some()).then_some(selector)
    }
}
