//! From `owner`, and to it: whose an instance is.

use std::sync::Arc;

use actix::Message;
use dovetail_core::ownership::OwnershipMarks;

/// Ownership tags of an instance. Fact, from `launcher` to `owner` for one that it has just launched or found, and from `owner`
/// to `registrar` and `terminator`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct InstanceKnown {
    /// The instance's id, as provider IDs have it.
    pub id: String,
    /// Ownership by its tags; `None` if EC2 knows no such instance, or none yet.
    pub marks: Option<Arc<OwnershipMarks>>,
}

/// Find out whose an instance is that no claim names. Order, from `terminator` to `owner`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct LookUp {
    pub id: String,
}

/// Says if the instance that is written on a claim is not the claim's. Fact, from `owner` to `cluster_watcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ClaimRefused {
    /// The claim's name.
    pub claim: String,
    /// True if the instance is not the claim's; false takes that back.
    pub refused: bool,
}
