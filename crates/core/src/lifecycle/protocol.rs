//! The launch of one claim, decided step by step (docs/decisions/020); `actors` carries out the steps and reports the results.
//!
//! ```text
//! create ──┐                  ┌───────────── failed for good: the next attempt ◄──┐
//! read ────┴─ no token ──► write token ──► prepare ──► call ──► instance ──► write it on the claim ──► launched
//!    │                        ▲                         ▲  └──► nothing to be had ──► discard the claim
//!    └─ token ──► look for it ┘ none in 60 s             └─ read ◄─ none in 10 s ◄─ look for it ◄── nobody knows
//!                    └──► instance ──► write it on the claim ──► launched
//! ```
//!
//! An instance is never ended here: one too many is an orphan, which the janitor collects, and one that may have been made for a
//! claim that is given up is left to the terminator, which looks for its token before the claim goes.
//!
//! Invariants: LP-1 the token of a call is on the claim before the call; LP-2 no call is begun after the deadline; LP-3 a
//! call of somebody else, or of an earlier life of ours, is never repeated: its instance is looked for until EC2's
//! describes are consistent, then a new attempt has a new token; LP-4 our own call is repeated with its own token only,
//! after a look; LP-5 once a call of an attempt may have launched, none that fails later proves that nothing was launched:
//! the next attempt begins, or the claim goes, after a look until EC2's describes are consistent.

mod claimed;

use std::time::Duration;

use crate::ownership::token;
pub use claimed::{Claimed, put_token, takes_instance, takes_token};

/// Time after which EC2's describes are consistent.
pub const CONSISTENT: Duration = Duration::from_secs(60);
/// Time for which the instance of an own call without an answer is looked for, before the call is repeated with the same
/// token and parameters.
pub const OWN_LOOK: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LaunchCallResult {
    /// An instance, by its id.
    Launched(String),
    /// No offering can be had, or the node class cannot be used.
    NothingToBeHad {
        /// The reason, as a label of metrics.
        reason: &'static str,
        /// True if packing again at once can come out differently: the refused offerings are known to be unavailable.
        at_once: bool,
    },
    /// Nothing was launched; the same call may succeed later.
    Later,
    /// Nothing was launched, and the same call will fail again.
    Never,
    /// An instance may have been launched.
    Unknown,
    /// EC2 was asked for something else with this token, which may have launched an instance; it will not be asked again.
    TokenUsed,
    /// EC2 said neither which instance it launched nor why it did not: an instance may be there, and the token gets the same
    /// answer again.
    Unsaid,
}

/// The reason that a call to the API server has no answer to work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiFailure {
    /// The term is over.
    Deposed,
    /// The API server refuses it.
    Refused,
    /// The claim is gone, or another of its name is there.
    Gone,
}

/// The result of the last step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The launch begins.
    Begin,
    /// The claim as created, read or written.
    Claim(Claimed),
    /// The request to the cloud is put together; or the reason that there is nothing to ask for.
    Prepared(Result<(), &'static str>),
    /// The cloud was called.
    Called(LaunchCallResult),
    /// The cloud was asked for living instances with the token, at that moment or later: their ids, the oldest first; `None`
    /// if it did not answer, which shows nothing.
    Looked(Duration, Option<Vec<String>>),
    /// A pause is over, or a step that has only one outcome.
    Done,
    /// The API server did not do the write or read.
    Failed(ApiFailure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pause {
    /// Before the next look.
    Look,
    /// Before the next look, as the last one failed.
    FailedLook,
    /// Before the same call.
    Call,
    /// Before the next attempt.
    Attempt,
}

/// The step to take now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LaunchStep {
    /// Create the claim, in this term.
    Create,
    /// Read the claim from the API server.
    Read,
    /// Write the attempt's token, and the term, on the claim.
    WriteToken(String),
    /// Put together the request to the cloud with the token.
    Prepare(String),
    /// Call the cloud with the token, at once.
    Call {
        /// ClientToken, and a tag of the instance.
        token: String,
        /// Number of the attempt, and of the call in it; from 1.
        number: (u32, u32),
    },
    /// Ask the cloud for living instances with the token.
    Look(String),
    /// Wait for the pause.
    Rest(Pause),
    /// Write the instance on the claim.
    WriteInstance {
        /// Id of the instance, `i-…`.
        id: String,
        /// True if it was found rather than answered.
        adopted: bool,
    },
    /// Write on the claim that the attempt failed.
    WriteFailure,
    /// Delete the claim, which has no instance, finalizer and all.
    Discard(&'static str),
    /// Delete the claim; the terminator finds out whether it has an instance.
    Remove(&'static str),
    End(LaunchEnd),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LaunchEnd {
    /// The claim has its instance.
    Launched { uid: String },
    /// There is no claim (any more): its pods are free.
    Lost {
        /// True if packing again at once can come out differently.
        at_once: bool,
    },
    /// The claim is being deleted: its pods are free, and the terminator looks for an instance that may have been made for it.
    Deleting,
    /// The API server refuses the write on the claim, or it is unknown whether the claim was created.
    Refused,
    /// The term ended first.
    Deposed,
}

impl LaunchEnd {
    /// Its name, as a label of metrics.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Launched { .. } => "launched",
            Self::Lost { .. } => "lost",
            Self::Deleting => "leaving",
            Self::Refused => "refused",
            Self::Deposed => "deposed",
        }
    }
}

impl From<ApiFailure> for LaunchEnd {
    fn from(failure: ApiFailure) -> Self {
        match failure {
            ApiFailure::Deposed => Self::Deposed,
            ApiFailure::Refused => Self::Refused,
            ApiFailure::Gone => LOST,
        }
    }
}

/// The claim is gone for a reason that may well repeat itself.
const LOST: LaunchEnd = LaunchEnd::Lost { at_once: false };

/// One launch, from the claim's creation to the instance written on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    uid: String,
    /// Number of the attempt, and of the call in it.
    number: (u32, u32),
    /// True if a call of the attempt may have launched an instance.
    unsure: bool,
    doing: Doing,
}

/// The step that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Begin { fresh: bool },
    Create,
    Read,
    WriteToken,
    Prepare,
    Call,
    RestBeforeCall,
    ReadBeforeCall,
    WriteFailure,
    RestBeforeAttempt,
    Look(Looking),
    WriteInstance,
    Discard { at_once: bool },
    ReadRefused,
    Remove,
    Over,
}

/// A look for instances by their token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Looking {
    token: String,
    /// Time at which the look began. Monotonic.
    begun: Duration,
    /// The step to take if there is none.
    then: Then,
}

/// The step that follows if no instance is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Then {
    /// The call was this launch's own: it is made again.
    Call,
    /// The call was another's: the next attempt is made.
    Attempt,
    /// The call was this launch's own, and will fail: the attempt has failed.
    Fail,
    /// The call was this launch's own, and may be answered with nothing again: the claim goes.
    GiveUp,
}

impl Protocol {
    /// A launch for a claim that is to be created (`fresh`), or that is there.
    #[must_use]
    pub fn new(fresh: bool) -> Self {
        Self { uid: String::new(), number: (1, 0), unsure: false, doing: Doing::Begin { fresh } }
    }

    /// The next step. `now` is of the monotonic clock, `acts` is true if the term's deadline is still to come.
    pub fn step(&mut self, input: Input, now: Duration, acts: bool) -> LaunchStep {
        let (doing, step) = self.next(input, now, acts);
        self.doing = doing;
        step
    }

    fn next(&mut self, input: Input, now: Duration, acts: bool) -> (Doing, LaunchStep) {
        let doing = std::mem::replace(&mut self.doing, Doing::Over);
        match (doing, input) {
            (Doing::Begin { fresh: true }, _) => (Doing::Create, LaunchStep::Create),
            (Doing::Begin { fresh: false }, _) => (Doing::Read, LaunchStep::Read),
            (Doing::Create | Doing::Read, Input::Claim(claim)) => self.begin(claim, now),
            (Doing::WriteToken, Input::Claim(claim)) if claim.deleting => over(LaunchEnd::Deleting),
            (Doing::WriteToken, Input::Claim(claim)) if claim.launched => over(LaunchEnd::Launched { uid: claim.uid }),
            (Doing::WriteToken, Input::Claim(_)) => (Doing::Prepare, LaunchStep::Prepare(self.token())),
            (Doing::Prepare, Input::Prepared(Err(reason))) => discard(reason, false),
            (Doing::ReadBeforeCall, Input::Claim(claim)) if claim.deleting => over(LaunchEnd::Deleting),
            (Doing::Prepare, Input::Prepared(Ok(()))) | (Doing::ReadBeforeCall, Input::Claim(_)) => self.call(acts),
            (Doing::Call, Input::Called(called)) => self.called(called, now),
            (Doing::RestBeforeCall, Input::Done) => (Doing::ReadBeforeCall, LaunchStep::Read),
            (Doing::WriteFailure, Input::Claim(_)) => {
                self.number = (self.number.0 + 1, 0);
                (Doing::RestBeforeAttempt, LaunchStep::Rest(Pause::Attempt))
            }
            (Doing::RestBeforeAttempt, Input::Done) => self.write_token(),
            (Doing::Look(looking), Input::Looked(asked, found)) => self.looked(looking, asked, found, acts),
            (Doing::Look(looking), Input::Done) => look_for(looking),
            // If the claim has got another instance meanwhile it keeps that: this one is an orphan.
            (Doing::WriteInstance, Input::Claim(claim)) => over(LaunchEnd::Launched { uid: claim.uid }),
            (Doing::Discard { at_once }, Input::Done) => over(LaunchEnd::Lost { at_once }),
            (Doing::ReadRefused, Input::Claim(claim)) if claim.deleting => over(LaunchEnd::Deleting),
            (Doing::ReadRefused, Input::Claim(claim)) if claim.launched => over(LaunchEnd::Launched { uid: claim.uid }),
            (Doing::ReadRefused, Input::Claim(_)) => remove("refused"),
            (Doing::Remove, Input::Done) => over(LaunchEnd::Deleting),
            (_, Input::Failed(ApiFailure::Deposed)) => over(LaunchEnd::Deposed),
            (Doing::ReadRefused, Input::Failed(_)) => over(LOST),
            (Doing::Create | Doing::Remove, Input::Failed(why)) => over(why.into()),
            (_, Input::Failed(ApiFailure::Refused)) => (Doing::ReadRefused, LaunchStep::Read),
            (_, Input::Failed(ApiFailure::Gone)) => over(LOST),
            // No other input follows from the steps: a wrong answer never leads to an instance.
            _ => over(LOST),
        }
    }

    fn token(&self) -> String {
        token::launch_token([self.uid.as_str()], self.number.0)
    }

    /// An earlier call of another leader may have made an instance: look for it, and never repeat the call.
    fn begin(&mut self, claim: Claimed, now: Duration) -> (Doing, LaunchStep) {
        if claim.deleting {
            return over(LaunchEnd::Deleting);
        }
        if claim.launched {
            return over(LaunchEnd::Launched { uid: claim.uid });
        }
        self.uid = claim.uid;
        match claim.token {
            Some(token) => look_for(Looking { token, begun: now, then: Then::Attempt }),
            None => self.write_token(),
        }
    }

    fn write_token(&mut self) -> (Doing, LaunchStep) {
        self.unsure = false;
        (Doing::WriteToken, LaunchStep::WriteToken(self.token()))
    }

    fn call(&mut self, acts: bool) -> (Doing, LaunchStep) {
        if !acts {
            return over(LaunchEnd::Deposed);
        }
        self.number.1 += 1;
        (Doing::Call, LaunchStep::Call { token: self.token(), number: self.number })
    }

    fn called(&mut self, called: LaunchCallResult, now: Duration) -> (Doing, LaunchStep) {
        self.unsure |=
            matches!(called, LaunchCallResult::Unknown | LaunchCallResult::TokenUsed | LaunchCallResult::Unsaid);
        let look_then = |then| look_for(Looking { token: self.token(), begun: now, then });
        match called {
            LaunchCallResult::Launched(id) => (Doing::WriteInstance, LaunchStep::WriteInstance { id, adopted: false }),
            LaunchCallResult::NothingToBeHad { reason, .. } if self.unsure => remove(reason),
            LaunchCallResult::NothingToBeHad { reason, at_once } => discard(reason, at_once),
            LaunchCallResult::Later => (Doing::RestBeforeCall, LaunchStep::Rest(Pause::Call)),
            LaunchCallResult::Unknown => look_then(Then::Call),
            LaunchCallResult::Never if !self.unsure => (Doing::WriteFailure, LaunchStep::WriteFailure),
            LaunchCallResult::Never | LaunchCallResult::TokenUsed => look_then(Then::Fail),
            LaunchCallResult::Unsaid => look_then(Then::GiveUp),
        }
    }

    fn looked(
        &mut self,
        looking: Looking,
        asked: Duration,
        found: Option<Vec<String>>,
        acts: bool,
    ) -> (Doing, LaunchStep) {
        let Some(found) = found else {
            return if acts {
                (Doing::Look(looking), LaunchStep::Rest(Pause::FailedLook))
            } else {
                over(LaunchEnd::Deposed)
            };
        };
        if let Some(id) = found.into_iter().next() {
            return (Doing::WriteInstance, LaunchStep::WriteInstance { id, adopted: true });
        }
        let within = if looking.then == Then::Call { OWN_LOOK } else { CONSISTENT };
        if asked.saturating_sub(looking.begun) < within {
            return if acts { (Doing::Look(looking), LaunchStep::Rest(Pause::Look)) } else { over(LaunchEnd::Deposed) };
        }
        match looking.then {
            // The pauses grow: a call that is not answered once may never be.
            Then::Call => (Doing::RestBeforeCall, LaunchStep::Rest(Pause::Call)),
            Then::Fail => (Doing::WriteFailure, LaunchStep::WriteFailure),
            // Its pods may find something else, which this claim cannot become.
            Then::GiveUp => remove("launch_unknown"),
            Then::Attempt => {
                self.number = (token::attempt_of(&looking.token).unwrap_or(0).saturating_add(1), 0);
                self.write_token()
            }
        }
    }
}

fn look_for(looking: Looking) -> (Doing, LaunchStep) {
    let token = looking.token.clone();
    (Doing::Look(looking), LaunchStep::Look(token))
}

fn discard(reason: &'static str, at_once: bool) -> (Doing, LaunchStep) {
    (Doing::Discard { at_once }, LaunchStep::Discard(reason))
}

fn remove(reason: &'static str) -> (Doing, LaunchStep) {
    (Doing::Remove, LaunchStep::Remove(reason))
}

fn over(end: LaunchEnd) -> (Doing, LaunchStep) {
    (Doing::Over, LaunchStep::End(end))
}
