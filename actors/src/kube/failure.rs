//! Classifies errors of the API server in one place; callers decide by the kind.

use std::fmt;

use kube::core::Status;

use crate::kube::refusal::{FenceRefusal, refusal};

/// An error of the API server, or of the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeFailure {
    pub kind: FailureKind,
    /// The HTTP status; 0 where no answer came.
    code: u16,
    /// In the server's words.
    pub message: String,
}

/// Kinds of errors, by their meaning for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The error says nothing: the server is away, has too much to do, or has just started. The request is to be repeated.
    Away,
    /// The authorizer forbids it, or does not know all roles yet.
    Forbidden,
    /// There is no such object.
    Missing,
    /// No such kind is served, or somebody else than the API server has answered.
    NotServed,
    /// The object has changed since it was read, or another has its name.
    Conflict,
    /// There is such an object already.
    Exists,
    /// A PodDisruptionBudget, or more than one, stands against an eviction now.
    Budget,
    /// A newer term has begun: the fence says so.
    Succeeded,
    /// The answer cannot be read.
    Unreadable,
    /// The server will not have it, now or later.
    Refused,
}

impl KubeFailure {
    /// True if the API server cannot be reached: no answer came, or a proxy before it answered instead.
    pub fn is_unreachable(&self) -> bool {
        self.kind == FailureKind::Away && matches!(self.code, 0 | 502 | 503 | 504)
    }
}

impl fmt::Display for KubeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            0 => f.write_str(&self.message),
            code => write!(f, "{code} {}", self.message),
        }
    }
}

impl From<kube::Error> for KubeFailure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self { kind: kind(&status), code: status.code, message: status.message },
            kube::Error::SerdeError(error) => {
                Self { kind: FailureKind::Unreadable, code: 0, message: error.to_string() }
            }
            kube::Error::Service(error) => Self { kind: FailureKind::Away, code: 0, message: with_causes(&*error) },
            other => Self { kind: FailureKind::Away, code: 0, message: other.to_string() },
        }
    }
}

/// An error with what has caused it: the first says only that something was not sent.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    let mut said: Vec<String> = causes.collect();
    said.dedup();
    said.join(": ")
}

fn kind(status: &Status) -> FailureKind {
    match status.code {
        409 if status.reason == "AlreadyExists" => FailureKind::Exists,
        409 => FailureKind::Conflict,
        410 => FailureKind::Missing,
        // An object that is missing is named; what else a 404 may come from says nothing of it.
        404 if status.message.ends_with("\" not found") => FailureKind::Missing,
        404 => FailureKind::NotServed,
        403 => match refusal(&status.message) {
            Some(FenceRefusal::Succeeded) => FailureKind::Succeeded,
            Some(FenceRefusal::NotKnownYet) => FailureKind::Away,
            // The authorizer's own words; what admission refuses is refused for good.
            None if status.message.contains(" cannot ") => FailureKind::Forbidden,
            None => FailureKind::Refused,
        },
        429 if budget(status).is_some() => FailureKind::Budget,
        500 if status.message.contains("more than one PodDisruptionBudget") => FailureKind::Budget,
        401 | 408 | 425 | 429 | 500.. => FailureKind::Away,
        _ => FailureKind::Refused,
    }
}

/// Message of the PodDisruptionBudget that refuses an eviction.
pub fn budget(status: &Status) -> Option<&str> {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    causes.iter().find(|cause| cause.reason == "DisruptionBudget").map(|cause| cause.message.as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn failed(code: u16, reason: &str, message: &str) -> FailureKind {
        KubeFailure::from(kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())).kind
    }

    #[test]
    fn every_kind_is_told_by_code_reason_and_words() {
        let admission = "denied request: spec.requirements: too many";
        let known = [
            (409, "AlreadyExists", "nodes \"a\" already exists", FailureKind::Exists),
            (409, "Conflict", "the object has been modified", FailureKind::Conflict),
            (410, "Gone", "gone", FailureKind::Missing),
            (404, "NotFound", "nodes \"a\" not found", FailureKind::Missing),
            (404, "NotFound", "404 page not found", FailureKind::NotServed),
            (403, "Forbidden", "User \"a\" cannot get resource \"nodes\"", FailureKind::Forbidden),
            (403, "Forbidden", admission, FailureKind::Refused),
            (403, "Forbidden", "dovetail.dev/term is 3, the Lease's is 4", FailureKind::Succeeded),
            (403, "Forbidden", "dovetail.dev/term is 4, the Lease's is 3", FailureKind::Away),
            (422, "Invalid", "spec: Required value", FailureKind::Refused),
            (500, "InternalError", "this pod has more than one PodDisruptionBudget", FailureKind::Budget),
        ];
        for (code, reason, message, kind) in known {
            assert_eq!(failed(code, reason, message), kind, "{code} {message}");
        }
        for code in [401, 408, 425, 429, 500, 502, 503, 504] {
            assert_eq!(failed(code, "", "later"), FailureKind::Away, "{code}");
        }
    }

    #[test]
    fn budget_429_is_told_from_overloaded_server_429() {
        let cause = json!({"reason": "DisruptionBudget", "message": "needs 2"});
        let status = json!({"code": 429, "message": "Cannot evict pod", "details": {"causes": [cause]}});
        let status: Status = serde_json::from_value(status).unwrap();
        assert_eq!((kind(&status), budget(&status)), (FailureKind::Budget, Some("needs 2")));
        assert_eq!(failed(429, "TooManyRequests", "Too many requests"), FailureKind::Away);
    }

    #[test]
    fn what_did_not_come_from_the_server_has_no_code_in_its_words() {
        let cut = KubeFailure::from(kube::Error::Service("cut off".into()));
        assert_eq!((cut.kind, cut.to_string()), (FailureKind::Away, cut.message.clone()));
        let read = serde_json::from_str::<u8>("x").map_err(kube::Error::SerdeError).map_err(KubeFailure::from);
        assert_eq!(read.map_err(|failure| failure.kind), Err(FailureKind::Unreadable));
        let told = KubeFailure { kind: FailureKind::Refused, code: 422, message: "no".into() };
        assert_eq!(told.to_string(), "422 no");
    }
}
