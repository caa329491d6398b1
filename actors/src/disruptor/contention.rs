//! Others of the account that use the same Savings Plans and Reserved Instances: reported, as only people can part them.

use std::time::Duration;

use dovetail_core::cluster_state::Snapshot;
use dovetail_core::paid_machines::Running;

use super::Disruptor;
use crate::telemetry::log_event::LogEvent;

/// Minimum time between two looks: others are asked for as often.
const CONTENTION_INTERVAL: Duration = Duration::from_secs(600);
/// Minimum time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(6 * 3600);
/// Least dollars an hour that are worth a report.
const LEAST: f64 = 0.001;

/// Times of the last look and of the last report. Monotonic.
#[derive(Default)]
pub(super) struct Contention {
    looked: Option<Duration>,
    reported: Option<Duration>,
}

impl Contention {
    fn is_due(&mut self, now: Duration) -> bool {
        let waits = |since: Option<Duration>, pause| since.is_some_and(|at| now.saturating_sub(at) < pause);
        if waits(self.looked, CONTENTION_INTERVAL) || waits(self.reported, REPORT_INTERVAL) {
            return false;
        }
        self.looked = Some(now);
        true
    }
}

impl Disruptor {
    /// Reports that others use the same commitments, if both pay more by that.
    pub(super) fn tell_contention(&mut self, snapshot: &Snapshot) {
        let now = self.env.now();
        if self.commitments.others().now.is_empty() || !self.contention.is_due(now) {
            return;
        }
        let commitments = self.commitments.in_force(self.env.wall());
        let running = Running::from_snapshot(snapshot, &self.offers).beside(commitments.others());
        if running.counted(&commitments).is_none() {
            return;
        }
        let dollars_per_hour = commitments.contention(&running.own_uses(), &running.others);
        if dollars_per_hour >= LEAST {
            self.contention.reported = Some(now);
            let instances = running.others.count();
            self.env.emit(LogEvent::CommitmentsContended { instances, dollars_per_hour });
        }
    }
}
