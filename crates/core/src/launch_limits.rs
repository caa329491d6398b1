//! Limits on launches: ceilings an hour that an operator sets, patience with a pool and class whose nodes do not register
//! (one trial node at a time until one does), and a bound on launches that come to nothing for any cause.

mod futile;
mod past;
mod unused;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

pub use futile::{FutileBound, FutileCause, FutileLaunches, FutileWait};
pub use past::{Past, Present};
pub(crate) use unused::MOST_CHANGES;
pub use unused::{Failing as UnusedWorkload, LaunchedFor, Taken, UnusedLaunches};

use crate::clock::CLOCKS_APART;
use crate::pause::DoublingPause;

/// The time within which a ceiling on launches counts.
const HOUR: Duration = Duration::from_secs(3600);
/// Pause between two trials of what has failed: the first after one node that did not register.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(60), longest: Duration::from_secs(1800) };

/// The ceilings that an operator sets; `None` is no ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// Launches in any hour.
    pub launches: Option<u32>,
    /// $/h of all instances together.
    pub cost: Option<f64>,
}

/// A pool and its class.
pub type PoolAndClass = (String, String);

/// A launch that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedLaunch {
    /// The claim's name.
    pub claim: String,
    /// Its pool and class.
    pub origin: PoolAndClass,
    /// $/h of all instances that exist or are on the way, and of this one at its cheapest; 0 if no ceiling asks for it.
    pub cost: f64,
}

/// The reason that a launch has to wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// The ceiling's number of launches was reached within the hour.
    Launches {
        /// Launches an hour, as the setting has it.
        ceiling: u32,
    },
    /// It would cost too much.
    Cost {
        /// The ceiling, $/h.
        ceiling: f64,
        /// $/h of all instances with it.
        cost: f64,
    },
    /// Nodes of its pool and class do not register.
    Unregistered {
        /// Number of nodes in a row.
        failures: u32,
    },
    /// Launches of its pool, or all, come to nothing.
    Futile(FutileWait),
}

impl Wait {
    /// Its name, for counting and in the log.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Launches { .. } => "max_launches_per_hour",
            Self::Cost { .. } => "max_cost_per_hour",
            Self::Unregistered { .. } => "nodes_do_not_register",
            Self::Futile(_) => "launches_come_to_nothing",
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launches { ceiling } => write!(f, "{ceiling} launches within an hour are allowed, and were made"),
            Self::Cost { ceiling, cost } => write!(f, "${ceiling:.2}/h are allowed, it would be ${cost:.2}/h"),
            Self::Unregistered { failures } => {
                write!(f, "{failures} node(s) in a row did not register, one at a time is tried")
            }
            Self::Futile(wait) => wait.fmt(f),
        }
    }
}

/// A pool and class whose nodes do not register.
#[derive(Clone, Debug, PartialEq)]
struct Failing {
    failures: u32,
    /// Earliest time of the next trial.
    next: Duration,
    /// The claim on trial.
    trial: Option<String>,
}

/// Launches of late and their results.
#[derive(Clone, Debug, Default)]
pub struct LaunchLimits {
    ceilings: Ceilings,
    /// The claim of each launch, and the time until which it counts.
    launched: VecDeque<(String, Duration)>,
    counted: BTreeSet<String>,
    failing: BTreeMap<PoolAndClass, Failing>,
    /// Launches that came to nothing, for any cause.
    pub futile: FutileLaunches,
}

impl LaunchLimits {
    /// Limits with no launch so far.
    #[must_use]
    pub fn new(ceilings: Ceilings) -> Self {
        Self { ceilings, ..Self::default() }
    }

    /// Sets another bound than the default on launches that come to nothing.
    #[must_use]
    pub fn with_bound(self, bound: FutileBound) -> Self {
        Self { futile: FutileLaunches::new(bound), ..self }
    }

    /// True if prices have to be known to ask.
    #[must_use]
    pub fn asks_for_cost(&self) -> bool {
        self.ceilings.cost.is_some()
    }

    /// True if there is any ceiling.
    #[must_use]
    pub fn has_ceilings(&self) -> bool {
        self.asks_for_cost() || self.asks_for_launches()
    }

    /// True if launches have to be counted to ask.
    #[must_use]
    pub fn asks_for_launches(&self) -> bool {
        self.ceilings.launches.is_some()
    }

    /// Counts a claim that was launched `age` ago, by anyone, as a launch of that time, once. Its age is as exact as our
    /// clock and the one that it was dated by agree.
    pub fn made(&mut self, claim: &str, now: Duration, age: Duration) {
        let age = age.saturating_sub(CLOCKS_APART);
        if age < HOUR && self.counted.insert(claim.to_owned()) {
            self.launched.push_back((claim.to_owned(), now + (HOUR - age)));
        }
    }

    /// Asks for a launch; if it is allowed it counts.
    ///
    /// # Errors
    /// The reason that it has to wait.
    pub fn ask(&mut self, ask: &AskedLaunch, now: Duration) -> Result<(), Wait> {
        self.within_ceilings(ask, now)?;
        let failing = self.failing.get_mut(&ask.origin);
        if let Some(failing) = failing.as_ref().filter(|one| one.trial.is_some() || now < one.next) {
            return Err(Wait::Unregistered { failures: failing.failures });
        }
        self.futile.ask(&ask.claim, &ask.origin.0, now).map_err(Wait::Futile)?;
        if let Some(failing) = failing {
            failing.trial = Some(ask.claim.clone());
        }
        self.count(&ask.claim, now);
        Ok(())
    }

    /// Asks for a launch for a claim that is there already, whoever has made it. If it is allowed it counts, once: one that
    /// an earlier leader has begun to launch for counts as of then.
    ///
    /// # Errors
    /// The reason that it has to wait.
    pub fn ask_for_present(&mut self, ask: &AskedLaunch, now: Duration) -> Result<(), Wait> {
        self.within_ceilings(ask, now)?;
        self.futile.begun(&ask.claim, &ask.origin.0);
        self.count(&ask.claim, now);
        Ok(())
    }

    /// Checks that the ceilings leave room for a launch, beside all others.
    fn within_ceilings(&mut self, ask: &AskedLaunch, now: Duration) -> Result<(), Wait> {
        self.launched.retain(|(_, until)| now < *until);
        let counts = self.counted.contains(&ask.claim);
        let others = self.launched.iter().filter(|(claim, _)| !counts || *claim != ask.claim).count();
        if let Some(ceiling) = self.ceilings.launches
            && others >= usize::try_from(ceiling).unwrap_or(usize::MAX)
        {
            return Err(Wait::Launches { ceiling });
        }
        if let Some(ceiling) = self.ceilings.cost
            && ask.cost > ceiling
        {
            return Err(Wait::Cost { ceiling, cost: ask.cost });
        }
        Ok(())
    }

    fn count(&mut self, claim: &str, now: Duration) {
        if self.counted.insert(claim.to_owned()) {
            self.launched.push_back((claim.to_owned(), now + HOUR));
        }
    }

    /// A node has registered: its pool and class are trusted again. Answers true if they were not.
    pub fn registered(&mut self, origin: &PoolAndClass) -> bool {
        self.failing.remove(origin).is_some()
    }

    /// A node has not registered in its time. Nodes that were launched before the first failure say nothing new.
    pub fn not_registered(&mut self, claim: &str, origin: &PoolAndClass, now: Duration) {
        let failing = self.failing.entry(origin.clone()).or_insert_with(|| Failing {
            failures: 0,
            next: now,
            trial: Some(claim.to_owned()),
        });
        if failing.trial.as_deref() != Some(claim) {
            return;
        }
        failing.next = now + PAUSE.length_after(failing.failures);
        failing.failures += 1;
        failing.trial = None;
    }

    /// A claim is gone, for any reason: if it was a trial another may follow. Answers the pool and class of the trial.
    pub fn gone(&mut self, claim: &str) -> Option<PoolAndClass> {
        self.counted.remove(claim);
        let (origin, failing) = self.failing.iter_mut().find(|(_, one)| one.trial.as_deref() == Some(claim))?;
        failing.trial = None;
        Some(origin.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ask(claim: &str) -> AskedLaunch {
        AskedLaunch { claim: claim.into(), origin: ("pool".into(), "class".into()), cost: 0.0 }
    }

    #[test]
    fn without_ceilings_everything_is_allowed() {
        let mut limits = LaunchLimits::new(Ceilings::default());
        assert!((0..1000).all(|n| limits.ask(&ask(&n.to_string()), at(0)).is_ok()));
    }

    #[test]
    fn no_more_than_the_ceiling_is_launched_in_any_hour() {
        let mut limits = LaunchLimits::new(Ceilings { launches: Some(3), cost: None });
        let mut times: Vec<u64> = Vec::new();
        for second in (0..20_000).step_by(100) {
            if limits.ask(&ask(&second.to_string()), at(second)).is_ok() {
                times.push(second);
            }
        }
        assert_eq!(times.len(), 3 * 6, "{times:?}");
        assert!(times.iter().all(|from| times.iter().filter(|t| (*from..from + 3600).contains(t)).count() <= 3));
    }

    #[test]
    fn what_an_earlier_leader_launched_counts_once() {
        let mut limits = LaunchLimits::new(Ceilings { launches: Some(2), cost: None });
        limits.made("a", at(4000), at(100));
        limits.made("a", at(4000), at(100));
        limits.made("old", at(4000), HOUR + CLOCKS_APART);
        assert!(limits.ask(&ask("b"), at(4000)).is_ok());
        assert_eq!(limits.ask(&ask("c"), at(4000)), Err(Wait::Launches { ceiling: 2 }));
    }

    #[test]
    fn launch_within_the_hour_by_a_skewed_clock_counts() {
        let mut limits = LaunchLimits::new(Ceilings { launches: Some(1), cost: None });
        limits.made("old", at(4000), HOUR + CLOCKS_APART - at(1));
        assert_eq!(limits.ask(&ask("a"), at(4000)), Err(Wait::Launches { ceiling: 1 }));
        assert!(limits.ask(&ask("a"), at(4001)).is_ok());
    }

    #[test]
    fn hand_made_claims_wait_at_ceiling_and_count_when_launched() {
        let mut limits = LaunchLimits::new(Ceilings { launches: Some(2), cost: None });
        assert!(limits.ask_for_present(&ask("by-hand-1"), at(0)).is_ok());
        assert!(limits.ask_for_present(&ask("by-hand-1"), at(1)).is_ok(), "once");
        assert!(limits.ask_for_present(&ask("by-hand-2"), at(2)).is_ok());
        let waits = Err(Wait::Launches { ceiling: 2 });
        assert_eq!(limits.ask_for_present(&ask("by-hand-3"), at(3)), waits);
        assert_eq!(limits.ask(&ask("ours"), at(3)), waits);
        assert!(limits.ask_for_present(&ask("by-hand-3"), at(3600)).is_ok(), "the first counts no longer");
    }

    #[test]
    fn launch_begun_by_earlier_leader_does_not_wait_for_itself() {
        let mut limits = LaunchLimits::new(Ceilings { launches: Some(2), cost: None });
        limits.made("a", at(4000), at(100));
        limits.made("b", at(4000), at(100));
        assert!(limits.ask_for_present(&ask("a"), at(4001)).is_ok());
        assert_eq!(limits.ask_for_present(&ask("c"), at(4001)), Err(Wait::Launches { ceiling: 2 }));
    }

    #[test]
    fn what_would_cost_too_much_waits() {
        let mut limits = LaunchLimits::new(Ceilings { launches: None, cost: Some(1.0) });
        assert!(limits.ask(&AskedLaunch { cost: 1.0, ..ask("a") }, at(0)).is_ok());
        let wait = limits.ask(&AskedLaunch { cost: 1.01, ..ask("b") }, at(0)).unwrap_err();
        assert_eq!(wait.to_string(), "$1.00/h are allowed, it would be $1.01/h");
    }

    #[test]
    fn unregistered_nodes_are_tried_singly_with_growing_pauses() {
        let (mut limits, origin) = (LaunchLimits::new(Ceilings::default()), ask("x").origin);
        for claim in ["a", "b", "c"] {
            limits.ask(&ask(claim), at(0)).unwrap();
        }
        for claim in ["a", "b", "c"] {
            limits.not_registered(claim, &origin, at(900));
        }
        let waiting = Err(Wait::Unregistered { failures: 1 });
        assert_eq!(limits.ask(&ask("d"), at(959)), waiting, "b and c were launched before anybody knew");
        assert!(limits.ask(&ask("d"), at(960)).is_ok());
        assert_eq!(limits.ask(&ask("e"), at(961)), waiting, "one at a time");
        limits.not_registered("d", &origin, at(2000));
        assert!(limits.ask(&ask("e"), at(2119)).is_err());
        assert!(limits.ask(&ask("e"), at(2120)).is_ok());
        assert!(limits.ask(&AskedLaunch { origin: ("other".into(), "class".into()), ..ask("f") }, at(2120)).is_ok());
        assert!(limits.registered(&origin));
        assert!((0..5).all(|n| limits.ask(&ask(&n.to_string()), at(2121)).is_ok()));
    }

    #[test]
    fn a_trial_that_goes_for_another_reason_makes_room_for_the_next() {
        let (mut limits, origin) = (LaunchLimits::new(Ceilings::default()), ask("x").origin);
        limits.not_registered("a", &origin, at(0));
        limits.ask(&ask("b"), at(60)).unwrap();
        assert_eq!(limits.gone("another"), None);
        assert_eq!(limits.gone("b"), Some(origin));
        assert!(limits.ask(&ask("c"), at(61)).is_ok());
    }
}
