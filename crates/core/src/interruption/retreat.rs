//! When an interrupted node is drained: as late as its pods can wait for their places, as early as they need.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::Notice;

/// What the eviction itself needs beside the pods' own time: the way to the API server and back, twice or three times.
const MARGIN: Duration = Duration::from_secs(10);

/// A pod that has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mover {
    /// Whether the place for its successor is ready.
    pub ready: bool,
    /// How long it may take to end.
    pub grace: Duration,
}

/// What to do about an interrupted node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retreat {
    /// Nothing until then, unless something changes.
    Wait(Timestamp),
    /// Delete its claim, which drains it.
    Delete(Cause),
}

/// Why the claim of an interrupted node is deleted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Every pod that has to leave has a place that is ready; there may be none.
    Replaced,
    /// Its pods need the rest of its time to end.
    TimeIsUp,
    /// The instance is ending already.
    InstanceEnds,
}

/// Decides about a node whose end is announced.
#[must_use]
pub fn retreat(notice: &Notice, movers: &[Mover], now: Timestamp) -> Retreat {
    if notice.kind.is_over() {
        return Retreat::Delete(Cause::InstanceEnds);
    }
    if movers.iter().all(|pod| pod.ready) {
        return Retreat::Delete(Cause::Replaced);
    }
    let longest = movers.iter().map(|pod| pod.grace).max().unwrap_or_default();
    let latest = notice.deadline.checked_sub(longest.saturating_add(MARGIN)).unwrap_or(Timestamp::MIN);
    if now >= latest { Retreat::Delete(Cause::TimeIsUp) } else { Retreat::Wait(latest) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;
    use crate::interruption::Kind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn spot() -> Notice {
        Notice { kind: Kind::SpotInterruption, deadline: at(120) }
    }

    fn pod(ready: bool, grace: u64) -> Mover {
        Mover { ready, grace: Duration::from_secs(grace) }
    }

    #[test]
    fn a_node_without_pods_to_move_goes_at_once() {
        assert_eq!(retreat(&spot(), &[], at(0)), Retreat::Delete(Cause::Replaced));
    }

    #[test]
    fn a_node_waits_until_the_last_place_is_ready() {
        assert_eq!(retreat(&spot(), &[pod(true, 30), pod(false, 30)], at(60)), Retreat::Wait(at(80)));
        assert_eq!(retreat(&spot(), &[pod(true, 30), pod(true, 30)], at(60)), Retreat::Delete(Cause::Replaced));
    }

    #[test]
    fn the_pods_get_their_time_to_end_before_the_instance_does() {
        assert_eq!(retreat(&spot(), &[pod(false, 30), pod(true, 60)], at(50)), Retreat::Delete(Cause::TimeIsUp));
        assert_eq!(retreat(&spot(), &[pod(false, 30)], at(79)), Retreat::Wait(at(80)));
        assert_eq!(retreat(&spot(), &[pod(false, 600)], at(0)), Retreat::Delete(Cause::TimeIsUp));
        assert_eq!(retreat(&spot(), &[pod(false, u64::MAX)], at(0)), Retreat::Delete(Cause::TimeIsUp));
    }

    #[test]
    fn an_instance_that_is_ending_is_not_waited_for() {
        for kind in [Kind::InstanceStopping, Kind::InstanceTerminating] {
            let notice = Notice { kind, deadline: at(999) };
            assert_eq!(retreat(&notice, &[pod(false, 30)], at(0)), Retreat::Delete(Cause::InstanceEnds));
        }
    }

    proptest! {
        #[test]
        fn whoever_waits_has_time_left_and_once_deleted_it_stays_so(
            graces in prop::collection::vec((any::<bool>(), 0u64..300), 0..6), now in -100i64..200, later in 0i64..100,
        ) {
            let movers: Vec<_> = graces.iter().map(|(ready, grace)| pod(*ready, *grace)).collect();
            match retreat(&spot(), &movers, at(now)) {
                Retreat::Wait(until) => {
                    prop_assert!(until > at(now) && until < spot().deadline);
                    prop_assert!(matches!(retreat(&spot(), &movers, until), Retreat::Delete(_)));
                }
                Retreat::Delete(_) => prop_assert!(matches!(retreat(&spot(), &movers, at(now + later)), Retreat::Delete(_))),
            }
        }
    }
}
