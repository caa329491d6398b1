//! Between an actor and the API server: what was asked, and answers that a test gives in the server's stead.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// A request as it was made.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// With its query.
    pub path: String,
    pub body: Value,
}

/// Treatment of a request.
#[derive(Clone, Debug)]
pub enum Act {
    /// This answer is given, and the request is not passed on.
    Answer(u16, Value),
    /// No answer is given, and the request is not passed on.
    Hang,
    /// The request is passed on, and its answer is lost.
    Lose,
    /// The request is passed on after this time.
    Late(Duration),
}

/// Refuser of a request, and of all of its kind from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuses {
    /// An admission webhook.
    Webhook,
    /// The validation of the object.
    Validation,
    /// The authorizer.
    Authorizer,
    /// A list's token that is too old.
    Expired,
}

impl Refuses {
    /// Refusers of writes.
    pub const WRITES: [Self; 3] = [Self::Webhook, Self::Validation, Self::Authorizer];
    /// Refusers of lists.
    pub const LISTS: [Self; 3] = [Self::Webhook, Self::Validation, Self::Expired];

    /// From now on requests of that method whose path has that in it are refused.
    pub fn begin(self, wire: &Wire, method: &'static str, path: &str) {
        match self {
            Self::Webhook => wire.refuse(method, path, usize::MAX, 403),
            Self::Validation => wire.refuse(method, path, usize::MAX, 422),
            Self::Expired => wire.refuse(method, path, usize::MAX, 410),
            Self::Authorizer => wire.forbid(method, path, usize::MAX),
        }
    }

    /// Most calls expected: a call that the authorizer forbids is made up to seven times in a row, as a server that has just
    /// started may not know all roles.
    pub fn most(self, calls: usize, in_a_row: usize) -> usize {
        if self == Self::Authorizer { 7 * in_a_row } else { calls }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    method: &'static str,
    path: String,
    times: usize,
    act: Act,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    asked: Vec<Asked>,
}

/// Clones are the same wire.
#[derive(Clone, Debug, Default)]
pub struct Wire(Arc<Mutex<State>>);

impl Wire {
    /// The next requests of that method whose path has that in it come to this.
    pub fn next(&self, method: &'static str, path: &str, times: usize, act: Act) {
        self.0.lock().unwrap().rules.push(Rule { method, path: path.to_owned(), times, act });
    }

    /// Refuses the next `times` requests of this method and path with this status.
    pub fn refuse(&self, method: &'static str, path: &str, times: usize, code: u16) {
        self.next(method, path, times, Act::Answer(code, status(code)));
    }

    /// Has the authorizer forbid the next `times` requests of this method and path.
    pub fn forbid(&self, method: &'static str, path: &str, times: usize) {
        let message = format!("it is forbidden: User \"dovetail\" cannot {method} resource \"{path}\"");
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": message});
        self.next(method, path, times, Act::Answer(403, body));
    }

    /// Everything passes again.
    pub fn heal(&self) {
        self.0.lock().unwrap().rules.clear();
    }

    /// The requests of that method whose path has that in it.
    pub fn asked(&self, method: &str, path: &str) -> Vec<Asked> {
        let asked = &self.0.lock().unwrap().asked;
        asked.iter().filter(|one| one.method == method && one.path.contains(path)).cloned().collect()
    }

    /// Number of requests.
    pub fn count(&self, method: &str, path: &str) -> usize {
        self.asked(method, path).len()
    }

    /// Requests that change something.
    pub fn writes(&self) -> Vec<String> {
        let asked = &self.0.lock().unwrap().asked;
        asked.iter().filter(|one| one.method != "GET").map(|one| format!("{} {}", one.method, one.path)).collect()
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.0.lock().unwrap().asked.clear();
    }

    fn take(&self, asked: Asked) -> Option<Act> {
        let mut state = self.0.lock().unwrap();
        let meant = |rule: &&mut Rule| rule.times > 0 && rule.method == asked.method && asked.path.contains(&rule.path);
        let act = state.rules.iter_mut().find(meant).map(|rule| {
            rule.times -= 1;
            rule.act.clone()
        });
        state.asked.push(asked);
        act
    }

    /// A client whose requests go through this wire.
    pub fn before(&self, client: Client) -> Client {
        let (wire, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = service_fn(move |request: http::Request<Body>| {
            let (wire, client) = (wire.clone(), client.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
                let asked = Asked {
                    method: parts.method.to_string(),
                    path,
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                };
                let act = wire.take(asked);
                let pass = client.send(http::Request::from_parts(parts, Body::from(body.to_vec())));
                match act {
                    None => pass.await,
                    Some(Act::Answer(code, body)) => {
                        let body = Body::from(body.to_string().into_bytes());
                        Ok(http::Response::builder().status(code).body(body).unwrap())
                    }
                    Some(Act::Hang) => std::future::pending().await,
                    Some(Act::Lose) => {
                        let _ = pass.await;
                        Err(kube::Error::Service("the connection was lost".into()))
                    }
                    Some(Act::Late(by)) => {
                        tokio::time::sleep(by).await;
                        pass.await
                    }
                }
            }
        });
        Client::new(service, namespace)
    }
}

/// Answer of an API server with this status.
pub fn status(code: u16) -> Value {
    let (reason, message) = match code {
        403 => ("Forbidden", "admission webhook \"guard.example.com\" denied the request: not today"),
        404 => ("NotFound", "things \"it\" not found"),
        409 => ("Conflict", "the object has been modified; please apply your changes to the latest version"),
        410 => ("Expired", "the provided continue parameter is too old"),
        422 => ("Invalid", "it is invalid: spec: Required value"),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        _ => ("InternalError", "an internal error has happened"),
    };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}
