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
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::places::Bounds;
use crate::serve::{Connected, HEADERS_WITHIN, Watched, accept_each, text, typed};

/// A body that is larger is refused. Objects of etcd have 1.5 MiB at most, and a list is converted as one.
const BODY_MOST: usize = 32 << 20;
/// What all bodies that are being read and answered may take together: who comes beyond that waits.
const BODIES_MOST: usize = 2 * BODY_MOST;
/// How long a body may take to come. An API server gives up after 30 seconds.
const BODY_WITHIN: Duration = Duration::from_secs(20);
/// An API server opens a connection for each review that is under way.
const BOUNDS: Bounds = Bounds { of_others: 256, of_one: 128 };

/// What is answered to a body: a body, or why it makes no sense.
pub type Answer = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// What is answered, and where.
#[derive(Clone)]
pub struct Reviews {
    /// The paths that are answered at.
    pub paths: Vec<String>,
    /// The answer.
    pub answer: Answer,
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
    let reviewer = Rc::new(Reviewer { reviews, room: Semaphore::new(BODIES_MOST) });
    accept_each(listener, &Connected::new(None, BOUNDS), |stream| talk(stream, tls.clone(), reviewer.clone())).await;
}

async fn talk(stream: Watched, tls: TlsAcceptor, reviewer: Rc<Reviewer>) {
    // Who does not take our certificate, or asks for another name's, goes away by itself.
    let Ok(Ok(stream)) = timeout(HEADERS_WITHIN, tls.accept(stream)).await else { return };
    let answer = service_fn(move |request| {
        let reviewer = reviewer.clone();
        async move { Ok::<_, Infallible>(reviewer.answer(request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
}

/// Answers bodies, as many at once as there is room for.
struct Reviewer {
    reviews: Reviews,
    room: Semaphore,
}

impl Reviewer {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if !self.reviews.paths.iter().any(|path| path == request.uri().path()) {
            return text(StatusCode::NOT_FOUND, "reviews are not answered there\n".into());
        }
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered\n".into());
        }
        let size = request.body().size_hint();
        let most = size.upper().and_then(|size| usize::try_from(size).ok()).unwrap_or(BODY_MOST);
        if most > BODY_MOST || size.lower() > BODY_MOST as u64 {
            return too_large();
        }
        let permits = u32::try_from(most).unwrap_or(u32::MAX);
        match timeout(BODY_WITHIN, self.read(request.into_body(), permits)).await {
            Ok(answer) => answer,
            Err(_) => text(StatusCode::REQUEST_TIMEOUT, format!("the body did not come within {BODY_WITHIN:?}\n")),
        }
    }

    /// Reads a body as soon as there is room for it, and answers.
    async fn read(&self, body: Incoming, permits: u32) -> Response<Full<Bytes>> {
        let Ok(_room) = self.room.acquire_many(permits).await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "there is no room\n".into());
        };
        match Limited::new(body, BODY_MOST).collect().await {
            Ok(body) => self.answered(&body.to_bytes()),
            Err(why) if why.is::<LengthLimitError>() => too_large(),
            Err(why) => text(StatusCode::BAD_REQUEST, format!("the body cannot be read: {why}\n")),
        }
    }

    fn answered(&self, body: &[u8]) -> Response<Full<Bytes>> {
        match catch_unwind(AssertUnwindSafe(|| (self.reviews.answer)(body))) {
            Ok(Ok(answer)) => typed("application/json", answer),
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
