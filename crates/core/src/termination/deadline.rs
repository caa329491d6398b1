//! When a claim's own grace ends (`terminationGracePeriod`): written on the claim once, so that it moves for nobody.

use dovetail_api::names::annotations::TERMINATION_TIMESTAMP;
use dovetail_api::v1::NodeClaim;
use jiff::{SignedDuration, Timestamp};

/// The deadline that the claim carries.
#[must_use]
pub fn of(claim: &NodeClaim) -> Option<Timestamp> {
    claim.metadata.annotations.as_ref()?.get(TERMINATION_TIMESTAMP)?.parse().ok()
}

/// The deadline to be written on a claim that is being deleted and has none yet.
#[must_use]
pub fn to_write(claim: &NodeClaim) -> Option<Timestamp> {
    let annotations = claim.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key(TERMINATION_TIMESTAMP)) {
        return None;
    }
    let since = claim.metadata.deletion_timestamp.as_ref()?.0;
    let grace = claim.spec.termination_grace_period.as_ref()?.get();
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    Some(since.checked_add(grace).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::v1::KubeDuration;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::lifecycle::fixtures::{at, claim};

    #[test]
    fn it_counts_from_the_deletion_and_is_written_once() {
        let mut claim = claim("a");
        claim.spec.termination_grace_period = Some(KubeDuration::from_secs(600));
        assert_eq!(to_write(&claim), None, "nothing is being deleted");
        claim.metadata.deletion_timestamp = Some(Time(at(100)));
        assert_eq!(to_write(&claim), Some(at(700)));
        claim.metadata.annotations = Some([(TERMINATION_TIMESTAMP.to_owned(), at(50).to_string())].into());
        assert_eq!((to_write(&claim), of(&claim)), (None, Some(at(50))), "somebody has set another");
    }

    #[test]
    fn without_a_grace_period_there_is_none() {
        let mut claim = claim("a");
        claim.metadata.deletion_timestamp = Some(Time(at(0)));
        assert_eq!((to_write(&claim), of(&claim)), (None, None));
    }
}
