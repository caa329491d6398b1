//! The order that is launched next, of those that wait.

use std::time::Duration;

use super::{BackoffCause, Demand, LaunchBackoff, LaunchVerdict};

/// The next order, and others that were looked at on the way; by the places of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchTurn {
    pub next: Option<usize>,
    /// Orders that may not begin before that time, on the monotonic clock, for that cause.
    pub held: Vec<(usize, Duration, BackoffCause)>,
    /// True if an order has to wait for others to be answered.
    pub after_others: bool,
}

impl LaunchBackoff {
    /// Chooses the next of some orders, the oldest first, each with its place and what it asks for; `None` for one of a claim that is
    /// there, which nothing holds up.
    #[must_use]
    pub fn turn<'d>(&self, orders: impl Iterator<Item = (usize, Option<&'d Demand>)>, now: Duration) -> LaunchTurn {
        let (mut turn, mut least) = (LaunchTurn::default(), u32::MAX);
        for (place, demand) in orders {
            match demand.map_or(LaunchVerdict::Go, |demand| self.ask(demand, now)) {
                LaunchVerdict::Go => {
                    let refusals = demand.map_or(0, |demand| self.refusals_of_shape(demand));
                    if turn.next.is_none() || refusals < least {
                        (turn.next, least) = (Some(place), refusals);
                    }
                    // The oldest that nothing speaks against: nobody further back is better.
                    if refusals == 0 {
                        break;
                    }
                }
                LaunchVerdict::AfterOthers => turn.after_others = true,
                LaunchVerdict::Wait { until, cause } => turn.held.push((place, until, cause)),
            }
        }
        turn
    }
}
