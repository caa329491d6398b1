//! From `owner`, and to it: whose an instance is.

use std::sync::Arc;

use actix::Message;
use dovetail_core::ownership::OwnershipMarks;

/// What the tags of an instance say of whose it is. Fact, from `launcher` to `owner` of what it has just launched or found, and
/// from `owner` to `registrar` and `terminator`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct InstanceKnown {
    /// The instance's id, as provider IDs have it.
    pub id: String,
    /// What its tags say; none where EC2 knows no such instance, or none yet.
    pub marks: Option<Arc<OwnershipMarks>>,
}

/// Find out whose an instance is that no claim names. Order, from `terminator` to `owner`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct LookUp {
    /// The instance's id.
    pub id: String,
}

/// Whether the instance that is written on a claim is not the claim's. Fact, from `owner` to `cluster_watcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ClaimRefused {
    /// The claim's name.
    pub claim: String,
    /// Whether it is refused.
    pub refused: bool,
}
