//! The server as a tower service: what `kube::Client` is given, in process or behind a listener.
use super::handler::{self, Reply};
use super::{ApiError, ApiServer};
use crate::faults::{Direction, Outcome, Service as Whom};
use crate::log::Caller;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How long a caller waits for an answer that does not come, before its own time-out ends the wait.
const NO_ANSWER: Duration = Duration::from_secs(30);
/// How often a watch that is cut off looks whether it still is.
const CUT_OFF_POLL: Duration = Duration::from_secs(1);

/// The server, as one caller sees it.
#[derive(Clone, Debug)]
pub struct KubeService {
    server: ApiServer,
    who: Caller,
}

impl ApiServer {
    /// The server as a tower service for a caller.
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
            this.serve(&parts, &body).await
        })
    }
}

impl KubeService {
    async fn serve(&self, parts: &Parts, body: &Bytes) -> io::Result<Response<Body>> {
        let Some(faults) = &self.server.settings().faults else { return self.answer(parts, body, None) };
        let verdict = faults.verdict(Whom::ApiServer, self.who.replica);
        if !verdict.latency.is_zero() {
            tokio::time::sleep(verdict.latency).await;
        }
        match verdict.outcome {
            Outcome::Serve => self.answer(parts, body, None),
            Outcome::Fail => self.fail(parts, body),
            Outcome::Throttle => {
                let error = ApiError::too_many_requests("Too many requests, please try again later.", Some(1));
                self.answer(parts, body, Some(&error))
            }
            Outcome::LoseAnswer => {
                self.unanswered(parts, body);
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer"))
            }
            Outcome::SwallowAnswer => {
                self.unanswered(parts, body);
                self.no_answer().await
            }
            Outcome::Unreachable => self.no_answer().await,
        }
    }

    /// Carries a request out; nobody hears of it.
    fn unanswered(&self, parts: &Parts, body: &Bytes) {
        let (reply, _) = handler::handle(&self.server, &self.who.name, parts, body);
        super::audit::note(&self.server, &self.who, parts, body, &reply, true);
    }

    async fn no_answer(&self) -> io::Result<Response<Body>> {
        tokio::time::sleep(NO_ANSWER).await;
        Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"))
    }

    /// A request that fails: mostly in the server, sometimes by a conflict, and a watch by being cut off later.
    fn fail(&self, parts: &Parts, body: &Bytes) -> io::Result<Response<Body>> {
        let (kind, cut) = self.server.chance(|rng| (rng.u8(..4), rng.u64(1..120)));
        if parts.uri.query().is_some_and(|q| q.contains("watch=true")) && kind != 0 {
            return self.answer_until(parts, body, Some(Duration::from_secs(cut)));
        }
        let update = parts.method == http::Method::PUT || parts.method == http::Method::PATCH;
        let error = match kind {
            0 => ApiError::new(503, "ServiceUnavailable", "apiserver not ready"),
            1 if update => {
                let why = "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again";
                ApiError::new(409, "Conflict", why)
            }
            2 => ApiError::new(504, "Timeout", "request did not complete within the allotted timeout"),
            _ => ApiError::new(500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
        };
        self.answer(parts, body, Some(&error))
    }

    fn answer(&self, parts: &Parts, body: &Bytes, refuse: Option<&ApiError>) -> io::Result<Response<Body>> {
        match refuse {
            Some(error) => {
                let reply = handler::refused(error);
                super::audit::note(&self.server, &self.who, parts, body, &reply, false);
                self.respond(reply, error.refusal().retry_after, None)
            }
            None => self.answer_until(parts, body, None),
        }
    }

    fn answer_until(&self, parts: &Parts, body: &Bytes, cut: Option<Duration>) -> io::Result<Response<Body>> {
        let (reply, retry_after) = handler::handle(&self.server, &self.who.name, parts, body);
        super::audit::note(&self.server, &self.who, parts, body, &reply, false);
        self.respond(reply, retry_after, cut)
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
                response.body(whole(bytes))
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
        response.map_err(io::Error::other)
    }

    fn streamed(&self, watch: super::watch::Watch, cut: Option<Duration>) -> Body {
        let (faults, replica) = (self.server.settings().faults.clone(), self.who.replica);
        let events = watch.stream().then(move |bytes| {
            let faults = faults.clone();
            async move {
                // What is sent into a partition arrives when it has healed, as TCP would have it.
                while let Some(Direction::In | Direction::Both) =
                    faults.as_ref().and_then(|f| f.partitioned(replica, Whom::ApiServer))
                {
                    tokio::time::sleep(CUT_OFF_POLL).await;
                }
                bytes
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

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
