//! Objects that are there and cannot be read. Each is treated in the way that does the least harm (docs/unreadable.md):
//! places and room that it holds stay held, nothing new is planned by it, and nothing is taken away because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Pod as KubePod, PodSpec, PodStatus};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::objects::budget::BudgetEntry;
use super::{ClusterState, NodeEntry, PodEntry, Snapshot, Storage, UpdateEffect, WatchedKind, is_other, namespaced};
use crate::problem::Namespace;
use crate::volumes::{ClassFacts, VolumeClaimFacts, VolumeFacts};

/// An object that is there and cannot be read as its kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unreadable {
    /// Its kind, such as `Pod`.
    pub kind: String,
    /// Its group and version, such as `karpenter.sh/v1`.
    pub api_version: String,
    /// The part of its metadata that could be read.
    pub metadata: ObjectMeta,
    /// The reason that it cannot be read.
    pub why: String,
    /// Other fields that could be read.
    pub facts: Facts,
}

/// Fields of an object that cannot be read as a whole, each read by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// `spec.nodeName`, empty when there is none.
    pub node_name: String,
    /// `status.phase`, empty when there is none.
    pub phase: String,
    /// `status.providerID` or `spec.providerID`, empty when there is none.
    pub provider_id: String,
    /// `spec.nodeClassRef.name`, empty when there is none.
    pub node_class: String,
    /// `spec.selector`, none when there is none or it is no label selector.
    pub selector: Option<LabelSelector>,
}

impl Unreadable {
    /// Its name, with its namespace where it has one.
    #[must_use]
    pub fn full_name(&self) -> String {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        self.metadata.namespace.as_deref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
    }

    /// True if it says as much as an earlier state of it, except for its version and the error: a kubelet writes its Node's
    /// status every few seconds, which changes nothing that is known here.
    #[must_use]
    pub fn is_like(&self, earlier: &Self) -> bool {
        let own = |one: &Self| ObjectMeta { resource_version: None, managed_fields: None, ..one.metadata.clone() };
        self.facts == earlier.facts && own(self) == own(earlier)
    }

    /// As a pod of which nothing but its metadata, its node and its phase is known.
    #[must_use]
    pub fn pod(&self) -> KubePod {
        let (node, phase) = (self.facts.node_name.clone(), self.facts.phase.clone());
        KubePod {
            metadata: self.metadata.clone(),
            spec: Some(PodSpec { node_name: Some(node).filter(|name| !name.is_empty()), ..PodSpec::default() }),
            status: Some(PodStatus { phase: Some(phase).filter(|phase| !phase.is_empty()), ..PodStatus::default() }),
        }
    }

    fn node(&self) -> Node {
        let provider_id = Some(self.facts.provider_id.clone()).filter(|id| !id.is_empty());
        let spec = Some(NodeSpec { provider_id, ..NodeSpec::default() });
        Node { metadata: self.metadata.clone(), spec, status: None }
    }

    /// A budget that lets none of the pods go that it could select: all of its namespace where its selector is not known.
    fn budget(&self) -> BudgetEntry {
        let selector = Some(self.facts.selector.clone().unwrap_or_default());
        let spec = PodDisruptionBudgetSpec { selector, ..PodDisruptionBudgetSpec::default() };
        let budget = PodDisruptionBudget { metadata: self.metadata.clone(), spec: Some(spec), status: None };
        BudgetEntry::unreadable(budget)
    }
}

/// The key under which an object of a kind is kept.
fn key(kind: WatchedKind, meta: &ObjectMeta) -> String {
    match kind {
        WatchedKind::Pod => meta.uid.clone().unwrap_or_default(),
        WatchedKind::Node
        | WatchedKind::NodeClaim
        | WatchedKind::NodePool
        | WatchedKind::NodeClass
        | WatchedKind::Namespace
        | WatchedKind::PersistentVolume
        | WatchedKind::StorageClass
        | WatchedKind::RuntimeClass
        | WatchedKind::CsiNode => meta.name.clone().unwrap_or_default(),
        WatchedKind::DaemonSet
        | WatchedKind::PodDisruptionBudget
        | WatchedKind::PersistentVolumeClaim
        | WatchedKind::StatefulSet
        | WatchedKind::LimitRange
        | WatchedKind::Service => namespaced(meta),
        WatchedKind::ReplicaSet | WatchedKind::ReplicationController => format!("{kind:?}/{}", namespaced(meta)),
    }
}

impl ClusterState {
    /// Applies an object that is there or has changed, and cannot be read. It is not kept if it is known to be gone, or if a
    /// later state of it has been read; it is no news if it was there, unreadable and the same.
    pub fn apply_unreadable(&mut self, kind: WatchedKind, object: Unreadable) -> UpdateEffect {
        if self.is_buried(kind, &object.metadata) || self.has_read_later(kind, &object.metadata) {
            return UpdateEffect::Stale;
        }
        let key = key(kind, &object.metadata);
        let before = self.now.unreadable(kind, &key).cloned();
        self.saw(kind, &key);
        self.treat(kind, &key, &object);
        let object = Arc::new(object);
        Arc::make_mut(&mut self.now.unreadable).insert((kind, key), object.clone());
        if before.is_some_and(|before| object.is_like(&before)) { UpdateEffect::Alike } else { UpdateEffect::News }
    }

    fn has_read_later(&self, kind: WatchedKind, meta: &ObjectMeta) -> bool {
        if kind == WatchedKind::Pod {
            let uid = meta.uid.clone().unwrap_or_default();
            let doubted = self.doubted.get(&kind).is_some_and(|doubted| doubted.contains(&uid));
            let version = meta.resource_version.as_ref().and_then(|version| version.parse().ok());
            let known = self.now.pods.get(&uid).filter(|_| !doubted);
            return known.is_some_and(|known| super::older(version, known.resource_version));
        }
        let known = match kind {
            WatchedKind::NodeClaim => {
                meta.name.as_ref().and_then(|name| self.now.claims.get(name)).map(|one| &one.claim.metadata)
            }
            WatchedKind::NodePool => {
                meta.name.as_ref().and_then(|name| self.now.pools.get(name)).map(|pool| &pool.metadata)
            }
            WatchedKind::NodeClass => {
                meta.name.as_ref().and_then(|name| self.now.classes.get(name)).map(|one| &one.metadata)
            }
            _ => None,
        };
        known.is_some_and(|known| super::is_older(meta, known))
    }

    fn treat(&mut self, kind: WatchedKind, key: &str, object: &Unreadable) {
        match kind {
            WatchedKind::Pod => drop(self.put_pod(Arc::new(PodEntry::unreadable(&object.pod())))),
            WatchedKind::Node => self.treat_node(key, object),
            WatchedKind::NodeClaim => self.treat_claim(key, &object.metadata),
            WatchedKind::NodePool => drop(Arc::make_mut(&mut self.now.pools).remove(key)),
            WatchedKind::NodeClass => drop(Arc::make_mut(&mut self.now.classes).remove(key)),
            WatchedKind::PodDisruptionBudget => {
                Arc::make_mut(&mut self.now.budgets).insert(key.to_owned(), Arc::new(object.budget()));
            }
            _ => treat_stored(kind, key, &object.metadata, Arc::make_mut(&mut self.now.storage)),
        }
    }

    /// A Node keeps its last readable state; one that was never read has no room, and counts as Ready: it is never removed for
    /// not being Ready.
    fn treat_node(&mut self, name: &str, object: &Unreadable) {
        let read = NodeEntry::for_provider(&object.node(), self.now.provider);
        let entry = match self.now.nodes.get(name).filter(|known| known.uid == read.uid) {
            Some(known) => NodeEntry {
                deleting: read.deleting,
                resource_version: read.resource_version,
                do_not_disrupt: read.do_not_disrupt,
                ..NodeEntry::clone(known)
            },
            None => NodeEntry { ready: true, ..read },
        };
        self.put_node(entry);
        self.look_who_leaves();
    }

    /// A claim keeps the spec, which never changes, and the status that were last read of it. One that was never read is known
    /// by its name alone.
    fn treat_claim(&mut self, name: &str, meta: &ObjectMeta) {
        let Some(known) = self.now.claims.get(name).filter(|known| known.claim.metadata.uid == meta.uid) else {
            return;
        };
        let mut claim = (*known.claim).clone();
        claim.metadata = meta.clone();
        let entry = super::ClaimEntry::new(Arc::new(claim), known.expected_capacity.clone());
        self.put_claim(name.to_owned(), entry);
        self.look_who_leaves();
    }

    /// An object that could not be read is gone.
    pub fn delete_unreadable(&mut self, kind: WatchedKind, meta: &ObjectMeta) {
        let key = key(kind, meta);
        match kind {
            WatchedKind::Pod => self.delete_pod(&key),
            WatchedKind::Node => self.delete_node(&key, meta.uid.as_deref()),
            WatchedKind::NodeClaim => self.delete_claim(&key, meta.uid.as_deref()),
            WatchedKind::NodePool => self.delete_pool(&key, meta.uid.as_deref()),
            WatchedKind::NodeClass => self.delete_class(&key, meta.uid.as_deref()),
            WatchedKind::PodDisruptionBudget => drop(Arc::make_mut(&mut self.now.budgets).remove(&key)),
            WatchedKind::DaemonSet => drop(Arc::make_mut(&mut self.now.daemon_sets).remove(&key)),
            stored => self.delete_stored(stored, &key),
        }
        self.forget_unreadable_of(kind, &key, meta.uid.as_deref());
    }

    /// Forgets an unreadable object that is gone; an object of that name with another uid stays.
    pub(super) fn forget_unreadable_of(&mut self, kind: WatchedKind, key: &str, uid: Option<&str>) {
        if !self.now.unreadable(kind, key).is_some_and(|object| is_other(&object.metadata, uid)) {
            self.forget_unreadable(kind, key);
        }
    }

    /// Forgets an unreadable object that can be read now, or is gone.
    pub(super) fn forget_unreadable(&mut self, kind: WatchedKind, key: &str) {
        if !self.now.unreadable.is_empty() {
            let entry = (kind, key.to_owned());
            if self.now.unreadable.contains_key(&entry) {
                Arc::make_mut(&mut self.now.unreadable).remove(&entry);
            }
        }
    }

    /// Forgets the unreadable objects of a kind that a complete list has not shown.
    pub(super) fn forget_unreadable_but(&mut self, kind: WatchedKind, seen: &BTreeSet<String>) {
        if self.now.unreadable.keys().any(|(own, key)| *own == kind && !seen.contains(key)) {
            Arc::make_mut(&mut self.now.unreadable).retain(|(own, key), _| *own != kind || seen.contains(key));
        }
    }
}

/// Treats an object of which only facts are kept. Objects to which pods are bound by name are kept as unreadable; objects
/// that only add to other rules keep their last readable state.
fn treat_stored(kind: WatchedKind, key: &str, meta: &ObjectMeta, storage: &mut Storage) {
    let key = key.to_owned();
    match kind {
        WatchedKind::Namespace => {
            let (name, labels) = (key.clone(), meta.labels.clone().unwrap_or_default());
            Arc::make_mut(&mut storage.namespaces).insert(key, Arc::new(Namespace { name, labels }));
        }
        WatchedKind::PersistentVolumeClaim => {
            let facts = VolumeClaimFacts { unreadable: true, ..VolumeClaimFacts::default() };
            Arc::make_mut(&mut storage.claims).insert(key, Arc::new(facts));
        }
        WatchedKind::PersistentVolume => {
            let facts = VolumeFacts { unreadable: true, ..VolumeFacts::default() };
            Arc::make_mut(&mut storage.volumes).insert(key, Arc::new(facts));
        }
        WatchedKind::StorageClass => {
            let facts = ClassFacts { unreadable: true, ..ClassFacts::default() };
            Arc::make_mut(&mut storage.classes).insert(key, Arc::new(facts));
        }
        _ => {}
    }
}

impl Snapshot {
    /// The object of that kind and name, if it is there and cannot be read.
    #[must_use]
    pub fn unreadable(&self, kind: WatchedKind, key: &str) -> Option<&Arc<Unreadable>> {
        if self.unreadable.is_empty() { None } else { self.unreadable.get(&(kind, key.to_owned())) }
    }

    /// All unreadable objects of a kind, by key: the uid of pods, otherwise the name, with the namespace where there is one.
    pub fn unreadable_of(&self, kind: WatchedKind) -> impl Iterator<Item = (&str, &Arc<Unreadable>)> {
        let all = self.unreadable.range((kind, String::new())..);
        all.take_while(move |((own, _), _)| *own == kind).map(|((_, key), object)| (key.as_str(), object))
    }

    /// Number of unreadable objects of each kind, by the kind's name.
    #[must_use]
    pub fn unreadable_counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        self.unreadable.values().for_each(|object| *counts.entry(object.kind.clone()).or_default() += 1);
        counts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::cluster_state::{Moment, PlanningInput};

    fn unreadable(kind: &str, name: &str) -> Unreadable {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            uid: Some(format!("uid-{name}")),
            resource_version: Some("7".into()),
            ..ObjectMeta::default()
        };
        Unreadable { kind: kind.into(), metadata, why: "no reason".into(), ..Unreadable::default() }
    }

    fn node(name: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "labels": {}},
            "spec": {"providerID": format!("aws:///a/i-{name}")},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": "8"},
                "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap()
    }

    fn pod(name: &str, on: Option<&str>) -> KubePod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
            "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        }))
        .unwrap()
    }

    fn on_node(name: &str, node: &str) -> Unreadable {
        let mut pod = unreadable("Pod", name);
        pod.metadata.namespace = Some("default".into());
        pod.facts.node_name = node.into();
        pod
    }

    #[test]
    fn unreadable_pod_holds_its_node_and_room_until_it_goes() {
        let mut state = ClusterState::new();
        state.apply_node(&node("n"));
        assert_eq!(state.apply_unreadable(WatchedKind::Pod, on_node("bad", "n")), UpdateEffect::News);
        let snapshot = state.snapshot();
        assert_eq!(snapshot.loads["n"].visitors, 1);
        let planning = snapshot.planning(&PlanningInput::default());
        let existing = &planning.problem.existing_nodes[0];
        let mut left = existing.allocatable.clone();
        left.sub(&existing.used);
        assert!(!crate::Resources::new().fits_in(&left), "there is no room at all beside it");
        state.delete_unreadable(WatchedKind::Pod, &on_node("bad", "n").metadata);
        assert!(state.snapshot().loads.is_empty() && state.snapshot().unreadable.is_empty());
    }

    #[test]
    fn unreadable_pod_ended_or_waiting_holds_nothing_nor_is_packed() {
        let mut state = ClusterState::new();
        let mut ended = on_node("ended", "n");
        ended.facts.phase = "Succeeded".into();
        state.apply_unreadable(WatchedKind::Pod, ended);
        state.apply_unreadable(WatchedKind::Pod, on_node("waits", ""));
        let snapshot = state.snapshot();
        assert!(snapshot.loads.is_empty() && snapshot.pending(Moment::default()).is_empty());
        assert_eq!(snapshot.unreadable_counts(), [("Pod".to_owned(), 2)].into());
    }

    #[test]
    fn what_can_be_read_again_counts_no_more() {
        let mut state = ClusterState::new();
        let mut bad = on_node("p", "n");
        bad.metadata.uid = Some("p".into());
        bad.metadata.resource_version = Some("1".into());
        state.apply_unreadable(WatchedKind::Pod, bad);
        state.apply_pod(&pod("p", None)).unwrap();
        let snapshot = state.snapshot();
        assert!(snapshot.unreadable.is_empty() && snapshot.loads.is_empty());
        assert_eq!(snapshot.pending(Moment::default()).len(), 1);
    }

    #[test]
    fn what_a_list_no_longer_shows_counts_no_more() {
        let mut state = ClusterState::new();
        for kind in WatchedKind::ALL {
            let mut object = unreadable("Any", "x");
            object.metadata.namespace = Some("default".into());
            assert_eq!(state.apply_unreadable(kind, object), UpdateEffect::News, "{kind:?}");
        }
        assert_eq!(state.snapshot().unreadable.len(), WatchedKind::ALL.len());
        for kind in WatchedKind::ALL {
            state.list_begins(kind);
            state.list_ends(kind);
            assert!(state.snapshot().unreadable_of(kind).next().is_none(), "{kind:?}");
        }
        let snapshot = state.snapshot();
        assert!(snapshot.pods.is_empty() && snapshot.nodes.is_empty() && snapshot.budgets.is_empty());
        assert!(snapshot.storage.claims.is_empty() && snapshot.storage.namespaces.is_empty());
    }

    #[test]
    fn unreadable_object_gone_leaves_nothing_read_before() {
        let mut state = ClusterState::new();
        let range = json!({"metadata": {"name": "x", "namespace": "default"}, "spec": {"limits": []}});
        let range: k8s_openapi::api::core::v1::LimitRange = serde_json::from_value(range).unwrap();
        let class = json!({"metadata": {"name": "x"}, "handler": "h"});
        let class: k8s_openapi::api::node::v1::RuntimeClass = serde_json::from_value(class).unwrap();
        state.apply(&range);
        state.apply(&class);
        for kind in [WatchedKind::LimitRange, WatchedKind::RuntimeClass] {
            let mut object = unreadable("Any", "x");
            object.metadata.namespace = (kind == WatchedKind::LimitRange).then(|| "default".into());
            let meta = object.metadata.clone();
            state.apply_unreadable(kind, object);
            state.delete_unreadable(kind, &meta);
        }
        let storage = state.snapshot().storage;
        assert!(storage.limit_ranges.is_empty() && storage.runtime_classes.is_empty());
    }

    #[test]
    fn unreadable_node_has_no_room_whether_read_before_or_not() {
        let mut state = ClusterState::new();
        for name in ["a", "b"] {
            state.apply_node(&node(name));
        }
        state.apply_unreadable(WatchedKind::Node, unreadable("Node", "b"));
        state.apply_unreadable(WatchedKind::Node, unreadable("Node", "c"));
        let planning = state.snapshot().planning(&PlanningInput::default());
        let names: Vec<_> = planning.problem.existing_nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a"]);
        assert!(state.snapshot().nodes["c"].ready, "it is never removed because it is not Ready");
    }

    #[test]
    fn unreadable_pool_and_class_are_left_out_and_named() {
        let mut state = ClusterState::new();
        state.apply_unreadable(WatchedKind::NodePool, unreadable("NodePool", "odd"));
        state.apply_unreadable(WatchedKind::NodeClass, unreadable("EC2NodeClass", "classy"));
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "plain"},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "classy"}}}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        state.apply_pool(serde_json::from_value(pool).unwrap());
        let skipped = state.snapshot().planning(&PlanningInput::default()).skipped;
        let told: Vec<_> = skipped.iter().map(|one| format!("{}: {}", one.pool, one.why)).collect();
        assert_eq!(
            told,
            ["plain: its EC2NodeClass classy cannot be read: no reason", "odd: it cannot be read: no reason"]
        );
    }

    #[test]
    fn unreadable_pdb_lets_no_pod_go_that_it_could_select() {
        let mut state = ClusterState::new();
        let mut budget = unreadable("PodDisruptionBudget", "pdb");
        budget.metadata.namespace = Some("default".into());
        state.apply_unreadable(WatchedKind::PodDisruptionBudget, budget.clone());
        let entry = state.apply_pod(&pod("p", Some("n"))).unwrap();
        assert!(state.snapshot().budgets_forbid(&entry.pod), "its selector is not known: it could be any pod");
        budget.facts.selector = serde_json::from_value(json!({"matchLabels": {"app": "other"}})).ok();
        state.apply_unreadable(WatchedKind::PodDisruptionBudget, budget);
        assert!(!state.snapshot().budgets_forbid(&entry.pod));
    }

    #[test]
    fn unreadable_claim_keeps_last_reading_or_is_known_by_name() {
        let mut state = ClusterState::new();
        let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "a", "uid": "uid-a", "resourceVersion": "3"},
            "spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": "aws:///a/i-1"}});
        state.apply_claim(Arc::new(serde_json::from_value(claim).unwrap()));
        for name in ["a", "b"] {
            assert_ne!(
                state.apply_unreadable(WatchedKind::NodeClaim, unreadable("NodeClaim", name)),
                UpdateEffect::Stale
            );
        }
        let snapshot = state.snapshot();
        assert_eq!(snapshot.claims["a"].provider_id(), "aws:///a/i-1");
        assert_eq!(snapshot.claims["a"].claim.metadata.resource_version.as_deref(), Some("7"));
        assert!(!snapshot.claims.contains_key("b") && snapshot.unreadable(WatchedKind::NodeClaim, "b").is_some());
        let mut late = unreadable("NodeClaim", "a");
        late.metadata.resource_version = Some("2".into());
        assert_eq!(
            state.apply_unreadable(WatchedKind::NodeClaim, late),
            UpdateEffect::Stale,
            "a later state of it is known"
        );
    }

    #[test]
    fn rewritten_unreadable_node_is_no_news_but_a_changed_one_is() {
        let mut state = ClusterState::new();
        let mut node = unreadable("Node", "n");
        assert_eq!(state.apply_unreadable(WatchedKind::Node, node.clone()), UpdateEffect::News);
        node.metadata.resource_version = Some("77".into());
        node.why = "another".into();
        assert_eq!(state.apply_unreadable(WatchedKind::Node, node.clone()), UpdateEffect::Alike);
        node.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        assert_eq!(state.apply_unreadable(WatchedKind::Node, node.clone()), UpdateEffect::News);
        node.facts.provider_id = "p".into();
        assert_eq!(state.apply_unreadable(WatchedKind::Node, node.clone()), UpdateEffect::News);
        state.delete_unreadable(WatchedKind::Node, &node.metadata);
        node.metadata.uid = Some("of-another".into());
        assert_eq!(state.apply_unreadable(WatchedKind::Node, node), UpdateEffect::News, "what is there again is news");
    }

    #[test]
    fn pods_of_a_volume_claim_that_cannot_be_read_wait_and_say_why() {
        let mut state = ClusterState::new();
        let mut object = unreadable("PersistentVolumeClaim", "data");
        object.metadata.namespace = Some("default".into());
        state.apply_unreadable(WatchedKind::PersistentVolumeClaim, object);
        let mut waits = pod("p", None);
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        waits.spec.as_mut().unwrap().volumes = serde_json::from_value(volumes).unwrap();
        state.apply_pod(&waits).unwrap();
        let planning = state.snapshot().planning(&PlanningInput::default());
        let blocked = planning.problem.pods[0].blocked.clone().unwrap();
        assert!(blocked.contains("PersistentVolumeClaim default/data cannot be read"), "{blocked}");
    }
}
