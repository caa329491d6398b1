//! Access control, and the pages for people beside the API.
use crate::apiserver::{ApiError, Body};
use bytes::Bytes;
use dovetail_observability::access::{HttpAccess, PAGE_HEADERS, TurnedAway, is_own_request};
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Method, Response, header};
use http_body_util::{BodyExt, Full};
use std::io;
use std::sync::Arc;

/// A page: its content type and its text.
pub type ServedPage = (&'static str, Bytes);

/// The pages by path, with its query, and what the client accepts; none for a path that is the API's.
pub type PagesByPath = Arc<dyn Fn(&str, &str) -> BoxFuture<'static, Option<ServedPage>> + Send + Sync>;

/// Changes that the console asks for, by path with its query: what is said of them, or why they are refused; none for a path
/// that is the API's.
pub type ActionsByPath = Arc<dyn Fn(&str) -> Option<BoxFuture<'static, Result<Vec<u8>, String>>> + Send + Sync>;

/// The gate before the API: it checks tokens, serves pages and lets the console act.
pub struct Gate {
    access: HttpAccess,
    pub(super) pages: Option<PagesByPath>,
    pub(super) actions: Option<ActionsByPath>,
}

impl Gate {
    /// A gate that asks for a token, or for none.
    pub fn new(token: Option<String>) -> Self {
        Gate { access: HttpAccess::new(token), pages: None, actions: None }
    }

    /// The answer to who is not let in, or asks for a page; none when the API is to answer.
    pub async fn answer(&self, parts: &Parts) -> Option<io::Result<Response<Body>>> {
        if let Err(refused) = self.admit(parts) {
            return Some(refuse(&refused));
        }
        let asked = parts.uri.path_and_query().map_or("/", |all| all.as_str());
        if let Some(action) = self.actions.as_ref().filter(|_| parts.method == Method::POST).and_then(|all| all(asked))
        {
            // Not begun before it is awaited.
            if !is_own_request(&parts.uri, &parts.headers) {
                return Some(refuse(&ApiError::new(403, "Forbidden", "only the console's own page may ask for this")));
            }
            return Some(match action.await {
                Ok(said) => page("application/json", said.into()),
                Err(why) => refuse(&ApiError::new(400, "BadRequest", why)),
            });
        }
        let pages = self.pages.as_ref().filter(|_| parts.method == Method::GET)?;
        // The root is the API's list of paths, unless somebody wants to read.
        let accepted = accepted(parts);
        let reads = accepted.contains("text/html");
        let asked = (parts.uri.path() != "/" || reads).then(|| pages(asked, &accepted))?;
        let (kind, text) = asked.await?;
        Some(page(kind, text))
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

fn page(kind: &str, text: Bytes) -> io::Result<Response<Body>> {
    let response = Response::builder().header(header::CONTENT_TYPE, kind);
    let response = PAGE_HEADERS.into_iter().fold(response, |response, (name, value)| response.header(name, value));
    response.body(whole(text)).map_err(io::Error::other)
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
