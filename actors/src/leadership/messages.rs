//! From `leader` to `control_plane`, and back.

use actix::{Message, Recipient};

use crate::context::leader_term::LeaderTerm;
use crate::messages::{Observe, ReplicaState};

/// This replica leads. Fact.
#[derive(Clone, Message)]
#[rtype(result = "()")]
pub struct Elected {
    /// The term and its moving deadline.
    pub leader_term: LeaderTerm,
}

/// This replica no longer leads. Fact.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Deposed {
    /// Reason in words.
    pub why: String,
}

/// To `control_plane`, once: who takes part in the election here, so that its death is noticed. Fact.
#[derive(Clone, Message)]
#[rtype(result = "()")]
pub struct WatchLeader {
    /// Asked how it is, as the others are.
    pub leader: Recipient<Observe>,
}

/// This replica ends. To `leader`: give the Lease back, so that another need not wait for it to run out. Then to
/// `control_plane`: begin nothing new, let what is under way come to its end. Order; the answer comes when it is done.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct ReleaseLease;

/// Asks `control_plane` for the states of all actors of the replica.
#[derive(Clone, Copy, Debug)]
pub struct ObserveReplica;

impl Message for ObserveReplica {
    type Result = ReplicaState;
}
