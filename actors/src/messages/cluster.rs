//! Messages that `cluster_watcher` receives and sends.

use std::sync::Arc;
use std::time::Duration;

use actix::{Message, Recipient};
use dovetail_api::autoscaling::CapacityQuota;
use dovetail_api::overlays::NodeOverlay;
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use dovetail_core::Resources;
use dovetail_core::cluster_state::{NominationTarget, NotUsed, Snapshot, TaintAwaited, Unreadable, WatchedKind};
use dovetail_core::dra::DeviceBook;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_runtime::watcher::Event;

use super::{Term, WorldChanged};

/// An event of the watch on pods, passed on whole. Fact, from `pod_watcher`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct PodSeen(pub Arc<Event<Pod>>);

/// Answer to one of our own writes, so that the state has it before the watch does. Fact.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub enum Wrote {
    /// A claim, as the API server answered.
    Claim(Arc<NodeClaim>),
    /// A claim that is in a list made just now: it is there, whatever was known of it.
    Listed(Arc<NodeClaim>),
    /// A Node, as the API server answered.
    Node(Arc<Node>),
    /// A claim that is gone, by name and uid: another may have come under its name, by a creation that was done late.
    ClaimGone(String, Option<String>),
    /// A claim that was planned, and will not be made. One that is there stays known: who could not delete it has not.
    NotMade(String),
    /// A Node that nothing holds any more, by name and uid.
    NodeGone(String, Option<String>),
    /// A pool, as the API server answered.
    Pool(Box<NodePool>),
    /// A class, as the API server answered.
    Class(Box<EC2NodeClass>),
    /// An overlay, as the API server answered.
    Overlay(Box<NodeOverlay>),
    /// A CapacityQuota whose status was written.
    Quota(Box<CapacityQuota>),
}

/// There is nothing to be had for a claim, as EC2 refuses it or all of it is known to be refused. Fact, from `launcher`, before the claim goes.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ClaimSoldOut {
    /// Name of the NodeClaim.
    pub claim: String,
}

/// Claims are planned and pods expected on them. Order, from `packer`, or from `disruptor` for replacements, before
/// anything is created.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct PlanClaims {
    pub term: Term,
    /// Planned claims with the most that their instances may have.
    pub claims: Vec<(NodeClaim, Resources)>,
    /// Pods, by uid, and where they are expected.
    pub expected: Vec<(Vec<String>, NominationTarget)>,
}

/// The term is over: plans are void. Order.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Forget;

/// Asks for the cluster as it is known; none until everything has been listed once.
#[derive(Clone, Copy, Debug)]
pub struct TakeSnapshot;

impl Message for TakeSnapshot {
    type Result = Option<Snapshot>;
}

/// Asks for the cluster to decide by what is launched or removed: none also while the watches do not show it.
#[derive(Clone, Copy, Debug)]
pub struct TakeObserved;

impl Message for TakeObserved {
    type Result = Option<Snapshot>;
}

/// A watch has failed. Fact, to `cluster_watcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct WatchFailed {
    /// Plural name of the watched kind.
    pub kind: &'static str,
    /// Pause until the watch is requested again.
    pub pause: Duration,
    /// Error of the API server or of the way there.
    pub error: String,
}

/// A watch that had failed is known to run again. Fact, to `cluster_watcher`.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct WatchRuns {
    /// Plural name of the watched kind.
    pub kind: &'static str,
}

/// Ways in which a watch shows an object that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// In a list that is not at its end.
    Listed,
    /// The object is there or has changed.
    Changed,
    Gone,
}

/// An object that cannot be read is there, has changed or is gone. Fact, from the watches, to `cluster_watcher`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct NotRead {
    /// Kind that it was read as.
    pub kind: WatchedKind,
    /// Name of its watch.
    pub watch: &'static str,
    /// Readable part of the object.
    pub object: Box<Unreadable>,
    /// Way in which the watch has shown it.
    pub came: Came,
}

/// A pool or a class is there, cannot be read, and is not used. Fact, to `node_class`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct CannotUse {
    /// Its kind: [`WatchedKind::NodePool`] or [`WatchedKind::NodeClass`].
    pub kind: WatchedKind,
    /// Readable part of the object.
    pub object: Arc<Unreadable>,
}

/// The replica leads and waits for kinds that its watches have not listed: operators have to know. Order.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct TellNotSynced;

/// A claim is there or has changed. Fact, to `launcher`, `registrar`, `terminator`, `owner` and `janitor`;
/// of one that came late, from `launcher` to itself.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ClaimChanged(pub Arc<NodeClaim>);

/// A claim is gone. Fact, to `launcher`, `registrar`, `terminator` and `owner`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ClaimGone {
    /// Name of the NodeClaim.
    pub name: String,
}

/// A Node is there or has changed. Fact, to `registrar` and `terminator`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct NodeChanged(pub Arc<Node>);

/// Devices, or claims for them, have changed: all that is known of them now. Fact, to `registrar`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct DevicesChanged(pub DeviceBook);

/// A Node is gone. Fact, to `registrar` and `terminator`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct NodeGone {
    pub name: String,
}

/// A NodePool is there, has changed, or (`None`) is gone. Fact, to `node_class`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct PoolChanged {
    /// Name of the NodePool.
    pub name: String,
    /// The pool as it is now; `None` when it is gone.
    pub pool: Option<Arc<NodePool>>,
}

/// An EC2NodeClass is there, has changed, or (`None`) is gone. Fact, to `node_class`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ClassChanged {
    /// Name of the EC2NodeClass.
    pub name: String,
    /// The class as it is now; `None` when it is gone.
    pub class: Option<Arc<EC2NodeClass>>,
}

/// A node is not used by the pods that it was launched for, or not yet, as they wait for a taint of its. Fact, to `disruptor`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub enum NodeUnused {
    /// The pods will not use the node.
    NotUsed(NotUsed),
    /// The pods wait for a taint of the node to go.
    AwaitsTaint(TaintAwaited),
}

/// A pod has come to a node or gone from it, or a Node, a claim, a pool or a PodDisruptionBudget has changed. Fact, to
/// `disruptor` and actors behind feature gates.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct ClusterChanged;

/// The leader's actors that subscribe to the cluster; they get the existing objects at once. Order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Attach {
    pub claims: Vec<Recipient<ClaimChanged>>,
    pub claims_gone: Vec<Recipient<ClaimGone>>,
    pub nodes: Vec<Recipient<NodeChanged>>,
    pub nodes_gone: Vec<Recipient<NodeGone>>,
    /// Recipient of devices, where they are watched.
    pub devices: Recipient<DevicesChanged>,
    pub pools: Recipient<PoolChanged>,
    pub classes: Recipient<ClassChanged>,
    /// Recipient of pools and classes that cannot be read.
    pub unusable: Recipient<CannotUse>,
    /// Recipient of changes after which packing may come out differently.
    pub world: Recipient<WorldChanged>,
    /// Recipients of changes after which disruption may.
    pub disruption: Vec<Recipient<ClusterChanged>>,
    /// Recipient of nodes that are not used.
    pub unused: Recipient<NodeUnused>,
}

/// This replica no longer leads. Order, to the watchers.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Detach;
