//! Access to pages that tell what a cluster is like: whoever carries the token, or where none is asked for, whoever sits at this
//! machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, Uri, header};

/// Headers of every page: nothing is loaded from elsewhere, nothing is kept, nobody frames it.
pub const PAGE_HEADERS: [(HeaderName, &str); 3] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
    ),
];

/// Header that the console's own page sends: a page of elsewhere may not, unless this server allowed it.
pub const CONSOLE_HEADER: HeaderName = HeaderName::from_static("x-dovetail-console");

/// True if a request that changes something comes from the console's own page, or from no page at all.
pub fn is_own_request(uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let host = uri.authority().map_or_else(|| text(header::HOST), |authority| authority.as_str());
    let origin = text(header::ORIGIN);
    let ours = origin.is_empty() || origin.split_once("://").is_some_and(|(_, from)| from == host);
    ours && text(CONSOLE_HEADER) == "1"
}

/// Lets in by token, or by name.
#[derive(Clone)]
pub struct HttpAccess {
    token: Option<String>,
}

/// Reasons to refuse access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// 401: the token is missing or another.
    Unknown,
    /// 403: without a token this machine alone is answered, under its own name.
    Elsewhere,
}

impl HttpAccess {
    /// Access that asks for a token, or for none.
    pub fn new(token: Option<String>) -> Self {
        Self { token }
    }

    /// With a token: who carries it, as a bearer's or as the password that a browser asks for. Without: who asks for this
    /// machine by its own name, so that no page of a browser gets in by a name that points here.
    ///
    /// # Errors
    /// The reason why not.
    pub fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), TurnedAway> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let Some(token) = &self.token else {
            let host = uri.host().unwrap_or_else(|| without_port(text(header::HOST)));
            let origin = text(header::ORIGIN);
            let from = without_port(origin.split_once("://").map_or(origin, |(_, rest)| rest));
            let ours = local(host) && (origin.is_empty() || local(from));
            return if ours { Ok(()) } else { Err(TurnedAway::Elsewhere) };
        };
        let sent = text(header::AUTHORIZATION);
        let carried = match (sent.strip_prefix("Bearer "), sent.strip_prefix("Basic ")) {
            (Some(token), _) => token.to_owned(),
            (_, Some(basic)) => password(basic).unwrap_or_default(),
            _ => String::new(),
        };
        if same(carried.as_bytes(), token.as_bytes()) { Ok(()) } else { Err(TurnedAway::Unknown) }
    }
}

fn without_port(host: &str) -> &str {
    // The last colon of an IPv6 address in brackets may be its own.
    if host.ends_with(']') { host } else { host.rsplit_once(':').map_or(host, |(host, _)| host) }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(access: &HttpAccess, uri: &str, headers: &[(HeaderName, &str)]) -> Result<(), TurnedAway> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        access.admit(&uri.parse().unwrap(), &headers)
    }

    #[test]
    fn without_a_token_only_requests_for_localhost_are_answered() {
        let access = HttpAccess::new(None);
        for host in ["localhost", "localhost:8082", "127.0.0.1:8082", "[::1]", "[::1]:8082"] {
            assert_eq!(asked(&access, "/", &[(header::HOST, host)]), Ok(()), "{host}");
        }
        assert_eq!(asked(&access, "http://localhost:8082/", &[]), Ok(()), "as HTTP/2 has it");
        for host in ["evil.example", "evil.example:8082", "localhost.evil.example", "10.0.0.1:8082", ""] {
            assert_eq!(asked(&access, "/", &[(header::HOST, host)]), Err(TurnedAway::Elsewhere), "{host}");
        }
        let from = |origin| asked(&access, "/", &[(header::HOST, "localhost:1"), (header::ORIGIN, origin)]);
        assert_eq!(from("http://localhost:1"), Ok(()));
        assert_eq!(from("https://evil.example"), Err(TurnedAway::Elsewhere));
        assert_eq!(from("null"), Err(TurnedAway::Elsewhere));
    }

    #[test]
    fn only_the_consoles_own_page_may_ask_for_changes() {
        let own = |uri: &str, headers: &[(HeaderName, &str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
            is_own_request(&uri.parse().unwrap(), &headers)
        };
        let (host, mark) = ((header::HOST, "localhost:1"), (CONSOLE_HEADER, "1"));
        let from = |origin| (header::ORIGIN, origin);
        assert!(own("/", &[host.clone(), mark.clone(), from("http://localhost:1")]));
        assert!(own("https://localhost:1/", &[mark.clone(), from("https://localhost:1")]), "as HTTP/2 has it");
        assert!(own("/", &[host.clone(), mark.clone()]), "curl");
        assert!(!own("/", &[host.clone(), from("http://localhost:1")]), "a form cannot send the header");
        for other in ["http://localhost:2", "https://evil.example", "null", "localhost:1"] {
            assert!(!own("/", &[host.clone(), mark.clone(), from(other)]), "{other}");
        }
    }

    #[test]
    fn with_a_token_whoever_carries_it_is_let_in_from_anywhere() {
        let access = HttpAccess::new(Some("sixteen letters!".into()));
        let with = |value: &str| asked(&access, "/", &[(header::HOST, "a.example"), (header::AUTHORIZATION, value)]);
        assert_eq!(with("Bearer sixteen letters!"), Ok(()));
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(with(&basic("anybody:sixteen letters!")), Ok(()));
        for wrong in ["", "Bearer ", "Bearer sixteen letters?", "Basic ???", &basic("sixteen letters!"), &basic("a:b")]
        {
            assert_eq!(with(wrong), Err(TurnedAway::Unknown), "{wrong}");
        }
        assert_eq!(asked(&access, "/", &[(header::HOST, "localhost")]), Err(TurnedAway::Unknown), "also on loopback");
    }
}
