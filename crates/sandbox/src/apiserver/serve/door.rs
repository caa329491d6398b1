//! Who is let in, and the pages for people beside the API.
use crate::apiserver::{ApiError, Body};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Method, Response, header};
use http_body_util::{BodyExt, Full};
use std::io;
use std::sync::Arc;

/// A page: its content type and its text.
pub type Page = (&'static str, Bytes);

/// The pages by path; none for a path that is the API's.
pub type Pages = Arc<dyn Fn(&str) -> BoxFuture<'static, Option<Page>> + Send + Sync>;

/// What stands before the API.
pub struct Door {
    token: Option<String>,
    pub(super) pages: Option<Pages>,
}

impl Door {
    /// A door that asks for a token, or for none.
    pub fn new(token: Option<String>) -> Self {
        Door { token, pages: None }
    }

    /// The answer to who is not let in, or asks for a page; none when the API is to answer.
    pub async fn answer(&self, parts: &Parts) -> Option<io::Result<Response<Body>>> {
        if let Err(refused) = self.admit(parts) {
            return Some(refuse(&refused));
        }
        let pages = self.pages.as_ref().filter(|_| parts.method == Method::GET)?;
        // The root is the API's list of paths, unless somebody wants to read.
        let reads = text(parts, header::ACCEPT).contains("text/html");
        let asked = (parts.uri.path() != "/" || reads).then(|| pages(parts.uri.path()))?;
        let (kind, page) = asked.await?;
        let response = Response::builder()
            .header(header::CONTENT_TYPE, kind)
            .header(header::CACHE_CONTROL, "no-store")
            .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
            .header(
                header::CONTENT_SECURITY_POLICY,
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
            )
            .body(whole(page));
        Some(response.map_err(io::Error::other))
    }

    /// With a token: who carries it. Without: who asks for this machine by its own name, so that no page of a browser
    /// gets in by a name that points here.
    fn admit(&self, parts: &Parts) -> Result<(), ApiError> {
        let Some(token) = &self.token else {
            let host = parts.uri.host().or_else(|| text(parts, header::HOST).rsplit_once(':').map(|(host, _)| host));
            let host = host.unwrap_or_else(|| text(parts, header::HOST));
            let origin = text(parts, header::ORIGIN);
            let from = origin.split_once("://").map_or(origin, |(_, rest)| rest);
            let from = from.rsplit_once(':').map_or(from, |(host, _)| host);
            return match local(host) && (origin.is_empty() || local(from)) {
                true => Ok(()),
                false => Err(ApiError::new(403, "Forbidden", "without a token the sandbox answers to localhost only")),
            };
        };
        let sent = text(parts, header::AUTHORIZATION);
        let carried = match (sent.strip_prefix("Bearer "), sent.strip_prefix("Basic ")) {
            (Some(token), _) => token.to_owned(),
            (_, Some(basic)) => password(basic).unwrap_or_default(),
            _ => String::new(),
        };
        if same(carried.as_bytes(), token.as_bytes()) {
            Ok(())
        } else {
            Err(ApiError::new(401, "Unauthorized", "Unauthorized"))
        }
    }
}

fn text(parts: &Parts, name: header::HeaderName) -> &str {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]" | "::1")
}

/// A browser asks for a name and a password; the password is the token.
fn password(basic: &str) -> Option<String> {
    let decoded = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

/// Compares in a time that says nothing about where the two differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// A refusal as a response.
pub fn refuse(error: &ApiError) -> io::Result<Response<Body>> {
    let mut response = Response::builder().status(error.code()).header(header::CONTENT_TYPE, "application/json");
    if error.code() == 401 {
        response =
            response.header(header::WWW_AUTHENTICATE, "Basic realm=\"dovetail sandbox: the password is the token\"");
    }
    if matches!(error.code(), 408 | 413) {
        // What is left of the body is not read.
        response = response.header(header::CONNECTION, "close");
    }
    response.body(whole(Bytes::from(error.status().to_string()))).map_err(io::Error::other)
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
