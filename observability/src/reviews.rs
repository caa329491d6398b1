//! An API server's reviews over HTTPS: a body comes, one goes back. Nobody is asked who they are: what is answered follows
//! from what is asked alone (docs/decisions/045). So the bounds are what keeps it alive (docs/decisions/057): of connections,
//! of time, of a body, of what all bodies and their answers take together, and of what one address has of that.
//!
//! A thread talks, [`workers`] answer. What an API server sends is small, and never waits for what is large.

mod queue;
mod rooms;
mod workers;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::service::service_fn;
use rustls::ServerConfig;
use tokio::sync::{Notify, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use crate::places::Bounds;
use crate::serve::{Connected, HEADERS_WITHIN, WatchedConnection, accept_each, converse, text, typed};
use rooms::{BodyKind, Room, Rooms};
use workers::{Job, Outcome, Workers};

/// A body that is larger is refused. An API server takes requests of 3 MiB at most, and converts what it reads one by one.
const BODY_MOST: usize = 8 << 20;
/// A body of this size is small: the largest object of etcd has 1.5 MiB.
const SMALL_MOST: usize = 2 << 20;
/// Time that a body may take to come, the waits for room aside, and its answer to be taken. An API server gives up after 30
/// seconds.
const BODY_WITHIN: Duration = Duration::from_secs(8);
/// Longest wait of a body for room in all.
const ROOM_WITHIN: Duration = Duration::from_secs(20);
const TAKEN_WITHIN: Duration = Duration::from_secs(8);
/// An API server opens a connection for each review that is under way.
const BOUNDS: Bounds = Bounds { of_others: 256, of_one: 128, reserved: 128 };

/// Answer to a body: a body, or the reason why it makes no sense.
type ReviewHandler = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// Reviews to answer, and their paths.
#[derive(Clone)]
pub struct Reviews {
    /// The paths that are answered at.
    pub paths: Vec<String>,
    /// Function that makes the answer from a review's body.
    pub answer: ReviewHandler,
}

/// Answers reviews on a listener until the process ends. The identity is that of `tls` at the time of each handshake.
///
/// # Errors
/// A thread or its runtime cannot be made.
pub fn start(listener: TcpListener, tls: Arc<ServerConfig>, reviews: Reviews) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let workers = Workers::start(reviews.answer)?;
    let paths = reviews.paths;
    let serving = move || runtime.block_on(LocalSet::new().run_until(accept(listener, tls.into(), paths, workers)));
    thread::Builder::new().name("reviews".into()).spawn(serving)?;
    Ok(())
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, paths: Vec<String>, workers: Workers) {
    let reviewer = Rc::new(Reviewer { paths, workers, rooms: Rooms::default() });
    accept_each(listener, &Connected::new(None, BOUNDS), |stream| talk(stream, tls.clone(), reviewer.clone())).await;
}

async fn talk(stream: WatchedConnection, tls: TlsAcceptor, reviewer: Rc<Reviewer>) {
    let peer = stream.peer();
    // A client that does not take our certificate, or asks for another name's, goes away by itself.
    let Ok(Ok(stream)) = timeout(HEADERS_WITHIN, tls.accept(stream)).await else { return };
    let late = Rc::new(Notify::new());
    let slow = late.clone();
    let answer = service_fn(move |request| {
        let (reviewer, late) = (reviewer.clone(), late.clone());
        async move { Ok::<_, Infallible>(reviewer.answer(peer, request, late).await) }
    });
    tokio::select! {
        biased;
        () = slow.notified() => {}
        () = converse(stream, answer) => {}
    }
}

/// Answers bodies, as many at once as there is room for.
struct Reviewer {
    paths: Vec<String>,
    workers: Workers,
    rooms: Rooms,
}

/// An answer, with the room of the body that it is to. It stays in memory until the client has taken it.
struct Held {
    answer: Vec<u8>,
    _room: Room,
    /// Says by going away that the answer was taken.
    _taken: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

impl Reviewer {
    /// Answers a request. `late` is told when the client does not take the answer.
    async fn answer(&self, peer: IpAddr, request: Request<Incoming>, late: Rc<Notify>) -> Response<Full<Bytes>> {
        if !self.paths.iter().any(|path| path == request.uri().path()) {
            return text(StatusCode::NOT_FOUND, "reviews are not answered there\n".into());
        }
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered\n".into());
        }
        // A body of unknown length has to be a small one. A client that states a length is believed, and held to it.
        let said = request.body().size_hint();
        let (kind, most) = match said.exact() {
            Some(length) if length > BODY_MOST as u64 => return too_large(BODY_MOST),
            Some(length) if length > SMALL_MOST as u64 => (BodyKind::Large, BODY_MOST),
            _ => (BodyKind::Small, SMALL_MOST),
        };
        let mut room = self.rooms.enter(peer, kind);
        let body = match read_body(request.into_body(), most, &mut room).await {
            Ok(body) => body,
            Err(refusal) => return *refusal,
        };
        let (outcome, answered) = oneshot::channel();
        if self.workers.ask(peer, kind, Job { body, room, outcome }).is_err() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "too many reviews are waiting\n".into());
        }
        match answered.await {
            Ok(Outcome { answer: Ok(answer), room }) => held(answer, room, late),
            Ok(Outcome { answer: Err(why), .. }) => text(StatusCode::BAD_REQUEST, format!("{why}\n")),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the review could not be answered\n".into()),
        }
    }
}

/// Reads a body, each part as soon as there is room for it: a body that does not come takes none.
async fn read_body(mut body: Incoming, most: usize, room: &mut Room) -> Result<Vec<u8>, Box<Response<Full<Bytes>>>> {
    let refused = |status, why: String| Box::new(text(status, why));
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
    let (mut of_body, mut of_room) = (BODY_WITHIN, ROOM_WITHIN);
    let mut read = Vec::new();
    loop {
        let Some(frame) = within(&mut of_body, body.frame()).await else {
            let why = format!("the body did not come within {BODY_WITHIN:?}\n");
            return Err(refused(StatusCode::REQUEST_TIMEOUT, why));
        };
        let Some(frame) = frame else { return Ok(read) };
        let frame =
            frame.map_err(|why| refused(StatusCode::BAD_REQUEST, format!("the body cannot be read: {why}\n")))?;
        let Ok(part) = frame.into_data() else { continue };
        if read.len() + part.len() > most {
            return Err(Box::new(too_large(most)));
        }
        if within(&mut of_room, room.grow(part.len())).await.is_none() {
            let why = format!("there was no room for the body within {ROOM_WITHIN:?}: other reviews take it\n");
            return Err(refused(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        let after = read.len() + part.len();
        if after > read.capacity() {
            // Ahead of what has come, so that little is copied, but not far: what is announced may never come.
            let ahead = length.max(after).min(after.saturating_mul(4));
            read.reserve_exact(ahead - read.len());
        }
        read.extend_from_slice(&part);
    }
}

/// Waits for something for as long as is `left`, and takes off what that took.
async fn within<T>(left: &mut Duration, something: impl Future<Output = T>) -> Option<T> {
    let begun = Instant::now();
    let done = timeout(*left, something).await.ok();
    *left = left.saturating_sub(begun.elapsed());
    done
}

fn held(answer: Vec<u8>, room: Room, late: Rc<Notify>) -> Response<Full<Bytes>> {
    let (taken, has_taken) = oneshot::channel();
    spawn_local(async move {
        if timeout(TAKEN_WITHIN, has_taken).await.is_err() {
            late.notify_one();
        }
    });
    typed("application/json", Bytes::from_owner(Held { answer, _room: room, _taken: taken }))
}

fn too_large(most: usize) -> Response<Full<Bytes>> {
    let why = format!("a body has {most} bytes at most, and one whose length is not said {SMALL_MOST}\n");
    let mut response = text(StatusCode::PAYLOAD_TOO_LARGE, why);
    // The rest of the body is not read.
    response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}
