//! Calls to the API server: repeated with back-off while it is away or asks for patience, and only while the leadership
//! holds. What failed for good is told apart by what the caller can do about it.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::context::leader_term::LeaderTerm;
use crate::kube::failure::{FailureKind, KubeFailure};
use crate::kube::watch::{tell_answered, tell_failure, tell_recovered};
use crate::reading::LenientApi;

/// Longest wait for one answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Reason why a call has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The term is over: nothing may be written any more.
    #[error("the term is over")]
    Deposed,
    /// The object has changed since it was read.
    #[error("conflict: {0}")]
    Conflict(String),
    /// There is no such object.
    #[error("not found: {0}")]
    NotFound(String),
    /// There is such an object already.
    #[error("already exists: {0}")]
    Exists(String),
    /// No answer came, or no certain one, and the call is not repeated for the same reasons.
    #[error("not answered: {0}")]
    Unanswered(String),
    /// It was refused, perhaps only because the server does not know all roles or kinds yet, and there was no time to ask until
    /// that is believed.
    #[error("refused for now: {0}")]
    Doubted(String),
    /// The authorizer forbade it; an API server that has just started may not know all roles yet.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The API server will not have it, now or later.
    #[error("refused: {0}")]
    Refused(String),
}

impl CallError {
    /// True if the API server rejects it and is likely to do so again.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Forbidden(_) | Self::Doubted(_))
    }
}

/// Number of refusals in a row after which one counts: an API server that has just started cannot be sure of them.
pub const BELIEVED: u32 = 6;

/// Outcome of one attempt.
enum Attempt {
    Again(String),
    /// Refused so, perhaps only because the server does not know all roles or kinds yet.
    Doubted(CallError),
    Failed(CallError),
}

/// Conflicts in a row of one write, each of which is made anew on what is there. Who has written in between is not there all the
/// time: after the first it is waited ever longer, as an admission webhook may answer so for ever.
#[derive(Default)]
pub struct Conflicts(Option<Backoff>);

impl Conflicts {
    /// Waits before the write named `what` is made anew; not after the first conflict.
    pub async fn pause(&mut self, calls: &Calls, what: &str) {
        match &mut self.0 {
            None => self.0 = Some(Backoff::api(calls.env.rng(what))),
            Some(backoff) => tokio::time::sleep(backoff.pause()).await,
        }
    }
}

/// The way to the API server for one actor.
#[derive(Clone)]
pub struct Calls {
    /// Kubernetes' API, for what is not written by way of these calls.
    pub client: Client,
    /// The environment of the actor that calls.
    pub env: Env,
    leader_term: Option<LeaderTerm>,
}

impl Calls {
    /// For an actor; `leader_term` where it acts for the leader.
    pub fn new(client: Client, env: Env, leader_term: Option<LeaderTerm>) -> Self {
        Self { client, env, leader_term }
    }

    /// True while it may write.
    pub fn may_act(&self) -> bool {
        self.leader_term.as_ref().is_none_or(LeaderTerm::holds)
    }

    /// True while it may write, and its clock is one to reckon by.
    pub fn may_decide(&self) -> bool {
        self.may_act() && self.env.skew().is_borne()
    }

    /// Goes on with an effect as long as it may act: nothing of it is sent afterwards. `None` when the term is over.
    pub async fn while_acting<T>(&self, effect: impl Future<Output = T>) -> Option<T> {
        match &self.leader_term {
            Some(leader_term) => leader_term.while_holds(effect).await,
            None => Some(effect.await),
        }
    }

    /// Repeats a call until it has an answer. `what` names it, for the back-off and for people.
    ///
    /// # Errors
    /// [`CallError`], never for a server that is away: that is waited for.
    pub async fn run<T, F>(&self, what: &str, call: impl FnMut() -> F) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        self.run_for(Duration::MAX, what, call).await
    }

    /// Like [`Self::run`], but without another attempt once so much time has passed since the first: the facts that the call
    /// rests on may be outdated by then.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Unanswered`] or [`CallError::Doubted`] instead of another attempt after that time.
    pub async fn run_for<T, F>(&self, time: Duration, what: &str, mut call: impl FnMut() -> F) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let begun = self.env.now();
        let _asked = self.env.outage.asked(what);
        let mut backoff = Backoff::api(self.env.rng(what));
        loop {
            let mut doubted = false;
            let unreached;
            let error = match tokio::time::timeout(ANSWER_TIMEOUT, self.while_acting(call())).await {
                Ok(None) => return Err(CallError::Deposed),
                Ok(Some(Ok(answer))) => {
                    tell_recovered(&self.env, what, backoff.failures());
                    return Ok(answer);
                }
                Ok(Some(Err(error))) => {
                    let failure = KubeFailure::from(error);
                    unreached = failure.is_unreachable();
                    match classify(failure) {
                        Attempt::Failed(error) => return Err(self.refused(error, what, backoff.failures())),
                        Attempt::Doubted(error) if backoff.failures() >= BELIEVED => {
                            return Err(self.refused(error, what, backoff.failures()));
                        }
                        Attempt::Doubted(error) => {
                            doubted = true;
                            error.to_string()
                        }
                        Attempt::Again(error) => error,
                    }
                }
                Err(_) => {
                    unreached = true;
                    format!("no answer within {ANSWER_TIMEOUT:?}")
                }
            };
            let pause = backoff.pause();
            if self.env.now().saturating_sub(begun).saturating_add(pause) > time {
                return Err(if doubted { CallError::Doubted(error) } else { CallError::Unanswered(error) });
            }
            tell_failure(&self.env, what, backoff.failures(), &error, unreached);
            tokio::time::sleep(pause).await;
        }
    }

    /// Handles the API server's refusal of a call, after this many failures.
    fn refused(&self, error: CallError, what: &str, failures: u32) -> CallError {
        tell_answered(&self.env, what, failures);
        // A newer term has begun: the API server knows it before we do.
        if error == CallError::Deposed {
            self.leader_term.iter().for_each(LeaderTerm::end);
        }
        error
    }

    /// A call that is made once: what it answers is how things stand within the patience of one answer, not after an outage.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Unanswered`] for whatever might come out otherwise when it is asked again.
    pub async fn once<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        match tokio::time::timeout(ANSWER_TIMEOUT, self.while_acting(call)).await {
            Ok(None) => Err(CallError::Deposed),
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(error))) => Err(match classify(error.into()) {
                Attempt::Failed(error) | Attempt::Doubted(error @ CallError::Forbidden(_)) => error,
                Attempt::Doubted(error) => CallError::Unanswered(error.to_string()),
                Attempt::Again(error) => CallError::Unanswered(error),
            }),
            Err(_) => Err(CallError::Unanswered(format!("no answer within {ANSWER_TIMEOUT:?}"))),
        }
    }

    /// A merge patch of an object.
    ///
    /// # Errors
    /// As [`Calls::run`].
    pub async fn merge<K>(&self, api: &LenientApi<K>, name: &str, patch: Value) -> Result<K, CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.run(&format!("patch {name}"), || api.patch(name, &params, &patch)).await
    }

    /// A merge patch of an object's status.
    ///
    /// # Errors
    /// As [`Calls::run`].
    pub async fn merge_status<K>(&self, api: &LenientApi<K>, name: &str, patch: Value) -> Result<K, CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.run(&format!("patch status of {name}"), || api.patch_status(name, &params, &patch)).await
    }
}

fn classify(failure: KubeFailure) -> Attempt {
    match failure.kind {
        FailureKind::Exists => Attempt::Failed(CallError::Exists(failure.message)),
        FailureKind::Conflict => Attempt::Failed(CallError::Conflict(failure.message)),
        FailureKind::Missing => Attempt::Failed(CallError::NotFound(failure.message)),
        FailureKind::Succeeded => Attempt::Failed(CallError::Deposed),
        FailureKind::Forbidden => Attempt::Doubted(CallError::Forbidden(failure.to_string())),
        FailureKind::NotServed => Attempt::Doubted(CallError::Refused(failure.to_string())),
        FailureKind::Away | FailureKind::Budget => Attempt::Again(failure.to_string()),
        FailureKind::Unreadable | FailureKind::Refused => Attempt::Failed(CallError::Refused(failure.to_string())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;
    use std::sync::Arc;

    use dovetail_core::clock::Clock;
    use dovetail_sandbox::Caller;
    use dovetail_sandbox::apiserver::ApiServer;
    use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
    use kube::core::Status;

    use super::*;
    use crate::messages::Term;
    use crate::settings::Settings;
    use crate::telemetry::journal::MemoryJournal;

    /// Calls of a leader whose term ends at ten seconds.
    fn calls() -> Calls {
        let clock = Arc::new(VirtualClock::new(DEFAULT_START));
        let api = ApiServer::new(clock.clone());
        let until = clock.monotonic() + Duration::from_secs(10);
        let env = Env::new("r", Settings::default(), clock.clone(), Arc::new(MemoryJournal::default()), 1);
        Calls::new(api.client(Caller::replica(0, "test")), env, Some(LeaderTerm::new(Term(1), until, clock)))
    }

    fn on_paused_time(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(test);
    }

    /// Makes a call that is refused `times` times and succeeds then.
    async fn refused(times: u32, code: u16, message: &str) -> Result<u32, CallError> {
        let asked = Cell::new(0);
        let call = || async {
            asked.set(asked.get() + 1);
            if asked.get() > times {
                return Ok(asked.get());
            }
            Err(kube::Error::Api(Box::new(Status::failure(message, "Refused").with_code(code))))
        };
        calls().run("asking", call).await
    }

    const RBAC: &str = "nodeclaims.karpenter.sh is forbidden: User \"x\" cannot create resource \"nodeclaims\"";

    #[test]
    fn rejection_by_just_started_api_server_is_retried() {
        on_paused_time(async {
            assert_eq!(refused(5, 401, "Unauthorized").await, Ok(6));
            assert_eq!(refused(3, 403, RBAC).await, Ok(4));
        });
    }

    #[test]
    fn repeated_rbac_denial_is_forbidden_admission_denial_refused() {
        on_paused_time(async {
            assert!(matches!(refused(u32::MAX, 403, RBAC).await, Err(CallError::Forbidden(_))));
            assert!(matches!(refused(1, 403, "denied by a policy").await, Err(CallError::Refused(_))));
        });
    }

    #[test]
    fn only_a_404_that_names_the_object_says_that_it_is_missing() {
        on_paused_time(async {
            let named = "nodeclaims.karpenter.sh \"a\" not found";
            assert!(matches!(refused(1, 404, named).await, Err(CallError::NotFound(_))));
            assert_eq!(refused(2, 404, "404 page not found").await, Ok(3));
            assert!(matches!(refused(u32::MAX, 404, "404 page not found").await, Err(CallError::Refused(_))));
        });
    }

    #[test]
    fn a_call_that_waits_for_its_turn_past_the_deadline_is_not_sent() {
        on_paused_time(async {
            let (calls, sent) = (calls(), Cell::new(false));
            let call = || async {
                tokio::time::sleep(Duration::from_secs(6)).await;
                sent.set(true);
                Ok(())
            };
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(calls.run("asking", call).await, Err(CallError::Deposed));
            assert!(!sent.get());
        });
    }
}
