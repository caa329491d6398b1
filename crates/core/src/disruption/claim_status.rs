//! Changes to a claim's status that rest on what was decided about it earlier.

use dovetail_api::v1::{NodeClaim, NodeClaimStatus};

/// The claim with its status changed; `change` gets the status and the claim's generation. Another claim of its name, and one that
/// is being removed, is left alone.
pub(super) fn with_status(
    claim: &NodeClaim,
    uid: &str,
    change: impl FnOnce(&mut NodeClaimStatus, Option<i64>),
) -> NodeClaim {
    let mut claim = claim.clone();
    if claim.metadata.uid.as_deref() == Some(uid) && claim.metadata.deletion_timestamp.is_none() {
        let generation = claim.metadata.generation;
        change(claim.status.get_or_insert_default(), generation);
    }
    claim
}
