//! First stage: the cloud's answer is written on the claim.

use std::collections::BTreeMap;

use dovetail_api::names::conditions::{
    AWAITING_RECONCILIATION, FALSE, INITIALIZED, LAUNCHED, REGISTERED, TRUE, UNKNOWN,
};
use dovetail_api::v1::{NewCondition, NodeClaim, ResourceList, condition, set_condition};
use jiff::Timestamp;

use super::protocol::{Claimed, takes_token};
use super::readiness::set_root;

/// The cloud's facts about an instance made for a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceFacts {
    /// Provider id, `aws:///<zone>/<instance id>`.
    pub provider_id: String,
    /// Id of its AMI.
    pub image_id: String,
    /// Labels that the instance defines.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the cloud wants on the claim.
    pub annotations: BTreeMap<String, String>,
    /// Resources of the instance type.
    pub capacity: ResourceList,
    /// The part of the capacity that pods may use.
    pub allocatable: ResourceList,
}

/// Reason of Launched for a claim that waits for a ceiling.
const HELD: &str = "LaunchHeld";
/// Most characters of a condition's message about a failed launch (core spec 1.2).
const LONGEST_MESSAGE: usize = 300;

/// The claim once its instance is there: the claim's labels win over the instance's, the instance's annotations over
/// the claim's.
#[must_use]
pub fn launched(claim: &NodeClaim, instance: &InstanceFacts, now: Timestamp) -> NodeClaim {
    let mut claim = claim.clone();
    let mut labels = instance.labels.clone();
    labels.extend(claim.metadata.labels.take().unwrap_or_default());
    claim.metadata.labels = Some(labels);
    claim.metadata.annotations.get_or_insert_default().extend(instance.annotations.clone());

    let generation = claim.metadata.generation;
    let status = claim.status.get_or_insert_default();
    status.provider_id.clone_from(&instance.provider_id);
    status.image_id.clone_from(&instance.image_id);
    status.capacity.clone_from(&instance.capacity);
    status.allocatable.clone_from(&instance.allocatable);
    set_condition(&mut status.conditions, NewCondition::new(LAUNCHED, TRUE), generation, now);
    for later in [REGISTERED, INITIALIZED] {
        if condition(&status.conditions, later).is_none() {
            set_condition(
                &mut status.conditions,
                NewCondition::new(later, UNKNOWN).because(AWAITING_RECONCILIATION, ""),
                generation,
                now,
            );
        }
    }
    set_root(&mut status.conditions, generation, now);
    claim
}

/// The claim while a ceiling does not allow its launch: it waits, and its time to launch has not begun.
#[must_use]
pub fn launch_held(claim: &NodeClaim, message: &str, now: Timestamp) -> NodeClaim {
    with_launched(claim, FALSE, HELD, message, now)
}

/// The claim once its launch may begin after all; as it is if it did not wait, or has its instance or goes meanwhile.
#[must_use]
pub fn launch_allowed(claim: &NodeClaim, now: Timestamp) -> NodeClaim {
    match is_held(claim) && takes_token(&Claimed::from_claim(claim)) {
        true => with_launched(claim, UNKNOWN, AWAITING_RECONCILIATION, "", now),
        false => claim.clone(),
    }
}

/// True if a claim waits for a ceiling.
#[must_use]
pub fn is_held(claim: &NodeClaim) -> bool {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, LAUNCHED).is_some_and(|launched| launched.status == FALSE && launched.reason == HELD)
}

fn with_launched(claim: &NodeClaim, status: &str, reason: &str, message: &str, now: Timestamp) -> NodeClaim {
    let mut claim = claim.clone();
    let generation = claim.metadata.generation;
    let conditions = &mut claim.status.get_or_insert_default().conditions;
    set_condition(conditions, NewCondition::new(LAUNCHED, status).because(reason, message), generation, now);
    set_root(conditions, generation, now);
    claim
}

/// The claim after a launch that failed and will be tried again.
#[must_use]
pub fn launch_failed(claim: &NodeClaim, reason: &str, message: &str, now: Timestamp) -> NodeClaim {
    let mut claim = claim.clone();
    let generation = claim.metadata.generation;
    let status = claim.status.get_or_insert_default();
    let message: String = message.chars().take(LONGEST_MESSAGE).collect();
    set_condition(
        &mut status.conditions,
        NewCondition::new(LAUNCHED, UNKNOWN).because(reason, &message),
        generation,
        now,
    );
    set_root(&mut status.conditions, generation, now);
    claim
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::lifecycle::fixtures::{claim, instance, second};

    #[test]
    fn the_claims_labels_win_and_the_clouds_annotations_do() {
        let mut before = claim("a");
        before.metadata.labels = Some([("node.kubernetes.io/instance-type".into(), "mine".into())].into());
        before.metadata.annotations = Some([("cloud".into(), "mine".into())].into());
        let after = launched(&before, &instance(), second(1));
        assert_eq!(after.metadata.labels.unwrap()["node.kubernetes.io/instance-type"], "mine");
        assert_eq!(after.metadata.annotations.unwrap()["cloud"], "says");
        assert_eq!(after.status.unwrap().provider_id, "aws:///us-east-1a/i-1");
    }

    #[test]
    fn a_failure_is_dated_when_it_began_and_cut_at_300_characters() {
        let once = launch_failed(&claim("a"), "LaunchFailed", &"ä".repeat(400), second(5));
        let twice = launch_failed(&once, "Unauthorized", "no", second(50));
        let condition = condition(&once.status.as_ref().unwrap().conditions, LAUNCHED).unwrap().clone();
        assert_eq!(condition.message.chars().count(), 300);
        let later = dovetail_api::v1::condition(&twice.status.as_ref().unwrap().conditions, LAUNCHED).unwrap().clone();
        assert_eq!(later.last_transition_time.0, second(5));
    }

    #[test]
    fn claim_held_by_a_ceiling_gets_its_launch_time_when_allowed() {
        let held = launch_held(&claim("a"), "2 launches within an hour are allowed", second(1));
        assert!(is_held(&held));
        assert_eq!(super::super::liveness::expired(&held, std::time::Duration::ZERO, second(7200)), None);
        let allowed = launch_allowed(&held, second(7200));
        assert!(!is_held(&allowed));
        assert_eq!(super::super::liveness::expired(&allowed, std::time::Duration::ZERO, second(7499)), None);
        let expired = super::super::liveness::expired(&allowed, std::time::Duration::ZERO, second(7500));
        assert_eq!(expired, Some(crate::lifecycle::Timeout::LaunchTimeout));
        assert_eq!(launch_allowed(&claim("a"), second(9)), claim("a"), "one that did not wait is as it was");
    }
}
