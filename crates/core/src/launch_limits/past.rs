//! Launches before this term and their results, as far as claims and EC2 still show them: EC2 lists an instance for about an
//! hour after its end, with its tags. With them neither a ceiling nor the patience with a pool begins anew with each leader.
//!
//! Some things cannot be told: launches without an instance; nodes that did not register and ended more than an hour ago, so
//! that pauses begin shorter; and whether a node registered if it ended just when one that did not is given up: it is taken
//! for one that did not, until another of its pool and class registers.

use std::time::Duration;

use super::{Failing, LaunchLimits, PoolAndClass};
use crate::lifecycle::liveness::REGISTRATION;

/// Margins, before and after its time to register, within which an instance that is given up ends by EC2's times.
const AROUND: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(90));

/// An instance that no claim has any more, or a claim on its way out whose node never registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Its id, or the claim's name.
    pub id: String,
    /// The pool and class that it was launched for.
    pub origin: PoolAndClass,
    /// Time since its launch.
    pub launched: Duration,
    /// Time since its end began, if we ended it and EC2 says so.
    pub ended: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// Name of the NodeClaim.
    pub name: String,
    pub origin: PoolAndClass,
    /// Time since it was made.
    pub made: Duration,
    /// Time since its node registered, if it has.
    pub registered: Option<Duration>,
}

/// Events, in their order.
enum Happened<'a> {
    Registered(&'a PoolAndClass),
    GivenUp(&'a Past),
}

impl Past {
    /// True if it ended at the time when nodes that do not register are given up.
    fn given_up(&self) -> bool {
        let lived = self.ended.map(|ended| self.launched.saturating_sub(ended));
        lived.is_some_and(|lived| (REGISTRATION - AROUND.0..=REGISTRATION + AROUND.1).contains(&lived))
    }

    /// Time since its node had registered at the latest, if it lived longer than one that does not may.
    fn registered(&self) -> Option<Duration> {
        let by = self.launched.saturating_sub(REGISTRATION + AROUND.1);
        (by > self.ended.unwrap_or(self.launched)).then_some(by)
    }
}

impl LaunchLimits {
    /// Continues from the launches of before.
    pub fn take_over(&mut self, past: &[Past], present: &[Present], now: Duration) {
        for one in past {
            self.made(&one.id, now, one.launched);
        }
        let mut all: Vec<(Duration, Happened<'_>)> = Vec::new();
        for one in past {
            if let Some(ended) = one.ended.filter(|_| one.given_up()) {
                all.push((ended, Happened::GivenUp(one)));
            } else if let Some(registered) = one.registered() {
                all.push((registered, Happened::Registered(&one.origin)));
            }
        }
        all.extend(present.iter().filter_map(|one| Some((one.registered?, Happened::Registered(&one.origin)))));
        all.sort_by_key(|(ago, _)| std::cmp::Reverse(*ago));
        // On a time scale of its own, as this process may be younger than the events.
        let begin = past.iter().map(|one| one.launched).chain(present.iter().map(|one| one.made)).max();
        let begin = begin.unwrap_or_default().max(all.first().map(|(ago, _)| *ago).unwrap_or_default());
        let at = |ago: Duration| begin.saturating_sub(ago);
        let mut before = Self::default();
        for (ago, happened) in all {
            match happened {
                Happened::Registered(origin) => drop(before.registered(origin)),
                Happened::GivenUp(one) => {
                    before.on_trial(&one.id, &one.origin, at(one.launched));
                    before.not_registered(&one.id, &one.origin, at(ago));
                }
            }
        }
        for one in present.iter().filter(|one| one.registered.is_none()) {
            before.on_trial(&one.name, &one.origin, at(one.made));
        }
        for (origin, failing) in before.failing {
            let next = now + failing.next.saturating_sub(begin);
            self.failing.entry(origin).or_insert(Failing { next, ..failing });
        }
    }

    /// Marks a launch of then as a trial, if its pool and class were on trial then.
    fn on_trial(&mut self, claim: &str, origin: &PoolAndClass, launched: Duration) {
        if let Some(failing) = self.failing.get_mut(origin)
            && launched >= failing.next
        {
            failing.trial = Some(claim.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::{AskedLaunch, CLOCKS_APART, Ceilings, Wait};
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn origin() -> PoolAndClass {
        ("pool".into(), "class".into())
    }

    fn ask(claim: &str) -> AskedLaunch {
        AskedLaunch { claim: claim.into(), origin: origin(), cost: 0.0 }
    }

    fn past(id: &str, launched: u32, ended: Option<u32>) -> Past {
        Past { id: id.into(), origin: origin(), launched: MINUTE * launched, ended: ended.map(|ago| MINUTE * ago) }
    }

    fn present(name: &str, made: u32, registered: Option<u32>) -> Present {
        let registered = registered.map(|ago| MINUTE * ago);
        Present { name: name.into(), origin: origin(), made: MINUTE * made, registered }
    }

    fn after(ceiling: Option<u32>, past: &[Past], present: &[Present]) -> LaunchLimits {
        let mut limits = LaunchLimits::new(Ceilings { launches: ceiling, cost: None });
        limits.take_over(past, present, Duration::ZERO);
        limits
    }

    #[test]
    fn launch_within_the_hour_counts_though_its_claim_is_gone() {
        let launched = [past("i-1", 50, Some(40)), past("i-2", 30, None), past("i-3", 62, Some(1))];
        let mut limits = after(Some(3), &launched, &[]);
        limits.take_over(&launched, &[], Duration::ZERO);
        assert!(limits.ask(&ask("a"), Duration::ZERO).is_ok(), "each counts once");
        assert_eq!(limits.ask(&ask("b"), Duration::ZERO), Err(Wait::Launches { ceiling: 3 }));
    }

    #[test]
    fn pool_with_unregistered_nodes_is_tried_singly_by_new_leader() {
        let burst = [past("i-1", 18, Some(3)), past("i-2", 18, Some(3)), past("i-3", 18, Some(3))];
        let mut limits = after(None, &burst, &[]);
        assert!(limits.ask(&ask("a"), Duration::ZERO).is_ok(), "the first pause is over");
        assert_eq!(limits.ask(&ask("b"), MINUTE), Err(Wait::Unregistered { failures: 1 }));
        // A trial that the last leader began goes on.
        let mut limits = after(None, &burst, &[present("trial", 1, None)]);
        assert_eq!(limits.ask(&ask("a"), Duration::ZERO), Err(Wait::Unregistered { failures: 1 }));
        limits.gone("trial");
        assert!(limits.ask(&ask("a"), Duration::ZERO).is_ok());
    }

    #[test]
    fn pauses_go_on_growing_under_a_new_leader() {
        let trials = [past("i-1", 55, Some(40)), past("i-2", 38, Some(23)), past("i-3", 16, Some(1))];
        let mut limits = after(None, &trials, &[]);
        let waiting = Err(Wait::Unregistered { failures: 3 });
        assert_eq!(limits.ask(&ask("a"), MINUTE * 3 - Duration::from_secs(1)), waiting, "four minutes, one is over");
        assert!(limits.ask(&ask("a"), MINUTE * 3).is_ok());
    }

    #[test]
    fn a_pool_of_which_a_node_has_registered_since_is_trusted() {
        let burst = [past("i-1", 50, Some(35)), past("i-2", 50, Some(35))];
        let free = |limits: &mut LaunchLimits| (0..5).all(|n| limits.ask(&ask(&n.to_string()), Duration::ZERO).is_ok());
        assert!(!free(&mut after(None, &burst, &[present("older", 59, Some(58))])));
        assert!(free(&mut after(None, &burst, &[present("a", 30, Some(29))])));
        let lived = past("i-3", 32, Some(2));
        assert!(free(&mut after(None, &[burst[0].clone(), lived], &[])), "it lived longer than one that is given up");
    }

    #[test]
    fn early_late_or_silent_end_says_nothing_of_registering() {
        let free = |limits: &mut LaunchLimits| (0..5).all(|n| limits.ask(&ask(&n.to_string()), Duration::ZERO).is_ok());
        for one in [past("i-1", 20, Some(10)), past("i-1", 40, Some(20)), past("i-1", 20, None)] {
            assert!(free(&mut after(None, &[one], &[])));
        }
        let mut other = after(None, &[past("i-1", 20, Some(5))], &[]);
        assert!(!free(&mut other));
        let elsewhere = |n: u32| AskedLaunch { origin: ("other".into(), "class".into()), ..ask(&n.to_string()) };
        assert!((10..15).all(|n| other.ask(&elsewhere(n), Duration::ZERO).is_ok()));
    }

    #[test]
    fn what_a_younger_process_takes_over_keeps_its_times() {
        let mut limits = LaunchLimits::new(Ceilings::default());
        let at = Duration::from_secs(5);
        limits.take_over(&[past("i-1", 15, Some(0))], &[], at);
        assert!(limits.ask(&ask("a"), at + MINUTE - Duration::from_secs(1)).is_err());
        assert!(limits.ask(&ask("a"), at + MINUTE).is_ok());
        let mut limits = LaunchLimits::new(Ceilings { launches: Some(1), cost: None });
        limits.take_over(&[past("i-1", 50, Some(40))], &[], at);
        let over = at + MINUTE * 10 + CLOCKS_APART;
        assert!(limits.ask(&ask("a"), over - Duration::from_secs(1)).is_err());
        assert!(limits.ask(&ask("a"), over).is_ok());
    }
}
