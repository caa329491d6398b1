//! Reviews over HTTPS: what is answered, what is refused, and that nobody keeps others out.

use std::net::SocketAddr;
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

/// Answers a body with itself; one that begins with `?` makes no sense, one with `!` panics.
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
        _ => Ok(body.to_vec()),
    };
    let reviews = Reviews { paths: vec!["/convert".into()], answer: Arc::new(answer) };
    reviews::start(listener, Arc::new(tls), reviews).unwrap();
    (address, certificate.der().clone())
}

/// A connection on which a request was sent.
async fn sent(to: SocketAddr, trusted: &CertificateDer<'static>, head: &str, body: &[u8]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let connector = TlsConnector::from(Arc::new(tls.with_root_certificates(roots).with_no_client_auth()));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, connect(to, OWN).await).await.unwrap();
    let head = format!("{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // Who is refused may be hung up on before all has been sent.
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

/// What is answered to a request, as it comes over the wire.
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
    let large = vec![b'x'; 9 << 20];
    let answer = asked(to, &trusted, &post(large.len()), &large).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.len() > large.len(), "{} bytes", answer.len());
    for (head, body, status, said) in [
        (post(1), &b"?"[..], "400", "it makes no sense"),
        (post(1), b"!", "500", "could not be answered"),
        (post(40 << 20), b"x", "413", "bytes at most"),
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
    for _ in 0..8 {
        announced.push(sent(to, &trusted, &post(30 << 20), b"x").await);
    }
    let large = vec![b'x'; 30 << 20];
    let answered = timeout(Duration::from_secs(10), asked(to, &trusted, &post(large.len()), &large)).await;
    assert!(answered.expect("at once").starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn an_answer_that_is_not_taken_keeps_its_room_until_it_is() {
    let (to, trusted) = served();
    let large = vec![b'x'; 30 << 20];
    let one = sent(to, &trusted, &post(large.len()), &large).await;
    let two = sent(to, &trusted, &post(large.len()), &large).await;
    // More than what two of the largest leave of the room.
    let more = vec![b'x'; 5 << 20];
    let head = post(more.len());
    let mut third = Box::pin(asked(to, &trusted, &head, &more));
    assert!(timeout(Duration::from_secs(2), &mut third).await.is_err(), "both answers are still in memory");
    assert!(answer(one).await.len() > large.len());
    assert!(third.await.starts_with("HTTP/1.1 200 OK"), "there is room again");
    assert!(answer(two).await.len() > large.len());
}
