//! The region on a socket, for clients that are not in this process.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::log::Caller;
use crate::region::Region;
use crate::region::wire::answer::ConnectionLost;

/// Answers plain HTTP on a listener, which should be on loopback: nothing checks who asks. Runs until dropped.
///
/// # Errors
/// When the listener no longer accepts.
pub async fn serve(region: Region, listener: TcpListener) -> io::Result<Infallible> {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            accepted = listener.accept() => connections.push(connection(region.clone(), accepted?.0)),
            Some(()) = connections.next() => {}
        }
    }
}

async fn connection(region: Region, stream: TcpStream) {
    let service = service_fn(|request| answer(region.clone(), request));
    // A connection that breaks is the client's affair, and one that we break is meant to be broken.
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection to the region ended");
    }
}

async fn answer(region: Region, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let response = region.handle(Caller::named("http"), Request::from_parts(parts, body)).await;
    if response.extensions().get::<ConnectionLost>().is_some() {
        return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the answer is lost"));
    }
    Ok(response.map(Full::new))
}
