//! What leads to the end of nodes: from `disruptor`, `interruption` and `janitor` to `terminator`.

use actix::Message;
use dovetail_core::disruption::RemovalReason;
use dovetail_core::interruption::InterruptionNotice;

use super::{Term, TraceContext};

/// Delete these claims: what follows (drain, instance, finalizers) follows from the deletion. Order.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Remove {
    /// The leader's term.
    pub term: Term,
    /// Which; one of the name with another uid is another and stays.
    pub claims: Vec<ClaimRef>,
    /// Why.
    pub reason: RemovalReason,
    /// Trace of the decision.
    pub trace: TraceContext,
}

/// One claim and no other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// Name of the NodeClaim.
    pub name: String,
    /// `metadata.uid`, which distinguishes it from a successor of the same name.
    pub uid: String,
}

/// The cloud takes a claim's instance away. Fact; answered with whether it is written down where a successor finds it.
#[derive(Clone, Debug, Message)]
#[rtype(result = "bool")]
pub struct Interrupted {
    /// The leader's term.
    pub term: Term,
    /// Whose instance.
    pub claim: ClaimRef,
    /// What was announced, and until when the instance runs.
    pub notice: InterruptionNotice,
    /// Trace that starts with the announcement.
    pub trace: TraceContext,
}

/// A command of ours holds these claims: their nodes go when the places stand that it has found for their pods. Nothing new is
/// planned on them, and nobody else plans for their pods. Order, from `disruptor` to `cluster_watcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct HoldClaims {
    /// The leader's term.
    pub term: Term,
    /// Names.
    pub claims: Vec<String>,
    /// Whether it does, or does no longer.
    pub held: bool,
}

/// These pods go by a restart of their Deployment: what it brings has their places. Order, from `terminator` to `cluster_watcher`,
/// before the Deployment is written.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Roll {
    /// Uids.
    pub pods: Vec<String>,
    /// Whether they do, or do not after all.
    pub rolls: bool,
}

/// These claims' nodes are about to go: their pods need a place elsewhere and nothing new is planned on them. Order, to
/// `cluster_watcher`, before anything is written.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct MarkDeleting {
    /// The leader's term.
    pub term: Term,
    /// Names.
    pub claims: Vec<String>,
    /// Whether they are, or are not after all.
    pub deleting: bool,
}
