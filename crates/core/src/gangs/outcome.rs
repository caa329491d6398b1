//! The outcome of a look at a request, and the conditions by which it is said. Types and reasons are Cluster Autoscaler's, but for
//! the reasons CapacityIsComing and CapacityIsLost.

use dovetail_api::names::conditions::{FALSE, TRUE};
use dovetail_api::provisioning::ProvisioningRequestStatus;
use dovetail_api::v1::{NewCondition, set_condition};
use jiff::Timestamp;

use super::booking::GangPhase;
use super::memory::GangMemory;
use super::placing::PodsNow;
use super::request::{Gang, GangClass, GangFault};
use crate::cluster_state::Moment;

/// Condition: the request is tried.
pub(super) const ACCEPTED: &str = "Accepted";
/// Condition: all of its room is there.
pub(super) const PROVISIONED: &str = "Provisioned";
/// Condition: it is given up.
pub(super) const FAILED: &str = "Failed";
/// Condition: its room is not held any more.
pub(super) const BOOKING_EXPIRED: &str = "BookingExpired";
/// Condition: room that was there is gone before pods have come.
pub(super) const CAPACITY_REVOKED: &str = "CapacityRevoked";

const NOT_FOUND: &str = "CapacityIsNotFound";
const NO_PODS: &str = "FailedToCreatePods";
/// Characters of a reason in a message; a condition's message has a bound.
const LONGEST_REASON: usize = 2_000;

/// The outcome of a look at a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangOutcome {
    /// Nothing is to be said: it waits for its turn or for the end of a pause, or it is over.
    Unchanged,
    /// It is not tried until it can be read.
    Waits(String),
    /// It never will be tried.
    Refused(String),
    /// Nodes for it are on their way, or are ordered now: numbers of its pods whose nodes are ready, and of all.
    Coming(usize, usize),
    /// All its room is there; `true` if nodes were launched for it.
    Found(bool),
    /// Not all pods have a place: none gets a node. `true` if it is given up.
    NotFound(String, bool),
    /// It had no room in its time.
    Expired,
    /// Its room is held.
    Held,
    /// All its pods have come.
    Consumed,
    /// Its room has been held for its time.
    BookingOver,
    /// So many of its pods had room that is gone.
    Lost(usize),
}

/// A condition: type, status, reason, message.
type Said = (&'static str, &'static str, &'static str, String);

/// The outcome for a request in that phase that cannot be read. A booking ends in its time all the same.
#[must_use]
pub fn judge_fault(fault: &GangFault, phase: GangPhase, now: Timestamp) -> GangOutcome {
    match (phase, fault) {
        (GangPhase::Booked(until), _) if now >= until => GangOutcome::BookingOver,
        (GangPhase::Over | GangPhase::Booked(_), _) => GangOutcome::Unchanged,
        (GangPhase::Waiting, GangFault::Waits(why)) => GangOutcome::Waits(why.clone()),
        (GangPhase::Waiting, GangFault::Refused(why)) => GangOutcome::Refused(why.clone()),
    }
}

/// The outcome of a look at a request in that phase. `left` is the number of its pods that have not come; `now` their places, if
/// room was held or looked for; `tried` is true if it was the one that could get new nodes.
pub fn decide_gang(
    gang: &Gang,
    phase: GangPhase,
    left: usize,
    (pods, tried): (Option<&PodsNow>, bool),
    memory: &mut GangMemory,
    now: Moment,
) -> GangOutcome {
    let key = gang.key();
    match (phase, pods) {
        (GangPhase::Over, _) => GangOutcome::Unchanged,
        (GangPhase::Booked(_), _) if left == 0 => GangOutcome::Consumed,
        (GangPhase::Booked(until), _) if now.wall >= until => GangOutcome::BookingOver,
        (GangPhase::Booked(_), Some(pods)) => match memory.is_lost(&key, pods.left_over > 0, now.monotonic) {
            true => GangOutcome::Lost(pods.left_over),
            false => GangOutcome::Held,
        },
        (GangPhase::Waiting, _) if now.wall >= gang.valid_until => GangOutcome::Expired,
        (_, None) => GangOutcome::Unchanged,
        (GangPhase::Waiting, Some(pods)) => {
            let outcome = weigh(gang, pods, tried, memory);
            match &outcome {
                GangOutcome::NotFound(..) => memory.give_up(&key, now.monotonic),
                GangOutcome::Found(_) => memory.forget_trials(&key),
                _ => {}
            }
            outcome
        }
    }
}

/// The outcome for a request whose room is looked for.
fn weigh(gang: &Gang, pods: &PodsNow, tried: bool, memory: &GangMemory) -> GangOutcome {
    let (key, all) = (gang.key(), gang.pods());
    let not_found = |why: String| GangOutcome::NotFound(why, gang.once);
    if pods.left_over == 0 && pods.new == 0 {
        return match (gang.class, pods.coming) {
            (_, 0) => GangOutcome::Found(pods.launched),
            (GangClass::Atomic, _) => GangOutcome::Coming(pods.ready, all),
            (GangClass::CheckCapacity, coming) => {
                not_found(format!("the nodes for {coming} of {all} pods are not ready any more"))
            }
        };
    }
    if !tried {
        return GangOutcome::Unchanged;
    }
    if gang.class == GangClass::CheckCapacity {
        return not_found(format!("nodes that are ready have no room for {} of {all} pods", pods.left_over));
    }
    if pods.left_over > 0 {
        let why: String = pods.why.as_deref().unwrap_or("there is none").chars().take(LONGEST_REASON).collect();
        return not_found(format!("{} of {all} pods have no place: {why}", pods.left_over));
    }
    match memory.failed_too_often(&key) {
        None => GangOutcome::Coming(pods.ready, all),
        Some(failed) => not_found(format!(
            "{failed} nodes came to nothing or were held back, see the events of NodeClaims and NodePools"
        )),
    }
}

impl GangOutcome {
    /// True if its room stays held.
    #[must_use]
    pub fn keeps_room(&self) -> bool {
        matches!(self, Self::Unchanged | Self::Coming(..) | Self::Found(_) | Self::Held)
    }

    /// True if nodes that are on their way for it are given back.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        matches!(self, Self::NotFound(..) | Self::Expired)
    }

    /// The conditions that it sets.
    fn conditions(&self) -> Vec<Said> {
        let accepted = (ACCEPTED, TRUE, "Accepted", "ProvisioningRequest is accepted by Dovetail".to_owned());
        let provisioned = |status, reason, message: String| (PROVISIONED, status, reason, message);
        let expired = |reason, message: &str| (BOOKING_EXPIRED, TRUE, reason, message.to_owned());
        match self {
            Self::Unchanged | Self::Held => vec![],
            Self::Waits(why) => vec![provisioned(FALSE, NO_PODS, format!("{why}; it is looked at again"))],
            Self::Refused(why) => vec![(FAILED, TRUE, NO_PODS, why.clone())],
            Self::Coming(ready, all) => {
                let message = format!("the nodes for {ready} of {all} pods are ready, the others are on their way");
                vec![accepted, provisioned(FALSE, "CapacityIsComing", message)]
            }
            Self::Found(launched) => {
                let reason = if *launched { "CapacityIsProvisioned" } else { "CapacityIsFound" };
                vec![accepted, provisioned(TRUE, reason, "Capacity is found in the cluster".to_owned())]
            }
            Self::NotFound(why, true) => vec![accepted, (FAILED, TRUE, NOT_FOUND, why.clone())],
            Self::NotFound(why, false) => {
                vec![accepted, provisioned(FALSE, NOT_FOUND, format!("{why}; it is looked for again"))]
            }
            Self::Expired => vec![(FAILED, TRUE, "Expired", "ProvisioningRequest is expired".to_owned())],
            Self::Consumed => vec![expired("CapacityBookingConsumed", "All its pods have come")],
            Self::BookingOver => {
                vec![expired("CapacityReservationTimeExpired", "Capacity reservation time is expired")]
            }
            Self::Lost(pods) => {
                let message = format!("room for {pods} of its pods is gone before they have come");
                vec![(CAPACITY_REVOKED, TRUE, "CapacityIsLost", message)]
            }
        }
    }

    /// The sentence of it, for events and the log; `None` where nothing is to be said.
    #[must_use]
    pub fn sentence(&self) -> Option<(&'static str, String)> {
        self.conditions().pop().map(|(_, _, reason, message)| (reason, message))
    }

    /// True if the request's user has to do something, or wait longer than nodes take.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        matches!(self, Self::Waits(_) | Self::Refused(_) | Self::NotFound(..) | Self::Expired | Self::Lost(_))
    }

    /// Writes the conditions and the numbers of pods into a status.
    pub fn write_to(
        &self,
        status: &mut ProvisioningRequestStatus,
        pods: Option<&PodsNow>,
        generation: Option<i64>,
        now: Timestamp,
    ) {
        for (type_, says, reason, message) in self.conditions() {
            let condition = NewCondition::new(type_, says).because(reason, &message);
            set_condition(&mut status.conditions, condition, generation, now);
        }
        let Some(pods) = pods.filter(|_| matches!(self, Self::Coming(..) | Self::Found(_))) else { return };
        for (key, number) in [("podsReady", pods.ready), ("podsComing", pods.coming + pods.new)] {
            status.provisioning_class_details.insert(key.to_owned(), number.to_string());
        }
    }
}
