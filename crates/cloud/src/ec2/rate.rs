//! Token buckets of our own, smaller than those that EC2 has for an account in a region, so that a burst of launches waits
//! here rather than being refused there ("Request throttling for the Amazon EC2 API"; aws spec 11). Launches and ends go
//! before descriptions: those leave a part of what all requests share.
//!
//! A request waits in the connector, where each attempt of it counts once, whoever has it sent again. The time that an
//! attempt may take begins when it has its tokens: waiting for them is no reason to give it up. What can wait does so for
//! half a minute at most while launches come, and then has its turn.
//!
//! A launch of many instances may have to wait for minutes. So it reserves the tokens for them before it is made: they are
//! taken at once, even those that are still to come back, and the launch is made when they have.

mod connector;
mod learned;
mod limits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dovetail_core::clock::Clock;

use crate::cloud::{LaunchPace, LaunchRoom};
use crate::token_bucket::TokenBucket;

pub(super) use connector::limited;
use learned::LearnedShare;
pub use limits::{AccountLimits, NoLimits};
use limits::{BucketLimit, RequestBucket};

/// Our share of each bucket: others in the account call EC2, too.
const SHARE: f64 = 0.9;
/// Our share of the size of the bucket of launched instances: who else launches hundreds at the time is known by EC2's refusal.
const SHARE_OF_LAUNCHED: f64 = 1.0;
/// Tokens that descriptions leave in the bucket that all requests share.
const RESERVE: f64 = 20.0;
/// Most tokens that a launch waits for: all that the bucket holds.
const MOST_LAUNCHED: f64 = 1000.0;
/// Longest time that a request which can wait lets launches and ends go first.
const LATEST: Duration = Duration::from_secs(30);
/// Longest pause between two looks while a bucket's rate is below its limit: it grows meanwhile.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Order of requests that wait for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    /// Requests that a launch or an end waits for.
    First,
    /// Requests that can wait.
    Later,
}

/// Buckets that a request takes tokens of, and its priority.
#[derive(Clone, Debug, PartialEq)]
struct Needs {
    api: RequestBucket,
    priority: Priority,
    /// Tokens of a bucket of resources.
    resources: Option<(RequestBucket, f64)>,
    /// Token of a launch, by which tokens for its instances may be reserved.
    launch: Option<String>,
}

impl Needs {
    /// By the request's body, a form as EC2's protocol has it.
    fn from_body(body: &[u8]) -> Self {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let action = text.split('&').find_map(|pair| pair.strip_prefix("Action=")).unwrap_or_default();
        let ids = || text.split('&').filter(|pair| pair.starts_with("InstanceId.")).count().max(1);
        let dry_run = || text.split('&').any(|pair| pair == "DryRun=true");
        let target =
            || text.split('&').find_map(|pair| pair.strip_prefix("TargetCapacitySpecification.TotalTargetCapacity="));
        let launched = || target().and_then(|count| count.parse().ok()).unwrap_or(1.0_f64).clamp(1.0, MOST_LAUNCHED);
        let (api, priority, resources) = match action {
            // It launches nothing, and no pod waits for it.
            "CreateFleet" if dry_run() => (RequestBucket::Mutate, Priority::Later, None),
            "CreateFleet" => (RequestBucket::Mutate, Priority::First, Some((RequestBucket::Launched, launched()))),
            "CreateLaunchTemplate" => (RequestBucket::Mutate, Priority::First, None),
            "DescribeLaunchTemplates" => (RequestBucket::Describe, Priority::First, None),
            "TerminateInstances" => {
                let ended = f64::from(u32::try_from(ids()).unwrap_or(u32::MAX)).min(500.0);
                (RequestBucket::TerminateInstances, Priority::First, Some((RequestBucket::Ended, ended)))
            }
            "RunInstances" => (RequestBucket::RunInstances, Priority::Later, None),
            "CreateTags" | "DeleteTags" => (RequestBucket::Tags, Priority::Later, None),
            _ if ["Describe", "Get", "List"].iter().any(|verb| action.starts_with(verb)) => {
                (RequestBucket::Describe, Priority::Later, None)
            }
            _ => (RequestBucket::Mutate, Priority::Later, None),
        };
        let client_token = || text.split('&').find_map(|pair| pair.strip_prefix("ClientToken="));
        let launch = resources.and_then(|_| client_token()).filter(|_| action == "CreateFleet").map(str::to_owned);
        Self { api, priority, resources, launch }
    }
}

/// Place in the order of those that wait: by priority, then by arrival.
type QueueTurn = (Priority, u64);

/// The buckets, and who waits for which.
#[derive(Debug, Default)]
struct State {
    buckets: BTreeMap<RequestBucket, TokenBucket>,
    /// Our rate where nothing is refused, a second.
    rates: BTreeMap<RequestBucket, f64>,
    /// Shares of these rates, of buckets that requests were sent by.
    learned: BTreeMap<RequestBucket, LearnedShare>,
    /// Tokens that those who wait will take of a bucket.
    waiting: BTreeMap<(RequestBucket, Priority, u64), f64>,
    tickets: u64,
    /// Tokens for instances that are taken already, by the launch's token; none once its call has used them.
    reserved: BTreeMap<String, Option<f64>>,
}

/// Lets requests through as their buckets have tokens. Clones share them.
#[derive(Clone)]
pub(super) struct Limiter {
    state: Arc<Mutex<State>>,
    /// EC2's bucket of launched instances.
    launched: BucketLimit,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").finish_non_exhaustive()
    }
}

/// Tokens that are reserved for a launch, given back with it if they were not used.
struct Reservation {
    limiter: Limiter,
    token: String,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.limiter.with(|state, _| state.give_back(&self.token));
    }
}

/// A place in the queue of each bucket that a request takes tokens of, given up with whoever has it.
struct Ticket<'a> {
    limiter: &'a Limiter,
    needs: &'a Needs,
    turn: QueueTurn,
    /// Time at which it was drawn.
    since: Duration,
}

impl Ticket<'_> {
    /// Puts what has waited long enough where a launch of its time would be.
    fn advance(&mut self, state: &mut State, now: Duration) {
        if self.turn.0 == Priority::Later && now >= self.since + LATEST {
            state.leave(self.needs, self.turn);
            self.turn.0 = Priority::First;
            state.join(self.needs, self.turn);
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.limiter.with(|state, _| state.leave(self.needs, self.turn));
    }
}

impl Limiter {
    /// Full buckets.
    pub fn new(limits: &AccountLimits, clock: Arc<dyn Clock>) -> Self {
        let now = clock.monotonic();
        let mut state = State::default();
        for (bucket, BucketLimit { size, rate }) in limits.buckets() {
            let of_size = if bucket == RequestBucket::Launched { SHARE_OF_LAUNCHED } else { SHARE };
            state.buckets.insert(bucket, TokenBucket::full(size * of_size, rate * SHARE, now));
            state.rates.insert(bucket, rate * SHARE);
        }
        let launched = limits.limit(RequestBucket::Launched);
        Self { state: Arc::new(Mutex::new(state)), launched, clock }
    }

    /// Pace at which a launch of so many instances would go out now.
    pub fn launch_pace(&self, count: u32) -> LaunchPace {
        let wait = self.with(|state, now| state.wait_for_launch(f64::from(count).min(MOST_LAUNCHED), now));
        LaunchPace { wait, at_once: self.launched.size, per_second: self.launched.rate }
    }

    /// Takes the tokens for a launch's instances, also those that are still to come back.
    pub fn reserve_launch(&self, token: &str, count: u32) -> LaunchRoom {
        let count = f64::from(count).min(MOST_LAUNCHED);
        let wait = self.with(|state, now| {
            state.give_back(token);
            let wait = state.wait_for_launch(count, now);
            if let Some(bucket) = state.buckets.get_mut(&RequestBucket::Launched) {
                bucket.take_tokens(count);
            }
            state.reserved.insert(token.to_owned(), Some(count));
            wait
        });
        let held = Reservation { limiter: self.clone(), token: token.to_owned() };
        // A little more, as what was counted in fractions may be short of one.
        let wait = if wait.is_zero() { wait } else { wait.saturating_add(Duration::from_millis(1)) };
        LaunchRoom { wait, held: Some(Box::new(held)) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, Duration) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut state, self.clock.monotonic())
    }

    /// Waits until the request may be sent. A launch with tokens reserved for its instances uses those.
    async fn admit(&self, needs: &Needs) {
        let reserved = |token: &String| self.with(|state, _| state.reserved.get_mut(token).and_then(Option::take));
        match needs.launch.as_ref().and_then(reserved) {
            Some(_) => self.admit_to(&Needs { resources: None, ..needs.clone() }).await,
            None => self.admit_to(needs).await,
        }
    }

    async fn admit_to(&self, needs: &Needs) {
        let mut ticket = self.with(|state, now| {
            state.tickets += 1;
            let turn = (needs.priority, state.tickets);
            state.join(needs, turn);
            Ticket { limiter: self, needs, turn, since: now }
        });
        loop {
            let pause = self.with(|state, now| {
                ticket.advance(state, now);
                state.take_tokens(needs, ticket.turn, now)
            });
            let Some(mut pause) = pause else { return };
            if ticket.turn.0 == Priority::Later {
                // It may be let through earlier than the queue before it says.
                pause = pause.min(LATEST);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// EC2 refused a request for the rate of them: it knows of others that we do not. Nothing was launched or ended by it.
    fn throttled(&self, needs: &Needs) {
        self.with(|state, now| {
            if let Some(bucket) = state.buckets.get_mut(&needs.api) {
                bucket.drain(now);
            }
            state.learned.entry(needs.api).or_insert_with(|| LearnedShare::whole(now)).refused(now);
            if let Some((resource, count)) = needs.resources {
                let reserved = needs.launch.as_ref().and_then(|token| state.reserved.get_mut(token));
                match (reserved, state.buckets.get_mut(&resource)) {
                    // It is sent again soon, and nothing that was reserved later goes before it.
                    (Some(own), _) if own.is_none() => *own = Some(count),
                    (_, Some(bucket)) => bucket.give_back(count),
                    (_, None) => {}
                }
            }
            state.refill(now);
        });
    }
}

impl State {
    /// Gives back what is reserved for a launch.
    fn give_back(&mut self, token: &str) {
        let count = self.reserved.remove(token).flatten();
        if let (Some(count), Some(bucket)) = (count, self.buckets.get_mut(&RequestBucket::Launched)) {
            bucket.give_back(count);
        }
    }

    fn join(&mut self, needs: &Needs, (priority, ticket): QueueTurn) {
        self.waiting.insert((needs.api, priority, ticket), 1.0);
        self.waiting.extend(needs.resources.map(|(api, count)| ((api, priority, ticket), count)));
    }

    fn leave(&mut self, needs: &Needs, (priority, ticket): QueueTurn) {
        self.waiting.remove(&(needs.api, priority, ticket));
        if let Some((api, _)) = needs.resources {
            self.waiting.remove(&(api, priority, ticket));
        }
    }

    /// Tokens of a bucket that those take who are before this one.
    fn before(&self, api: RequestBucket, (priority, ticket): QueueTurn) -> f64 {
        self.waiting.range((api, Priority::First, 0)..(api, priority, ticket)).map(|(_, count)| count).sum()
    }

    /// Counts the tokens that have come back until now, and goes by the rates that have been learned.
    fn refill(&mut self, now: Duration) {
        self.buckets.values_mut().for_each(|bucket| bucket.refill(now));
        for (api, learned) in &mut self.learned {
            let share = learned.grow(now);
            if let (Some(bucket), Some(rate)) = (self.buckets.get_mut(api), self.rates.get(api)) {
                bucket.set_rate(rate * share);
            }
        }
    }

    /// Time until a launch of so many instances would have its tokens for them, were it the next to wait.
    fn wait_for_launch(&mut self, count: f64, now: Duration) -> Duration {
        self.refill(now);
        let all = count + self.before(RequestBucket::Launched, (Priority::First, u64::MAX));
        let wait = self.buckets.get(&RequestBucket::Launched).map_or(0.0, |bucket| bucket.wait_unbounded(all));
        Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX)
    }

    /// Takes the tokens if they are there; answers how long they are to be waited for otherwise.
    fn take_tokens(&mut self, needs: &Needs, turn: QueueTurn, now: Duration) -> Option<Duration> {
        self.refill(now);
        let reserve = if turn.0 == Priority::First { 0.0 } else { RESERVE };
        let wanted = [
            Some((needs.api, 1.0 + self.before(needs.api, turn), 1.0)),
            Some((RequestBucket::All, 1.0 + reserve, 1.0)),
            needs.resources.map(|(api, count)| (api, count + self.before(api, turn), count)),
        ];
        let wait = |(api, least, _): &(RequestBucket, f64, f64)| {
            self.buckets.get(api).map_or(0.0, |bucket| bucket.wait(*least))
        };
        let longest = wanted.iter().flatten().map(wait).fold(0.0, f64::max);
        if longest > 0.0 {
            // A little more, as what was counted in fractions may be short of one.
            let pause = Duration::from_secs_f64(longest) + Duration::from_millis(1);
            let whole = self.learned.values().all(LearnedShare::is_whole);
            return Some(if whole { pause } else { pause.min(LONGEST_PAUSE) });
        }
        self.learned.entry(needs.api).or_insert_with(|| LearnedShare::whole(now)).sent(now);
        for (api, _, count) in wanted.into_iter().flatten() {
            if let Some(bucket) = self.buckets.get_mut(&api) {
                bucket.take_tokens(count);
            }
        }
        None
    }
}
