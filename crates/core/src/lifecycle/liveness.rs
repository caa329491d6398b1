//! How long a claim may take: five minutes to launch, fifteen to register (core spec 4), and how long it may be without
//! the Node that it registered (docs/decisions/026). A Node that is there and never initializes has no time-out.

use std::time::Duration;

use dovetail_api::names::conditions::{LAUNCHED, REGISTERED};
use dovetail_api::v1::{NodeClaim, condition, is_true};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::launch::is_held;

/// Longest time to launch.
pub const LAUNCH: Duration = Duration::from_secs(5 * 60);
/// Longest time to register.
pub const REGISTRATION: Duration = Duration::from_secs(15 * 60);

/// Longest time without the Node that it registered.
pub const NODE: Duration = Duration::from_secs(5 * 60);

/// Which time has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// Not launched in [`LAUNCH`].
    LaunchTimeout,
    /// Not registered in [`REGISTRATION`].
    RegistrationTimeout,
    /// Its Node has been gone for [`NODE`].
    NodeGone,
}

impl Timeout {
    /// The reason as metrics say it.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::LaunchTimeout => "launch_timeout",
            Self::RegistrationTimeout => "registration_timeout",
            Self::NodeGone => "node_gone",
        }
    }
}

/// The time-out that has run out, if one has; `nodeless` is for how long no Node with its provider id has been seen.
#[must_use]
pub fn expired(claim: &NodeClaim, nodeless: Duration, now: Timestamp) -> Option<Timeout> {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let late = |type_: &str, after: Duration| {
        let since = condition(conditions, type_).map(|condition| condition.last_transition_time.0).or(created);
        let limit = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        since.is_some_and(|since| now.duration_since(since) >= limit)
    };
    if is_true(conditions, REGISTERED) {
        (nodeless >= NODE).then_some(Timeout::NodeGone)
    } else if is_true(conditions, LAUNCHED) {
        late(REGISTERED, REGISTRATION).then_some(Timeout::RegistrationTimeout)
    } else if is_held(claim) {
        None
    } else {
        late(LAUNCHED, LAUNCH).then_some(Timeout::LaunchTimeout)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::lifecycle::fixtures::*;

    #[test]
    fn a_claim_that_does_not_launch_is_given_up_after_five_minutes() {
        assert_eq!(expired(&claim("a"), Duration::MAX, at(299)), None);
        assert_eq!(expired(&claim("a"), Duration::ZERO, at(300)), Some(Timeout::LaunchTimeout));
    }

    #[test]
    fn a_claim_that_does_not_register_is_given_up_fifteen_minutes_after_its_launch() {
        let claim = launched_claim("a");
        assert_eq!(expired(&claim, Duration::MAX, at(901)), None);
        assert_eq!(expired(&claim, Duration::ZERO, at(902)), Some(Timeout::RegistrationTimeout));
    }

    #[test]
    fn a_claim_that_has_registered_may_be_without_its_node_for_five_minutes() {
        let mut claim = launched_claim("a");
        let conditions = &mut claim.status.as_mut().unwrap().conditions;
        conditions.iter_mut().filter(|one| one.type_ == REGISTERED).for_each(|one| one.status = "True".into());
        assert_eq!(expired(&claim, NODE - Duration::from_nanos(1), at(9999)), None);
        assert_eq!(expired(&claim, NODE, at(9999)), Some(Timeout::NodeGone));
    }
}
