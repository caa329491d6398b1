//! Known state of the cluster, kept by events and read by snapshots (core spec 0.4).
//!
//! The index is synchronous: `apply` and `delete` for each kind, and for a list that starts over `list_begins` and
//! `list_ends`, between which everything seen is kept and after which the rest is forgotten. Our own writes are applied
//! as soon as the API server has answered (read your writes), and a claim is there from the moment it is planned: a
//! watch that lags can neither hide nor revive one. A snapshot costs a few reference counts; the maps behind it are
//! copied when the next event changes them, of pods and nominations the few entries beside the change (`shared_map`).

mod apply;
mod default_spread;
mod deleting;
mod devices;
mod interrupted;
mod joined;
mod launches;
mod lists;
mod machines;
mod moves;
mod objects;
mod overlaid;
mod placing;
mod problem;
mod recommended;
mod replicas;
mod shared_map;
mod storage;
#[cfg(test)]
mod tests;
mod tombstones;
mod unreadable;
mod unwell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::provider::Provider;
use dovetail_api::v1::{EC2NodeClass, NodePool};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use deleting::DeletingObjects;
use deleting::SaidToLeave;
pub(crate) use deleting::forced_from;
pub use joined::{JoinedNode, NodeSource};
use launches::observed::ToLearn;
pub use launches::observed::{DoubtedNode, Observed};
pub use launches::room::{NO_CLASS, NoRequest};
pub use launches::sold_out::SoldOutTime;
pub use launches::tainted::TaintAwaited;
pub(crate) use machines::MachineIndex;
pub use moves::PodMoves;
pub use objects::budget::BudgetEntry;
pub use objects::claim::{ClaimEntry, ClaimFacts};
pub use objects::load::Load;
pub use objects::node::NodeEntry;
pub use objects::pod::{DoNotDisrupt, GroupMember, PodEntry, is_provisionable, is_unmarked};
use objects::pod_parts::PodParts;
pub use objects::reboot::{RebootNote, RebootState};
pub use placing::closed_pools::ClosedPool;
pub use placing::held_room::HeldRoom;
pub(crate) use placing::held_room::take_in;
pub use placing::kept_places::{KeptPlace, WrittenPlaces};
pub use placing::nomination_index::Nominations;
pub use placing::nominations::{Nomination, NominationTarget};
pub use placing::refused_places::{RefusedPlace, RefusedPlaces};
pub use placing::spot_share::{SpotShareNotes, UnmetShare};
pub(crate) use problem::is_unsettled;
pub use problem::{Planning, PlanningInput, SkippedPool};
pub use replicas::ReplicaCount;
pub use shared_map::SharedMap;
pub use storage::{KeptFacts, OrderedSet, Storage};
use tombstones::Tombstones;
pub use unreadable::{Facts, Unreadable};

use launches::unused::Uses;
pub use launches::unused::{NotUsed, NotUsedReason, read_launched_for};
pub use objects::workload::{moved_as, workload_of};
pub use unwell::{PolicySet, RepairAction, RepairPolicy, UnhealthyCondition};

use crate::dra::DeviceBook;
use crate::expendable::ExpendableCutoff;
use crate::launch_limits::UnusedLaunches;
use crate::overlays::OverlayBook;
use crate::pod_groups::PodGroupBook;
use crate::quotas::QuotaBook;
use crate::recommendations::Recommendations;
use crate::zonal_shift::ShiftedZones;
use apply::{each, namespaced};
use lists::retain;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchedKind {
    Pod,
    Node,
    NodeClaim,
    NodePool,
    NodeClass,
    DaemonSet,
    PodDisruptionBudget,
    Namespace,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CsiNode,
    StatefulSet,
    LimitRange,
    RuntimeClass,
    Service,
    ReplicaSet,
    ReplicationController,
}

impl WatchedKind {
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

    /// Its resource, as the API server names it; the node classes' is the provider's.
    #[must_use]
    pub fn resource_of(self, provider: Provider) -> &'static str {
        if self == Self::NodeClass { provider.class().plural } else { self.resource() }
    }

    /// Its resource, as the API server names it with EC2.
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

    /// Kinds that are used only for default spread constraints.
    pub const OF_DEFAULT_SPREAD: [Self; 3] = [Self::Service, Self::ReplicaSet, Self::ReplicationController];
}

type Table<V> = Arc<BTreeMap<String, Arc<V>>>;

/// An immutable view of the cluster; cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Provider whose classes, claims and nodes are meant; those of another are nobody's here.
    pub provider: Provider,
    /// Pods by uid.
    pub pods: SharedMap<Arc<PodEntry>>,
    /// Parts of the pods.
    pub(crate) parts: PodParts,
    /// Number of active pods of each workload.
    pub active_pods: Arc<BTreeMap<String, usize>>,
    /// Nodes by name.
    pub nodes: Table<NodeEntry>,
    /// NodeClaims by name.
    pub claims: Table<ClaimEntry>,
    /// Claims and Nodes by the machine that they name.
    pub(crate) machines: Arc<MachineIndex>,
    /// NodePools by name.
    pub pools: Table<NodePool>,
    /// EC2NodeClasses by name.
    pub classes: Table<EC2NodeClass>,
    /// DaemonSets by `namespace/name`.
    pub daemon_sets: Table<DaemonSet>,
    /// PodDisruptionBudgets by `namespace/name`.
    pub budgets: Table<BudgetEntry>,
    /// Facts about volumes, namespaces and StatefulSets.
    pub storage: Arc<Storage>,
    /// Pods bound to each node and their requests, by the node's name.
    pub loads: Table<Load>,
    /// Times at which pods last came to a node or went from it, by its name.
    pub moves: Arc<BTreeMap<String, PodMoves>>,
    /// Places at which pods are expected, by pod uid: for pods that wait for a node, and for those that have to leave theirs.
    pub nominations: Arc<Nominations>,
    /// Times during which EC2 had nothing for a pod, by the pod's uid.
    pub sold_out: Arc<BTreeMap<String, SoldOutTime>>,
    /// Pools whose launches are refused, by name.
    pub closed_pools: Arc<BTreeMap<String, ClosedPool>>,
    /// Zones that the cluster is shifted away from.
    pub shifted_zones: ShiftedZones,
    /// Nodes that kube-scheduler refuses, and the pods that it refuses them for.
    pub refused_places: Arc<RefusedPlaces>,
    pub deleting: Arc<DeletingObjects>,
    /// Claims, by name, whose status names an instance that is not theirs: they have neither room nor a node.
    pub refused: Arc<BTreeSet<String>>,
    /// Objects that are there and cannot be read, by kind and key.
    pub unreadable: Arc<BTreeMap<(WatchedKind, String), Arc<Unreadable>>>,
    /// Workloads whose nodes are not used by the pods that they are launched for.
    pub unused: Arc<UnusedLaunches>,
    /// Claims by name whose nodes may turn out not to be used, once kube-scheduler's turn has been seen.
    pub unjudged: Arc<BTreeSet<String>>,
    /// Resources that nodes really have for pods.
    pub observed: Arc<Observed>,
    /// Room that capacity buffers hold; `None` until it is known, and where their feature gate is closed.
    pub room: Option<Arc<HeldRoom>>,
    /// Room that ProvisioningRequests have booked: plans count it as taken. `None` until it is known, and where their feature
    /// gate is closed.
    pub booked: Option<Arc<HeldRoom>>,
    /// True where the gate of ProvisioningRequests is open: nothing is launched for pods that consume one.
    pub bookings: bool,
    /// NodeOverlays; none where their feature gate is closed.
    pub overlays: OverlayBook,
    /// CapacityQuotas; none where their feature gate is closed.
    pub quotas: QuotaBook,
    /// Claims for devices, and the devices; none where they are not asked for.
    pub devices: DeviceBook,
    /// Requests that pods get when they are created; none where their feature gate is closed.
    pub recommendations: Recommendations,
    /// PodGroups; none where their feature gate is closed.
    pub pod_groups: PodGroupBook,
    /// True if Deployments that ask for it may be restarted.
    pub rollouts: bool,
    /// The setting `EXPENDABLE_PODS_PRIORITY_CUTOFF`.
    pub expendable: ExpendableCutoff,
    /// Pods, by uid, that a restart of their Deployment moves: they need no place any more.
    pub rolling: Arc<BTreeSet<String>>,
    /// The setting `INTERRUPTION_PRICE_HALF_LIFE`.
    pub interruption_half_life: Option<SignedDuration>,
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic time since the clock's origin.
    pub monotonic: Duration,
    /// Wall time, by the API server's clock.
    pub wall: Timestamp,
}

/// State that the watches have shown so far, each event applied in its order.
#[derive(Debug, Default)]
pub struct ClusterState {
    now: Snapshot,
    listing: BTreeMap<WatchedKind, BTreeSet<String>>,
    listed: BTreeSet<WatchedKind>,
    buried: BTreeMap<WatchedKind, Tombstones>,
    /// Claims by name, and pods by uid, not told again since the current list began.
    doubted: BTreeMap<WatchedKind, BTreeSet<String>>,
    said_to_leave: SaidToLeave,
    /// Claims that are marked as deleting before the API server knows.
    marked: BTreeSet<String>,
    /// Claims that commands hold: they leave, and the commands have found the places of their pods.
    held: BTreeSet<String>,
    departures: u64,
    /// Pods that are expected elsewhere and being deleted: the pods that replace them get their places.
    outgoing: BTreeSet<String>,
    places_lost: u64,
    /// Number of times that kube-scheduler has shown itself at work.
    heard: u64,
    /// Nodes on which pods have come or gone, not dated yet; true if it was more than the end of a pod that was ending.
    moved: BTreeMap<String, bool>,
    /// The use of nodes that were launched for pods.
    uses: Uses,
    to_learn: ToLearn,
    /// True where the gate of recommendations is open.
    follows_recommendations: bool,
}

/// The effect of a told object on the known state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateEffect {
    /// It was told late: a later state is known, or the object is gone.
    Stale,
    /// It is kept; scheduling sees nothing new in it.
    Alike,
    /// It is kept, and is news to scheduling.
    News,
}

impl ClusterState {
    /// An empty state: no kind has been listed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The state with a provider's classes, claims and nodes.
    #[must_use]
    pub fn for_provider(mut self, provider: Provider) -> Self {
        self.now.provider = provider;
        self
    }

    /// Pods that come to be known from now on are expendable below this cutoff.
    pub fn set_expendable(&mut self, cutoff: ExpendableCutoff) {
        self.now.expendable = cutoff;
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

    /// True if every kind has been listed once.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.listed.len() == WatchedKind::ALL.len()
    }

    /// Number of times that kube-scheduler has put a pod where it left too little room for others that were expected there.
    #[must_use]
    pub fn places_lost(&self) -> u64 {
        self.places_lost
    }
}

/// True if one state of an object is known to be from before another one of the same object.
#[must_use]
pub fn is_older(new: &ObjectMeta, known: &ObjectMeta) -> bool {
    let version = |meta: &ObjectMeta| meta.resource_version.as_ref().and_then(|version| version.parse().ok());
    new.uid == known.uid && older(version(new), version(known))
}

/// True if a version is known to be before another; versions that are no numbers are taken in the order they come.
fn older(new: Option<u64>, known: Option<u64>) -> bool {
    matches!((new, known), (Some(new), Some(known)) if new < known)
}

/// True if a known object is another than the gone one with this uid; false if the uid is not known.
fn is_other(known: &ObjectMeta, gone: Option<&str>) -> bool {
    gone.is_some_and(|gone| known.uid.as_deref() != Some(gone))
}
