//! A wall clock that is wrong, as every replica says it of itself; what follows from it is decided by [`dovetail_core::clock`].

use super::Leader;
use crate::telemetry::log_event::LogEvent;

impl Leader {
    /// Says that the wall clock is wrong, again when it becomes more so, and that it is right again.
    pub(super) fn tell_skew(&mut self) {
        let skew = self.env.skew();
        let before = std::mem::replace(&mut self.skew, skew.step());
        if self.skew == before {
            return;
        }
        self.env.emit(match self.skew {
            0 => LogEvent::ClockRight {},
            _ => LogEvent::ClockSkewed { seconds: skew.ahead.as_secs(), message: skew.to_string() },
        });
    }
}
