//! Sent spans, held against what a collector receives: by gRPC and by HTTP, on loopback. And those not sent, when the collector
//! is away or never answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dovetail_observability::traces::{ExportedSpan, OtlpProtocol, TraceSettings, Traces, Value};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use prost::Message as _;
use tokio::net::TcpListener;

type Received = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// A collector that keeps what it receives, until the test's process ends.
fn collector() -> (SocketAddr, Received) {
    let received = Received::default();
    let (kept, (bound, address)) = (received.clone(), std::sync::mpsc::channel());
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            bound.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let kept = kept.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(request, kept.clone()));
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    });
    (address.recv().unwrap(), received)
}

type Body = StreamBody<futures_stream::Frames>;

mod futures_stream {
    //! The two frames of an answer.
    use super::{Bytes, Frame, Infallible};
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    pub struct Frames(pub VecDeque<Frame<Bytes>>);

    impl futures::Stream for Frames {
        type Item = Result<Frame<Bytes>, Infallible>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }
    }
}

async fn answer(request: Request<Incoming>, kept: Received) -> Result<Response<Body>, Infallible> {
    let grpc = request.uri().path() == "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    assert!(grpc || request.uri().path() == "/v1/traces", "{}", request.uri());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message = if grpc { body.slice(5..) } else { body };
    kept.lock().unwrap().push(ExportTraceServiceRequest::decode(message).unwrap());
    let mut frames = std::collections::VecDeque::new();
    let mut response = Response::builder();
    if grpc {
        response = response.header("content-type", "application/grpc");
        frames.push_back(Frame::data(Bytes::from_static(&[0; 5])));
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        frames.push_back(Frame::trailers(trailers));
    } else {
        response = response.header("content-type", "application/x-protobuf");
    }
    Ok(response.body(StreamBody::new(futures_stream::Frames(frames))).unwrap())
}

fn span(number: u64) -> ExportedSpan {
    ExportedSpan {
        trace: 0xabc,
        span: number + 1,
        parent: number,
        name: "launch",
        scope: "launcher",
        begun: 1_000_000_000,
        ended: 2_000_000_000,
        remote: number.is_multiple_of(2),
        attributes: vec![("k8s.pod.name", Value::Text(format!("web-{number}"))), ("dovetail.term", Value::Number(3))],
        links: vec![(0xdef, 1)],
        error: (number == 7).then(|| "InsufficientInstanceCapacity".to_owned()),
    }
}

fn settings(protocol: OtlpProtocol, endpoint: String) -> TraceSettings {
    TraceSettings { protocol, endpoint: Some(endpoint), ..TraceSettings::default() }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn all_arrive(protocol: OtlpProtocol, path: &str) {
    let (address, received) = collector();
    let resource = vec![("service.name", "dovetail".to_owned()), ("service.instance.id", "dovetail-0".to_owned())];
    let traces = Traces::start(&settings(protocol, format!("http://{address}{path}")), resource).unwrap();
    (0..1000).for_each(|number| traces.send(span(number)));
    wait(traces.flush(Duration::from_secs(60)));
    assert_eq!(traces.counts().exported, 1000, "{:?}", traces.counts());
    let received = received.lock().unwrap();
    let of_resource = &received[0].resource_spans[0].resource.as_ref().unwrap().attributes;
    let name = of_resource.iter().find(|one| one.key == "service.name").unwrap();
    let told = name.value.as_ref().unwrap().value.as_ref().unwrap();
    assert_eq!(*told, any_value::Value::StringValue("dovetail".into()));
    let scopes = received.iter().flat_map(|one| &one.resource_spans).flat_map(|one| &one.scope_spans);
    let spans: Vec<_> = scopes.inspect(|scope| assert_eq!(scope.scope.as_ref().unwrap().name, "launcher")).collect();
    let spans: Vec<_> = spans.into_iter().flat_map(|scope| &scope.spans).collect();
    assert_eq!(spans.len(), 1000);
    for (number, span) in (0_u64..).zip(&spans) {
        assert_eq!(span.trace_id, 0xabc_u128.to_be_bytes());
        assert_eq!(span.span_id, (number + 1).to_be_bytes());
        let parent = if number == 0 { Vec::new() } else { number.to_be_bytes().to_vec() };
        assert_eq!(span.parent_span_id, parent);
        assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (1_000_000_000, 2_000_000_000));
        assert_eq!(span.links[0].trace_id, 0xdef_u128.to_be_bytes());
        assert_eq!(span.status.as_ref().is_some_and(|status| status.code == 2), number == 7);
    }
}

#[test]
fn all_spans_arrive_by_grpc_with_their_parents_links_and_errors() {
    all_arrive(OtlpProtocol::Grpc, "");
}

#[test]
fn all_spans_arrive_by_http_with_their_parents_links_and_errors() {
    all_arrive(OtlpProtocol::Http, "/v1/traces");
}

/// More than the queue holds.
const MANY: u64 = 100_000;

fn nothing_piles_up(address: SocketAddr, answers: bool) {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        let settings = TraceSettings {
            queue: 1000,
            timeout: Duration::from_millis(100),
            ..settings(protocol, format!("http://{address}"))
        };
        let traces = Traces::start(&settings, Vec::new()).unwrap();
        (0..MANY).for_each(|number| traces.send(span(number)));
        wait(traces.flush(Duration::from_secs(60)));
        let counts = traces.counts();
        assert_eq!((counts.exported, counts.dropped + counts.failed), (0, MANY), "{protocol:?}: {counts:?}");
        // Spans that the queue had no room for were dropped at once.
        assert!(answers || counts.dropped > 0, "{protocol:?}: {counts:?}");
    }
}

#[test]
fn absent_collector_costs_only_spans_which_are_counted() {
    // An address of its own: a port that is let go may be the next one's that another test asks for.
    let free = std::net::TcpListener::bind(("127.0.0.2", 0)).unwrap().local_addr().unwrap();
    nothing_piles_up(free, true);
}

#[test]
fn neither_does_one_that_takes_connections_and_never_answers() {
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    nothing_piles_up(silent.local_addr().unwrap(), false);
}
