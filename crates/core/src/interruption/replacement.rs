//! The time at which an interrupted node is drained: as late as its pods can wait for their places, as early as they need.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::InterruptionNotice;

/// Time that the eviction itself needs beside the pods' grace: two or three calls to the API server.
const MARGIN: Duration = Duration::from_secs(10);

/// A pod that has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplacedPod {
    /// True if the place for its successor is ready.
    pub ready: bool,
    /// Its termination grace period.
    pub grace: Duration,
}

/// The next step for an interrupted node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementStep {
    /// Nothing before that time, unless something changes.
    Wait(Timestamp),
    /// Delete its claim, which drains it.
    Delete(DeletionCause),
}

/// The reason that the claim of an interrupted node is deleted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeletionCause {
    /// Every pod that has to leave has a place that is ready; there may be none.
    Replaced,
    /// Its pods need the rest of its time to end.
    TimeIsUp,
    /// The instance is ending already.
    InstanceEnds,
}

/// Decides about a node whose end is announced.
#[must_use]
pub fn replacement_step(notice: &InterruptionNotice, displaced: &[DisplacedPod], now: Timestamp) -> ReplacementStep {
    if notice.kind.is_over() {
        return ReplacementStep::Delete(DeletionCause::InstanceEnds);
    }
    if displaced.iter().all(|pod| pod.ready) {
        return ReplacementStep::Delete(DeletionCause::Replaced);
    }
    let longest = displaced.iter().map(|pod| pod.grace).max().unwrap_or_default();
    let latest = notice.deadline.checked_sub(longest.saturating_add(MARGIN)).unwrap_or(Timestamp::MIN);
    if now >= latest { ReplacementStep::Delete(DeletionCause::TimeIsUp) } else { ReplacementStep::Wait(latest) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;
    use crate::interruption::InterruptionKind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn spot() -> InterruptionNotice {
        InterruptionNotice { kind: InterruptionKind::SpotInterruption, deadline: at(120) }
    }

    fn pod(ready: bool, grace: u64) -> DisplacedPod {
        DisplacedPod { ready, grace: Duration::from_secs(grace) }
    }

    #[test]
    fn a_node_without_pods_to_move_goes_at_once() {
        assert_eq!(replacement_step(&spot(), &[], at(0)), ReplacementStep::Delete(DeletionCause::Replaced));
    }

    #[test]
    fn a_node_waits_until_the_last_place_is_ready() {
        assert_eq!(replacement_step(&spot(), &[pod(true, 30), pod(false, 30)], at(60)), ReplacementStep::Wait(at(80)));
        assert_eq!(
            replacement_step(&spot(), &[pod(true, 30), pod(true, 30)], at(60)),
            ReplacementStep::Delete(DeletionCause::Replaced)
        );
    }

    #[test]
    fn the_pods_get_their_time_to_end_before_the_instance_does() {
        assert_eq!(
            replacement_step(&spot(), &[pod(false, 30), pod(true, 60)], at(50)),
            ReplacementStep::Delete(DeletionCause::TimeIsUp)
        );
        assert_eq!(replacement_step(&spot(), &[pod(false, 30)], at(79)), ReplacementStep::Wait(at(80)));
        assert_eq!(
            replacement_step(&spot(), &[pod(false, 600)], at(0)),
            ReplacementStep::Delete(DeletionCause::TimeIsUp)
        );
        assert_eq!(
            replacement_step(&spot(), &[pod(false, u64::MAX)], at(0)),
            ReplacementStep::Delete(DeletionCause::TimeIsUp)
        );
    }

    #[test]
    fn an_instance_that_is_ending_is_not_waited_for() {
        for kind in [InterruptionKind::InstanceStopping, InterruptionKind::InstanceTerminating] {
            let notice = InterruptionNotice { kind, deadline: at(999) };
            assert_eq!(
                replacement_step(&notice, &[pod(false, 30)], at(0)),
                ReplacementStep::Delete(DeletionCause::InstanceEnds)
            );
        }
    }

    proptest! {
        #[test]
        fn whoever_waits_has_time_left_and_once_deleted_it_stays_so(
            graces in prop::collection::vec((any::<bool>(), 0u64..300), 0..6), now in -100i64..200, later in 0i64..100,
        ) {
            let displaced: Vec<_> = graces.iter().map(|(ready, grace)| pod(*ready, *grace)).collect();
            match replacement_step(&spot(), &displaced, at(now)) {
                ReplacementStep::Wait(until) => {
                    prop_assert!(until > at(now) && until < spot().deadline);
                    prop_assert!(matches!(replacement_step(&spot(), &displaced, until), ReplacementStep::Delete(_)));
                }
                ReplacementStep::Delete(_) => prop_assert!(matches!(replacement_step(&spot(), &displaced, at(now + later)), ReplacementStep::Delete(_))),
            }
        }
    }
}
