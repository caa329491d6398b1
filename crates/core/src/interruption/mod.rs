//! The cloud's announcements about its instances, and their consequences (AWS spec 5): a message becomes an [`Announcement`],
//! for an instance of ours an [`InterruptionNotice`] on its claim, and [`replacement_step`] decides when the node is drained.
//!
//! ```text
//! announced ── annotate, taint, pack ──► waiting ── every place ready, or no time left ──► claim deleted (drained)
//!                                            └──────────── instance is ending ─────────────────┘
//! ```

mod announcement;
mod asked;
mod events;
mod kept;
mod notice;
mod passed_over;
mod rebalance;
mod replacement;
pub mod status;
pub mod unheard;

use std::fmt;

use serde::Serialize;

pub use announcement::{Announcement, Ignored};
pub use asked::AskedRemovals;
pub use events::KnownEvents;
pub use kept::KeptMessages;
pub use notice::{InterruptionNotice, LONGEST_PLACE_WAIT, TooLate};
pub use passed_over::PassedOver;
pub use rebalance::Rebalancing;
pub use replacement::{DeletionCause, DisplacedPod, ReplacementStep, replacement_step};

/// The kind of event that is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptionKind {
    /// A spot instance ends in two minutes.
    #[serde(rename = "spot_interrupted")]
    SpotInterruption,
    /// A spot instance is likely to be interrupted: an event reports it, and its node is replaced if the settings ask for that.
    RebalanceRecommendation,
    /// AWS Health announces an event for the instance.
    ScheduledChange,
    /// The instance is stopping or has stopped.
    #[serde(rename = "instance_stopped")]
    InstanceStopping,
    /// The instance is shutting down or is terminated.
    #[serde(rename = "instance_terminated")]
    InstanceTerminating,
    /// The capacity reservation that the instance runs on is taken back in two minutes.
    CapacityReservationInterrupted,
    /// The instance's own status check fails.
    InstanceStatus,
    /// The status check of the machine below the instance fails.
    SystemStatus,
    /// An event is scheduled for the instance: a reboot, maintenance, its retirement or its stop.
    EventStatus,
}

impl InterruptionKind {
    pub const ALL: [Self; 9] = [
        Self::SpotInterruption,
        Self::RebalanceRecommendation,
        Self::ScheduledChange,
        Self::InstanceStopping,
        Self::InstanceTerminating,
        Self::CapacityReservationInterrupted,
        Self::InstanceStatus,
        Self::SystemStatus,
        Self::EventStatus,
    ];

    /// Its name in metrics, logs and the annotation on claims.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::SpotInterruption => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopping => "instance_stopped",
            Self::InstanceTerminating => "instance_terminated",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
        }
    }

    #[must_use]
    pub fn named(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.label() == label)
    }

    /// Reason of the Kubernetes event.
    #[must_use]
    pub fn event(self) -> &'static str {
        match self {
            Self::SpotInterruption => "SpotInterrupted",
            Self::RebalanceRecommendation => "SpotRebalanceRecommendation",
            Self::ScheduledChange | Self::InstanceStatus | Self::SystemStatus | Self::EventStatus => {
                "InstanceUnhealthy"
            }
            Self::InstanceStopping => "InstanceStopping",
            Self::InstanceTerminating => "InstanceTerminating",
            Self::CapacityReservationInterrupted => "CapacityReservationInstanceInterrupted",
        }
    }

    /// True if the instance no longer runs pods: there is nothing to wait for.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::InstanceStopping | Self::InstanceTerminating => true,
            Self::SpotInterruption
            | Self::RebalanceRecommendation
            | Self::ScheduledChange
            | Self::CapacityReservationInterrupted
            | Self::InstanceStatus
            | Self::SystemStatus
            | Self::EventStatus => false,
        }
    }
}

impl fmt::Display for InterruptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::InterruptionKind;

    /// Logs and reports serialise a kind, claims and metrics have its label: a claim that a leader writes is read by the next.
    #[test]
    fn a_kind_is_serialised_as_its_label_and_found_by_it() {
        for kind in InterruptionKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.label());
            assert_eq!(InterruptionKind::named(kind.label()), Some(kind));
        }
    }
}
