//! KUBE_CLIENT_QPS and KUBE_CLIENT_BURST: requests beyond them wait for their turn, in order.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use dovetail_cloud::token_bucket::TokenBucket;
use tokio::time::{Instant, Sleep};
use tower::{Layer, Service};

/// Tokens that a request takes.
const REQUEST: f64 = 1.0;

/// Time until a request may go; zero when it may go now.
fn wait(bucket: &mut TokenBucket, now: Duration) -> Duration {
    bucket.refill(now);
    let seconds = bucket.wait(REQUEST);
    if seconds <= 0.0 {
        return Duration::ZERO;
    }
    // A microsecond more: rounding must not wake us just before.
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).saturating_add(Duration::from_micros(1))
}

/// Puts a bucket before a service.
pub struct RateLimit<F> {
    bucket: TokenBucket,
    waited: F,
}

impl<F: Fn(Duration) + Clone> RateLimit<F> {
    /// `waited` hears how long a request had to wait.
    pub fn new(rate: f64, burst: u32, waited: F) -> Self {
        Self { bucket: TokenBucket::full(burst.into(), rate, Duration::ZERO), waited }
    }
}

impl<S, F: Fn(Duration) + Clone> Layer<S> for RateLimit<F> {
    type Service = RateLimited<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        let (bucket, waited) = (self.bucket, self.waited.clone());
        RateLimited { inner, bucket, waited, begun: Instant::now(), sleep: None }
    }
}

/// A service whose readiness is limited.
pub struct RateLimited<S, F> {
    inner: S,
    bucket: TokenBucket,
    waited: F,
    begun: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<R, S: Service<R>, F: Fn(Duration)> Service<R> for RateLimited<S, F> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(context));
                self.sleep = None;
            }
            let wait = wait(&mut self.bucket, self.begun.elapsed());
            if wait.is_zero() {
                return self.inner.poll_ready(context);
            }
            (self.waited)(wait);
            self.sleep = Some(Box::pin(tokio::time::sleep(wait)));
        }
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.bucket.take_tokens(REQUEST);
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_types)]
    use super::*;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};
    use tower::{ServiceExt as _, service_fn};

    #[test]
    fn a_burst_goes_at_once_and_what_follows_at_the_rate() {
        let mut bucket = TokenBucket::full(3.0, 10.0, Duration::ZERO);
        let mut now = Duration::from_secs(1);
        let mut times = Vec::new();
        for _ in 0..6 {
            now += wait(&mut bucket, now);
            assert!(wait(&mut bucket, now).is_zero());
            bucket.take_tokens(REQUEST);
            times.push((now.as_secs_f64() * 100.0).round() as u32);
        }
        assert_eq!(times, [100, 100, 100, 110, 120, 130]);
    }

    #[test]
    fn an_idle_bucket_never_holds_more_than_the_burst() {
        let mut bucket = TokenBucket::full(2.0, 10.0, Duration::ZERO);
        let much_later = Duration::from_secs(3600);
        for _ in 0..2 {
            assert!(wait(&mut bucket, much_later).is_zero());
            bucket.take_tokens(REQUEST);
        }
        assert!(!wait(&mut bucket, much_later).is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_and_it_is_told_how_long() {
        let waited = Arc::new(Mutex::new(Duration::ZERO));
        let told = waited.clone();
        let limit = RateLimit::new(5.0, 5, move |time| *told.lock().unwrap() += time);
        let mut service = limit.layer(service_fn(|(): ()| std::future::ready(Ok::<_, Infallible>(()))));
        let begun = Instant::now();
        for _ in 0..15 {
            service.ready().await.unwrap().call(()).await.unwrap();
        }
        let took = begun.elapsed().as_secs_f64();
        assert!((1.99..2.1).contains(&took), "{took}");
        assert!((1.9..2.1).contains(&waited.lock().unwrap().as_secs_f64()));
    }
}
