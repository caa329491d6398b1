//! Calls to the API server: repeated with back-off while it is away or asks for patience, and only while the tenure
//! holds. What failed for good is told apart by what the caller can do about it.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::backoff::Backoff;
use crate::desk::Desk;
use crate::fence::{self, Refusal};
use crate::story::Story;
use crate::tenure::Tenure;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Failures after which a call is told of, once.
const WORTH_TELLING: u32 = 3;

/// Why a call has no answer to work with.
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
    /// The API server will not have it, now or later.
    #[error("refused: {0}")]
    Refused(String),
}

/// What one attempt came to.
enum Attempt {
    Again(String),
    Failed(CallError),
}

/// The way to the API server for one actor.
#[derive(Clone)]
pub struct Calls {
    /// The client.
    pub client: Client,
    /// The desk of the actor that calls.
    pub desk: Desk,
    tenure: Option<Tenure>,
}

impl Calls {
    /// For an actor; `tenure` where it acts for the leader.
    pub fn new(client: Client, desk: Desk, tenure: Option<Tenure>) -> Self {
        Self { client, desk, tenure }
    }

    /// Whether it may write.
    pub fn may_act(&self) -> bool {
        self.tenure.as_ref().is_none_or(Tenure::holds)
    }

    /// Repeats a call until it has an answer. `what` names it, for the back-off and for people.
    ///
    /// # Errors
    /// [`CallError`], never for a server that is away: that is waited for.
    pub async fn run<T, F>(&self, what: &str, mut call: impl FnMut() -> F) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let mut backoff = Backoff::api(self.desk.rng(what));
        loop {
            if !self.may_act() {
                return Err(CallError::Deposed);
            }
            let error = match tokio::time::timeout(PATIENCE, call()).await {
                Ok(Ok(answer)) => {
                    if backoff.failures() >= WORTH_TELLING {
                        let attempts = backoff.failures() + 1;
                        self.desk.tell(Story::Recovered { what: what.to_owned(), attempts });
                    }
                    return Ok(answer);
                }
                Ok(Err(error)) => match classify(error) {
                    // A newer term has begun: the API server knows it before we do.
                    Attempt::Failed(CallError::Deposed) => {
                        self.tenure.iter().for_each(Tenure::end);
                        return Err(CallError::Deposed);
                    }
                    Attempt::Failed(error) => return Err(error),
                    Attempt::Again(error) => error,
                },
                Err(_) => format!("no answer within {PATIENCE:?}"),
            };
            let pause = backoff.pause();
            if backoff.failures() == WORTH_TELLING {
                self.desk.tell(Story::Retrying { what: what.to_owned(), error });
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// A merge patch of an object.
    ///
    /// # Errors
    /// As [`Calls::run`].
    pub async fn merge<K>(&self, api: &Api<K>, name: &str, patch: Value) -> Result<K, CallError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.run(&format!("patch {name}"), || api.patch(name, &params, &patch)).await
    }

    /// A merge patch of an object's status.
    ///
    /// # Errors
    /// As [`Calls::run`].
    pub async fn merge_status<K>(&self, api: &Api<K>, name: &str, patch: Value) -> Result<K, CallError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.run(&format!("patch status of {name}"), || api.patch_status(name, &params, &patch)).await
    }
}

fn classify(error: kube::Error) -> Attempt {
    match error {
        kube::Error::Api(status) => match (status.code, status.reason.as_str()) {
            (409, "AlreadyExists") => Attempt::Failed(CallError::Exists(status.message)),
            (409, _) => Attempt::Failed(CallError::Conflict(status.message)),
            (404 | 410, _) => Attempt::Failed(CallError::NotFound(status.message)),
            (403, _) => match fence::refusal(&status.message) {
                Some(Refusal::Succeeded) => Attempt::Failed(CallError::Deposed),
                Some(Refusal::NotKnownYet) => Attempt::Again(format!("403 {}", status.message)),
                None => Attempt::Failed(CallError::Refused(format!("403 {}", status.message))),
            },
            (408 | 425 | 429 | 500.., _) => Attempt::Again(format!("{} {}", status.code, status.message)),
            _ => Attempt::Failed(CallError::Refused(format!("{} {}", status.code, status.message))),
        },
        kube::Error::SerdeError(error) => Attempt::Failed(CallError::Refused(error.to_string())),
        other => Attempt::Again(other.to_string()),
    }
}
