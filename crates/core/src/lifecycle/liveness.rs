//! Time limits of a claim: five minutes to launch, fifteen to register (core spec 4), and the time it may be without
//! the Node that it registered (docs/decisions/026). How long a Node may be there uninitialized is a setting; upstream has no
//! time-out for it.

use std::time::Duration;

use dovetail_api::names::conditions::{INITIALIZED, LAUNCHED, REBOOTING, REGISTERED, TRUE};
use dovetail_api::v1::{NodeClaim, condition, is_true};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::launch::is_held;

/// Longest time to launch.
pub const LAUNCH: Duration = Duration::from_secs(5 * 60);
/// Longest time to register.
pub const REGISTRATION: Duration = Duration::from_secs(15 * 60);

/// Longest time from registration to initialization unless the setting `INITIALIZATION_TIMEOUT` says otherwise.
pub const INITIALIZATION: Duration = Duration::from_secs(30 * 60);

/// Longest time without the Node that it registered.
pub const NODE: Duration = Duration::from_secs(5 * 60);

/// The time limit that has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// Not launched in [`LAUNCH`].
    LaunchTimeout,
    /// Not registered in [`REGISTRATION`].
    RegistrationTimeout,
    /// Its Node is there, and was not ready for pods in its time after it registered.
    InitializationTimeout,
    /// Its Node has been gone for [`NODE`].
    NodeGone,
}

impl Timeout {
    /// The reason's name in metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::LaunchTimeout => "launch_timeout",
            Self::RegistrationTimeout => "registration_timeout",
            Self::InitializationTimeout => "initialization_timeout",
            Self::NodeGone => "node_gone",
        }
    }
}

/// The thing that a claim whose Node is there still lacks after `limit`, in the words of its condition: a taint that stays, a
/// resource that does not come. `None` while there is time, and for a claim that is initialized, is rebooted or goes. After a
/// reboot its time begins anew.
#[must_use]
pub fn uninitialized(claim: &NodeClaim, limit: Duration, now: Timestamp) -> Option<String> {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let lasting = is_true(conditions, INITIALIZED) || is_true(conditions, REBOOTING);
    if claim.metadata.deletion_timestamp.is_some() || lasting {
        return None;
    }
    let registered = condition(conditions, REGISTERED).filter(|one| one.status == TRUE)?;
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    let rebooted = condition(conditions, REBOOTING).map(|one| one.last_transition_time.0);
    if now.duration_since(registered.last_transition_time.0.max(rebooted.unwrap_or(Timestamp::MIN))) < limit {
        return None;
    }
    let lacks = condition(conditions, INITIALIZED).map(|one| one.message.clone()).filter(|said| !said.is_empty());
    Some(lacks.unwrap_or_else(|| "it is not initialized".to_owned()))
}

/// The time-out that has run out, if one has; `nodeless` is the time for which no Node with its provider id has been seen.
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
    use k8s_openapi::api::core::v1::Taint;

    use crate::lifecycle::fixtures::*;
    use crate::lifecycle::{LifecycleStep, next};

    #[test]
    fn a_claim_that_does_not_launch_is_given_up_after_five_minutes() {
        assert_eq!(expired(&claim("a"), Duration::MAX, second(299)), None);
        assert_eq!(expired(&claim("a"), Duration::ZERO, second(300)), Some(Timeout::LaunchTimeout));
    }

    #[test]
    fn unregistered_claim_is_given_up_fifteen_minutes_after_launch() {
        let claim = launched_claim("a");
        assert_eq!(expired(&claim, Duration::MAX, second(901)), None);
        assert_eq!(expired(&claim, Duration::ZERO, second(902)), Some(Timeout::RegistrationTimeout));
    }

    #[test]
    fn uninitialized_node_is_given_up_with_what_it_lacks() {
        let limit = INITIALIZATION;
        assert_eq!(uninitialized(&launched_claim("a"), limit, second(99_999)), None, "not registered");
        let mut claim = launched_claim("a");
        claim.spec.startup_taints = vec![Taint { key: "cni".into(), effect: "NoSchedule".into(), ..Taint::default() }];
        let written = |decision| match decision {
            LifecycleStep::Write(writes) => *writes,
            other => panic!("{other:?}"),
        };
        let waits = written(next(&claim, &[&ready(node("n"))], Duration::ZERO, second(100)));
        let on_node = waits.node.clone().unwrap();
        assert_eq!(uninitialized(&waits.claim, limit, second(100 + 1799)), None);
        let said = uninitialized(&waits.claim, limit, second(100 + 1800)).unwrap();
        assert_eq!(said, "startup taint cni:NoSchedule still exists");
        assert_eq!(uninitialized(&waits.claim, Duration::MAX, second(999_999)), None);
        let mut goes = waits.claim.clone();
        goes.metadata.deletion_timestamp = goes.metadata.creation_timestamp.clone();
        assert_eq!(uninitialized(&goes, limit, second(9999)), None, "it goes already");
        let mut done = on_node;
        done.spec.as_mut().unwrap().taints = None;
        let done = written(next(&waits.claim, &[&done], Duration::ZERO, second(1000)));
        assert_eq!(uninitialized(&done.claim, limit, second(9999)), None, "initialized in time");
    }

    #[test]
    fn registered_claim_may_lack_its_node_for_five_minutes() {
        let mut claim = launched_claim("a");
        let conditions = &mut claim.status.as_mut().unwrap().conditions;
        conditions.iter_mut().filter(|one| one.type_ == REGISTERED).for_each(|one| one.status = "True".into());
        assert_eq!(expired(&claim, NODE - Duration::from_nanos(1), second(9999)), None);
        assert_eq!(expired(&claim, NODE, second(9999)), Some(Timeout::NodeGone));
    }
}
