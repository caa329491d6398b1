//! Demands that EC2 has no capacity for: one claim at a time asks, and others with the same demand wait for its answer.
//!
//! There is no pause between two probes: each asks for other types than the last, as those are known to be unavailable for
//! three minutes, and all have to be known before packing goes elsewhere (decision 031). With pauses the first are forgotten
//! before the last is asked, and a pod that another pool would serve waits without end.

use std::time::Duration;

use super::pause::Pauses;
use super::{BackoffCause, Demand, LaunchVerdict, MOST};

/// Most launches under way at once in zones and of a capacity type in which something was refused of late.
pub(super) const AT_ONCE: usize = 3;
/// Time for which a refusal is believed of everything in its zones (as long as EC2's refusals of offerings).
const BELIEVED: Duration = Duration::from_secs(180);

/// A demand that was refused.
#[derive(Clone, Debug)]
struct Refused {
    demand: Demand,
    pauses: Pauses,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SoldOutDemands(Vec<Refused>);

impl SoldOutDemands {
    /// The reason that a demand may not be launched for now; `None` if it may.
    pub fn verdict(&self, demand: &Demand, now: Duration) -> Option<LaunchVerdict> {
        let mut covering = self.0.iter().filter(|one| one.demand.covers(demand));
        covering.find_map(|one| one.pauses.verdict(now, BackoffCause::SoldOut))
    }

    /// True if something was refused of late where the demand would be served.
    pub fn is_near(&self, demand: &Demand, now: Duration) -> bool {
        let lately = |one: &&Refused| now.saturating_sub(one.pauses.last) < BELIEVED;
        self.0.iter().filter(lately).any(|one| one.demand.has_the_market_of(demand))
    }

    /// A claim becomes the probe of all that covers it.
    pub fn begin(&mut self, claim: &str, demand: &Demand, now: Duration) {
        for one in self.0.iter_mut().filter(|one| one.demand.covers(demand)) {
            one.pauses.begin(claim, now);
        }
    }

    /// EC2 had no capacity for a claim.
    pub fn refused(&mut self, demand: &Demand, now: Duration) {
        if !self.0.iter().any(|one| one.demand.covers(demand)) {
            let demand = demand.clone();
            self.0.retain(|one| !demand.covers(&one.demand));
            self.0.push(Refused { demand, pauses: Pauses::default() });
        }
        let covering = self.0.iter_mut().filter(|one| one.demand.covers(demand));
        covering.for_each(|one| one.pauses.last = now);
    }

    /// EC2 has capacity for a demand after all.
    pub fn launched(&mut self, demand: &Demand) {
        self.0.retain(|one| !one.demand.covers(demand));
    }

    pub fn release(&mut self, claim: &str) {
        self.0.iter_mut().for_each(|one| one.pauses.release(claim));
    }

    pub fn forget(&mut self, now: Duration) {
        self.0.retain(|one| one.pauses.is_remembered(now));
        if self.0.len() > MOST {
            self.0.sort_by_key(|one| one.pauses.last);
            self.0.drain(..self.0.len() - MOST);
        }
    }
}
