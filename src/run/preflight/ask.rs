//! Questions at the start: repeated while the other side is away, until the time for that is over.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use dovetail_input::Failure;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::run::connect::plainly;

/// Longest wait for one answer.
const ONE_ANSWER: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Asks until a deadline.
#[derive(Clone, Debug)]
pub struct Asker {
    whom: String,
    patience: Duration,
    until: Instant,
}

/// Outcome of one attempt.
pub enum Attempt<T> {
    /// The answer.
    Answer(T),
    /// No answer came, and none will.
    Never(String),
    /// No answer came this time.
    NotYet(String),
}

/// Reasons for having no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The call was refused.
    Never(String),
    /// No answer came in time.
    InTime(String),
}

impl Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Never(why) | Self::InTime(why) => f.write_str(why),
        }
    }
}

impl From<NoAnswer> for Failure {
    fn from(no: NoAnswer) -> Self {
        Self::System(no.to_string())
    }
}

impl Asker {
    /// An asker of `whom` that gives up after `patience`, from now.
    pub fn new(whom: impl Into<String>, patience: Duration) -> Self {
        Self { whom: whom.into(), patience, until: Instant::now() + patience }
    }

    /// The same asker, with its time before it.
    pub fn afresh(&self) -> Self {
        Self::new(self.whom.clone(), self.patience)
    }

    /// Repeats a question until it is answered or refused, or the time is over.
    pub async fn ask<T, F>(&self, what: &str, mut question: impl FnMut() -> F) -> Result<T, NoAnswer>
    where
        F: Future<Output = Attempt<T>>,
    {
        let (mut times, mut last) = (0_u32, "no answer".to_owned());
        loop {
            times += 1;
            match timeout_at(self.until.min(Instant::now() + ONE_ANSWER), question()).await {
                Ok(Attempt::Answer(answer)) => return Ok(answer),
                Ok(Attempt::Never(why)) => return Err(NoAnswer::Never(format!("{}: {what}: {why}", self.whom))),
                Ok(Attempt::NotYet(why)) => last = why,
                Err(_) => {}
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left <= PAUSE {
                let seconds = self.patience.as_secs_f64();
                let message = format!(
                    "{} cannot be reached: {what} was tried {times} time(s) within {seconds} s (STARTUP_TIMEOUT), last: {last}",
                    self.whom
                );
                return Err(NoAnswer::InTime(message));
            }
            sleep(PAUSE).await;
        }
    }

    /// Asks the API server; like [`Self::ask`].
    pub async fn api<T, F>(&self, what: &str, mut call: impl FnMut() -> F) -> Result<T, NoAnswer>
    where
        F: Future<Output = kube::Result<T>>,
    {
        self.ask(what, || {
            let call = call();
            async move {
                match call.await {
                    Ok(answer) => Attempt::Answer(answer),
                    Err(error) => of_error(&error),
                }
            }
        })
        .await
    }

    /// One question without a name, within the time that is left.
    pub async fn once<T>(&self, question: impl Future<Output = T>) -> Option<T> {
        timeout(self.until.saturating_duration_since(Instant::now()), question).await.ok()
    }
}

/// Outcome of an attempt that ended with an error of the API server.
pub fn of_error<T>(error: &kube::Error) -> Attempt<T> {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => Attempt::Never(format!("it does not accept the credentials: {}", plainly(error))),
            403 => Attempt::Never(format!("we may not: {}", plainly(error))),
            408 | 425 | 429 | 500.. => Attempt::NotYet(plainly(error)),
            _ => Attempt::Never(plainly(error)),
        },
        // A proxy before an API server may answer for it while that starts.
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            Attempt::NotYet(format!("what answers there is no Kubernetes API server: {}", plainly(error)))
        }
        kube::Error::Auth(_) | kube::Error::ProxyProtocolDisabled { .. } => Attempt::Never(plainly(error)),
        _ => Attempt::NotYet(plainly(error)),
    }
}
