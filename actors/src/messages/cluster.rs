//! What `cluster_watcher` hears and says.

use std::sync::Arc;
use std::time::Duration;

use actix::{Message, Recipient};
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use dovetail_core::Resources;
use dovetail_core::cluster_state::{NominationTarget, NotUsed, Snapshot, TaintAwaited, Unreadable, WatchedKind};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_runtime::watcher::Event;

use super::{Term, WorldChanged};

/// What the watch on pods says, passed on whole. Fact, from `pod_watcher`.
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
    /// The leader's term.
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
    /// What it watches.
    pub kind: &'static str,
    /// It is asked for again after that.
    pub pause: Duration,
    /// What the API server, or the way there, has said.
    pub error: String,
}

/// A watch that had failed is known to run again. Fact, to `cluster_watcher`.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct WatchRuns {
    /// What it watches.
    pub kind: &'static str,
}

/// How an object that cannot be read has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// In a list that is not at its end.
    Listed,
    /// It is there or has changed.
    Changed,
    /// It is gone.
    Gone,
}

/// An object that cannot be read is there, has changed or is gone. Fact, from the watches, to `cluster_watcher`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct NotRead {
    /// Of which kind it was read as.
    pub kind: WatchedKind,
    /// What its watch is called.
    pub watch: &'static str,
    /// What could be read of it.
    pub object: Box<Unreadable>,
    /// How it has come.
    pub came: Came,
}

/// A pool or a class is there, cannot be read, and is not used. Fact, to `node_class`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct CannotUse {
    /// Its kind: [`WatchedKind::NodePool`] or [`WatchedKind::NodeClass`].
    pub kind: WatchedKind,
    /// What could be read of it.
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

/// A Node is gone. Fact, to `registrar` and `terminator`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct NodeGone {
    /// Name of the Node.
    pub name: String,
}

/// A NodePool is there, has changed, or (`None`) is gone. Fact, to `node_class`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct PoolChanged {
    /// Name of the NodePool.
    pub name: String,
    /// As it is now; `None` when it is gone.
    pub pool: Option<Arc<NodePool>>,
}

/// An EC2NodeClass is there, has changed, or (`None`) is gone. Fact, to `node_class`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ClassChanged {
    /// Name of the EC2NodeClass.
    pub name: String,
    /// As it is now; `None` when it is gone.
    pub class: Option<Arc<EC2NodeClass>>,
}

/// A node is not used by the pods that it was launched for, or not yet, as they wait for a taint of its. Fact, to `disruptor`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub enum NodeUnused {
    /// It is not.
    NotUsed(NotUsed),
    /// Not yet.
    AwaitsTaint(TaintAwaited),
}

/// A pod has come to a node or gone from it, or a Node, a claim, a pool or a PodDisruptionBudget has changed. Fact, to
/// `disruptor`.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct ClusterChanged;

/// The leader's actors that subscribe to the cluster; they get the existing objects at once. Order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Attach {
    /// Who hears of claims.
    pub claims: Vec<Recipient<ClaimChanged>>,
    /// Who hears of claims that are gone.
    pub claims_gone: Vec<Recipient<ClaimGone>>,
    /// Who hears of Nodes.
    pub nodes: Vec<Recipient<NodeChanged>>,
    /// Who hears of Nodes that are gone.
    pub nodes_gone: Vec<Recipient<NodeGone>>,
    /// Who hears of pools.
    pub pools: Recipient<PoolChanged>,
    /// Who hears of classes.
    pub classes: Recipient<ClassChanged>,
    /// Who hears of pools and classes that cannot be read.
    pub unusable: Recipient<CannotUse>,
    /// Who hears that packing may come out differently now.
    pub world: Recipient<WorldChanged>,
    /// Who hears that disruption may.
    pub disruption: Recipient<ClusterChanged>,
    /// Who hears of nodes that are not used.
    pub unused: Recipient<NodeUnused>,
}

/// This replica no longer leads. Order, to the watchers.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Detach;
