//! Launches that come to nothing, whatever the cause: a NodeClaim that goes before its node is ready, a node that does not
//! register, a node that is not used. By pool and in all no more than a bound of them come within an hour; then one launch at
//! a time is tried, after pauses that double, until a node of the pool comes to be used (docs/decisions/055).
//!
//! ```text
//! ask ─► open ──► ready ── stays ready for a while ─► used: what the pool has lost is forgotten
//!          │        └───── not used by its pods ────► lost
//!          ├── the claim goes, or does not register ─► lost
//!          └── nothing can have been launched ───────► withdrawn
//! ```
//!
//! A clear refusal (no capacity, no permission, a claim that the API server does not accept) is no loss: those have bounds of
//! their own ([`crate::launch_backoff`]).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use super::{HOUR, PAUSE};

/// Default bound on launches of one pool that may come to nothing within an hour: with spot capacity and slow joiners a few
/// do where nothing is wrong.
const MOST_LAUNCHES: u32 = 10;
/// Default bound on the $/h of such launches of one pool: about one of the largest machines.
const MOST_COST: f64 = 100.0;
/// Bound of all pools together, as a multiple of that of one.
const IN_ALL: u32 = 3;
/// Time after which a ready node that was not reported as unused counts as used: kube-scheduler has had its time.
const JUDGED_AFTER: Duration = Duration::from_secs(90);
/// Time after which a trial without a result holds up no other.
const TRIAL: Duration = Duration::from_secs(40 * 60);

/// Bound on the number and the $/h of launches of one pool that may come to nothing within an hour; the largest values are no
/// bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FutileBound {
    /// Number of launches.
    pub launches: u32,
    /// Their $/h together.
    pub cost: f64,
}

impl Default for FutileBound {
    fn default() -> Self {
        Self { launches: MOST_LAUNCHES, cost: MOST_COST }
    }
}

/// The reason that a launch came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FutileCause {
    /// Its NodeClaim went before its node was ready for pods.
    ClaimGone,
    /// Its node did not register, or did not get ready, in its time.
    NotRegistered,
    /// Its node was ready, and none of the pods that it was launched for came to it.
    NotUsed,
    /// An instance without a NodeClaim was there when the term began.
    Orphaned,
}

impl FutileCause {
    /// The words for a sentence, after a number.
    fn words(self) -> &'static str {
        match self {
            Self::ClaimGone => "whose NodeClaim went before its node was ready",
            Self::NotRegistered => "whose node did not register or get ready in time",
            Self::NotUsed => "whose node was not used by its pods",
            Self::Orphaned => "that an earlier leader left without a NodeClaim",
        }
    }
}

/// The reason that a launch waits: launches lost within the hour, by the pool or by all.
#[derive(Clone, Debug, PartialEq)]
pub struct FutileWait {
    /// The pool; empty if it is about all pools together.
    pub pool: String,
    /// Launches that came to nothing, by cause.
    pub causes: Vec<(FutileCause, u32)>,
    /// Their $/h together.
    pub cost: f64,
}

impl fmt::Display for FutileWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: u32 = self.causes.iter().map(|(_, count)| count).sum();
        let of = match self.pool.as_str() {
            "" => "of all NodePools".to_owned(),
            pool => format!("of NodePool {pool}"),
        };
        let each: Vec<String> = self.causes.iter().map(|(cause, count)| format!("{count} {}", cause.words())).collect();
        let (cost, each) = (self.cost, each.join(", "));
        write!(
            f,
            "{count} launches {of} within an hour came to nothing, ${cost:.2}/h together: {each}. This brake keeps a fault from \
             being paid for again and again: one launch at a time is tried, until a node comes to be used"
        )
    }
}

/// A launch that has come to nothing.
#[derive(Clone, Debug, PartialEq)]
struct Lost {
    at: Duration,
    cost: f64,
    cause: FutileCause,
}

/// One launch at a time, after pauses that double.
#[derive(Clone, Debug, Default, PartialEq)]
struct Trials {
    failures: u32,
    /// Earliest time of the next trial.
    next: Duration,
    /// The claim on trial, and the time since when it is.
    trial: Option<(String, Duration)>,
}

impl Trials {
    fn may_begin(&self, now: Duration) -> bool {
        now >= self.next && self.trial.as_ref().is_none_or(|(_, since)| now >= *since + TRIAL)
    }

    /// A launch was lost while the brake is on. One that was under way when it came on says nothing new.
    fn lost(&mut self, claim: &str, now: Duration) {
        let own = self.trial.as_ref().is_some_and(|(trial, _)| trial == claim);
        if own || self.failures == 0 {
            self.next = now + PAUSE.length_after(self.failures);
            self.failures = self.failures.saturating_add(1);
            self.trial = None;
        }
    }

    fn release(&mut self, claim: &str) {
        self.trial.take_if(|(trial, _)| trial == claim);
    }
}

/// Recent losses of one pool.
#[derive(Clone, Debug, Default, PartialEq)]
struct Losses {
    lost: VecDeque<Lost>,
    /// Time at which a node of it last came to be used.
    proven: Option<Duration>,
    trials: Trials,
}

/// A launch whose result is not known yet.
#[derive(Clone, Debug, PartialEq)]
struct Open {
    pool: String,
    cost: f64,
    /// Time since which its node is ready for pods.
    ready: Option<Duration>,
    /// Its claim is gone, and its launch has not ended.
    gone: bool,
}

/// Launches and their results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FutileLaunches {
    bound: FutileBound,
    /// Open launches, by the claim's name.
    open: BTreeMap<String, Open>,
    pools: BTreeMap<String, Losses>,
    /// Trials of all pools together.
    all: Trials,
}

impl FutileLaunches {
    /// No launches so far.
    #[must_use]
    pub fn new(bound: FutileBound) -> Self {
        Self { bound, ..Self::default() }
    }

    /// Asks for a launch of a claim of a pool, or for one that continues. If it is allowed it becomes open.
    ///
    /// # Errors
    /// The losses for which it has to wait.
    pub fn ask(&mut self, claim: &str, pool: &str, now: Duration) -> Result<(), FutileWait> {
        if self.open.contains_key(claim) {
            return Ok(());
        }
        self.settle(now);
        let (pool_over, all_over) = (self.is_over(pool), self.are_over(pool, now));
        let losses = self.pools.get(pool);
        if pool_over && losses.is_some_and(|one| !one.trials.may_begin(now)) {
            return Err(self.wait(Some(pool)));
        }
        if all_over && !self.all.may_begin(now) {
            return Err(self.wait(None));
        }
        let on_trial = Some((claim.to_owned(), now));
        if pool_over && let Some(losses) = self.pools.get_mut(pool) {
            losses.trials.trial.clone_from(&on_trial);
        }
        if all_over {
            self.all.trial = on_trial;
        }
        self.begun(claim, pool);
        Ok(())
    }

    /// Notes a launch for a claim that is there already, whoever has made it: it is not repeated by us, and does not wait.
    pub fn begun(&mut self, claim: &str, pool: &str) {
        let open = || Open { pool: pool.to_owned(), cost: 0.0, ready: None, gone: false };
        self.open.entry(claim.to_owned()).or_insert_with(open);
    }

    /// Sets the cost of an open launch's instance, $/h.
    pub fn costs(&mut self, claim: &str, cost: f64) {
        if let Some(open) = self.open.get_mut(claim) {
            open.cost = cost.max(0.0);
        }
    }

    /// The claim of a running launch is gone: the result is known when the launch ends.
    pub fn gone(&mut self, claim: &str) {
        if let Some(open) = self.open.get_mut(claim) {
            open.gone = true;
        }
    }

    /// A launch has an instance, at `cost` $/h.
    pub fn launched(&mut self, claim: &str, cost: f64, now: Duration) {
        self.costs(claim, cost);
        if self.open.get(claim).is_some_and(|open| open.gone) {
            self.lost(claim, FutileCause::ClaimGone, now);
        }
    }

    /// The claim's node is ready for pods. Another trial may follow.
    pub fn ready(&mut self, claim: &str, now: Duration) {
        if let Some(open) = self.open.get_mut(claim) {
            open.ready.get_or_insert(now);
            let pool = open.pool.clone();
            self.release(claim, &pool);
        }
    }

    /// A launch has come to nothing. Answers true if it was open: each counts once.
    pub fn lost(&mut self, claim: &str, cause: FutileCause, now: Duration) -> bool {
        self.settle(now);
        let Some(open) = self.open.remove(claim) else { return false };
        // Its node was ready, and it is not known to have been wanted: its pods may have gone, or have found room elsewhere.
        if open.ready.is_some() && cause == FutileCause::ClaimGone {
            return false;
        }
        self.count(claim, &open.pool, Lost { at: now, cost: open.cost, cause });
        true
    }

    /// Counts an instance that an earlier leader has left without a claim.
    pub fn orphaned(&mut self, id: &str, pool: &str, now: Duration) {
        self.count(id, pool, Lost { at: now, cost: 0.0, cause: FutileCause::Orphaned });
    }

    /// A launch is known to have made no instance: it is no loss.
    pub fn withdrawn(&mut self, claim: &str) {
        if let Some(open) = self.open.remove(claim) {
            self.release(claim, &open.pool);
        }
    }

    fn count(&mut self, claim: &str, pool: &str, lost: Lost) {
        let now = lost.at;
        let losses = self.pools.entry(pool.to_owned()).or_default();
        losses.lost.push_back(lost);
        if self.is_over(pool)
            && let Some(losses) = self.pools.get_mut(pool)
        {
            losses.trials.lost(claim, now);
        }
        if self.are_over("", now) {
            self.all.lost(claim, now);
        }
        // A lost trial is over even if the bound is kept again meanwhile.
        self.release(claim, pool);
    }

    fn release(&mut self, claim: &str, pool: &str) {
        if let Some(losses) = self.pools.get_mut(pool) {
            losses.trials.release(claim);
        }
        self.all.release(claim);
    }

    /// Counts nodes that have been ready for long enough as used, and forgets losses of more than an hour ago.
    fn settle(&mut self, now: Duration) {
        let used = |open: &Open| open.ready.map(|since| since + JUDGED_AFTER).filter(|at| now >= *at);
        let pools: Vec<(String, Duration)> =
            self.open.values().filter_map(|open| Some((open.pool.clone(), used(open)?))).collect();
        self.open.retain(|_, open| used(open).is_none());
        for (pool, at) in pools {
            let losses = self.pools.entry(pool).or_default();
            // As of then, however late it is looked at.
            *losses = Losses { proven: losses.proven.max(Some(at)), ..Losses::default() };
        }
        for losses in self.pools.values_mut() {
            losses.lost.retain(|one| now < one.at + HOUR);
        }
        let lately = |one: &Losses| one.proven.is_some_and(|at| now < at + HOUR);
        self.pools.retain(|_, one| lately(one) || !one.lost.is_empty());
        if self.pools.values().all(|one| one.lost.is_empty()) {
            self.all = Trials::default();
        }
    }

    fn is_over(&self, pool: &str) -> bool {
        let bound = self.bound;
        self.pools.get(pool).is_some_and(|one| exceeds(one.lost.iter(), bound.launches, bound.cost))
    }

    /// True if all pools together have lost as much as they may; a pool of which a node came to be used within the hour is
    /// not concerned.
    fn are_over(&self, pool: &str, now: Duration) -> bool {
        let bound = self.bound;
        let proven = self.pools.get(pool).and_then(|one| one.proven).is_some_and(|at| now < at + HOUR);
        let lost = self.pools.values().flat_map(|one| &one.lost);
        !proven && exceeds(lost, bound.launches.saturating_mul(IN_ALL), bound.cost * f64::from(IN_ALL))
    }

    fn wait(&self, pool: Option<&str>) -> FutileWait {
        let of = |name: &&String| pool.is_none_or(|pool| pool == name.as_str());
        let lost = || self.pools.iter().filter(|(name, _)| of(name)).flat_map(|(_, one)| &one.lost);
        let mut causes: BTreeMap<FutileCause, u32> = BTreeMap::new();
        for one in lost() {
            *causes.entry(one.cause).or_default() += 1;
        }
        let cost = lost().map(|one| one.cost).sum();
        FutileWait { pool: pool.unwrap_or_default().to_owned(), causes: causes.into_iter().collect(), cost }
    }
}

fn exceeds<'a>(lost: impl Iterator<Item = &'a Lost>, launches: u32, cost: f64) -> bool {
    let (count, sum) = lost.fold((0_u32, 0.0), |(count, sum), one| (count.saturating_add(1), sum + one.cost));
    count >= launches || (count > 0 && sum >= cost)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn brake(launches: u32, cost: f64) -> FutileLaunches {
        FutileLaunches::new(FutileBound { launches, cost })
    }

    /// Launches of a pool that are asked for every second and lost a second later: the times at which they were allowed.
    fn lose(brake: &mut FutileLaunches, pool: &str, seconds: std::ops::Range<u64>, cause: FutileCause) -> Vec<u64> {
        let mut allowed = Vec::new();
        for second in seconds {
            let claim = format!("{pool}-{second}");
            if brake.ask(&claim, pool, at(second)).is_ok() {
                allowed.push(second);
                brake.costs(&claim, 1.0);
                brake.lost(&claim, cause, at(second));
            }
        }
        allowed
    }

    #[test]
    fn after_ten_losses_one_launch_at_a_time_is_tried() {
        let mut brake = FutileLaunches::new(FutileBound::default());
        let allowed = lose(&mut brake, "a", 0..7200, FutileCause::ClaimGone);
        assert_eq!(allowed[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(allowed[10..14], [69, 189, 429, 909], "after 1, 2, 4 and 8 minutes");
        let in_an_hour = |from: u64| allowed.iter().filter(|t| (from..from + 3600).contains(*t)).count();
        assert!(allowed.iter().all(|from| in_an_hour(*from) <= 16), "{allowed:?}");
        let wait = brake.ask("next", "a", at(7200)).unwrap_err().to_string();
        assert!(
            wait.contains("launches of NodePool a within an hour came to nothing") && wait.contains("NodeClaim went")
        );
    }

    #[test]
    fn trial_lost_after_older_losses_expired_holds_nobody_up() {
        let mut brake = brake(3, 100.0);
        lose(&mut brake, "a", 0..3, FutileCause::ClaimGone);
        brake.ask("trial", "a", at(3590)).unwrap();
        assert!(brake.lost("trial", FutileCause::NotRegistered, at(3700)));
        lose(&mut brake, "a", 3701..3703, FutileCause::ClaimGone);
        assert!(brake.ask("x", "a", at(3703)).is_err(), "the brake is on again");
        assert!(
            brake.ask("x", "a", at(3703 + 61)).is_ok(),
            "and the next trial does not wait for the one that was lost"
        );
    }

    #[test]
    fn dollars_put_the_brake_on_before_the_number_does() {
        let mut brake = brake(10, 100.0);
        for claim in ["a", "b"] {
            brake.ask(claim, "gpu", at(0)).unwrap();
            brake.costs(claim, 55.0);
        }
        assert!(brake.lost("a", FutileCause::NotRegistered, at(10)));
        assert!(brake.ask("c", "gpu", at(10)).is_ok());
        assert!(brake.lost("b", FutileCause::NotRegistered, at(11)));
        let wait = brake.ask("d", "gpu", at(12)).unwrap_err();
        assert_eq!((wait.cost, wait.causes), (110.0, vec![(FutileCause::NotRegistered, 2)]));
        assert!(brake.ask("d", "other", at(12)).is_ok(), "another pool is not concerned");
    }

    #[test]
    fn node_that_comes_to_be_used_takes_the_brake_off() {
        let mut brake = brake(3, 100.0);
        lose(&mut brake, "a", 0..3, FutileCause::ClaimGone);
        assert!(brake.ask("x", "a", at(10)).is_err());
        brake.ask("x", "a", at(100)).unwrap();
        assert!(brake.ask("y", "a", at(101)).is_err(), "one at a time");
        brake.ready("x", at(140));
        assert!(brake.ask("y", "a", at(141)).is_ok(), "the trial is ready: the next may follow");
        assert!(brake.ask("z", "a", at(142)).is_err());
        assert!((0..9).all(|n| brake.ask(&n.to_string(), "a", at(230)).is_ok()), "it is used");
        assert!(!brake.lost("x", FutileCause::ClaimGone, at(5000)), "it has had its use");
    }

    #[test]
    fn ready_nodes_are_lost_only_if_their_pods_wait() {
        let mut brake = brake(2, 100.0);
        for claim in ["a", "b", "c"] {
            brake.ask(claim, "p", at(0)).unwrap();
            brake.ready(claim, at(40));
        }
        assert!(!brake.lost("a", FutileCause::ClaimGone, at(60)), "its pods have gone");
        assert!(brake.lost("b", FutileCause::NotUsed, at(61)) && brake.lost("c", FutileCause::NotUsed, at(62)));
        assert!(brake.ask("d", "p", at(63)).is_err());
    }

    #[test]
    fn what_is_known_not_to_have_been_launched_is_no_loss() {
        let mut brake = brake(1, 100.0);
        for n in 0..100 {
            brake.ask("a", "p", at(n)).unwrap();
            brake.withdrawn("a");
        }
        assert!(!brake.lost("a", FutileCause::ClaimGone, at(100)));
    }

    #[test]
    fn many_pools_together_lose_three_times_what_one_may() {
        let mut brake = brake(10, 100.0);
        brake.ask("good", "proven", at(0)).unwrap();
        brake.ready("good", at(1));
        let allowed: usize = (0..20)
            .map(|pool| {
                lose(&mut brake, &format!("p{pool}"), 100 + pool * 10..110 + pool * 10, FutileCause::ClaimGone).len()
            })
            .sum();
        // The trials of all pools come after 1, 2, … minutes.
        assert!((30..=33).contains(&allowed), "{allowed}");
        let wait = brake.ask("x", "new", at(301)).unwrap_err();
        assert!(wait.pool.is_empty() && wait.to_string().contains("of all NodePools"));
        assert!(brake.ask("x", "proven", at(301)).is_ok(), "a pool that works is not concerned");
    }

    #[test]
    fn pool_is_proven_for_an_hour_from_the_use_of_its_node() {
        let mut brake = brake(1, 100.0);
        brake.ask("good", "proven", at(0)).unwrap();
        brake.ready("good", at(0));
        // Nothing is asked for or lost for an hour and a half.
        lose(&mut brake, "a", 5400..5401, FutileCause::ClaimGone);
        lose(&mut brake, "b", 5401..5402, FutileCause::ClaimGone);
        lose(&mut brake, "c", 5402..5403, FutileCause::ClaimGone);
        assert!(brake.ask("x", "proven", at(5403)).is_err(), "what it was used for is too long ago");
    }

    #[test]
    fn instances_that_an_earlier_leader_left_behind_count() {
        let mut brake = brake(3, 100.0);
        for id in ["i-1", "i-2", "i-3"] {
            brake.orphaned(id, "p", at(5));
        }
        assert!(brake.ask("a", "p", at(6)).is_err());
        assert!(brake.ask("a", "p", at(70)).is_ok(), "as a trial");
    }

    #[test]
    fn without_a_bound_there_is_no_brake() {
        let mut brake = brake(u32::MAX, f64::INFINITY);
        assert_eq!(lose(&mut brake, "a", 0..1000, FutileCause::ClaimGone).len(), 1000);
    }
}
