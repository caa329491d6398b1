//! The server as a tower service: what `kube::Client` is given, in process or behind a listener.
use crate::apiserver::http::audit::{AnswerTiming, Request as Asked};
use crate::apiserver::http::handler::{self, Reply};
use crate::apiserver::{ApiError, ApiServer};
use crate::cpu;
use crate::detached::detached;
use crate::faults::{Direction, RequestOutcome, Service as Whom};
use crate::log::Caller;
use crate::spoilt;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Longest wait of a caller for an answer that does not come, before its own time-out ends the wait.
const NO_ANSWER: Duration = Duration::from_secs(30);
/// Time between two looks of a watch whether it is still cut off.
const CUT_OFF_POLL: Duration = Duration::from_secs(1);
/// Delay of a request that was held on its way, in milliseconds.
const LATE: std::ops::RangeInclusive<u64> = 1_000..=40_000;
/// Time in which a caller learns that nobody listens: callers that ask again at once do not stop the clock.
const REFUSAL: Duration = Duration::from_millis(1);

/// The server, as one caller sees it.
#[derive(Clone, Debug)]
pub struct KubeService {
    server: ApiServer,
    who: Caller,
}

impl ApiServer {
    pub fn service(&self, who: Caller) -> KubeService {
        KubeService { server: self.clone(), who }
    }

    /// A client for a caller, in process. Has to be made within a tokio runtime.
    pub fn client(&self, who: Caller) -> kube::Client {
        kube::Client::new(self.service(who), "default")
    }
}

impl<B> tower::Service<Request<B>> for KubeService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|e| io::Error::other(e.to_string()))?.to_bytes();
            this.serve(parts, body).await
        })
    }
}

/// A request in the server: what it is, when it was made, and whether its answer is on its way for a while.
struct Served {
    parts: Parts,
    body: Bytes,
    asked: f64,
    travels: bool,
}

/// An answer, and the term in which its receiver acts when it has it.
type Answered = (io::Result<Response<Body>>, Option<i64>);

impl KubeService {
    async fn serve(&self, parts: Parts, body: Bytes) -> io::Result<Response<Body>> {
        let asked = self.server.settings().log.as_ref().map_or(0.0, |log| (log.seconds() * 1e6).round() / 1e6);
        let Some(faults) = &self.server.settings().faults else {
            return self.answer(&Served { parts, body, asked, travels: false }, None).0;
        };
        let mut verdict = faults.verdict(Whom::ApiServer, self.who.replica);
        if let Some(by) = faults.writes_held(self.who.replica)
            && matches!(
                verdict.outcome,
                RequestOutcome::Serve | RequestOutcome::LoseAnswer | RequestOutcome::SwallowAnswer
            )
            && parts.method != http::Method::GET
        {
            verdict.outcome = RequestOutcome::Held(by);
        }
        let travels = !verdict.latency.is_zero();
        let request = Served { parts, body, asked, travels };
        if !travels && !matches!(verdict.outcome, RequestOutcome::Late | RequestOutcome::Held(_)) {
            return self.carry_out(&request, verdict.outcome).await.0;
        }
        let (start, way) = (Instant::now(), faults.way(verdict.latency));
        tokio::time::sleep_until(start + way.there).await;
        // From here on it is the server's: should its sender be stopped, or killed, it is carried out all the same.
        let this = self.clone();
        let served = detached(async move {
            tokio::time::sleep_until(start + way.there + way.inside).await;
            this.carry_out(&request, verdict.outcome).await
        });
        let (answer, term) = served.await.ok_or_else(reset)?;
        tokio::time::sleep_until(start + verdict.latency).await;
        if faults.down().is_some() {
            return Err(reset());
        }
        if let Some(Direction::In | Direction::Both) = faults.partitioned(self.who.replica, Whom::ApiServer) {
            return self.no_answer().await;
        }
        if let (Some(log), Some(replica), Some(term)) = (&self.server.settings().log, self.who.replica, term) {
            log.set_term(replica, term);
        }
        answer
    }

    async fn carry_out(&self, request: &Served, outcome: RequestOutcome) -> Answered {
        let down = self.server.settings().faults.as_ref().is_some_and(|faults| faults.down().is_some());
        match outcome {
            RequestOutcome::Unreachable => (self.no_answer().await, None),
            _ if down && !matches!(outcome, RequestOutcome::Held(_)) => (self.refuse(request).await, None),
            // It went out while the server was down, and found it up again.
            RequestOutcome::Serve | RequestOutcome::Refused => self.answer(request, None),
            RequestOutcome::Fail => self.fail(request),
            RequestOutcome::Throttle => {
                let error = ApiError::too_many_requests("Too many requests, please try again later.", Some(1));
                self.answer(request, Some(&error))
            }
            RequestOutcome::LoseAnswer => {
                self.unanswered(request);
                (Err(reset()), None)
            }
            RequestOutcome::SwallowAnswer => {
                self.unanswered(request);
                (self.no_answer().await, None)
            }
            RequestOutcome::Late => {
                let late = self.server.chance(|rng| rng.u64(LATE));
                self.held(request, Duration::from_millis(late)).await
            }
            RequestOutcome::Held(by) => self.held(request, by).await,
        }
    }

    /// Carries a request out so late, unless nobody listens then.
    async fn held(&self, request: &Served, by: Duration) -> Answered {
        tokio::time::sleep(by).await;
        if self.server.settings().faults.as_ref().is_none_or(|faults| faults.down().is_none()) {
            self.unanswered(request);
        }
        (self.no_answer().await, None)
    }

    /// Nobody listens, or a server that has not read its state yet.
    async fn refuse(&self, request: &Served) -> io::Result<Response<Body>> {
        tokio::time::sleep(REFUSAL).await;
        if self.server.chance(|rng| rng.bool()) {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused"));
        }
        self.answer(request, Some(&ApiError::new(503, "ServiceUnavailable", "apiserver not ready"))).0
    }

    /// Carries a request out; nobody hears of it.
    fn unanswered(&self, request: &Served) {
        let handle = || handler::handle(&self.server, &self.who.name, &request.parts, &request.body);
        let (reply, _) = cpu::answering(handle);
        self.note(request, &reply, AnswerTiming::Lost);
    }

    /// Notes a write in the log; answers the term in which the caller acts when it hears of it later.
    fn note(&self, request: &Served, reply: &Reply, heard: AnswerTiming) -> Option<i64> {
        let Served { parts, body, asked, .. } = request;
        crate::apiserver::http::audit::note(&self.server, &self.who, &Asked { parts, body, at: *asked }, reply, heard)
    }

    async fn no_answer(&self) -> io::Result<Response<Body>> {
        tokio::time::sleep(NO_ANSWER).await;
        Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"))
    }

    /// A request that fails: mostly in the server, sometimes by a conflict, and a watch by being cut off later.
    fn fail(&self, request: &Served) -> Answered {
        let (kind, cut) = self.server.chance(|rng| (rng.u8(..4), rng.u64(1..120)));
        let parts = &request.parts;
        if parts.uri.query().is_some_and(|q| q.contains("watch=true")) && kind != 0 {
            return self.answer_until(request, Some(Duration::from_secs(cut)));
        }
        let writes = [http::Method::PUT, http::Method::PATCH, http::Method::DELETE].contains(&parts.method);
        let error = match kind {
            0 => ApiError::new(503, "ServiceUnavailable", "apiserver not ready"),
            1 if writes => {
                let why = "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again";
                ApiError::new(409, "Conflict", why)
            }
            2 => ApiError::new(504, "Timeout", "request did not complete within the allotted timeout"),
            _ => ApiError::new(500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
        };
        self.answer(request, Some(&error))
    }

    fn answer(&self, request: &Served, refuse: Option<&ApiError>) -> Answered {
        let Some(error) = refuse else { return self.answer_until(request, None) };
        let reply = handler::refused(error);
        self.note(request, &reply, AnswerTiming::Now);
        (self.respond(reply, error.refusal().retry_after, None), None)
    }

    fn answer_until(&self, request: &Served, cut: Option<Duration>) -> Answered {
        cpu::answering(|| self.answer_now(request, cut))
    }

    fn answer_now(&self, request: &Served, cut: Option<Duration>) -> Answered {
        let (reply, retry_after) = handler::handle(&self.server, &self.who.name, &request.parts, &request.body);
        let term = self.note(request, &reply, if request.travels { AnswerTiming::Later } else { AnswerTiming::Now });
        (self.respond(reply, retry_after, cut), term)
    }

    fn respond(&self, reply: Reply, retry_after: Option<u32>, cut: Option<Duration>) -> io::Result<Response<Body>> {
        let json = Response::builder().header(http::header::CONTENT_TYPE, "application/json");
        let response = match reply {
            Reply::Json(code, bytes, warnings) => {
                let mut response = json.status(code);
                if let Some(seconds) = retry_after {
                    response = response.header(http::header::RETRY_AFTER, seconds);
                }
                for warning in warnings {
                    response = response.header(http::header::WARNING, format!("299 - {warning:?}"));
                }
                response.body(whole(if self.spoils() { spoilt::on_the_wire(bytes) } else { bytes }))
            }
            Reply::Typed(kind, bytes) => {
                Response::builder().header(http::header::CONTENT_TYPE, kind).body(whole(bytes))
            }
            Reply::Text(text) => Response::builder()
                .header(http::header::CONTENT_TYPE, "text/plain")
                .body(whole(Bytes::from_static(text.as_bytes()))),
            Reply::Log(log) => {
                let lines = log.stream().map(|bytes| Ok(http_body::Frame::data(bytes)));
                let plain = Response::builder().header(http::header::CONTENT_TYPE, "text/plain");
                plain.body(BodyExt::boxed_unsync(StreamBody::new(lines)))
            }
            Reply::Watch(watch) => json.body(self.streamed(*watch, cut)),
        };
        let mut response = response.map_err(io::Error::other)?;
        response.headers_mut().extend(self.date().map(|date| (http::header::DATE, date)));
        Ok(response)
    }

    /// The server's time, as every answer has it.
    fn date(&self) -> Option<http::HeaderValue> {
        let now = self.server.shared.clock.wall();
        let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).ok()?;
        http::HeaderValue::from_str(&date).ok()
    }

    /// True for a replica's connection on which marked objects come as nothing can read them.
    fn spoils(&self) -> bool {
        self.who.replica.is_some() && self.server.settings().faults.as_ref().is_some_and(|faults| faults.spoils())
    }

    fn streamed(&self, watch: crate::apiserver::viewing::watch::Watch, cut: Option<Duration>) -> Body {
        let (faults, replica) = (self.server.settings().faults.clone(), self.who.replica);
        let mut stream = Box::pin(watch.stream());
        let stream = stream::poll_fn(move |context| cpu::answering(|| stream.as_mut().poll_next(context)));
        let events = stream.then(move |bytes| {
            let faults = faults.clone();
            async move {
                // Bytes sent into a partition arrive when it has healed, as TCP would have it.
                while let Some(Direction::In | Direction::Both) =
                    faults.as_ref().and_then(|f| f.partitioned(replica, Whom::ApiServer))
                {
                    tokio::time::sleep(CUT_OFF_POLL).await;
                }
                let spoils = replica.is_some() && faults.as_ref().is_some_and(|faults| faults.spoils());
                if spoils { spoilt::on_the_wire(bytes) } else { bytes }
            }
        });
        let frames = events.map(|bytes| Ok(http_body::Frame::data(bytes)));
        match cut {
            None => BodyExt::boxed_unsync(StreamBody::new(frames)),
            Some(after) => {
                let end =
                    stream::once(
                        async move { Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the watch was cut off")) },
                    );
                let until = frames.take_until(Box::pin(tokio::time::sleep(after)));
                BodyExt::boxed_unsync(StreamBody::new(until.chain(end)))
            }
        }
    }
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer")
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
