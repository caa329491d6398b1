//! Reports once why a replica ignores the Lease.

use dovetail_api::names::annotations;
use dovetail_core::lease::Distrust;

use super::Leader;
use crate::telemetry::log_event::LogEvent;

impl Leader {
    /// Says once why it does not go by the Lease.
    pub(super) fn tell_distrust(&mut self) {
        let distrust = self.election.distrust();
        if let Some(new) = distrust.filter(|new| self.distrusted.as_ref() != Some(*new)) {
            let (lease, why) = (self.env.settings.lease_name.clone(), self.distrust_in_words(new));
            self.env.emit(LogEvent::LeaseRefused { lease, why });
        }
        if self.distrusted.as_ref() != distrust {
            self.distrusted = distrust.cloned();
        }
    }

    pub(super) fn distrust_in_words(&self, distrust: &Distrust) -> String {
        match distrust {
            Distrust::Term { term } => format!(
                "its leaseTransitions is {term}, which no leader can have had (the highest term known is {}): it is not \
                 counted, and another leads once the Lease has stood for its duration; if that number comes back, find who \
                 writes it and take away the right to update Leases in {}",
                self.election.highest_term(),
                self.env.settings.lease_namespace,
            ),
            Distrust::Duration { holder, duration, wait, until } => format!(
                "{holder:?} does not renew it, and its leaseDurationSeconds is {}: it is waited for until it has stood \
                 unchanged for {} s, which is {:.0} s from now; delete the Lease if {holder:?} has ended",
                duration.as_secs(),
                wait.as_secs(),
                until.saturating_sub(self.env.now()).as_secs_f64(),
            ),
            Distrust::TermsUsedUp { term } => format!(
                "the next leaseTransitions would be {term}, and there is no room for those after it: scale to 0, take the \
                 annotation {} off the NodeClaims, delete the Lease, and scale up again",
                annotations::TERM,
            ),
        }
    }
}
