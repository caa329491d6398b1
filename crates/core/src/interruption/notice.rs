//! The announced end of an instance: written on its claim, so that the next leader knows it too.

use std::fmt;

use dovetail_api::names::annotations;
use dovetail_api::v1::NodeClaim;
use jiff::{SignedDuration, Timestamp};

use super::{Announcement, InterruptionKind};

/// Longest wait for a pod whose place is on its way, or may be had later. A node that does not come, and its successors, hold
/// up no node's end for longer.
pub const LONGEST_PLACE_WAIT: SignedDuration = SignedDuration::from_mins(10);

/// Lifetime of a spot instance, or one of a reservation, after its warning.
const WARNING: SignedDuration = SignedDuration::from_secs(120);
/// Age from which an announcement is too late: it is of an event long past. Twice the time that the queue of Karpenter's
/// template keeps a message.
const LATE: SignedDuration = SignedDuration::from_secs(600);

/// The announced end of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptionNotice {
    pub kind: InterruptionKind,
    /// Time until which it runs.
    pub deadline: Timestamp,
}

/// An announcement that came too late to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {0:#} old")]
pub struct TooLate(pub SignedDuration);

impl InterruptionNotice {
    /// The notice that an announcement means now; `sent` is the time at which the queue got it, for an event without a time
    /// of its own. A recommendation means none.
    ///
    /// # Errors
    /// It came too late.
    pub fn from_announcement(
        announced: &Announcement,
        sent: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<Self>, TooLate> {
        let happened = announced.time.or(sent).unwrap_or(now).min(now);
        let age = now.duration_since(happened);
        // A change that is still to come is announced as early as AWS likes.
        let ahead = announced.begins.filter(|begins| *begins > now);
        if age > LATE && ahead.is_none() {
            return Err(TooLate(age));
        }
        let warned = happened.checked_add(WARNING).unwrap_or(happened);
        let deadline = match announced.kind {
            InterruptionKind::RebalanceRecommendation => return Ok(None),
            InterruptionKind::SpotInterruption | InterruptionKind::CapacityReservationInterrupted => warned,
            // Begun, or at a time that cannot be read: only the time after a warning is counted on.
            InterruptionKind::ScheduledChange | InterruptionKind::EventStatus => ahead.unwrap_or(warned),
            InterruptionKind::InstanceStopping
            | InterruptionKind::InstanceTerminating
            | InterruptionKind::InstanceStatus
            | InterruptionKind::SystemStatus => happened,
        };
        Ok(Some(Self { kind: announced.kind, deadline }))
    }

    /// The notice of a recommendation to rebalance where nodes are replaced for one: the places of its pods are waited for as
    /// long as for those of any node that goes.
    #[must_use]
    pub fn of_recommendation(now: Timestamp) -> Self {
        Self {
            kind: InterruptionKind::RebalanceRecommendation,
            deadline: now.checked_add(LONGEST_PLACE_WAIT).unwrap_or(Timestamp::MAX),
        }
    }

    /// The notice written on a claim; `None` if it cannot be read.
    #[must_use]
    pub fn on(claim: &NodeClaim) -> Option<Self> {
        Self::parse(claim.metadata.annotations.as_ref()?.get(annotations::INTERRUPTION)?)
    }

    /// Reads the annotation's value.
    #[must_use]
    pub fn parse(written: &str) -> Option<Self> {
        let (kind, deadline) = written.split_once(' ')?;
        Some(Self { kind: InterruptionKind::named(kind)?, deadline: deadline.parse().ok()? })
    }

    /// Time at which the instance ends whatever is on it, if that is announced. After a scheduled change it may continue; an
    /// instance that is ending already is not counted.
    #[must_use]
    pub fn ends(&self) -> Option<Timestamp> {
        // All kinds by name, so that a new kind needs a decision here.
        let ends = match self.kind {
            InterruptionKind::SpotInterruption | InterruptionKind::CapacityReservationInterrupted => true,
            InterruptionKind::RebalanceRecommendation
            | InterruptionKind::ScheduledChange
            | InterruptionKind::EventStatus
            | InterruptionKind::InstanceStopping
            | InterruptionKind::InstanceTerminating
            | InterruptionKind::InstanceStatus
            | InterruptionKind::SystemStatus => false,
        };
        ends.then_some(self.deadline)
    }

    /// The notice that counts of two for one instance: the end comes with the first of them, and an instance that has begun
    /// to end is not waited for.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        // A mere recommendation of EC2 does not say when the instance ends.
        let key =
            |one: &Self| (!one.kind.is_over(), one.kind == InterruptionKind::RebalanceRecommendation, one.deadline);
        if key(&other) < key(&self) { other } else { self }
    }
}

/// The annotation's value.
impl fmt::Display for InterruptionNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.0}", self.kind, self.deadline)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-03-02T{text}Z").parse().unwrap()
    }

    fn announced(kind: InterruptionKind) -> Announcement {
        let instances = vec!["i-1".to_owned()];
        Announcement { id: "e".into(), kind, instances, time: Some(at("10:15:00")), begins: None }
    }

    fn notice(announced: &Announcement, now: &str) -> InterruptionNotice {
        InterruptionNotice::from_announcement(announced, None, at(now)).unwrap().unwrap()
    }

    #[test]
    fn a_warned_instance_lives_for_two_minutes_from_the_warning() {
        let read = notice(&announced(InterruptionKind::SpotInterruption), "10:15:07");
        assert_eq!(read, InterruptionNotice { kind: InterruptionKind::SpotInterruption, deadline: at("10:17:00") });
        assert_eq!(read.to_string(), "spot_interrupted 2026-03-02T10:17:00Z");
        assert_eq!(InterruptionNotice::parse(&read.to_string()), Some(read));
    }

    #[test]
    fn an_event_of_the_future_gives_no_more_time_than_one_of_now() {
        assert_eq!(notice(&announced(InterruptionKind::SpotInterruption), "10:00:00").deadline, at("10:02:00"));
    }

    #[test]
    fn an_event_without_a_time_counts_from_when_the_queue_got_it() {
        let mut read = announced(InterruptionKind::SpotInterruption);
        read.time = None;
        let notice =
            InterruptionNotice::from_announcement(&read, Some(at("10:14:00")), at("10:15:00")).unwrap().unwrap();
        assert_eq!(notice.deadline, at("10:16:00"));
    }

    #[test]
    fn notice_an_hour_late_is_ignored_unless_it_is_still_to_come() {
        for kind in InterruptionKind::ALL {
            assert!(InterruptionNotice::from_announcement(&announced(kind), None, at("11:15:00")).is_err(), "{kind}");
        }
        let mut change = announced(InterruptionKind::ScheduledChange);
        change.begins = Some(at("23:00:00"));
        assert_eq!(notice(&change, "11:15:00").deadline, at("23:00:00"));
        assert!(InterruptionNotice::from_announcement(&change, None, at("23:00:01")).is_err());
    }

    #[test]
    fn a_recommendation_is_no_notice() {
        assert_eq!(
            InterruptionNotice::from_announcement(
                &announced(InterruptionKind::RebalanceRecommendation),
                None,
                at("10:15:01")
            ),
            Ok(None)
        );
    }

    #[test]
    fn the_sooner_end_counts_and_an_end_that_has_begun_before_all() {
        let spot = InterruptionNotice { kind: InterruptionKind::SpotInterruption, deadline: at("10:17:00") };
        let change = InterruptionNotice { kind: InterruptionKind::ScheduledChange, deadline: at("12:00:00") };
        let gone = InterruptionNotice { kind: InterruptionKind::InstanceTerminating, deadline: at("10:18:00") };
        assert_eq!((change.sooner(spot), spot.sooner(change), spot.sooner(gone)), (spot, spot, gone));
    }

    #[test]
    fn warning_counts_before_a_recommendation_that_ends_sooner() {
        let asked = InterruptionNotice::of_recommendation(at("10:06:00"));
        let spot = InterruptionNotice { kind: InterruptionKind::SpotInterruption, deadline: at("10:17:00") };
        assert_eq!((asked.deadline, asked.ends()), (at("10:16:00"), None));
        assert_eq!((asked.sooner(spot), spot.sooner(asked)), (spot, spot));
    }

    #[test]
    fn what_somebody_else_wrote_there_does_not_count() {
        for bad in ["", "spot_interrupted", "soon 2026-03-02T10:17:00Z", "spot_interrupted tomorrow"] {
            assert_eq!(InterruptionNotice::parse(bad), None, "{bad:?}");
        }
    }
}
