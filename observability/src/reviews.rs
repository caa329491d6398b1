//! An API server's reviews over HTTPS, on a thread of its own: a body comes, one goes back. Nobody is asked who they are: what
//! is answered follows from what is asked alone (docs/decisions/045). So the bounds are what keeps it alive: of connections,
//! of time, of a body, and of what all bodies take together.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::service::service_fn;
use rustls::ServerConfig;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::places::Bounds;
use crate::serve::{Connected, HEADERS_WITHIN, WatchedConnection, accept_each, converse, text, typed};

/// A body that is larger is refused. Objects of etcd have 1.5 MiB at most, and a list is converted as one.
const BODY_MOST: usize = 32 << 20;
/// What all bodies that are being read and answered may take together: who comes beyond that waits.
const BODIES_MOST: usize = 2 * BODY_MOST;
/// How long a body may take to come, and its answer to be taken. An API server gives up after 30 seconds.
const BODY_WITHIN: Duration = Duration::from_secs(20);
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// An API server opens a connection for each review that is under way.
const BOUNDS: Bounds = Bounds { of_others: 256, of_one: 128 };

/// What is answered to a body: a body, or why it makes no sense.
type ReviewHandler = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// What is answered, and where.
#[derive(Clone)]
pub struct Reviews {
    /// The paths that are answered at.
    pub paths: Vec<String>,
    /// What makes the answer from a review's body.
    pub answer: ReviewHandler,
}

/// Answers reviews on a listener until the process ends. The identity is that of `tls` at the time of each handshake.
///
/// # Errors
/// The thread or its runtime cannot be made.
pub fn start(listener: TcpListener, tls: Arc<ServerConfig>, reviews: Reviews) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let serving = move || runtime.block_on(LocalSet::new().run_until(accept(listener, tls.into(), reviews)));
    thread::Builder::new().name("reviews".into()).spawn(serving)?;
    Ok(())
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, reviews: Reviews) {
    let reviewer = Rc::new(Reviewer::new(reviews));
    accept_each(listener, &Connected::new(None, BOUNDS), |stream| talk(stream, tls.clone(), reviewer.clone())).await;
}

async fn talk(stream: WatchedConnection, tls: TlsAcceptor, reviewer: Rc<Reviewer>) {
    // Who does not take our certificate, or asks for another name's, goes away by itself.
    let Ok(Ok(stream)) = timeout(HEADERS_WITHIN, tls.accept(stream)).await else { return };
    let late = Rc::new(Notify::new());
    let slow = late.clone();
    let answer = service_fn(move |request| {
        let (reviewer, late) = (reviewer.clone(), late.clone());
        async move { Ok::<_, Infallible>(reviewer.answer(request, late).await) }
    });
    tokio::select! {
        biased;
        () = slow.notified() => {}
        () = converse(stream, answer) => {}
    }
}

/// Answers bodies, as many at once as there is room for.
struct Reviewer {
    reviews: Reviews,
    room: Arc<Semaphore>,
    /// For one body at a time beyond the room: without it several could wait for each other, each with a part of it.
    last: Arc<Semaphore>,
}

/// The room that a body takes, until it is given back.
#[derive(Default)]
struct Room(Vec<OwnedSemaphorePermit>);

/// An answer, with the room of the body that it is to. It is about as large, and stays in memory until the client has taken it.
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
    fn new(reviews: Reviews) -> Self {
        let (room, last) = (Arc::new(Semaphore::new(BODIES_MOST - BODY_MOST)), Arc::new(Semaphore::new(1)));
        Self { reviews, room, last }
    }

    /// Answers a request. `late` is told when the client does not take the answer.
    async fn answer(&self, request: Request<Incoming>, late: Rc<Notify>) -> Response<Full<Bytes>> {
        if !self.reviews.paths.iter().any(|path| path == request.uri().path()) {
            return text(StatusCode::NOT_FOUND, "reviews are not answered there\n".into());
        }
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered\n".into());
        }
        if request.body().size_hint().lower() > BODY_MOST as u64 {
            return too_large();
        }
        match timeout(BODY_WITHIN, self.read_body(request.into_body())).await {
            Ok(Ok((body, room))) => self.answered(&body, room, late),
            Ok(Err(refusal)) => *refusal,
            Err(_) => text(StatusCode::REQUEST_TIMEOUT, format!("the body did not come within {BODY_WITHIN:?}\n")),
        }
    }

    /// Reads a body, each part as soon as there is room for it: a body that does not come takes none.
    async fn read_body(&self, mut body: Incoming) -> Result<(Vec<u8>, Room), Box<Response<Full<Bytes>>>> {
        let (mut read, mut room) = (Vec::new(), Room::default());
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|why| Box::new(text(StatusCode::BAD_REQUEST, format!("the body cannot be read: {why}\n"))))?;
            let Ok(part) = frame.into_data() else { continue };
            if read.len() + part.len() > BODY_MOST {
                return Err(Box::new(too_large()));
            }
            self.make_room(part.len(), &mut room).await;
            read.extend_from_slice(&part);
        }
        Ok((read, room))
    }

    async fn make_room(&self, size: usize, room: &mut Room) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let held = |one: &OwnedSemaphorePermit| Arc::ptr_eq(one.semaphore(), &self.last);
        if room.0.last().is_some_and(held) {
            return;
        }
        let taken = tokio::select! {
            biased;
            taken = self.room.clone().acquire_many_owned(size) => taken,
            taken = self.last.clone().acquire_owned() => taken,
        };
        // Neither is ever closed.
        let Ok(taken) = taken else { return };
        match room.0.first_mut() {
            Some(first) if !held(&taken) => first.merge(taken),
            _ => room.0.push(taken),
        }
    }

    fn answered(&self, body: &[u8], room: Room, late: Rc<Notify>) -> Response<Full<Bytes>> {
        match catch_unwind(AssertUnwindSafe(|| (self.reviews.answer)(body))) {
            Ok(Ok(answer)) => {
                let (taken, has_taken) = oneshot::channel();
                spawn_local(async move {
                    if timeout(TAKEN_WITHIN, has_taken).await.is_err() {
                        late.notify_one();
                    }
                });
                typed("application/json", Bytes::from_owner(Held { answer, _room: room, _taken: taken }))
            }
            Ok(Err(why)) => text(StatusCode::BAD_REQUEST, format!("{why}\n")),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the review could not be answered\n".into()),
        }
    }
}

fn too_large() -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has {BODY_MOST} bytes at most\n"));
    // What is still on its way is not read.
    response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}
