//! What the cloud announces of its instances, and what follows from it (AWS spec on the interruption queue).

use serde::Serialize;

/// What is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A spot instance ends in two minutes.
    SpotInterruption,
    /// A spot instance is likely to be interrupted: nothing is done but told.
    RebalanceRecommendation,
    /// AWS Health announces an event for the instance.
    ScheduledChange,
    /// The instance is stopping or has stopped.
    InstanceStopping,
    /// The instance is shutting down or is terminated.
    InstanceTerminating,
}
