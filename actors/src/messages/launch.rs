//! Messages from `packer`, `disruptor` and `registrar` to `launcher`, and its own about refused launches.

use std::collections::BTreeMap;

use actix::Message;
use dovetail_api::v1::NodeClaim;
use dovetail_core::launch_backoff::{ClosedPool, Demand};

use super::{Term, TraceContext};

/// Create these claims and launch their instances. Order, from `packer`, or from `disruptor` for replacements.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct LaunchClaims {
    pub term: Term,
    pub orders: Vec<LaunchOrder>,
    /// Trace of the batch.
    pub trace: TraceContext,
}

/// A claim was given up because its node did not register in its time. Fact, from `registrar` to `launcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct NotRegistered {
    /// The claim, as it was.
    pub claim: std::sync::Arc<NodeClaim>,
}

/// The node of a claim was ready, and is not used by the pods that it was launched for. Fact, from `disruptor` to `launcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct CameToNothing {
    /// The claim's name.
    pub claim: String,
}

/// One claim to be created and launched.
#[derive(Clone, Debug)]
pub struct LaunchOrder {
    /// The claim; without uid while it is to be created.
    pub claim: NodeClaim,
    /// Number of pods planned on it.
    pub pods: usize,
    /// Demand, as far as refusals of other claims bear on it; `None` for a claim that exists already.
    pub demand: Option<Demand>,
}

/// EC2 refuses a launch, which goes on trying. Fact, from a launch under way to its `launcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct LaunchFails {
    /// The claim's name.
    pub claim: String,
    /// Reason of its condition.
    pub reason: &'static str,
    /// Error in EC2's words.
    pub words: String,
    pub trace: TraceContext,
}

/// Pools that packing leaves out, as their launches are refused; all of them. Fact, from `launcher` to `cluster_watcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ClosedPools {
    pub closed: BTreeMap<String, ClosedPool>,
}
