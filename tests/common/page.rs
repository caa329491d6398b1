//! Answers of a server on loopback.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The status and body of a page.
pub fn get(address: &str, path: &str) -> (u16, String) {
    asked(address, path, &format!("host: {address}"))
}

/// The same with these headers.
pub fn asked(address: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // By HTTP/1.0, of which an answer does not come in chunks.
    write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
