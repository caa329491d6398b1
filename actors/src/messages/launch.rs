//! From `packer` to `launcher`.

use actix::Message;
use dovetail_api::v1::NodeClaim;

use super::{Term, TraceContext};

/// Create these claims and launch their instances. Order.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Launch {
    /// The leader's term.
    pub term: Term,
    /// What to launch.
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

/// One claim to be created and launched.
#[derive(Clone, Debug)]
pub struct LaunchOrder {
    /// The claim; without uid while it is to be created.
    pub claim: NodeClaim,
    /// How many pods are planned on it.
    pub pods: usize,
}
