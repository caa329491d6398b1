//! Health, metrics and the console over HTTP, each on a thread of its own: what it takes to write a large cluster out must
//! not keep a probe waiting. [`crate::places`] decides whose connection goes when there are too many.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use crate::access::{HttpAccess, PAGE_HEADERS, TurnedAway};
use crate::health::Health;
use crate::metrics::{Metrics, OPEN_METRICS, TEXT_FORMAT, asks_open_metrics, text_format};
use crate::places::{Bounds, ConnectionPlaces};

/// Time that a client may take to say what it wants.
pub(crate) const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// Time without a byte after which a connection is closed: its client does not take its answer.
const STILL_FOR: Duration = Duration::from_secs(30);
/// Time after which a connection takes no more requests: it ends with the answer that is under way.
const LASTS: Duration = Duration::from_secs(300);
/// Most bytes read of a connection before somebody takes it.
const READ_MOST: usize = 16 << 10;
/// Time that the answer under way after [`LASTS`] may take: a client that takes it a byte at a time is cut off.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Time that one page of metrics is the answer to all who ask.
const KEPT_FOR: Duration = Duration::from_millis(200);
/// Pause after a connection could not be taken, so that a machine out of descriptors is not made worse.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Pages of a listener.
#[derive(Clone)]
enum Page {
    Health(Health),
    Metrics(Metrics, Kept, Option<Pages>),
    Console(HttpAccess, Pages),
}

/// A page of metrics that was written just now: many who ask at once are answered by one, as writing it may take long.
type Kept = Arc<Mutex<Option<KeptPage>>>;

/// A page of metrics in both formats.
struct KeptPage {
    when: Instant,
    open: Bytes,
    plain: Option<Bytes>,
}

/// A page's content type and text by its path, where there is one. Those of the console get the query after it, too.
pub type Pages = Arc<dyn Fn(&str) -> Option<(&'static str, Vec<u8>)> + Send + Sync>;

/// Serves `/healthz` and `/readyz` on one listener and `/metrics` on another, until the process ends. `node` is the address
/// of the node, from which its kubelet probes, where it is known.
///
/// # Errors
/// A thread or its runtime cannot be made.
pub fn start(
    probes: TcpListener,
    health: Health,
    scrapes: TcpListener,
    metrics: Metrics,
    node: Option<IpAddr>,
) -> io::Result<()> {
    start_with(probes, health, scrapes, metrics, None, node)
}

/// Like [`start`], with pages of a name of their own beside the metrics.
///
/// # Errors
/// As [`start`].
pub fn start_with(
    probes: TcpListener,
    health: Health,
    scrapes: TcpListener,
    metrics: Metrics,
    pages: Option<Pages>,
    node: Option<IpAddr>,
) -> io::Result<()> {
    serve("probes", probes, Page::Health(health), node)?;
    serve("metrics", scrapes, Page::Metrics(metrics, Kept::default(), pages), node)
}

/// Serves pages to whom `access` admits, until the process ends.
///
/// # Errors
/// The thread or its runtime cannot be made.
pub fn console(listener: TcpListener, access: HttpAccess, pages: Pages) -> io::Result<()> {
    serve("console", listener, Page::Console(access, pages), None)
}

fn serve(name: &str, listener: TcpListener, page: Page, node: Option<IpAddr>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let serving = move || runtime.block_on(LocalSet::new().run_until(accept(listener, page, node)));
    thread::Builder::new().name(name.into()).spawn(serving)?;
    Ok(())
}

async fn accept(listener: TcpListener, page: Page, node: Option<IpAddr>) {
    accept_each(listener, &Connected::new(node, Bounds::default()), |stream| {
        let page = page.clone();
        let answer = service_fn(move |request| std::future::ready(Ok::<_, Infallible>(page.answer(&request))));
        converse(stream, answer)
    })
    .await;
}

/// Answers the requests of a connection, until the client ends it or it has lasted long enough.
pub(crate) async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
) {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_buf_size(READ_MOST);
    let mut talking = pin!(server.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        biased;
        // A client that goes away is its own affair.
        _ = talking.as_mut() => return,
        () = sleep(LASTS) => {}
    }
    talking.as_mut().graceful_shutdown();
    let _ = talking.await;
}

/// Talks on each connection that a listener gets, until either side ends it or its time is over.
pub(crate) async fn accept_each<T: Future<Output = ()> + 'static>(
    listener: TcpListener,
    connected: &Connected,
    talk: impl Fn(WatchedConnection) -> T,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "nobody can be answered on a listener"),
    };
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(AFTER_FAILURE).await;
            continue;
        };
        let (number, closed) = connected.admit(peer.ip());
        let stream = WatchedConnection::new(stream, number, peer.ip(), connected.clone());
        tokio::task::spawn_local(until_it_ends(talk(stream), number, closed, connected.clone()));
    }
}

async fn until_it_ends(talking: impl Future<Output = ()>, number: u64, closed: Rc<Notify>, connected: Connected) {
    tokio::select! {
        biased;
        () = closed.notified() => {}
        () = sleep(LASTS + ENDS_WITHIN) => {}
        () = connected.until_still(number) => {}
        () = talking => {}
    }
    connected.leave(number);
}

/// Connections to a listener, and how each is told to go. Clones share it.
#[derive(Clone)]
pub(crate) struct Connected {
    places: Rc<RefCell<ConnectionPlaces>>,
    closing: Rc<RefCell<BTreeMap<u64, Rc<Notify>>>>,
    begun: Instant,
}

impl Connected {
    pub(crate) fn new(node: Option<IpAddr>, bounds: Bounds) -> Self {
        Self {
            places: Rc::new(RefCell::new(ConnectionPlaces::within(node, bounds))),
            closing: Rc::default(),
            begun: Instant::now(),
        }
    }

    /// Lets a connection in; another may have to go for it.
    fn admit(&self, peer: IpAddr) -> (u64, Rc<Notify>) {
        let (number, goes) = self.places.borrow_mut().admit(peer, self.begun.elapsed());
        let mut closing = self.closing.borrow_mut();
        if let Some(gone) = goes.and_then(|goes| closing.remove(&goes)) {
            gone.notify_one();
        }
        let closed = Rc::new(Notify::new());
        closing.insert(number, closed.clone());
        (number, closed)
    }

    fn moved(&self, number: u64) {
        self.places.borrow_mut().moved(number, self.begun.elapsed());
    }

    async fn until_still(&self, number: u64) {
        loop {
            let moved = self.places.borrow().last_moved(number).unwrap_or_default();
            let still = self.begun.elapsed().saturating_sub(moved);
            if still >= STILL_FOR {
                return;
            }
            sleep(STILL_FOR - still).await;
        }
    }

    fn leave(&self, number: u64) {
        self.places.borrow_mut().leave(number);
        self.closing.borrow_mut().remove(&number);
    }
}

/// A connection of which it is noted when a byte passes.
pub(crate) struct WatchedConnection {
    stream: TcpStream,
    number: u64,
    peer: IpAddr,
    connected: Connected,
}

impl WatchedConnection {
    fn new(stream: TcpStream, number: u64, peer: IpAddr, connected: Connected) -> Self {
        Self { stream, number, peer: peer.to_canonical(), connected }
    }

    /// Address of the client.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }
}

impl AsyncRead for WatchedConnection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        self.connected.moved(self.number);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.connected.moved(self.number);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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
            (Self::Metrics(metrics, kept, _), "/metrics") => {
                let accepts = request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
                let open = asks_open_metrics(&accepts.collect::<Vec<_>>().join(","));
                typed(if open { OPEN_METRICS } else { TEXT_FORMAT }, written(metrics, kept, open))
            }
            (Self::Metrics(_, _, Some(pages)), path) => {
                pages(path).map_or_else(nothing, |(kind, page)| shown(kind, page))
            }
            (Self::Console(access, pages), path) => match access.admit(request.uri(), request.headers()) {
                Ok(()) => pages(request.uri().path_and_query().map_or(path, |all| all.as_str()))
                    .map_or_else(nothing, |(kind, page)| shown(kind, page)),
                Err(turned) => turned_away(turned),
            },
            _ => nothing(),
        }
    }
}

fn written(metrics: &Metrics, kept: &Kept, open: bool) -> Bytes {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let page = match kept.take().filter(|page| page.when.elapsed() < KEPT_FOR) {
        Some(page) => kept.insert(page),
        None => kept.insert(KeptPage { when: Instant::now(), open: Bytes::from(metrics.text()), plain: None }),
    };
    if open {
        return page.open.clone();
    }
    let plain = || Bytes::from(text_format(std::str::from_utf8(&page.open).unwrap_or_default()));
    match &page.plain {
        Some(plain) => plain.clone(),
        None => page.plain.insert(plain()).clone(),
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

fn verdict(verdict: Result<(), String>) -> Response<Full<Bytes>> {
    match verdict {
        Ok(()) => text(StatusCode::OK, "ok\n".into()),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

pub(crate) fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = typed("text/plain; charset=utf-8", body);
    *response.status_mut() = status;
    response
}

pub(crate) fn typed(content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// A service that answers after this time.
    fn slow(seconds: u64) -> impl Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible> {
        service_fn(move |_| async move {
            sleep(Duration::from_secs(seconds)).await;
            Ok(text(StatusCode::OK, "whole\n".into()))
        })
    }

    #[tokio::test(start_paused = true)]
    async fn answer_under_way_at_connection_end_is_given_whole() {
        let (mut client, server) = duplex(1024);
        let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        client.write_all(request).await.unwrap();
        client.write_all(request).await.unwrap();
        let begun = Instant::now();
        let mut answer = String::new();
        let (_, read) = tokio::join!(converse(server, slow(310)), client.read_to_string(&mut answer));
        read.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("whole\n"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "the second is not begun: {answer}");
        assert!(begun.elapsed() < LASTS + ENDS_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_used_all_the_time_ends_between_two_answers() {
        let (mut client, server) = duplex(1024);
        let asks = async {
            let mut answers = 0;
            loop {
                if client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.is_err() {
                    break answers;
                }
                let mut answer = Vec::new();
                while !answer.ends_with(b"whole\n") {
                    if client.read_buf(&mut answer).await.unwrap_or_default() == 0 {
                        assert!(answer.is_empty(), "cut off: {}", String::from_utf8_lossy(&answer));
                        return answers;
                    }
                }
                answers += 1;
            }
        };
        let ((), answers) = tokio::join!(converse(server, slow(7)), asks);
        assert_eq!(answers, 43, "300 seconds, at seven an answer");
    }
}
