//! The clock that a replica goes by: its own monotonic clock, and the API server's wall time as the dates of its answers show
//! it (docs/decisions/054). What a replica writes and what it reckons ages from is of one clock then, for all replicas.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use dovetail_core::clock::{Clock, ClockSkew, ServerTime};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::DATE;
use http::{HeaderMap, Request, Response};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use tower::{Layer, Service};

/// A replica's clock; clones are the same.
#[derive(Clone)]
pub struct ClusterClock {
    own: Arc<dyn Clock>,
    server: Arc<Mutex<ServerTime>>,
}

impl ClusterClock {
    /// Over a replica's own clock, which it shows until an answer of the API server has come.
    pub fn over(own: Arc<dyn Clock>) -> Self {
        Self { own, server: Arc::default() }
    }

    /// A way to the API server whose answers set this clock.
    pub fn set_by<S>(&self, inner: S) -> Dated<S> {
        Dated { inner, clock: self.clone() }
    }

    /// Error of the replica's own clock against the API server's.
    pub fn skew(&self) -> ClockSkew {
        self.server().skew(self.own.monotonic(), self.own.wall())
    }

    /// Learns from an answer to what was sent at that moment of the monotonic clock.
    fn answered(&self, sent: Duration, headers: &HeaderMap) {
        // An answer without a date, or with one that nobody can read, says nothing.
        let Some(date) = headers.get(DATE).and_then(|date| date.to_str().ok()) else { return };
        let Ok(date) = DateTimeParser::new().parse_timestamp(date) else { return };
        self.server().answered(sent, self.own.monotonic(), self.own.wall(), date);
    }

    fn server(&self) -> MutexGuard<'_, ServerTime> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ClusterClock {
    fn wall(&self) -> Timestamp {
        self.server().time_at(self.own.monotonic(), self.own.wall())
    }

    fn monotonic(&self) -> Duration {
        self.own.monotonic()
    }
}

/// For the client of an API server: its answers set the clock.
impl<S> Layer<S> for ClusterClock {
    type Service = Dated<S>;

    fn layer(&self, inner: S) -> Dated<S> {
        self.set_by(inner)
    }
}

/// A way to the API server whose answers set a clock.
#[derive(Clone)]
pub struct Dated<S> {
    inner: S,
    clock: ClusterClock,
}

impl<S, Q, R> Service<Request<Q>> for Dated<S>
where
    S: Service<Request<Q>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (clock, sent) = (self.clock.clone(), self.clock.monotonic());
        let answering = self.inner.call(request);
        async move {
            let answer = answering.await?;
            clock.answered(sent, answer.headers());
            Ok(answer)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jiff::SignedDuration;
    use tower::service_fn;

    use super::*;

    /// Ten minutes ahead, and 7 s after its start.
    struct Ahead;

    impl Clock for Ahead {
        fn wall(&self) -> Timestamp {
            "2026-01-01T10:10:00Z".parse().unwrap()
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(7)
        }
    }

    /// The clock after an answer with this `Date` header.
    async fn after(date: Option<&'static str>) -> ClusterClock {
        let clock = ClusterClock::over(Arc::new(Ahead));
        let server = service_fn(move |_: Request<()>| async move {
            let answer = date.into_iter().fold(Response::builder(), |answer, date| answer.header(DATE, date));
            answer.body(())
        });
        clock.set_by(server).call(Request::new(())).await.unwrap();
        clock
    }

    #[tokio::test]
    async fn date_of_an_answer_sets_the_clock() {
        let clock = after(Some("Thu, 01 Jan 2026 10:00:00 GMT")).await;
        assert_eq!(clock.wall(), "2026-01-01T10:00:01Z".parse().unwrap());
        assert_eq!(clock.skew().ahead, SignedDuration::from_secs(599));
        for nothing in [None, Some("yesterday"), Some("")] {
            let clock = after(nothing).await;
            assert_eq!((clock.wall(), clock.skew()), (Ahead.wall(), ClockSkew::default()), "{nothing:?}");
        }
    }
}
