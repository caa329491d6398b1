//! Probes and scrapes are answered whatever else is connected: connections that say nothing, that speak slowly, and that do
//! not take their answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

#[path = "connections/reviews.rs"]
mod reviews;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use dovetail_observability::serve::{self, start};
use dovetail_observability::{Health, Metrics, access::HttpAccess};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Address in 127.0.0.0/8, which is all on the loopback interface, and not this machine's own.
fn elsewhere(last: u8) -> IpAddr {
    [127, 0, 1, last].into()
}

const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

async fn connect(to: SocketAddr, from: IpAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    timeout(Duration::from_secs(5), socket.connect(to)).await.unwrap().unwrap()
}

/// The status that a page answers with, asked from an address.
async fn status(to: SocketAddr, from: IpAddr, path: &str) -> String {
    let asked = async {
        let mut stream = connect(to, from).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    };
    timeout(Duration::from_secs(15), asked).await.unwrap_or_else(|_| "no answer".into())
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A health and a metrics port; the page of metrics has more bytes than buffers take.
fn served() -> (SocketAddr, SocketAddr) {
    let health = Health::new(Arc::new(|| Duration::ZERO), Duration::from_secs(60));
    health.moves("");
    let metrics = Metrics::new("0", "test");
    metrics.show(Arc::new(|page| {
        page.gauge("large", "A page that does not fit into a socket's buffers");
        for n in 0..100_000 {
            page.sample("large", &[("series", &format!("a-long-name-of-a-series-{n}"))], 1.0);
        }
    }));
    let ((probes, health_at), (scrapes, metrics_at)) = (listen(), listen());
    start(probes, health, scrapes, metrics, Some(elsewhere(200))).unwrap();
    (health_at, metrics_at)
}

/// From this machine, from the node, and from somewhere else, again and again.
async fn is_answered(to: SocketAddr, path: &str) {
    for _ in 0..5 {
        for from in [OWN, elsewhere(200), elsewhere(250)] {
            assert_eq!(status(to, from, path).await, "HTTP/1.1 200 OK", "{path} from {from}");
        }
    }
}

#[tokio::test]
async fn silent_or_slow_connections_keep_no_probe_out() {
    let (health, metrics) = served();
    let mut slow = Vec::new();
    for to in [health, metrics] {
        for n in 0..400_u16 {
            let mut stream = connect(to, elsewhere((n / 10) as u8)).await;
            if n % 3 > 0 {
                let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nx").await;
            }
            slow.push(stream);
        }
        // From this machine and from the node, too.
        for from in [OWN, elsewhere(200)] {
            for _ in 0..64 {
                slow.push(connect(to, from).await);
            }
        }
    }
    is_answered(health, "/healthz").await;
    is_answered(health, "/readyz").await;
    is_answered(metrics, "/metrics").await;
    drop(slow);
}

#[tokio::test]
async fn who_does_not_take_the_answer_keeps_nobody_out() {
    let (_, metrics) = served();
    let mut slow = Vec::new();
    for n in 0..96_u8 {
        let mut stream = connect(metrics, elsewhere(n)).await;
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await;
        slow.push(stream);
    }
    is_answered(metrics, "/metrics").await;
    drop(slow);
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_after_seconds() {
    let (health, _) = served();
    let mut stream = connect(health, elsewhere(1)).await;
    let closed = timeout(Duration::from_secs(9), stream.read(&mut [0; 1])).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "it is still open");
}

#[tokio::test]
async fn the_console_answers_whatever_else_is_connected() {
    let (listener, console) = listen();
    serve::console(listener, HttpAccess::new(None), Arc::new(|_| Some(("text/plain", b"a page".to_vec())))).unwrap();
    let mut slow = Vec::new();
    for n in 0..200_u8 {
        slow.push(connect(console, elsewhere(n % 20)).await);
    }
    for from in [OWN, elsewhere(250)] {
        assert_eq!(status(console, from, "/").await, "HTTP/1.1 200 OK", "from {from}");
    }
    drop(slow);
}
