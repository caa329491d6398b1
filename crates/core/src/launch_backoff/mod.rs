//! Launches that are refused: by the API server, which does not accept the NodeClaim, or by EC2. A pool that cannot serve is
//! tried again less and less often, one claim at a time, and packing leaves it out meanwhile. A demand that EC2 has no capacity
//! for is probed by one claim, and its answer holds for all claims with the same demand (docs/decisions/038).
//!
//! Pure: time and jitter are handed in. A new leader begins with nothing known: the bounds hold for each term.

mod demand;
mod pause;
mod sold_out;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub use demand::Demand;
use pause::Pauses;
use sold_out::SoldOutDemands;
pub use turn::LaunchTurn;

pub use crate::cluster_state::ClosedPool;

/// Creations of a pool's claims under way at once until one is created.
const FIRST_CREATIONS: usize = 2;
/// Launches of a pool under way at once until one is launched.
const FIRST_LAUNCHES: usize = 3;
/// Time for which a creation or a launch shows that the next will succeed.
const PROVEN_FOR: Duration = Duration::from_secs(600);
/// Time for which a launch without an answer holds up others of its pool.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Time after which a refusal is forgotten.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Most refused shapes, and most demands without capacity, that are remembered.
const MOST: usize = 1000;

/// The reason that launches of a pool are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackoffCause {
    /// The API server refuses its NodeClaims: validation, admission, a quota.
    ClaimRefused,
    /// Its EC2NodeClass cannot be used.
    ClassNotReady,
    /// EC2 refuses the call for this reason of a NodeClaim's condition, and will refuse it again.
    Call(&'static str),
    /// EC2 has no capacity for the demand.
    SoldOut,
}

impl BackoffCause {
    /// Its name, for counting and in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaimRefused => "claim_refused",
            Self::ClassNotReady => "nodeclass_not_ready",
            Self::Call(_) => "call_refused",
            Self::SoldOut => "sold_out",
        }
    }
}

impl fmt::Display for BackoffCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimRefused => f.write_str("the API server refuses its NodeClaims"),
            Self::ClassNotReady => f.write_str("its EC2NodeClass cannot be used"),
            Self::Call(reason) => write!(f, "EC2 refuses its launches ({reason})"),
            Self::SoldOut => f.write_str("EC2 has nothing for what they ask for"),
        }
    }
}

/// The answer to the question whether a launch may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchVerdict {
    /// The launch may begin now.
    Go,
    /// It may begin when others that are under way have been answered, or that takes too long.
    AfterOthers,
    /// It may not begin before then, on the monotonic clock.
    Wait {
        /// The time at which it may begin.
        until: Duration,
        /// The reason for the wait.
        cause: BackoffCause,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchOutcome {
    /// There is an instance.
    Launched,
    /// It was refused for a reason that concerns its pool, in these words.
    Refused(BackoffCause, String),
    /// EC2 has nothing for it.
    SoldOut,
    /// The claim went while it was launched, and not by us.
    Vanished,
    /// Any other outcome, without consequences here.
    Other,
}

/// A launch under way.
#[derive(Clone, Debug)]
struct Running {
    demand: Demand,
    since: Duration,
}

/// The refusals of a pool's launches by one cause.
#[derive(Clone, Debug)]
struct Refusing {
    pauses: Pauses,
    generation: Option<i64>,
    words: String,
}

/// Launches and refusals of a pool.
#[derive(Clone, Debug, Default)]
struct PoolKnown {
    /// Time and shape of the last claim of it that was created.
    created: Option<(Duration, String)>,
    launched: Option<Duration>,
    refusing: BTreeMap<BackoffCause, Refusing>,
}

/// Launches under way, and refusals of late: by pool, by shape of the claim, and by demands that EC2 has no capacity for.
#[derive(Clone, Debug, Default)]
pub struct LaunchBackoff {
    running: BTreeMap<String, Running>,
    pools: BTreeMap<String, PoolKnown>,
    /// Shapes of claims that the API server refuses for their pods' rules, by pool and shape.
    shapes: BTreeMap<(String, String), Pauses>,
    sold_out: SoldOutDemands,
}

impl LaunchBackoff {
    /// Decides whether a launch may begin now.
    #[must_use]
    pub fn ask(&self, demand: &Demand, now: Duration) -> LaunchVerdict {
        let pool = self.pools.get(&demand.pool);
        for (cause, one) in pool.iter().flat_map(|pool| &pool.refusing).filter(|(_, one)| one.concerns(demand)) {
            if let Some(verdict) = one.pauses.verdict(now, *cause) {
                return verdict;
            }
        }
        let shape = self.shapes.get(&(demand.pool.clone(), demand.shape.clone()));
        if let Some(verdict) = shape.and_then(|one| one.verdict(now, BackoffCause::ClaimRefused)) {
            return verdict;
        }
        if let Some(verdict) = self.sold_out.verdict(demand, now) {
            return verdict;
        }
        let others = |like: &dyn Fn(&Demand) -> bool| {
            self.running.values().filter(|one| now < one.since + ANSWERED_WITHIN && like(&one.demand)).count()
        };
        let few = self.sold_out.is_near(demand, now).then(|| others(&|other| other.is_in_the_same_market(demand)));
        if few.is_some_and(|few| few >= sold_out::AT_ONCE) {
            return LaunchVerdict::AfterOthers;
        }
        match pool.map_or(Some(FIRST_CREATIONS), |pool| pool.at_once(now)) {
            Some(bound) if others(&|other| other.pool == demand.pool) >= bound => LaunchVerdict::AfterOthers,
            _ => LaunchVerdict::Go,
        }
    }

    /// Number of refusals in a row of the shape of a claim: of several claims that may be a pool's trial, the one with the
    /// fewest says most about the pool.
    #[must_use]
    pub fn refusals_of_shape(&self, demand: &Demand) -> u32 {
        self.shapes.get(&(demand.pool.clone(), demand.shape.clone())).map_or(0, |one| one.failures)
    }

    pub fn begin(&mut self, claim: &str, demand: &Demand, now: Duration) {
        let pool = self.pools.entry(demand.pool.clone()).or_default();
        pool.refusing.retain(|_, one| one.concerns(demand));
        pool.refusing.values_mut().for_each(|one| one.pauses.begin(claim, now));
        if let Some(shape) = self.shapes.get_mut(&(demand.pool.clone(), demand.shape.clone())) {
            shape.begin(claim, now);
        }
        self.sold_out.begin(claim, demand, now);
        self.running.insert(claim.to_owned(), Running { demand: demand.clone(), since: now });
        self.forget(now);
    }

    /// A claim has been created: the API server has nothing against its pool. Answers whether that is news.
    pub fn created(&mut self, claim: &str, now: Duration) -> bool {
        let Some(Running { demand, .. }) = self.running.get(claim) else { return false };
        let pool = self.pools.entry(demand.pool.clone()).or_default();
        let before = pool.at_once(now);
        pool.created = Some((now, demand.shape.clone()));
        self.shapes.remove(&(demand.pool.clone(), demand.shape.clone()));
        let reopened = pool.refusing.remove(&BackoffCause::ClaimRefused).is_some();
        reopened || before != pool.at_once(now)
    }

    /// A launch under way is refused for a reason that concerns its pool, and goes on trying by itself. `jitter` is 0 to 1.
    pub fn fails(&mut self, claim: &str, cause: BackoffCause, words: &str, now: Duration, jitter: f64) {
        if let Some(running) = self.running.get(claim).cloned() {
            self.refused(claim, &running, cause, words, now, jitter);
        }
    }

    /// The demand of a launch under way.
    #[must_use]
    pub fn demand(&self, claim: &str) -> Option<Demand> {
        self.running.get(claim).map(|one| one.demand.clone())
    }

    /// A launch was not begun after all.
    pub fn withdrawn(&mut self, claim: &str) {
        self.running.remove(claim);
        self.release(claim);
    }

    /// A launch has ended. `jitter` is 0 to 1. Answers its demand, if it was begun here.
    pub fn ended(&mut self, claim: &str, outcome: &LaunchOutcome, now: Duration, jitter: f64) -> Option<Demand> {
        let running = self.running.remove(claim)?;
        match outcome {
            LaunchOutcome::Launched => self.launched(&running.demand, now),
            LaunchOutcome::SoldOut => self.sold_out.refused(&running.demand, now),
            LaunchOutcome::Refused(cause, words) => self.refused(claim, &running, *cause, words, now, jitter),
            LaunchOutcome::Vanished | LaunchOutcome::Other => {}
        }
        self.release(claim);
        Some(running.demand)
    }

    /// The pools that packing leaves out now.
    #[must_use]
    pub fn closed(&self, now: Duration) -> BTreeMap<String, ClosedPool> {
        let mut closed = BTreeMap::new();
        for (name, pool) in &self.pools {
            let of = pool.refusing.iter().filter_map(|(cause, one)| Some((one.pauses.closed(now)?, cause, one)));
            let Some((until, cause, one)) = of.max_by_key(|(until, cause, _)| (*until, **cause)) else { continue };
            let why = format!("{cause}: {}", one.words);
            closed.insert(name.clone(), ClosedPool { until, generation: one.generation, why });
        }
        closed
    }

    fn launched(&mut self, demand: &Demand, now: Duration) {
        let pool = self.pools.entry(demand.pool.clone()).or_default();
        pool.launched = Some(now);
        pool.refusing.clear();
        self.sold_out.launched(demand);
    }

    fn refused(
        &mut self,
        claim: &str,
        running: &Running,
        cause: BackoffCause,
        words: &str,
        now: Duration,
        jitter: f64,
    ) {
        let demand = &running.demand;
        let pool = self.pools.entry(demand.pool.clone()).or_default();
        if cause == BackoffCause::ClaimRefused {
            let key = (demand.pool.clone(), demand.shape.clone());
            self.shapes.entry(key).or_default().refused(claim, cause, running.since, now, jitter);
            // Other claims of the pool are created: only this claim's shape is refused.
            let other =
                |(at, shape): &(Duration, String)| now.saturating_sub(*at) < REMEMBERED && *shape != demand.shape;
            if pool.created.as_ref().is_some_and(other) {
                return;
            }
            pool.created = None;
        }
        pool.launched = None;
        let fresh = || Refusing { pauses: Pauses::default(), generation: demand.generation, words: String::new() };
        let one = pool.refusing.entry(cause).or_insert_with(fresh);
        words.clone_into(&mut one.words);
        one.pauses.refused(claim, cause, running.since, now, jitter);
    }

    /// Nothing waits for the result of this launch any more.
    fn release(&mut self, claim: &str) {
        let refusing = self.pools.values_mut().flat_map(|pool| pool.refusing.values_mut()).map(|one| &mut one.pauses);
        for one in refusing.chain(self.shapes.values_mut()) {
            one.release(claim);
        }
        self.sold_out.release(claim);
    }

    fn forget(&mut self, now: Duration) {
        for pool in self.pools.values_mut() {
            pool.refusing.retain(|_, one| one.pauses.is_remembered(now));
        }
        self.shapes.retain(|_, one| one.is_remembered(now));
        while self.shapes.len() > MOST {
            let oldest = self.shapes.iter().min_by_key(|(_, one)| one.last).map(|(key, _)| key.clone());
            oldest.map(|key| self.shapes.remove(&key));
        }
        let running: std::collections::BTreeSet<&String> = self.running.values().map(|one| &one.demand.pool).collect();
        let lately = |at: Option<Duration>| at.is_some_and(|at| now.saturating_sub(at) < REMEMBERED);
        self.pools.retain(|name, pool| {
            let created = pool.created.as_ref().map(|(at, _)| *at);
            running.contains(name) || !pool.refusing.is_empty() || lately(created) || lately(pool.launched)
        });
        self.sold_out.forget(now);
    }
}

impl PoolKnown {
    /// Most launches of the pool that may be under way; no bound while they succeed.
    fn at_once(&self, now: Duration) -> Option<usize> {
        let lately = |at: Option<Duration>| at.is_some_and(|at| now.saturating_sub(at) < PROVEN_FOR);
        if lately(self.launched) {
            None
        } else if lately(self.created.as_ref().map(|(at, _)| *at)) {
            Some(FIRST_LAUNCHES)
        } else {
            Some(FIRST_CREATIONS)
        }
    }
}

impl Refusing {
    /// True if the refusal was about the pool as it is now.
    fn concerns(&self, demand: &Demand) -> bool {
        self.generation == demand.generation
    }
}
