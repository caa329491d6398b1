//! Reviews over HTTPS: what is answered, what is refused, and that nobody keeps others out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use dovetail_observability::reviews::{self, Reviews};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{OWN, connect, elsewhere, listen};

/// Answers a body with itself; one that begins with `?` makes no sense, one with `!` panics, one with `~` takes three seconds.
fn served() -> (SocketAddr, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let private = PrivatePkcs8KeyDer::from(key.serialize_der());
    let tls = tls.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private.into()).unwrap();
    let (listener, address) = listen();
    let answer = |body: &[u8]| match body.first() {
        Some(b'?') => Err("it makes no sense".to_owned()),
        Some(b'!') => panic!("a mistake of ours"),
        Some(b'~') => {
            std::thread::sleep(Duration::from_secs(3));
            Ok(body.to_vec())
        }
        _ => Ok(body.to_vec()),
    };
    let reviews = Reviews { paths: vec!["/convert".into()], answer: Arc::new(answer) };
    reviews::start(listener, Arc::new(tls), reviews).unwrap();
    (address, certificate.der().clone())
}

/// A connection on which a request was sent.
async fn sent(to: SocketAddr, trusted: &CertificateDer<'static>, head: &str, body: &[u8]) -> TlsStream<TcpStream> {
    sent_from(to, OWN, trusted, head, body).await
}

async fn sent_from(
    to: SocketAddr,
    from: IpAddr,
    trusted: &CertificateDer<'static>,
    head: &str,
    body: &[u8],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let connector = TlsConnector::from(Arc::new(tls.with_root_certificates(roots).with_no_client_auth()));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, connect(to, from).await).await.unwrap();
    let head = format!("{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A refused client may be cut off before all has been sent.
    let _ = stream.write_all(body).await;
    let _ = stream.flush().await;
    stream
}

/// All that is answered on a connection.
async fn answer(mut stream: TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Answer to a request, as it comes over the wire.
async fn asked(to: SocketAddr, trusted: &CertificateDer<'static>, head: &str, body: &[u8]) -> String {
    let talk = async { answer(sent(to, trusted, head, body).await).await };
    timeout(Duration::from_secs(30), talk).await.expect("an answer")
}

fn post(length: usize) -> String {
    format!("POST /convert HTTP/1.1\r\ncontent-length: {length}")
}

#[tokio::test]
async fn a_body_is_answered_by_a_body_and_what_makes_no_sense_by_why() {
    let (to, trusted) = served();
    let large = vec![b'x'; 7 << 20];
    let answer = asked(to, &trusted, &post(large.len()), &large).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.len() > large.len(), "{} bytes", answer.len());
    for (head, body, status, said) in [
        (post(1), &b"?"[..], "400", "it makes no sense"),
        (post(1), b"!", "500", "could not be answered"),
        (post(13 << 20), b"x", "413", "bytes at most"),
        ("GET /convert HTTP/1.1".into(), b"", "405", "POST"),
        ("POST /elsewhere HTTP/1.1\r\ncontent-length: 1".into(), b"x", "404", "not answered there"),
        ("POST /convert HTTP/1.1\r\ntransfer-encoding: chunked".into(), b"1\r\ny\r\n0\r\n\r\n", "200", "y"),
    ] {
        let answer = asked(to, &trusted, &head, body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(said), "{head}: {answer}");
    }
    assert!(asked(to, &trusted, &post(1), b"z").await.ends_with('z'), "it goes on after a panic");
}

#[tokio::test]
async fn who_says_nothing_or_speaks_no_tls_keeps_no_review_out() {
    let (to, trusted) = served();
    let mut idle = Vec::new();
    for n in 0..400_u16 {
        let mut stream = connect(to, elsewhere((n / 10) as u8)).await;
        if n % 2 == 0 {
            let _ = stream.write_all(b"GET /convert HTTP/1.1\r\n\r\n").await;
        }
        idle.push(stream);
    }
    assert!(asked(to, &trusted, &post(1), b"z").await.ends_with('z'));
}

#[tokio::test]
async fn bodies_that_are_announced_and_do_not_come_take_no_room() {
    let (to, trusted) = served();
    let mut announced = Vec::new();
    for length in [7 << 20, 1 << 20] {
        for _ in 0..6 {
            announced.push(sent(to, &trusted, &post(length), b"x").await);
        }
    }
    for length in [7 << 20, 1 << 20] {
        let body = vec![b'x'; length];
        let answered = timeout(Duration::from_secs(5), asked(to, &trusted, &post(length), &body)).await;
        assert!(answered.expect("at once").starts_with("HTTP/1.1 200 OK"));
    }
}

#[tokio::test]
async fn an_answer_that_is_not_taken_keeps_its_room_until_it_is() {
    let (to, trusted) = served();
    let large = vec![b'x'; 7 << 20];
    let one = sent(to, &trusted, &post(large.len()), &large).await;
    // More than what the largest one leaves of the room.
    let more = vec![b'x'; 5 << 20];
    let head = post(more.len());
    let mut second = Box::pin(asked(to, &trusted, &head, &more));
    assert!(timeout(Duration::from_secs(2), &mut second).await.is_err(), "the answer is still in memory");
    assert!(asked(to, &trusted, &post(1), b"z").await.ends_with('z'), "what is small has a room of its own");
    assert!(answer(one).await.len() > large.len());
    assert!(second.await.starts_with("HTTP/1.1 200 OK"), "there is room again");
}

#[tokio::test]
async fn a_body_that_waits_for_room_is_not_one_that_does_not_come() {
    let (to, trusted) = served();
    let mut large = vec![b'x'; 7 << 20];
    large[0] = b'~';
    // Three seconds until it is answered, and its answer, which nobody takes, has its room for eight more.
    let one = sent(to, &trusted, &post(large.len()), &large).await;
    let begun = std::time::Instant::now();
    let more = vec![b'x'; 5 << 20];
    let answer = asked(to, &trusted, &post(more.len()), &more).await;
    let took = begun.elapsed();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{:?} after {took:?}", answer.lines().next());
    assert!(took > Duration::from_secs(8), "it waited for longer than a body may take: {took:?}");
    drop(one);
}

/// Time that a small review takes while others are under way.
async fn small_takes(to: SocketAddr, trusted: &CertificateDer<'static>, from: IpAddr) -> Duration {
    let begun = std::time::Instant::now();
    let stream = timeout(Duration::from_secs(20), sent_from(to, from, trusted, &post(1), b"z")).await.unwrap();
    assert!(answer(stream).await.ends_with('z'));
    begun.elapsed()
}

#[tokio::test]
async fn what_is_large_or_of_one_address_keeps_nobody_waiting() {
    let (to, trusted) = served();
    let mut slow = vec![b'x'; 3 << 20];
    slow[0] = b'~';
    let head = post(slow.len());
    let large = [sent(to, &trusted, &head, &slow).await, sent(to, &trusted, &head, &slow[..slow.len() - 1]).await];
    let took = small_takes(to, &trusted, OWN).await;
    assert!(took < Duration::from_secs(2), "behind a large one: {took:?}");
    drop(large);
    // Twelve small ones of one address keep all workers busy for twelve seconds.
    let mut many = Vec::new();
    for _ in 0..12 {
        many.push(sent_from(to, elsewhere(1), &trusted, &post(1), b"~").await);
    }
    let took = small_takes(to, &trusted, elsewhere(2)).await;
    assert!(took < Duration::from_secs(5), "behind another address's: {took:?}");
    drop(many);
}

#[tokio::test]
async fn small_bodies_of_one_address_leave_room_for_others() {
    let (to, trusted) = served();
    // Four times what all small bodies may take: none ends.
    let part = vec![b'x'; 1 << 20];
    let mut slow = Vec::new();
    for _ in 0..12 {
        let (trusted, part) = (trusted.clone(), part.clone());
        slow.push(tokio::spawn(async move { sent_from(to, elsewhere(1), &trusted, &post(2 << 20), &part).await }));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let took = small_takes(to, &trusted, elsewhere(2)).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}
