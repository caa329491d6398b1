//! Messages that lead to the end of nodes: from `disruptor`, `interruption` and `janitor` to `terminator`.

use std::collections::BTreeMap;

use actix::Message;
use dovetail_core::disruption::RemovalReason;
use dovetail_core::interruption::InterruptionNotice;
use jiff::SignedDuration;

use super::{Term, TraceContext};

/// Delete these claims: what follows (drain, instance, finalizers) follows from the deletion. Order.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Remove {
    pub term: Term,
    /// Claims to remove; a claim of the name with another uid stays.
    pub claims: Vec<ClaimRef>,
    pub reason: RemovalReason,
    /// Time that their drain may take from now on; `None` leaves it to the claims, zero forces it.
    pub grace: Option<SignedDuration>,
    /// Facts for metrics by claim's name; none for a claim that goes by no decision of the disruptor's.
    pub disrupted: BTreeMap<String, DisruptionFacts>,
    /// Trace of the decision.
    pub trace: TraceContext,
}

/// Facts of a disruption that its claim does not carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisruptionFacts {
    /// Number of pods that have to move: neither a DaemonSet's nor the kubelet's own.
    pub pods: u64,
    /// The pool's consolidation policy as a metric's label, empty unless it is consolidated.
    pub policy: &'static str,
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
    pub term: Term,
    /// Claim whose instance is taken.
    pub claim: ClaimRef,
    /// Announcement, with the time until which the instance runs.
    pub notice: InterruptionNotice,
    /// Trace that starts with the announcement.
    pub trace: TraceContext,
}

/// A command of ours holds these claims: their nodes go when the places stand that it has found for their pods. Nothing new is
/// planned on them, and nobody else plans for their pods. Order, from `disruptor` to `cluster_watcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct HoldClaims {
    pub term: Term,
    /// Names of the claims.
    pub claims: Vec<String>,
    /// true: hold these claims; false: release them.
    pub held: bool,
}

/// These pods go by a restart of their Deployment: what it brings has their places. Order, from `terminator` to `cluster_watcher`,
/// before the Deployment is written.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Roll {
    /// Uids of the pods.
    pub pods: Vec<String>,
    /// true: these pods go by the restart; false: they do not after all.
    pub rolls: bool,
}

/// These claims' nodes are about to go: their pods need a place elsewhere and nothing new is planned on them. Order, to
/// `cluster_watcher`, before anything is written.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct MarkDeleting {
    pub term: Term,
    /// Names of the claims.
    pub claims: Vec<String>,
    /// true: these claims are about to be deleted; false: they are not after all.
    pub deleting: bool,
}
