//! Messages from `pod_watcher`.

use std::sync::Arc;
use std::time::Duration;

use actix::{Message, Recipient};
use jiff::Timestamp;

use super::TraceContext;

/// Name of the watch of Pods in `NotRead`, `WatchFailed` and `WatchRuns`.
pub const PODS: &str = "pods";

/// A pod waits for a node that does not exist. Fact, to `batcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct PodPending {
    /// `metadata.uid` of the Pod.
    pub uid: String,
    /// Its namespace: each has a window of its own.
    pub namespace: String,
    /// Trace that starts with it.
    pub trace: TraceContext,
    /// Time that it had waited when this leader's actors began; `None` if its wait began later.
    pub waited: Option<Duration>,
}

/// A pod no longer waits, or is gone. Fact, to `batcher` and `registrar`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct PodGone {
    /// `metadata.uid` of the Pod.
    pub uid: String,
}

/// A pod has been bound. Fact, to `batcher` and `registrar`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct PodBound {
    /// `metadata.uid` of the Pod.
    pub uid: String,
    /// Name of the pod's Node.
    pub node: String,
    /// The pod, and the start of its wait.
    pub waited: Arc<WaitingPod>,
}

#[derive(Clone, Debug)]
pub struct WaitingPod {
    /// `metadata.name` of the Pod.
    pub name: String,
    /// `metadata.namespace` of the Pod.
    pub namespace: String,
    /// Time at which it was first seen to wait.
    pub since: Timestamp,
    pub created: Option<Timestamp>,
    /// Trace that started with it.
    pub trace: TraceContext,
}

/// The leader's actors that subscribe to pods; they get the pending pods again. Order, to `pod_watcher`.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AttachPods {
    pub pending: Recipient<PodPending>,
    pub bound: Vec<Recipient<PodBound>>,
    pub gone: Vec<Recipient<PodGone>>,
}
