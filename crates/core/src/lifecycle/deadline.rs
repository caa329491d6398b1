//! The end of a claim's own grace (`terminationGracePeriod`): written on the claim once, so that nothing moves it.

use dovetail_api::names::annotations::TERMINATION_TIMESTAMP;
use dovetail_api::v1::NodeClaim;
use jiff::{SignedDuration, Timestamp};

use crate::interruption::InterruptionNotice;

#[must_use]
pub fn carried_deadline(claim: &NodeClaim) -> Option<Timestamp> {
    claim.metadata.annotations.as_ref()?.get(TERMINATION_TIMESTAMP)?.parse().ok()
}

/// Time by which a claim's instance ends whatever is on it: the written one, or the one to be written on a claim that is being
/// deleted; or the time at which EC2 takes the instance back, if that is sooner. A scheduled change ends nothing by force.
#[must_use]
pub fn of_machine(claim: &NodeClaim) -> Option<Timestamp> {
    let own =
        claim.metadata.deletion_timestamp.as_ref().and_then(|_| carried_deadline(claim).or_else(|| to_write(claim)));
    let taken = InterruptionNotice::on(claim).and_then(|notice| notice.ends());
    own.into_iter().chain(taken).min()
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
    use crate::lifecycle::fixtures::{claim, second};

    #[test]
    fn it_counts_from_the_deletion_and_is_written_once() {
        let mut claim = claim("a");
        claim.spec.termination_grace_period = Some(KubeDuration::from_secs(600));
        assert_eq!(to_write(&claim), None, "nothing is being deleted");
        claim.metadata.deletion_timestamp = Some(Time(second(100)));
        assert_eq!(to_write(&claim), Some(second(700)));
        claim.metadata.annotations = Some([(TERMINATION_TIMESTAMP.to_owned(), second(50).to_string())].into());
        assert_eq!((to_write(&claim), carried_deadline(&claim)), (None, Some(second(50))), "somebody has set another");
    }

    #[test]
    fn instance_ends_by_claim_or_ec2_whichever_is_sooner() {
        let mut claim = claim("a");
        claim.spec.termination_grace_period = Some(KubeDuration::from_secs(600));
        assert_eq!(of_machine(&claim), None, "it stays");
        let mut said = |text: &str| {
            let own = claim.metadata.annotations.get_or_insert_default();
            own.insert("dovetail.dev/interruption".to_owned(), text.to_owned());
            of_machine(&claim)
        };
        assert_eq!(said(&format!("spot_interrupted {}", second(220))), Some(second(220)));
        assert_eq!(said(&format!("scheduled_change {}", second(220))), None, "that may be a mere restart");
        claim.metadata.deletion_timestamp = Some(Time(second(100)));
        assert_eq!(of_machine(&claim), Some(second(700)), "before it is written");
        claim.metadata.annotations = Some([(TERMINATION_TIMESTAMP.to_owned(), second(650).to_string())].into());
        assert_eq!(of_machine(&claim), Some(second(650)));
        let own = claim.metadata.annotations.get_or_insert_default();
        own.insert("dovetail.dev/interruption".to_owned(), format!("spot_interrupted {}", second(220)));
        assert_eq!(of_machine(&claim), Some(second(220)));
    }

    #[test]
    fn without_a_grace_period_there_is_none() {
        let mut claim = claim("a");
        claim.metadata.deletion_timestamp = Some(Time(second(0)));
        assert_eq!((to_write(&claim), carried_deadline(&claim)), (None, None));
    }
}
