//! What is known of the cluster, kept by events and read by snapshots (core spec 0.4).
//!
//! The index is synchronous: `apply` and `delete` for each kind, and for a list that starts over `list_begins` and
//! `list_ends`, between which everything seen is kept and after which the rest is forgotten. Our own writes are applied
//! as soon as the API server has answered (read your writes), and a claim is there from the moment it is planned: a
//! watch that lags can neither hide nor revive one. A snapshot costs a few reference counts; the maps behind it are
//! copied when the next event changes them.

mod budget;
mod claim;
mod closed_pools;
mod daemon;
mod default_spread;
mod graves;
mod joined;
mod kept_off;
mod kept_places;
mod leaving;
mod load;
mod moves;
mod node;
mod nominations;
mod observed;
mod pod;
mod problem;
mod refused;
mod refused_places;
mod room;
mod sold_out;
mod storage;
#[cfg(test)]
mod tests;
mod unreadable;
mod unused;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::annotations::UNUSED_LAUNCHES;
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod as KubePod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use budget::BudgetEntry;
pub use claim::{ClaimEntry, ClaimFacts};
use graves::Graves;
pub use joined::{JoinedNode, NodeSource};
pub use kept_places::KeptPlace;
pub use leaving::Leaving;
pub(crate) use leaving::forced_from;
pub use load::Load;
pub use moves::Moves;
pub use node::NodeEntry;
pub use nominations::{Nomination, Target};
pub use observed::Observed;
use observed::ToLearn;
pub use pod::{DoNotDisrupt, PodEntry, is_provisionable, is_unmarked};
pub use problem::{Planning, PlanningInput, SkippedPool};
pub use refused_places::{RefusedPlace, RefusedPlaces};
pub use sold_out::SoldOut;
pub use storage::{Kept, OrderedSet, Storage};
pub use unreadable::{Facts, Unreadable};

use crate::launch_backoff::ClosedPool;
use unused::Uses;
pub use unused::{NotUsed, NotUsedReason, read_launched_for};
pub use workload::workload_of;

use crate::launch_limits::UnusedLaunches;

/// A kind that is listed and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pods.
    Pod,
    /// Nodes.
    Node,
    /// NodeClaims.
    NodeClaim,
    /// NodePools.
    NodePool,
    /// EC2NodeClasses.
    NodeClass,
    /// DaemonSets.
    DaemonSet,
    /// PodDisruptionBudgets.
    PodDisruptionBudget,
    /// Namespaces.
    Namespace,
    /// PersistentVolumeClaims.
    PersistentVolumeClaim,
    /// PersistentVolumes.
    PersistentVolume,
    /// StorageClasses.
    StorageClass,
    /// CSINodes.
    CsiNode,
    /// StatefulSets.
    StatefulSet,
    /// LimitRanges.
    LimitRange,
    /// RuntimeClasses.
    RuntimeClass,
    /// Services.
    Service,
    /// ReplicaSets.
    ReplicaSet,
    /// ReplicationControllers.
    ReplicationController,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Pod,
        Self::Node,
        Self::NodeClaim,
        Self::NodePool,
        Self::NodeClass,
        Self::DaemonSet,
        Self::PodDisruptionBudget,
        Self::Namespace,
        Self::PersistentVolumeClaim,
        Self::PersistentVolume,
        Self::StorageClass,
        Self::CsiNode,
        Self::StatefulSet,
        Self::LimitRange,
        Self::RuntimeClass,
        Self::Service,
        Self::ReplicaSet,
        Self::ReplicationController,
    ];

    /// Its resource, as the API server names it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::NodeClaim => "nodeclaims",
            Self::NodePool => "nodepools",
            Self::NodeClass => "ec2nodeclasses",
            Self::DaemonSet => "daemonsets",
            Self::PodDisruptionBudget => "poddisruptionbudgets",
            Self::Namespace => "namespaces",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::PersistentVolume => "persistentvolumes",
            Self::StorageClass => "storageclasses",
            Self::CsiNode => "csinodes",
            Self::StatefulSet => "statefulsets",
            Self::LimitRange => "limitranges",
            Self::RuntimeClass => "runtimeclasses",
            Self::Service => "services",
            Self::ReplicaSet => "replicasets",
            Self::ReplicationController => "replicationcontrollers",
        }
    }

    /// Those that are looked at for default spread constraints only.
    pub const OF_DEFAULT_SPREAD: [Self; 3] = [Self::Service, Self::ReplicaSet, Self::ReplicationController];
}

type Table<V> = Arc<BTreeMap<String, Arc<V>>>;

/// An immutable view of the cluster; cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Pods by uid.
    pub pods: Table<PodEntry>,
    /// Nodes by name.
    pub nodes: Table<NodeEntry>,
    /// NodeClaims by name.
    pub claims: Table<ClaimEntry>,
    /// NodePools by name.
    pub pools: Table<NodePool>,
    /// EC2NodeClasses by name.
    pub classes: Table<EC2NodeClass>,
    /// DaemonSets by `namespace/name`.
    pub daemon_sets: Table<DaemonSet>,
    /// PodDisruptionBudgets by `namespace/name`.
    pub budgets: Table<BudgetEntry>,
    /// Volumes, namespaces, StatefulSets.
    pub storage: Arc<Storage>,
    /// What is bound to each node, by its name.
    pub loads: Table<Load>,
    /// When pods last came to a node or went from it, by its name.
    pub moves: Arc<BTreeMap<String, Moves>>,
    /// Where pods are expected, by pod uid: those that wait for a node, and those that have to leave theirs.
    pub nominations: Arc<BTreeMap<String, Nomination>>,
    /// What EC2 had nothing for, by the uid of the pod that it was for.
    pub sold_out: Arc<BTreeMap<String, SoldOut>>,
    /// Pools whose launches are refused, by name.
    pub closed_pools: Arc<BTreeMap<String, ClosedPool>>,
    /// Nodes that kube-scheduler refuses, and for which pods.
    pub refused_places: Arc<RefusedPlaces>,
    /// What is about to go.
    pub leaving: Arc<Leaving>,
    /// Claims, by name, on which an instance is written that is not theirs: they are nobody's room and nobody's node.
    pub refused: Arc<BTreeSet<String>>,
    /// What is there and cannot be read, by kind and key.
    pub unreadable: Arc<BTreeMap<(Kind, String), Arc<Unreadable>>>,
    /// Workloads whose nodes are not used by the pods that they are launched for.
    pub unused: Arc<UnusedLaunches>,
    /// What nodes really have for pods.
    pub observed: Arc<Observed>,
    /// Whether Deployments that ask for it may be restarted.
    pub rollouts: bool,
    /// Pods, by uid, that go by a restart of their Deployment: nobody has to find them a place any more.
    pub rolling: Arc<BTreeSet<String>>,
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic time.
    pub monotonic: Duration,
    /// Wall time.
    pub wall: Timestamp,
}

/// The index.
#[derive(Debug, Default)]
pub struct ClusterState {
    now: Snapshot,
    listing: BTreeMap<Kind, BTreeSet<String>>,
    listed: BTreeSet<Kind>,
    buried: BTreeMap<Kind, Graves>,
    /// Claims by name, and pods by uid, of which nothing has been told since the list that is under way began.
    doubted: BTreeMap<Kind, BTreeSet<String>>,
    /// Claims that are said to be leaving before the API server knows.
    marked: BTreeSet<String>,
    /// Claims that commands hold: they leave, and the commands have found the places of their pods.
    held: BTreeSet<String>,
    departures: u64,
    /// Pods by where they are expected.
    awaited: BTreeMap<Target, BTreeSet<String>>,
    /// Pods that are expected elsewhere and being deleted: what comes in their stead has their place.
    outgoing: BTreeSet<String>,
    displacements: u64,
    /// How often kube-scheduler has been heard of.
    heard: u64,
    /// Nodes on which pods have come or gone and that are not dated yet; whether it was more than the end of an ending one.
    moved: BTreeMap<String, bool>,
    /// What has come of nodes that were launched for pods.
    uses: Uses,
    to_learn: ToLearn,
}

/// What became of what was told of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was told late: a later state is known, or the object is gone.
    Stale,
    /// It is kept; scheduling sees nothing new in it.
    Alike,
    /// It is kept, and is news to scheduling.
    News,
}

impl ClusterState {
    /// Nothing known, nothing listed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The cluster as it is known now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.now.clone()
    }

    /// Deployments that ask for it may be restarted.
    pub fn allow_rollouts(&mut self, allowed: bool) {
        self.now.rollouts = allowed;
    }

    /// Whether every kind has been listed once.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.listed.len() == Kind::ALL.len()
    }

    /// Kinds that have not been listed yet.
    pub fn not_listed(&self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| !self.listed.contains(kind))
    }

    /// How often kube-scheduler has put a pod where it left too little room for others that were expected there.
    #[must_use]
    pub fn displacements(&self) -> u64 {
        self.displacements
    }

    /// A list of that kind starts.
    pub fn list_begins(&mut self, kind: Kind) {
        self.listing.insert(kind, BTreeSet::new());
        self.doubt_versions(kind);
    }

    /// The list that comes is what the API server holds, even where that was restored to an earlier state: what was gone
    /// may be there again, and as it was. Claims keep their versions, as what is written rests on them, and pods, which are
    /// many: one is doubted until it is told again.
    fn doubt_versions(&mut self, kind: Kind) {
        let any = |meta: &mut ObjectMeta| meta.resource_version = None;
        match kind {
            Kind::Node => each(&mut self.now.nodes, |node| node.resource_version = None),
            Kind::NodePool => each(&mut self.now.pools, |pool| any(&mut pool.metadata)),
            Kind::NodeClass => each(&mut self.now.classes, |class| any(&mut class.metadata)),
            Kind::NodeClaim => drop(self.doubted.insert(kind, self.now.claims.keys().cloned().collect())),
            Kind::Pod => drop(self.doubted.insert(kind, self.now.pods.keys().cloned().collect())),
            _ => return,
        }
        self.buried.remove(&kind);
    }

    fn bury(&mut self, kind: Kind, uid: Option<&str>) {
        self.buried.entry(kind).or_default().bury(uid);
    }

    /// A claim that was known to be gone is there all the same: an API server that was restored has it.
    pub fn is_there(&mut self, claim: &ObjectMeta) {
        if let (Some(graves), Some(uid)) = (self.buried.get_mut(&Kind::NodeClaim), &claim.uid) {
            graves.open(uid);
        }
    }

    fn is_buried(&self, kind: Kind, meta: &ObjectMeta) -> bool {
        self.buried.get(&kind).is_some_and(|graves| graves.hold(meta))
    }

    /// It is complete: what was not in it, nor written since it began, is gone.
    pub fn list_ends(&mut self, kind: Kind) {
        self.listed.insert(kind);
        self.doubted.remove(&kind);
        let Some(seen) = self.listing.remove(&kind) else { return };
        match kind {
            Kind::Pod => {
                for uid in missing(&self.now.pods, &seen) {
                    self.delete_pod(&uid);
                }
            }
            Kind::Node => {
                for name in missing(&self.now.nodes, &seen) {
                    self.delete_node(&name, None);
                }
                self.forget_moves(|node| !seen.contains(node));
            }
            Kind::NodeClaim => {
                for name in missing(&self.now.claims, &seen) {
                    if self.now.claims.get(&name).is_some_and(|entry| !entry.is_planned()) {
                        self.delete_claim(&name, None);
                    }
                }
            }
            Kind::NodePool => {
                for name in missing(&self.now.pools, &seen) {
                    self.delete_pool(&name, None);
                }
            }
            Kind::NodeClass => retain(&mut self.now.classes, |name, _| seen.contains(name)),
            Kind::DaemonSet => retain(&mut self.now.daemon_sets, |name, _| seen.contains(name)),
            Kind::PodDisruptionBudget => retain(&mut self.now.budgets, |name, _| seen.contains(name)),
            kept => self.stored_list_ends(kept, &seen),
        }
        self.forget_unreadable_but(kind, &seen);
        self.look_who_leaves();
    }

    /// An object is there, as it is applied now: readable, unless it is said otherwise afterwards.
    fn saw(&mut self, kind: Kind, key: &str) {
        self.forget_unreadable(kind, key);
        if let Some(seen) = self.listing.get_mut(&kind) {
            seen.insert(key.to_owned());
        }
    }

    /// A pod is there or has changed. Answers what is kept of it.
    ///
    /// # Errors
    /// A pod whose quantities make no sense is not kept: [`ClusterState::apply_unreadable`] is for it.
    pub fn apply_pod(&mut self, pod: &KubePod) -> Result<Arc<PodEntry>, crate::pod::PodError> {
        let entry = Arc::new(PodEntry::from_kube(pod)?);
        self.saw(Kind::Pod, &entry.pod.uid);
        Ok(self.put_pod(entry))
    }

    fn put_pod(&mut self, entry: Arc<PodEntry>) -> Arc<PodEntry> {
        let uid = entry.pod.uid.clone();
        let known = self.now.pods.get(&uid).cloned();
        let newly_bound = !entry.node_name.is_empty() && known.as_ref().is_none_or(|known| known.node_name.is_empty());
        let doubted = is_doubted(&mut self.doubted, Kind::Pod, &uid);
        if let Some(known) = &known {
            if !doubted && older(entry.resource_version, known.resource_version) {
                return known.clone();
            }
            self.unload(known);
        }
        self.note_move(known.as_deref(), &entry);
        self.hear_scheduler(known.as_deref(), &entry);
        self.load(&entry);
        // As it was planned: with its node a pod gets that one's topology labels (Kubernetes 1.35).
        let as_planned = known.as_ref().unwrap_or(&entry);
        if newly_bound {
            self.forget_sold_out(&uid);
            self.takes_place(&as_planned.pod, &entry.node_name);
        }
        if newly_bound && self.bound(&uid, &as_planned.pod, &entry.node_name) {
            self.displacements += 1;
        }
        self.uses.note_pod(&entry);
        Arc::make_mut(&mut self.now.pods).insert(uid.clone(), entry.clone());
        if entry.deleting && !entry.node_name.is_empty() && self.now.nominations.contains_key(&uid) {
            self.make_way(&uid);
        } else if known.is_none() && entry.node_name.is_empty() {
            self.succeed(&uid, &entry.pod);
        }
        entry
    }

    /// A pod is gone.
    pub fn delete_pod(&mut self, uid: &str) {
        self.forget_unreadable(Kind::Pod, uid);
        self.expect_no_more(uid);
        self.forget_sold_out(uid);
        self.forget_refused_pod(uid);
        if let Some(entry) = Arc::make_mut(&mut self.now.pods).remove(uid) {
            self.unload(&entry);
            self.note_end(&entry);
        }
    }

    fn load(&mut self, entry: &Arc<PodEntry>) {
        if !entry.takes_room() {
            return;
        }
        let load = Arc::make_mut(&mut self.now.loads).entry(entry.node_name.clone()).or_default();
        Arc::make_mut(load).put(entry);
    }

    fn unload(&mut self, entry: &PodEntry) {
        if !entry.takes_room() {
            return;
        }
        let loads = Arc::make_mut(&mut self.now.loads);
        let Some(load) = loads.get_mut(&entry.node_name) else { return };
        Arc::make_mut(load).take(&entry.pod.uid);
        if load.pods.is_empty() {
            loads.remove(&entry.node_name);
        }
    }

    /// A Node is there or has changed, by the watch or by an answer to our own write. Answers whether it is kept.
    pub fn apply_node(&mut self, node: &Node) -> bool {
        let entry = NodeEntry::from_kube(node);
        if self.is_buried(Kind::Node, &node.metadata) {
            return false;
        }
        self.saw(Kind::Node, &entry.name);
        let known = self.now.nodes.get(&entry.name);
        if known.is_some_and(|known| known.uid == entry.uid && older(entry.resource_version, known.resource_version)) {
            return false;
        }
        let same_machine = known.is_some_and(|known| known.provider_id == entry.provider_id);
        let concerns = self.now.leaving.concerns_node(&entry, same_machine);
        self.to_learn.nodes.insert(entry.name.clone());
        Arc::make_mut(&mut self.now.nodes).insert(entry.name.clone(), Arc::new(entry));
        if concerns {
            self.look_who_leaves();
        }
        true
    }

    /// A Node is gone.
    pub fn delete_node(&mut self, name: &str, uid: Option<&str>) {
        self.bury(Kind::Node, uid);
        let same = |known: &Arc<NodeEntry>| uid.is_none_or(|uid| known.uid == uid);
        if self.now.nodes.get(name).is_some_and(same) {
            self.forget_unreadable(Kind::Node, name);
            Arc::make_mut(&mut self.now.nodes).remove(name);
            self.uses.forget_node(name);
            self.forget_target(&Target::Node(name.to_owned()));
            self.forget_moves(|node| node == name);
            self.look_who_leaves();
        }
    }

    /// A claim is there or has changed, by the watch or by an answer to our own write. Answers whether it is news.
    pub fn apply_claim(&mut self, claim: Arc<NodeClaim>) -> bool {
        let name = claim.metadata.name.clone().unwrap_or_default();
        if self.is_buried(Kind::NodeClaim, &claim.metadata) {
            return false;
        }
        self.saw(Kind::NodeClaim, &name);
        let known = self.now.claims.get(&name);
        let doubted = is_doubted(&mut self.doubted, Kind::NodeClaim, &name);
        if !doubted && known.is_some_and(|known| is_older(&claim.metadata, &known.claim.metadata)) {
            return false;
        }
        let expected_capacity = known.map(|known| known.expected_capacity.clone()).unwrap_or_default();
        let entry = ClaimEntry::new(claim, expected_capacity);
        let same_machine = known.is_some_and(|known| known.provider_id() == entry.provider_id());
        let same_end = known.is_some_and(|known| known.facts.ends == entry.facts.ends);
        let concerns = self.now.leaving.concerns_claim(&name, &entry, same_machine && same_end);
        self.uses.note_claim(&entry);
        self.to_learn.nodes.extend(Some(entry.facts.node.clone()).filter(|node| !node.is_empty()));
        Arc::make_mut(&mut self.now.claims).insert(name, Arc::new(entry));
        if concerns {
            self.look_who_leaves();
        }
        true
    }

    /// A claim is gone, or was never made: the pods planned on it are free again.
    pub fn delete_claim(&mut self, name: &str, uid: Option<&str>) {
        self.bury(Kind::NodeClaim, uid);
        let same =
            |known: &Arc<ClaimEntry>| uid.is_none() || known.is_planned() || known.claim.metadata.uid.as_deref() == uid;
        let other = |object: &Arc<Unreadable>| uid.is_some() && object.metadata.uid.as_deref() != uid;
        if !self.now.unreadable(Kind::NodeClaim, name).is_some_and(other) {
            self.forget_unreadable(Kind::NodeClaim, name);
        }
        if self.now.claims.get(name).is_some_and(same) {
            Arc::make_mut(&mut self.now.claims).remove(name);
            self.forget_target(&Target::Claim(name.to_owned()));
            self.uses.forget_claim(name);
            self.marked.remove(name);
            self.held.remove(name);
            self.refuse(name, false);
            self.look_who_leaves();
        }
    }

    /// A NodePool is there or has changed, by the watch or by an answer to our own write.
    pub fn apply_pool(&mut self, pool: NodePool) -> Applied {
        let name = pool.metadata.name.clone().unwrap_or_default();
        if self.is_buried(Kind::NodePool, &pool.metadata) {
            return Applied::Stale;
        }
        self.saw(Kind::NodePool, &name);
        let known = self.now.pools.get(&name);
        if known.is_some_and(|known| is_older(&pool.metadata, &known.metadata)) {
            return Applied::Stale;
        }
        let news = known.is_none_or(|known| {
            known.spec != pool.spec
                || problem::is_ready(known) != problem::is_ready(&pool)
                || known.metadata.annotations != pool.metadata.annotations
                || known.metadata.deletion_timestamp != pool.metadata.deletion_timestamp
        });
        let says =
            |pool: &NodePool| pool.metadata.annotations.as_ref().is_some_and(|own| own.contains_key(UNUSED_LAUNCHES));
        // An operator releases what is held back.
        if known.is_some_and(|known| says(known)) && !says(&pool) {
            Arc::make_mut(&mut self.now.unused).forget(&name);
        }
        self.to_learn.pools.insert(name.clone());
        Arc::make_mut(&mut self.now.pools).insert(name, Arc::new(pool));
        if news { Applied::News } else { Applied::Alike }
    }

    /// A NodePool is gone.
    pub fn delete_pool(&mut self, name: &str, uid: Option<&str>) {
        self.bury(Kind::NodePool, uid);
        self.forget_unreadable(Kind::NodePool, name);
        Arc::make_mut(&mut self.now.pools).remove(name);
        Arc::make_mut(&mut self.now.unused).forget(name);
    }

    /// A node class is there or has changed, by the watch or by an answer to our own write.
    pub fn apply_class(&mut self, class: EC2NodeClass) -> Applied {
        let name = class.metadata.name.clone().unwrap_or_default();
        if self.is_buried(Kind::NodeClass, &class.metadata) {
            return Applied::Stale;
        }
        self.saw(Kind::NodeClass, &name);
        let known = self.now.classes.get(&name);
        if known.is_some_and(|known| is_older(&class.metadata, &known.metadata)) {
            return Applied::Stale;
        }
        let news = known.is_none_or(|known| known.spec != class.spec || known.status != class.status);
        self.to_learn.classes.insert(name.clone());
        Arc::make_mut(&mut self.now.classes).insert(name, Arc::new(class));
        if news { Applied::News } else { Applied::Alike }
    }

    /// A node class is gone.
    pub fn delete_class(&mut self, name: &str, uid: Option<&str>) {
        self.bury(Kind::NodeClass, uid);
        self.forget_unreadable(Kind::NodeClass, name);
        Arc::make_mut(&mut self.now.classes).remove(name);
    }

    /// A DaemonSet is there or has changed.
    pub fn apply_daemon_set(&mut self, set: DaemonSet) {
        let key = namespaced(&set.metadata);
        self.saw(Kind::DaemonSet, &key);
        Arc::make_mut(&mut self.now.daemon_sets).insert(key, Arc::new(set));
    }

    /// A DaemonSet is gone.
    pub fn delete_daemon_set(&mut self, set: &DaemonSet) {
        self.forget_unreadable(Kind::DaemonSet, &namespaced(&set.metadata));
        Arc::make_mut(&mut self.now.daemon_sets).remove(&namespaced(&set.metadata));
    }

    /// A PodDisruptionBudget is there or has changed.
    pub fn apply_budget(&mut self, budget: PodDisruptionBudget) {
        let key = namespaced(&budget.metadata);
        self.saw(Kind::PodDisruptionBudget, &key);
        Arc::make_mut(&mut self.now.budgets).insert(key, Arc::new(BudgetEntry::new(budget)));
    }

    /// A PodDisruptionBudget is gone.
    pub fn delete_budget(&mut self, budget: &PodDisruptionBudget) {
        self.forget_unreadable(Kind::PodDisruptionBudget, &namespaced(&budget.metadata));
        Arc::make_mut(&mut self.now.budgets).remove(&namespaced(&budget.metadata));
    }
}

fn namespaced(meta: &ObjectMeta) -> String {
    format!("{}/{}", meta.namespace.as_deref().unwrap_or("default"), meta.name.as_deref().unwrap_or_default())
}

/// Whether one state of an object is known to be from before another one of the same object.
#[must_use]
pub fn is_older(new: &ObjectMeta, known: &ObjectMeta) -> bool {
    let version = |meta: &ObjectMeta| meta.resource_version.as_ref().and_then(|version| version.parse().ok());
    new.uid == known.uid && older(version(new), version(known))
}

/// Whether a version is known to be before another; versions that are no numbers are taken in the order they come.
fn older(new: Option<u64>, known: Option<u64>) -> bool {
    matches!((new, known), (Some(new), Some(known)) if new < known)
}

/// Whether it is told for the first time since a list began.
fn is_doubted(doubted: &mut BTreeMap<Kind, BTreeSet<String>>, kind: Kind, key: &str) -> bool {
    doubted.get_mut(&kind).is_some_and(|keys| keys.remove(key))
}

fn each<V: Clone>(table: &mut Table<V>, change: impl Fn(&mut V)) {
    Arc::make_mut(table).values_mut().for_each(|value| change(Arc::make_mut(value)));
}

fn missing<V>(table: &Table<V>, seen: &BTreeSet<String>) -> Vec<String> {
    table.keys().filter(|key| !seen.contains(*key)).cloned().collect()
}

fn retain<V>(table: &mut Table<V>, keep: impl Fn(&str, &V) -> bool) {
    if table.iter().any(|(key, value)| !keep(key, value)) {
        Arc::make_mut(table).retain(|key, value| keep(key, value));
    }
}
