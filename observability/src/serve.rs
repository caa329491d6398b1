//! Health and metrics over HTTP, on a thread of their own, and the console on another: what it takes to write a large
//! cluster out must not keep a probe waiting.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use crate::door::{Door, PAGE_HEADERS, TurnedAway};
use crate::health::Health;
use crate::metrics::Metrics;

/// How long a client may take to say what it wants.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// What is served at once, at most; more are closed unheard.
const AT_ONCE: usize = 64;
/// Pause after a connection could not be taken, so that a machine out of descriptors is not made worse.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What a listener serves.
#[derive(Clone)]
enum Page {
    Health(Health),
    Metrics(Metrics),
    Console(Door, Pages),
}

/// A page's content type and text by its path, where there is one.
pub type Pages = Arc<dyn Fn(&str) -> Option<(&'static str, Vec<u8>)> + Send + Sync>;

/// Serves `/healthz` and `/readyz` on one listener and `/metrics` on another, until the process ends.
///
/// # Errors
/// The thread or its runtime cannot be made.
pub fn start(health: (TcpListener, Health), metrics: (TcpListener, Metrics)) -> io::Result<()> {
    serve("probes", vec![(health.0, Page::Health(health.1)), (metrics.0, Page::Metrics(metrics.1))])
}

/// Serves pages to whom the door lets in, until the process ends.
///
/// # Errors
/// The thread or its runtime cannot be made.
pub fn console(listener: TcpListener, door: Door, pages: Pages) -> io::Result<()> {
    serve("console", vec![(listener, Page::Console(door, pages))])
}

fn serve(name: &str, pages: Vec<(TcpListener, Page)>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (listener, _) in &pages {
        listener.set_nonblocking(true)?;
    }
    let serving = move || {
        let set = LocalSet::new();
        for (listener, page) in pages {
            set.spawn_local(accept(listener, page));
        }
        runtime.block_on(set);
    };
    thread::Builder::new().name(name.into()).spawn(serving)?;
    Ok(())
}

async fn accept(listener: TcpListener, page: Page) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "a page cannot be served"),
    };
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let page = page.clone();
        tokio::task::spawn_local(async move {
            let answer = service_fn(move |request| std::future::ready(Ok::<_, Infallible>(page.answer(&request))));
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
            // A client that goes away is its own affair.
            let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            drop(place);
        });
    }
}

impl Page {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n".into());
        }
        match (self, request.uri().path()) {
            (Self::Health(health), "/healthz") => verdict(health.live()),
            (Self::Health(health), "/readyz") => verdict(health.ready()),
            (Self::Metrics(metrics), "/metrics") => typed(OPEN_METRICS, metrics.text()),
            (Self::Console(door, pages), path) => match door.admit(request.uri(), request.headers()) {
                Ok(()) => pages(path).map_or_else(nothing, |(kind, page)| shown(kind, page)),
                Err(turned) => turned_away(turned),
            },
            _ => nothing(),
        }
    }
}

fn nothing() -> Response<Full<Bytes>> {
    text(StatusCode::NOT_FOUND, "there is no such page\n".into())
}

fn shown(content_type: &'static str, page: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = typed(content_type, page);
    for (name, value) in PAGE_HEADERS {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

fn turned_away(turned: TurnedAway) -> Response<Full<Bytes>> {
    match turned {
        TurnedAway::Elsewhere => {
            let why = "without a CONSOLE_TOKEN the console answers to localhost only\n";
            text(StatusCode::FORBIDDEN, why.into())
        }
        TurnedAway::Unknown => {
            let mut response = text(StatusCode::UNAUTHORIZED, "the console asks for its token\n".into());
            let asks = header::HeaderValue::from_static("Basic realm=\"dovetail: the password is the token\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, asks);
            response
        }
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn verdict(verdict: Result<(), String>) -> Response<Full<Bytes>> {
    match verdict {
        Ok(()) => text(StatusCode::OK, "ok\n".into()),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = typed("text/plain; charset=utf-8", body);
    *response.status_mut() = status;
    response
}

fn typed(content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
