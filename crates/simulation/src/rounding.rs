//! Figures as the report has them.

use std::time::Duration;

/// A duration in seconds, as the report has it.
pub(crate) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e6
}
