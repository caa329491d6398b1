//! The server on a socket: HTTP/1.1 and HTTP/2, plain or by TLS, for clients outside the process. Real time only.
mod gate;
mod tls;

pub use gate::{ActionsByPath, PagesByPath, ServedPage};
pub use tls::{TlsError, TlsIdentity};

use super::{ApiServer, KubeService};
use crate::log::Caller;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use gate::Gate;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Connections that are open at once; those beyond are closed at once.
const MOST_CONNECTIONS: usize = 2_000;
/// Longest time that a client may take for its first bytes, for a request's head, and for its body.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two pings of an HTTP/2 connection, to see that the peer is still there.
const ALIVE: Duration = Duration::from_secs(20);
/// Pause of the listener when it cannot accept (no file descriptor left).
const BREATHER: Duration = Duration::from_millis(100);
/// So much of a body that is too large is read before it is refused.
const MOST_FORGOTTEN: usize = 64 * 1024 * 1024;
/// First bytes of an HTTP/2 connection that nobody has negotiated.
const HTTP2: &[u8] = b"PRI * HTTP/2.0";

/// A listener that serves an [`ApiServer`].
pub struct Listener {
    socket: TcpListener,
    server: ApiServer,
    gate: Gate,
    tls: Option<TlsAcceptor>,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Listener {
    /// Binds to an address (port 0: any free one). With a token, requests have to carry it; without one, only programs
    /// on this machine that name it as such are let in.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(server: ApiServer, address: SocketAddr, token: Option<String>) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        Ok(Listener { socket, server, gate: Gate::new(token), tls: None })
    }

    #[must_use]
    pub fn with_tls(mut self, identity: &TlsIdentity) -> Self {
        self.tls = Some(TlsAcceptor::from(identity.config()));
        self
    }

    /// Shows pages beside the API.
    #[must_use]
    pub fn with_pages(mut self, pages: PagesByPath) -> Self {
        self.gate.pages = Some(pages);
        self
    }

    /// Lets the console act.
    #[must_use]
    pub fn with_actions(mut self, actions: ActionsByPath) -> Self {
        self.gate.actions = Some(actions);
        self
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The socket has no address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves connections until dropped; they end with it. To be run within a LocalSet, on which the streams of HTTP/2
    /// are spawned.
    pub async fn serve(self) {
        let mut open = FuturesUnordered::new();
        let gate = Rc::new(self.gate);
        loop {
            tokio::select! {
                biased;
                accepted = self.socket.accept() => match accepted {
                    Ok(_) if open.len() >= MOST_CONNECTIONS => tracing::warn!("too many connections: one is closed"),
                    Ok((stream, peer)) => {
                        let service = self.server.service(Caller::named(format!("http/{}", peer.ip())));
                        open.push(connection(stream, service, gate.clone(), self.tls.clone()));
                    }
                    // One client's end, or no file descriptor left: the others are served on.
                    Err(why) => {
                        tracing::warn!(%why, "a connection could not be accepted");
                        tokio::time::sleep(BREATHER).await;
                    }
                },
                Some(ended) = open.next(), if !open.is_empty() => {
                    if let Err(why) = ended {
                        tracing::debug!(%why, "connection ended");
                    }
                }
            }
        }
    }
}

async fn within<T>(what: &str, done: impl Future<Output = io::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(CLIENT_TIMEOUT, done).await {
        Ok(done) => done.map_err(|why| why.to_string()),
        Err(_) => Err(format!("{what} did not come in time")),
    }
}

/// Runs the streams of HTTP/2 on the LocalSet.
#[derive(Clone, Copy, Debug)]
struct Local;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, stream: F) {
        tokio::task::spawn_local(stream);
    }
}

async fn connection(
    stream: TcpStream,
    service: KubeService,
    gate: Rc<Gate>,
    tls: Option<TlsAcceptor>,
) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let Some(acceptor) = tls else {
        let two = within("the first bytes", speaks_http2(&stream)).await?;
        return talk(stream, two, service, gate).await;
    };
    let stream = within("the TLS handshake", acceptor.accept(stream)).await?;
    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    talk(stream, two, service, gate).await
}

/// True if a connection's first bytes are HTTP/2's. They stay where they are.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut head = [0; HTTP2.len()];
    loop {
        let there = stream.peek(&mut head).await?;
        if there == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed before it began"));
        }
        if there == head.len() || head[..there] != HTTP2[..there] {
            return Ok(head == HTTP2);
        }
        // The rest of the same few bytes is on its way.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn talk<S>(stream: S, two: bool, service: KubeService, gate: Rc<Gate>) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (gate, mut service) = (gate.clone(), service.clone());
        async move {
            let (parts, body) = request.into_parts();
            if let Some(answer) = gate.answer(&parts).await {
                return answer;
            }
            let body = match tokio::time::timeout(CLIENT_TIMEOUT, gather(body)).await {
                Ok(Ok(body)) => body,
                Ok(Err(refused)) => return gate::refuse(&refused),
                Err(_) => {
                    return gate::refuse(&super::ApiError::new(408, "Timeout", "the request's body did not come"));
                }
            };
            tower::Service::call(&mut service, Request::from_parts(parts, Full::new(body))).await
        }
    });
    let stream = TokioIo::new(stream);
    if two {
        let mut builder = http2::Builder::new(Local);
        builder.timer(TokioTimer::new()).keep_alive_interval(ALIVE).keep_alive_timeout(ALIVE);
        builder.max_concurrent_streams(1_000);
        return builder.serve_connection(stream, answer).await.map_err(|e| e.to_string());
    }
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(CLIENT_TIMEOUT);
    builder.serve_connection(stream, answer).await.map_err(|e| e.to_string())
}

/// A request's body, as long as it is no larger than any may be. What is too large is read to its end and forgotten, as
/// far as that goes: who still writes does not read the refusal.
async fn gather(mut body: Incoming) -> Result<Bytes, super::ApiError> {
    let (mut all, mut size) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|why| super::ApiError::bad_request(format!("the request's body broke off: {why}")))?;
        if let Some(data) = frame.data_ref() {
            size += data.len();
            if size > MOST_FORGOTTEN {
                break;
            }
            if size <= super::http::body::MOST {
                all.extend_from_slice(data);
            }
        }
    }
    if size > super::http::body::MOST {
        Err(super::http::body::too_large(super::http::body::MOST))
    } else {
        Ok(Bytes::from(all))
    }
}
