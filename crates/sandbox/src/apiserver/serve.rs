//! The server on a socket: HTTP/1.1 and HTTP/2 on loopback, for clients outside the process. Real time only.
use super::{ApiServer, Body, KubeService};
use crate::log::Caller;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

/// A listener that serves an [`ApiServer`].
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    server: ApiServer,
    token: Option<String>,
}

impl Listener {
    /// Binds to an address (port 0: any free one). With a token, requests have to carry it as bearer token.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(server: ApiServer, address: SocketAddr, token: Option<String>) -> io::Result<Self> {
        Ok(Listener { socket: TcpListener::bind(address).await?, server, token })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The socket has no address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves connections until dropped; they end with it. To be run within a LocalSet, on which the streams of HTTP/2
    /// are spawned.
    ///
    /// # Errors
    /// The listening socket fails.
    pub async fn serve(self) -> io::Result<()> {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                accepted = self.socket.accept() => {
                    let (stream, peer) = accepted?;
                    let service = self.server.service(Caller::named(format!("http/{}", peer.ip())));
                    open.push(connection(stream, service, self.token.clone()));
                }
                Some(ended) = open.next(), if !open.is_empty() => {
                    if let Err(why) = ended {
                        tracing::debug!(%why, "connection ended");
                    }
                }
            }
        }
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

async fn connection(stream: TcpStream, service: KubeService, token: Option<String>) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
        let allowed = token.as_ref().is_none_or(|token| carries(&request, token));
        let mut service = service.clone();
        async move { if allowed { tower::Service::call(&mut service, request).await } else { unauthorized() } }
    });
    let mut builder = auto::Builder::new(Local);
    builder.http1().timer(TokioTimer::new());
    builder.serve_connection(TokioIo::new(stream), answer).await.map_err(|e| e.to_string())
}

fn carries(request: &Request<Incoming>, token: &str) -> bool {
    let header = request.headers().get(http::header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    header.and_then(|text| text.strip_prefix("Bearer ")) == Some(token)
}

fn unauthorized() -> io::Result<Response<Body>> {
    let status = super::ApiError::new(401, "Unauthorized", "Unauthorized").status();
    let body = Full::new(bytes::Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    Response::builder()
        .status(401)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(io::Error::other)
}
