//! Messages that lead to a packing, and those about the pods that it has placed.

use std::time::Duration;

use actix::Message;

use super::{Term, TraceContext};

/// A window has closed on pods. Fact, from `batcher` to `packer`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Batch {
    pub term: Term,
    /// Uids of the pods.
    pub pods: Vec<String>,
    /// Time that the window was open.
    pub waited: Duration,
    /// Trace of the first pod, and the span of the window.
    pub trace: TraceContext,
}

/// Pack again, without a window: pods have lost the node that was planned for them, or EC2 takes the node that they are on.
/// Order, to `packer`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct PackNow {
    pub term: Term,
    /// Trace of what was lost, or is taken.
    pub trace: TraceContext,
    /// Traces of what else was lost or is taken with it.
    pub also: Vec<TraceContext>,
}

impl PackNow {
    /// After one loss.
    pub fn after(term: Term, trace: TraceContext) -> Self {
        Self { term, trace, also: Vec::new() }
    }
}

/// Packing may come out differently now. Fact, to `packer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub enum WorldChanged {
    /// A pool, a class, a node or the catalogue has changed: what was left over may fit now.
    Room,
    /// kube-scheduler has put a pod where others were planned: they are without a place.
    PlacesLost,
    /// A node has begun to leave: its pods need a place elsewhere.
    Deleting,
}

/// Pods are expected somewhere. Fact, from `packer` to `registrar`, which tells when the last of them is bound.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Planned {
    /// Node or claim that the pods are expected on.
    pub target: dovetail_core::cluster_state::NominationTarget,
    /// Uids of the pods.
    pub pods: Vec<String>,
    /// Trace of the batch.
    pub trace: TraceContext,
}
