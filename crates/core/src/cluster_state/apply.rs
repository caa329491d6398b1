//! Objects that watches have seen, taken in and let go, one by one.

use std::sync::Arc;

use dovetail_api::names::annotations::{OBSERVED_ALLOCATABLE, UNUSED_LAUNCHES};
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod as KubePod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::lists::is_doubted;
use super::objects::budget::BudgetEntry;
use super::objects::claim::ClaimEntry;
use super::objects::node::NodeEntry;
use super::objects::pod::PodEntry;
use super::placing::nominations::NominationTarget;
use super::{ClusterState, Table, UpdateEffect, WatchedKind, is_older, is_other, older, problem};

impl ClusterState {
    /// A pod is there or has changed. Answers the entry that is kept of it.
    ///
    /// # Errors
    /// A pod whose quantities make no sense is not kept: [`ClusterState::apply_unreadable`] is for it.
    pub fn apply_pod(&mut self, pod: &KubePod) -> Result<Arc<PodEntry>, crate::pod::PodError> {
        let mut entry = PodEntry::from_kube(pod)?.marked_below(self.now.expendable);
        if self.follows_recommendations {
            entry = entry.with_sizes(pod);
        }
        let entry = Arc::new(entry);
        self.saw(WatchedKind::Pod, &entry.pod.uid);
        Ok(self.put_pod(entry))
    }

    /// Keeps a pod as it is now. An older version changes nothing, unless a list has begun and versions are doubted. The pod's
    /// room is given back on its former node before it is taken on the present one, so that it counts on one node at most; plans
    /// for it come last, when its node is known.
    pub(super) fn put_pod(&mut self, entry: Arc<PodEntry>) -> Arc<PodEntry> {
        let uid = entry.pod.uid.clone();
        let known = self.now.pods.get(&uid).cloned();
        let newly_bound = !entry.node_name.is_empty() && known.as_ref().is_none_or(|known| known.node_name.is_empty());
        let doubted = is_doubted(&mut self.doubted, WatchedKind::Pod, &uid);
        if let Some(known) = &known {
            if !doubted && older(entry.resource_version, known.resource_version) {
                return known.clone();
            }
            self.unload(known);
        }
        self.note_move(known.as_deref(), &entry);
        self.hear_scheduler(known.as_deref(), &entry);
        self.load(&entry);
        // The pod as it was planned: once bound it gets its node's topology labels (Kubernetes 1.35).
        let as_planned = known.as_ref().unwrap_or(&entry);
        if newly_bound {
            self.forget_sold_out(&uid);
            self.takes_place(&as_planned.pod, &entry.node_name);
        }
        if newly_bound && self.bound(&uid, &as_planned.pod, &entry.node_name) {
            self.places_lost += 1;
        }
        self.uses.note_pod(&entry);
        self.count_active(known.as_deref(), Some(&entry));
        self.keep_pod(&entry);
        self.note_nominated(&uid);
        if entry.deleting && !entry.node_name.is_empty() && self.now.nominations.contains_key(&uid) {
            self.make_way(&uid);
        } else if known.is_none() && entry.node_name.is_empty() {
            self.succeed(&uid, &entry.pod);
        }
        entry
    }

    pub fn delete_pod(&mut self, uid: &str) {
        self.forget_unreadable(WatchedKind::Pod, uid);
        self.expect_no_more(uid);
        self.forget_sold_out(uid);
        self.forget_refused_pod(uid);
        if let Some(entry) = self.drop_pod(uid) {
            self.count_active(Some(&entry), None);
            self.unload(&entry);
            self.note_end(&entry);
        }
    }

    /// Counts a workload's active pods, where a change of one changes that.
    fn count_active(&mut self, before: Option<&PodEntry>, after: Option<&PodEntry>) {
        let of = |entry: Option<&PodEntry>| entry.filter(|one| one.is_active()).map(|one| one.workload.clone());
        let (before, after) = (of(before), of(after));
        if before == after {
            return;
        }
        let counts = Arc::make_mut(&mut self.now.active_pods);
        if let Some(workload) = before
            && let Some(count) = counts.get_mut(&workload)
        {
            *count -= 1;
            if *count == 0 {
                counts.remove(&workload);
            }
        }
        if let Some(workload) = after {
            *counts.entry(workload).or_default() += 1;
        }
    }

    /// Takes the pod's room on its node, if it takes any.
    pub(super) fn load(&mut self, entry: &Arc<PodEntry>) {
        if !entry.takes_room() {
            return;
        }
        let load = Arc::make_mut(&mut self.now.loads).entry(entry.node_name.clone()).or_default();
        Arc::make_mut(load).put(entry);
    }

    /// Gives the pod's room on its node back.
    pub(super) fn unload(&mut self, entry: &PodEntry) {
        if !entry.takes_room() {
            return;
        }
        let loads = Arc::make_mut(&mut self.now.loads);
        let Some(load) = loads.get_mut(&entry.node_name) else { return };
        Arc::make_mut(load).remove(&entry.pod.uid);
        if load.pods.is_empty() {
            loads.remove(&entry.node_name);
        }
    }

    /// A Node is there or has changed, by the watch or by an answer to our own write. Answers true if it is kept.
    pub fn apply_node(&mut self, node: &Node) -> bool {
        let entry = NodeEntry::for_provider(node, self.now.provider);
        if self.is_buried(WatchedKind::Node, &node.metadata) {
            return false;
        }
        self.saw(WatchedKind::Node, &entry.name);
        let known = self.now.nodes.get(&entry.name);
        if known.is_some_and(|known| known.uid == entry.uid && older(entry.resource_version, known.resource_version)) {
            return false;
        }
        let same_machine = known.is_some_and(|known| known.provider_id == entry.provider_id);
        let concerns = self.now.deleting.concerns_node(&entry, same_machine);
        self.to_learn.nodes.insert(entry.name.clone());
        self.note_node_change(&entry);
        self.put_node(entry);
        if concerns {
            self.look_who_leaves();
        }
        true
    }

    pub fn delete_node(&mut self, name: &str, uid: Option<&str>) {
        self.remember(WatchedKind::Node, uid);
        let same = |known: &Arc<NodeEntry>| uid.is_none_or(|uid| known.uid == uid);
        if self.now.nodes.get(name).is_some_and(same) {
            self.forget_unreadable(WatchedKind::Node, name);
            self.take_node(name);
            self.uses.forget_node(name);
            self.forget_node_changes(name);
            self.forget_target(&NominationTarget::Node(name.to_owned()));
            self.forget_moves(|node| node == name);
            self.look_who_leaves();
        }
    }

    /// A claim is there or has changed, by the watch or by an answer to our own write. Answers true if it is news.
    pub fn apply_claim(&mut self, claim: Arc<NodeClaim>) -> bool {
        let name = claim.metadata.name.clone().unwrap_or_default();
        if self.is_buried(WatchedKind::NodeClaim, &claim.metadata) {
            return false;
        }
        self.saw(WatchedKind::NodeClaim, &name);
        let known = self.now.claims.get(&name);
        let doubted = is_doubted(&mut self.doubted, WatchedKind::NodeClaim, &name);
        if !doubted && known.is_some_and(|known| is_older(&claim.metadata, &known.claim.metadata)) {
            return false;
        }
        let expected_capacity = known.map(|known| known.expected_capacity.clone()).unwrap_or_default();
        let entry = ClaimEntry::new(claim, expected_capacity);
        let same_machine = known.is_some_and(|known| known.provider_id() == entry.provider_id());
        let same_end = known.is_some_and(|known| known.facts.ends == entry.facts.ends);
        let concerns = self.now.deleting.concerns_claim(&name, &entry, same_machine && same_end);
        self.uses.note_claim(&entry);
        self.to_learn.nodes.extend(Some(entry.facts.node.clone()).filter(|node| !node.is_empty()));
        self.put_claim(name, entry);
        if concerns {
            self.look_who_leaves();
        }
        true
    }

    /// A claim is gone, or was never made: the pods planned on it are free again.
    pub fn delete_claim(&mut self, name: &str, uid: Option<&str>) {
        self.remember(WatchedKind::NodeClaim, uid);
        let same =
            |known: &Arc<ClaimEntry>| uid.is_none() || known.is_planned() || known.claim.metadata.uid.as_deref() == uid;
        self.forget_unreadable_of(WatchedKind::NodeClaim, name, uid);
        if self.now.claims.get(name).is_some_and(same) {
            self.take_claim(name);
            self.forget_target(&NominationTarget::Claim(name.to_owned()));
            self.uses.forget_claim(name);
            self.marked.remove(name);
            self.held.remove(name);
            self.refuse(name, false);
            self.look_who_leaves();
        }
    }

    /// A NodePool is there or has changed, by the watch or by an answer to our own write.
    pub fn apply_pool(&mut self, pool: NodePool) -> UpdateEffect {
        let name = pool.metadata.name.clone().unwrap_or_default();
        if self.is_buried(WatchedKind::NodePool, &pool.metadata) {
            return UpdateEffect::Stale;
        }
        self.saw(WatchedKind::NodePool, &name);
        let known = self.now.pools.get(&name);
        if known.is_some_and(|known| is_older(&pool.metadata, &known.metadata)) {
            return UpdateEffect::Stale;
        }
        let news = known.is_none_or(|known| {
            known.spec != pool.spec
                || problem::is_ready(known) != problem::is_ready(&pool)
                || known.metadata.annotations != pool.metadata.annotations
                || known.metadata.deletion_timestamp != pool.metadata.deletion_timestamp
        });
        let says =
            |pool: &NodePool| pool.metadata.annotations.as_ref().is_some_and(|own| own.contains_key(UNUSED_LAUNCHES));
        // An operator has taken the annotation off: workloads that were held back are free.
        if known.is_some_and(|known| says(known)) && !says(&pool) {
            Arc::make_mut(&mut self.now.unused).forget(&name);
        }
        self.to_learn.pools.insert(name.clone());
        Arc::make_mut(&mut self.now.pools).insert(name, Arc::new(pool));
        if news { UpdateEffect::News } else { UpdateEffect::Alike }
    }

    /// A NodePool is gone. Another of its name, with another uid, stays: it was made anew, and was known before this one's end.
    pub fn delete_pool(&mut self, name: &str, uid: Option<&str>) {
        self.remember(WatchedKind::NodePool, uid);
        self.forget_unreadable_of(WatchedKind::NodePool, name, uid);
        if self.now.pools.get(name).is_some_and(|known| is_other(&known.metadata, uid)) {
            return;
        }
        Arc::make_mut(&mut self.now.pools).remove(name);
        Arc::make_mut(&mut self.now.unused).forget(name);
    }

    /// A node class is there or has changed, by the watch or by an answer to our own write.
    pub fn apply_class(&mut self, class: EC2NodeClass) -> UpdateEffect {
        let name = class.metadata.name.clone().unwrap_or_default();
        if self.is_buried(WatchedKind::NodeClass, &class.metadata) {
            return UpdateEffect::Stale;
        }
        self.saw(WatchedKind::NodeClass, &name);
        let known = self.now.classes.get(&name);
        if known.is_some_and(|known| is_older(&class.metadata, &known.metadata)) {
            return UpdateEffect::Stale;
        }
        let news = known.is_none_or(|known| known.spec != class.spec || known.status != class.status);
        let says = |class: &EC2NodeClass| {
            class.metadata.annotations.as_ref().is_some_and(|own| own.contains_key(OBSERVED_ALLOCATABLE))
        };
        // An administrator has taken the annotation off: the observations of the class's instance types are dropped.
        if known.is_some_and(|known| says(known)) && !says(&class) {
            self.to_learn.cleared.insert(name.clone());
        }
        self.to_learn.classes.insert(name.clone());
        Arc::make_mut(&mut self.now.classes).insert(name, Arc::new(class));
        if news { UpdateEffect::News } else { UpdateEffect::Alike }
    }

    /// A node class is gone. Another of its name, with another uid, stays, as with [`ClusterState::delete_pool`].
    pub fn delete_class(&mut self, name: &str, uid: Option<&str>) {
        self.remember(WatchedKind::NodeClass, uid);
        self.forget_unreadable_of(WatchedKind::NodeClass, name, uid);
        if !self.now.classes.get(name).is_some_and(|known| is_other(&known.metadata, uid)) {
            Arc::make_mut(&mut self.now.classes).remove(name);
        }
    }

    /// A DaemonSet is there or has changed.
    pub fn apply_daemon_set(&mut self, set: DaemonSet) {
        let key = namespaced(&set.metadata);
        self.saw(WatchedKind::DaemonSet, &key);
        Arc::make_mut(&mut self.now.daemon_sets).insert(key, Arc::new(set));
    }

    /// A DaemonSet is gone.
    pub fn delete_daemon_set(&mut self, set: &DaemonSet) {
        self.forget_unreadable(WatchedKind::DaemonSet, &namespaced(&set.metadata));
        Arc::make_mut(&mut self.now.daemon_sets).remove(&namespaced(&set.metadata));
    }

    /// A PodDisruptionBudget is there or has changed.
    pub fn apply_budget(&mut self, budget: PodDisruptionBudget) {
        let key = namespaced(&budget.metadata);
        self.saw(WatchedKind::PodDisruptionBudget, &key);
        Arc::make_mut(&mut self.now.budgets).insert(key, Arc::new(BudgetEntry::new(budget)));
    }

    /// A PodDisruptionBudget is gone.
    pub fn delete_budget(&mut self, budget: &PodDisruptionBudget) {
        self.forget_unreadable(WatchedKind::PodDisruptionBudget, &namespaced(&budget.metadata));
        Arc::make_mut(&mut self.now.budgets).remove(&namespaced(&budget.metadata));
    }
}

/// Namespace and name as one key.
pub(super) fn namespaced(meta: &ObjectMeta) -> String {
    format!("{}/{}", meta.namespace.as_deref().unwrap_or("default"), meta.name.as_deref().unwrap_or_default())
}

/// Changes every object of a table.
pub(super) fn each<V: Clone>(table: &mut Table<V>, change: impl Fn(&mut V)) {
    Arc::make_mut(table).values_mut().for_each(|value| change(Arc::make_mut(value)));
}
