//! Access control, and the pages for people beside the API.
use crate::apiserver::{ApiError, Body};
use bytes::Bytes;
use dovetail_observability::access::{HttpAccess, PAGE_HEADERS, TurnedAway};
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Method, Response, header};
use http_body_util::{BodyExt, Full};
use std::io;
use std::sync::Arc;

/// A page: its content type and its text.
pub type ServedPage = (&'static str, Bytes);

/// The pages by path and what the client accepts; none for a path that is the API's.
pub type PagesByPath = Arc<dyn Fn(&str, &str) -> BoxFuture<'static, Option<ServedPage>> + Send + Sync>;

/// The gate before the API: it checks tokens and serves pages.
pub struct Gate {
    access: HttpAccess,
    pub(super) pages: Option<PagesByPath>,
}

impl Gate {
    /// A gate that asks for a token, or for none.
    pub fn new(token: Option<String>) -> Self {
        Gate { access: HttpAccess::new(token), pages: None }
    }

    /// The answer to who is not let in, or asks for a page; none when the API is to answer.
    pub async fn answer(&self, parts: &Parts) -> Option<io::Result<Response<Body>>> {
        if let Err(refused) = self.admit(parts) {
            return Some(refuse(&refused));
        }
        let pages = self.pages.as_ref().filter(|_| parts.method == Method::GET)?;
        // The root is the API's list of paths, unless somebody wants to read.
        let accepted = accepted(parts);
        let reads = accepted.contains("text/html");
        let asked = (parts.uri.path() != "/" || reads).then(|| pages(parts.uri.path(), &accepted))?;
        let (kind, page) = asked.await?;
        let response = Response::builder().header(header::CONTENT_TYPE, kind);
        let response = PAGE_HEADERS.into_iter().fold(response, |response, (name, value)| response.header(name, value));
        Some(response.body(whole(page)).map_err(io::Error::other))
    }

    fn admit(&self, parts: &Parts) -> Result<(), ApiError> {
        self.access.admit(&parts.uri, &parts.headers).map_err(|turned| match turned {
            TurnedAway::Unknown => ApiError::new(401, "Unauthorized", "Unauthorized"),
            TurnedAway::Elsewhere => {
                ApiError::new(403, "Forbidden", "without a token the sandbox answers to localhost only")
            }
        })
    }
}

/// All that the headers `Accept` say.
fn accepted(parts: &Parts) -> String {
    let all = parts.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    all.collect::<Vec<_>>().join(",")
}

pub fn refuse(error: &ApiError) -> io::Result<Response<Body>> {
    let mut response = Response::builder().status(error.code()).header(header::CONTENT_TYPE, "application/json");
    if error.code() == 401 {
        response =
            response.header(header::WWW_AUTHENTICATE, "Basic realm=\"dovetail sandbox: the password is the token\"");
    }
    if matches!(error.code(), 408 | 413) {
        // The rest of the body is not read.
        response = response.header(header::CONNECTION, "close");
    }
    response.body(whole(Bytes::from(error.status().to_string()))).map_err(io::Error::other)
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
