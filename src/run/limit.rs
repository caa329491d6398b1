//! KUBE_CLIENT_QPS and KUBE_CLIENT_BURST: requests beyond them wait for their turn, in order.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tower::{Layer, Service};

/// A bucket of tokens, one a request. Pure: the time comes from outside.
#[derive(Clone, Debug)]
pub struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Duration,
}

impl Bucket {
    /// A full one.
    pub fn new(rate: f64, burst: u32) -> Self {
        Self { rate, burst: burst.into(), tokens: burst.into(), at: Duration::ZERO }
    }

    /// How long until a request may go; zero when it may go now.
    pub fn wait(&mut self, now: Duration) -> Duration {
        self.tokens = (self.tokens + now.saturating_sub(self.at).as_secs_f64() * self.rate).min(self.burst);
        self.at = now.max(self.at);
        if self.tokens >= 1.0 {
            return Duration::ZERO;
        }
        // A microsecond more: rounding must not wake us just before.
        Duration::try_from_secs_f64((1.0 - self.tokens) / self.rate).unwrap_or(Duration::MAX) + Duration::from_micros(1)
    }

    /// A request goes.
    pub fn take_token(&mut self) {
        self.tokens = (self.tokens - 1.0).max(0.0);
    }
}

/// Puts a bucket before a service.
pub struct RateLimit<F> {
    bucket: Bucket,
    waited: F,
}

impl<F: Fn(Duration) + Clone> RateLimit<F> {
    /// `waited` hears how long a request had to wait.
    pub fn new(rate: f64, burst: u32, waited: F) -> Self {
        Self { bucket: Bucket::new(rate, burst), waited }
    }
}

impl<S, F: Fn(Duration) + Clone> Layer<S> for RateLimit<F> {
    type Service = RateLimited<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        let (bucket, waited) = (self.bucket.clone(), self.waited.clone());
        RateLimited { inner, bucket, waited, begun: Instant::now(), sleep: None }
    }
}

/// A service whose readiness is limited.
pub struct RateLimited<S, F> {
    inner: S,
    bucket: Bucket,
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
            let wait = self.bucket.wait(self.begun.elapsed());
            if wait.is_zero() {
                return self.inner.poll_ready(context);
            }
            (self.waited)(wait);
            self.sleep = Some(Box::pin(tokio::time::sleep(wait)));
        }
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.bucket.take_token();
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
        let mut bucket = Bucket::new(10.0, 3);
        let mut now = Duration::from_secs(1);
        let mut times = Vec::new();
        for _ in 0..6 {
            now += bucket.wait(now);
            assert!(bucket.wait(now).is_zero());
            bucket.take_token();
            times.push((now.as_secs_f64() * 100.0).round() as u32);
        }
        assert_eq!(times, [100, 100, 100, 110, 120, 130]);
    }

    #[test]
    fn an_idle_bucket_never_holds_more_than_the_burst() {
        let mut bucket = Bucket::new(10.0, 2);
        let much_later = Duration::from_secs(3600);
        for _ in 0..2 {
            assert!(bucket.wait(much_later).is_zero());
            bucket.take_token();
        }
        assert!(!bucket.wait(much_later).is_zero());
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
