//! Between the API server and a replica: objects that carry a mark come as no type can read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

const MARK: &str = "\"no-type-can-read-this\"";

/// The annotations of an object that cannot be read.
pub fn spoilt() -> Value {
    json!({"test/odd": MARK.trim_matches('"')})
}

/// A client that gets unreadable text for marked objects.
pub fn spoiling(client: Client) -> Client {
    changing(client, |_, data| {
        let text = std::str::from_utf8(data).unwrap();
        text.contains(MARK).then(|| text.replace(MARK, "{\"not\": [\"a\", \"text\"]}").into_bytes())
    })
}

/// A client whose requests for a path fail with 403 while the switch is on.
pub fn forbidding(client: Client, path: &'static str, on: Arc<AtomicBool>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        let refused = request.uri().path().contains(path) && on.load(Ordering::Relaxed);
        async move {
            if refused {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                    "reason": "Forbidden", "message": "the test forbids it"});
                let answer = http::Response::builder().status(403).body(Body::from(status.to_string().into_bytes()));
                return Ok::<_, kube::Error>(answer.unwrap());
            }
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

fn changing(client: Client, change: fn(&str, &[u8]) -> Option<Vec<u8>>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        let path = request.uri().path().to_owned();
        async move {
            let answer = client.send(request).await?;
            Ok::<_, kube::Error>(answer.map(|body| {
                StreamBody::new(BodyStream::new(body).map(move |frame| {
                    frame.map(|frame| match frame.into_data() {
                        Ok(data) => Frame::data(change(&path, &data).map_or(data, Bytes::from)),
                        Err(other) => other,
                    })
                }))
            }))
        }
    });
    Client::new(service, namespace)
}
