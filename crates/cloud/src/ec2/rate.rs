//! Token buckets of our own, smaller than those that EC2 has for an account in a region, so that a burst of launches waits
//! here rather than being refused there ("Request throttling for the Amazon EC2 API"; aws spec 11). Launches and ends go
//! before descriptions: those leave a part of what all requests share.
//!
//! A request waits in the connector, where each attempt of it counts once, whoever has it sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use dovetail_core::clock::Clock;

/// Our share of each bucket: others in the account call EC2, too.
const SHARE: f64 = 0.9;
/// What descriptions leave of the tokens that all requests share.
const RESERVE: f64 = 20.0;
/// A server that refuses for the rate of requests.
const TOO_MANY: [u16; 2] = [503, 429];

/// Requests that share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestBucket {
    /// Describe, Get, List.
    Describe,
    /// CreateFleet, launch templates and whatever else changes something.
    Mutate,
    /// RunInstances, which we only ever ask for on trial.
    RunInstances,
    /// TerminateInstances.
    TerminateInstances,
    /// CreateTags, DeleteTags.
    Tags,
    /// Instances launched: a bucket of resources.
    Launched,
    /// Instances ended: a bucket of resources.
    Ended,
    /// All requests together.
    All,
}

/// Each bucket's size and how many tokens it gets a second: EC2's own, but for [`Api::All`], which is the sum of the two
/// that matter.
const LIMITS: [(RequestBucket, f64, f64); 8] = [
    (RequestBucket::Describe, 100.0, 20.0),
    (RequestBucket::Mutate, 50.0, 5.0),
    (RequestBucket::RunInstances, 5.0, 2.0),
    (RequestBucket::TerminateInstances, 100.0, 5.0),
    (RequestBucket::Tags, 100.0, 10.0),
    (RequestBucket::Launched, 1000.0, 2.0),
    (RequestBucket::Ended, 1000.0, 20.0),
    (RequestBucket::All, 150.0, 25.0),
];

/// Whose turn comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    /// What a launch or an end waits for.
    First,
    /// What can wait.
    Later,
}

/// What a request takes.
#[derive(Clone, Debug, PartialEq)]
struct Needs {
    api: RequestBucket,
    priority: Priority,
    /// Tokens of a bucket of resources.
    resources: Option<(RequestBucket, f64)>,
}

impl Needs {
    /// By the request's body, a form as EC2's protocol has it.
    fn from_body(body: &[u8]) -> Self {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let action = text.split('&').find_map(|pair| pair.strip_prefix("Action=")).unwrap_or_default();
        let ids = || text.split('&').filter(|pair| pair.starts_with("InstanceId.")).count().max(1);
        let (api, priority, resources) = match action {
            "CreateFleet" => (RequestBucket::Mutate, Priority::First, Some((RequestBucket::Launched, 1.0))),
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
        Self { api, priority, resources }
    }
}

/// Tokens, and when they were counted last.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    size: f64,
    rate: f64,
    at: Duration,
}

impl Bucket {
    fn refill(&mut self, now: Duration) {
        self.tokens = (self.tokens + now.saturating_sub(self.at).as_secs_f64() * self.rate).min(self.size);
        self.at = now;
    }

    /// Seconds until it has so many.
    fn wait(&self, tokens: f64) -> f64 {
        // What it can never hold is not waited for.
        ((tokens.min(self.size) - self.tokens) / self.rate).max(0.0)
    }
}

/// The buckets, and who waits for which.
#[derive(Debug, Default)]
struct State {
    buckets: BTreeMap<RequestBucket, Bucket>,
    waiting: BTreeSet<(RequestBucket, Priority, u64)>,
    tickets: u64,
}

/// Lets requests through as their buckets have tokens. Clones share them.
#[derive(Clone)]
pub(super) struct Limiter {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").finish_non_exhaustive()
    }
}

/// A place in the queue, given up with whoever has it.
struct Ticket<'a> {
    limiter: &'a Limiter,
    place: (RequestBucket, Priority, u64),
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.limiter.with(|state, _| state.waiting.remove(&self.place));
    }
}

impl Limiter {
    /// Full buckets.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let now = clock.monotonic();
        let bucket = |(api, size, rate): (RequestBucket, f64, f64)| {
            let (size, rate) = (size * SHARE, rate * SHARE);
            (api, Bucket { tokens: size, size, rate, at: now })
        };
        let buckets = LIMITS.into_iter().map(bucket).collect();
        Self { state: Arc::new(Mutex::new(State { buckets, ..State::default() })), clock }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, Duration) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut state, self.clock.monotonic())
    }

    /// Waits until the request may be sent.
    async fn admit(&self, needs: &Needs) {
        let place = self.with(|state, _| {
            state.tickets += 1;
            let place = (needs.api, needs.priority, state.tickets);
            state.waiting.insert(place);
            place
        });
        let ticket = Ticket { limiter: self, place };
        while let Some(pause) = self.with(|state, now| state.take_tokens(needs, ticket.place, now)) {
            tokio::time::sleep(pause).await;
        }
    }

    /// EC2 refused a request for the rate of them: it knows of others that we do not.
    fn throttled(&self, api: RequestBucket) {
        self.with(|state, now| {
            if let Some(bucket) = state.buckets.get_mut(&api) {
                bucket.refill(now);
                bucket.tokens = bucket.tokens.min(0.0);
            }
        });
    }
}

impl State {
    /// Takes the tokens if they are there; answers how long they are to be waited for otherwise.
    fn take_tokens(&mut self, needs: &Needs, place: (RequestBucket, Priority, u64), now: Duration) -> Option<Duration> {
        self.buckets.values_mut().for_each(|bucket| bucket.refill(now));
        let first = (needs.api, Priority::First, 0);
        let before = u32::try_from(self.waiting.range(first..place).count()).unwrap_or(u32::MAX);
        let reserve = if needs.priority == Priority::First { 0.0 } else { RESERVE };
        let wanted = [
            Some((needs.api, 1.0 + f64::from(before), 1.0)),
            Some((RequestBucket::All, 1.0 + reserve, 1.0)),
            needs.resources.map(|(api, count)| (api, count, count)),
        ];
        let wait = |(api, least, _): &(RequestBucket, f64, f64)| {
            self.buckets.get(api).map_or(0.0, |bucket| bucket.wait(*least))
        };
        let longest = wanted.iter().flatten().map(wait).fold(0.0, f64::max);
        if longest > 0.0 {
            // A little more, as what was counted in fractions may be short of one.
            return Some(Duration::from_secs_f64(longest) + Duration::from_millis(1));
        }
        for (api, _, count) in wanted.into_iter().flatten() {
            if let Some(bucket) = self.buckets.get_mut(&api) {
                bucket.tokens -= count;
            }
        }
        None
    }
}

/// A client whose requests to EC2 wait for their tokens.
#[derive(Debug)]
struct Limited {
    inner: SharedHttpClient,
    limiter: Limiter,
}

/// The same client, within the limiter's buckets.
pub(super) fn limited(inner: SharedHttpClient, limiter: &Limiter) -> SharedHttpClient {
    SharedHttpClient::new(Limited { inner, limiter: limiter.clone() })
}

impl HttpClient for Limited {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(LimitedConnector { inner, limiter: self.limiter.clone() })
    }
}

#[derive(Clone, Debug)]
struct LimitedConnector {
    inner: SharedHttpConnector,
    limiter: Limiter,
}

impl HttpConnector for LimitedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (inner, limiter) = (self.inner.clone(), self.limiter.clone());
        HttpConnectorFuture::new(async move {
            let needs = Needs::from_body(request.body().bytes().unwrap_or_default());
            limiter.admit(&needs).await;
            let answer = inner.call(request).await;
            if answer.as_ref().is_ok_and(|answer| TOO_MANY.contains(&answer.status().as_u16())) {
                limiter.throttled(needs.api);
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::future::join_all;

    use super::*;

    struct TokioClock(tokio::time::Instant);

    impl Clock for TokioClock {
        fn wall(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }

        fn monotonic(&self) -> Duration {
            self.0.elapsed()
        }
    }

    fn limiter() -> (Limiter, tokio::time::Instant) {
        let begun = tokio::time::Instant::now();
        (Limiter::new(Arc::new(TokioClock(begun))), begun)
    }

    fn needs(action: &str) -> Needs {
        Needs::from_body(format!("Action={action}&Version=2016-11-15").as_bytes())
    }

    /// When each of so many requests that come at once is sent, in seconds.
    async fn sent(limiter: &Limiter, begun: tokio::time::Instant, needs: &Needs, count: usize) -> Vec<f64> {
        let one = || async {
            limiter.admit(needs).await;
            begun.elapsed().as_secs_f64()
        };
        join_all((0..count).map(|_| one())).await
    }

    /// Whether EC2's bucket, full at the beginning, has a token for each.
    fn fits(times: &[f64], size: f64, rate: f64) -> bool {
        let (mut tokens, mut at) = (size, 0.0);
        times.iter().all(|time| {
            tokens = (tokens + (time - at) * rate).min(size) - 1.0;
            at = *time;
            tokens >= 0.0
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_launches_at_once_fit_ec2s_buckets_and_take_as_long_as_those_require() {
        let (limiter, begun) = limiter();
        let times = sent(&limiter, begun, &needs("CreateFleet"), 1000).await;
        assert!(fits(&times, 50.0, 5.0) && fits(&times, 1000.0, 2.0));
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "in their order");
        assert_eq!(times.iter().filter(|time| **time < 0.001).count(), 45);
        assert!((211.0..215.0).contains(times.last().unwrap()), "{:?}", times.last());
    }

    #[tokio::test(start_paused = true)]
    async fn a_launch_goes_before_all_descriptions_that_wait() {
        let (limiter, begun) = limiter();
        let describe = needs("DescribeInstances");
        let many = sent(&limiter, begun, &describe, 500);
        let launch = async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            sent(&limiter, begun, &needs("CreateFleet"), 15).await
        };
        let (many, launched) = tokio::join!(many, launch);
        assert!(launched.iter().all(|time| *time < 6.01), "{launched:?}");
        assert!(fits(&many, 100.0, 20.0) && many.last().unwrap() > &20.0);
        let (mutate, templates) = (needs("DeleteLaunchTemplate"), needs("CreateFleet"));
        let (limiter, begun) = self::limiter();
        sent(&limiter, begun, &templates, 45).await;
        let (deleted, launched) =
            tokio::join!(sent(&limiter, begun, &mutate, 1), sent(&limiter, begun, &templates, 10));
        assert!(launched.last().unwrap() < &deleted[0], "{launched:?}, {deleted:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_throttled_waits_and_who_gives_up_waiting_holds_up_nobody() {
        let (limiter, begun) = limiter();
        limiter.throttled(RequestBucket::Mutate);
        let one = sent(&limiter, begun, &needs("CreateFleet"), 1).await;
        assert!((0.2..0.3).contains(&one[0]), "{one:?}");
        limiter.throttled(RequestBucket::Mutate);
        let fleet = needs("CreateFleet");
        let impatient = tokio::time::timeout(Duration::from_millis(50), sent(&limiter, begun, &fleet, 40));
        assert!(impatient.await.is_err());
        let next = sent(&limiter, begun, &needs("CreateFleet"), 1).await;
        assert!(next[0] - one[0] < 0.4, "{next:?}");
    }

    #[test]
    fn requests_are_told_apart_by_their_action() {
        let read = |body: &str| {
            let Needs { api, priority, resources } = Needs::from_body(body.as_bytes());
            (api, priority == Priority::First, resources)
        };
        assert_eq!(read("Action=CreateFleet&X=1"), (RequestBucket::Mutate, true, Some((RequestBucket::Launched, 1.0))));
        assert_eq!(read("Action=DescribeInstances"), (RequestBucket::Describe, false, None));
        assert_eq!(read("Action=DescribeLaunchTemplates"), (RequestBucket::Describe, true, None));
        let ended = "Action=TerminateInstances&InstanceId.1=i-1&InstanceId.2=i-2";
        assert_eq!(read(ended), (RequestBucket::TerminateInstances, true, Some((RequestBucket::Ended, 2.0))));
        assert_eq!(read("Action=CreateTags"), (RequestBucket::Tags, false, None));
        assert_eq!(read("Action=Whatever"), (RequestBucket::Mutate, false, None));
        assert_eq!(read("\u{fffd}"), (RequestBucket::Mutate, false, None));
    }
}
