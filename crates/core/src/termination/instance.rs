//! Proof that a claim's instance is gone. EC2's describes are consistent only after a while: one that was launched just now
//! and is not found may well be there.

use dovetail_api::names::conditions::LAUNCHED;
use dovetail_api::v1::{NodeClaim, condition};
use jiff::{SignedDuration, Timestamp};

use crate::ownership;

/// Time after which EC2's describes are consistent.
pub const CONSISTENT: SignedDuration = SignedDuration::from_secs(60);

/// The cloud's last answer about an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceObservation {
    /// The cloud has not been asked.
    #[default]
    Unknown,
    /// The cloud knows no such instance.
    Missing,
    /// The instance is there, and its end has not begun.
    Alive,
    Ending,
    Terminated,
}

/// The key by which a claim's instance is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handle {
    /// The id that EC2 gave it.
    Id(String),
    /// The launch token: a call was made or was about to be made, and its result has not been written.
    Token(String),
}

/// The key by which the claim's instance is known; `None` if no call was ever made for it.
#[must_use]
pub fn handle_of(claim: &NodeClaim) -> Option<Handle> {
    let provider_id = claim.status.as_ref().map_or("", |status| status.provider_id.as_str());
    if let Some(id) = dovetail_api::names::instance_id(provider_id) {
        return Some(Handle::Id(id.to_owned()));
    }
    ownership::token_on(claim).map(Handle::Token)
}

/// True if it is certain that no instance of the claim lives on; `asked` is the time of the cloud's answer: a cloud that has
/// not been heard of since may have come to list an instance that it did not list then.
#[must_use]
pub fn is_gone(claim: &NodeClaim, seen: InstanceObservation, asked: Timestamp) -> bool {
    match (handle_of(claim), seen) {
        (None, _) | (_, InstanceObservation::Terminated) => true,
        (Some(_), InstanceObservation::Unknown | InstanceObservation::Alive | InstanceObservation::Ending) => false,
        (Some(handle), InstanceObservation::Missing) => {
            visible_since(claim, &handle).is_some_and(|since| asked >= since)
        }
    }
}

/// Time from which an instance of the claim that is not found does not exist.
fn visible_since(claim: &NodeClaim, handle: &Handle) -> Option<Timestamp> {
    let deleted = claim.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let since = match handle {
        Handle::Id(_) => {
            let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let launched = condition(conditions, LAUNCHED).map(|launched| launched.last_transition_time.0);
            // A provider ID that somebody has written by hand comes without the condition.
            launched.or(deleted)?
        }
        // No call is begun for a claim that is being deleted.
        Handle::Token(_) => deleted?,
    };
    since.checked_add(CONSISTENT).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::names::annotations::LAUNCH_TOKEN;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::lifecycle::fixtures::{claim, launched_claim, second};
    use crate::ownership::token::launch_token;

    #[test]
    fn a_claim_for_which_nothing_was_called_has_none() {
        assert!(is_gone(&claim("a"), InstanceObservation::Unknown, second(0)));
    }

    #[test]
    fn instance_missing_just_after_launch_may_still_exist() {
        let claim = launched_claim("a");
        assert!(!is_gone(&claim, InstanceObservation::Missing, second(61)));
        assert!(is_gone(&claim, InstanceObservation::Missing, second(62)));
        assert!(is_gone(&claim, InstanceObservation::Terminated, second(3)));
        for not_yet in [InstanceObservation::Unknown, InstanceObservation::Alive, InstanceObservation::Ending] {
            assert!(!is_gone(&claim, not_yet, second(9999)), "{not_yet:?}");
        }
    }

    #[test]
    fn launch_of_unknown_outcome_is_sought_by_token_for_a_minute() {
        let mut claim = claim("a");
        let token = launch_token(["uid-a"], 2);
        claim.metadata.annotations = Some([(LAUNCH_TOKEN.to_owned(), token.clone())].into());
        claim.metadata.deletion_timestamp = Some(Time(second(100)));
        assert_eq!(handle_of(&claim), Some(Handle::Token(token)));
        assert!(!is_gone(&claim, InstanceObservation::Missing, second(159)));
        assert!(is_gone(&claim, InstanceObservation::Missing, second(160)));
    }

    #[test]
    fn a_token_that_is_another_claims_is_not_looked_for() {
        let mut thief = claim("thief");
        thief.metadata.annotations = Some([(LAUNCH_TOKEN.to_owned(), launch_token(["uid-a"], 1))].into());
        assert_eq!(handle_of(&thief), Some(Handle::Token(launch_token(["uid-thief"], 1))));
    }

    #[test]
    fn unknown_instance_of_unlaunched_claim_is_gone_after_a_minute() {
        let mut claim = claim("a");
        claim.status.get_or_insert_default().provider_id = "aws:///us-east-1a/i-nowhere".into();
        claim.metadata.deletion_timestamp = Some(Time(second(100)));
        assert!(!is_gone(&claim, InstanceObservation::Missing, second(159)));
        assert!(is_gone(&claim, InstanceObservation::Missing, second(160)));
    }
}
