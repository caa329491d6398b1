//! The launch of one claim, decided step by step (docs/decisions/020); `actors` carries out the steps and reports the results.
//!
//! ```text
//! create ──┐            ┌────────────────── failed for good: the next attempt ◄──┐
//! read ────┴─ no token ─┴► prepare ──► join ──► write token ──► call ──► instance ──► write it on the claim ──► launched
//!    │                  ▲                                        ▲  └──► nothing to be had ──► discard the claim
//!    └─ token ──► look for it: none in 60 s                      └─ read ◄─ none in 10 s ◄─ look for it ◄── nobody knows
//!                    └──► instance ──► write it on the claim ──► launched
//! ```
//!
//! Claims that ask for the same at the same time join in one call (`super::shared_call`), under one token; each goes its own
//! way by this protocol. A claim that is being deleted is given its share of such a call too, if it may have one, so that the
//! terminator knows its instance from the others'.
//!
//! An instance is never ended here: one too many is an orphan, which the janitor collects, and one that may have been made for a
//! claim that is given up is left to the terminator, which looks for its token before the claim goes.
//!
//! Invariants: LP-1 the token of a call is on the claim before the call; LP-2 no call is begun after the deadline; LP-3 a
//! call of somebody else, or of an earlier life of ours, is never repeated: its instance is looked for until EC2's
//! describes are consistent, then a new attempt has a new token; LP-4 our own call is repeated with its own token only, for
//! the same claims, after a look; LP-5 once a call of an attempt may have launched, none that fails later proves that nothing was launched:
//! the next attempt begins, or the claim goes, after a look until EC2's describes are consistent.

mod claimed;
mod steps;

use std::time::Duration;

use crate::ownership::token::{LaunchPart, attempt_of, is_shared};
pub use claimed::{Claimed, put_part, put_term, takes_instance, takes_token};
pub use steps::{ApiFailure, Input, LaunchCallResult, LaunchEnd, LaunchStep, Pause};

/// Time after which EC2's describes are consistent.
pub const CONSISTENT: Duration = Duration::from_secs(60);
/// Time for which the instance of an own call without an answer is looked for, before the call is repeated with the same
/// token and parameters.
pub const OWN_LOOK: Duration = Duration::from_secs(10);

/// The claim is gone for a reason that may well repeat itself.
const LOST: LaunchEnd = LaunchEnd::Lost { at_once: false };

/// One launch, from the claim's creation to the instance written on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    uid: String,
    /// Token of the attempt; empty before it is known.
    token: String,
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
    Prepare,
    Join,
    WriteToken,
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
    /// The claim is being deleted: it had no instance.
    Leave,
}

impl Protocol {
    /// A launch for a claim that is to be created (`fresh`), or that is there.
    #[must_use]
    pub fn new(fresh: bool) -> Self {
        let doing = Doing::Begin { fresh };
        Self { uid: String::new(), token: String::new(), number: (1, 0), unsure: false, doing }
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
            (Doing::Prepare, Input::Prepared(Err(reason))) => discard(reason, false),
            (Doing::Prepare, Input::Prepared(Ok(()))) => (Doing::Join, LaunchStep::Join(self.number.0)),
            (Doing::Join, Input::Joined(part)) => self.write_token(part),
            (Doing::WriteToken, Input::Claim(claim)) if claim.deleting => over(LaunchEnd::Deleting),
            (Doing::WriteToken, Input::Claim(claim)) if claim.launched => over(LaunchEnd::Launched { uid: claim.uid }),
            (Doing::ReadBeforeCall, Input::Claim(claim)) if claim.deleting => self.leave(now),
            (Doing::WriteToken | Doing::ReadBeforeCall, Input::Claim(_)) => self.call(acts),
            (Doing::Call, Input::Called(called)) => self.called(called, now),
            (Doing::RestBeforeCall, Input::Done) => (Doing::ReadBeforeCall, LaunchStep::Read),
            (Doing::WriteFailure, Input::Claim(_)) => (Doing::RestBeforeAttempt, LaunchStep::Rest(Pause::Attempt)),
            (Doing::RestBeforeAttempt, Input::Done) => self.prepare_after(self.number.0),
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

    /// An earlier call of another leader may have made an instance: look for it, and never repeat the call.
    fn begin(&mut self, claim: Claimed, now: Duration) -> (Doing, LaunchStep) {
        if claim.launched {
            return over(if claim.deleting { LaunchEnd::Deleting } else { LaunchEnd::Launched { uid: claim.uid } });
        }
        self.uid = claim.uid;
        match claim.token {
            // Its share of the call has to be told from those of others; an instance of its own the terminator finds.
            Some(token) if claim.deleting && is_shared(&token) && claim.instance.is_none() => {
                look_for(Looking { token, begun: now, then: Then::Leave })
            }
            _ if claim.deleting => over(LaunchEnd::Deleting),
            Some(token) => look_for(Looking { token, begun: now, then: Then::Attempt }),
            None => prepare(),
        }
    }

    /// The next attempt: after all of it that were made.
    fn prepare_after(&mut self, attempt: u32) -> (Doing, LaunchStep) {
        self.number = (attempt.saturating_add(1), 0);
        prepare()
    }

    fn write_token(&mut self, part: LaunchPart) -> (Doing, LaunchStep) {
        self.unsure = false;
        self.number = (attempt_of(&part.token).unwrap_or(self.number.0), 0);
        self.token.clone_from(&part.token);
        (Doing::WriteToken, LaunchStep::WriteToken(part))
    }

    /// The claim is being deleted, and calls have been made for it.
    fn leave(&mut self, now: Duration) -> (Doing, LaunchStep) {
        if self.unsure && is_shared(&self.token) {
            return look_for(Looking { token: self.token.clone(), begun: now, then: Then::Leave });
        }
        over(LaunchEnd::Deleting)
    }

    fn call(&mut self, acts: bool) -> (Doing, LaunchStep) {
        if !acts {
            return over(LaunchEnd::Deposed);
        }
        self.number.1 += 1;
        (Doing::Call, LaunchStep::Call { token: self.token.clone(), number: self.number })
    }

    fn called(&mut self, called: LaunchCallResult, now: Duration) -> (Doing, LaunchStep) {
        self.unsure |=
            matches!(called, LaunchCallResult::Unknown | LaunchCallResult::TokenUsed | LaunchCallResult::Unsaid);
        let look_then = |then| look_for(Looking { token: self.token.clone(), begun: now, then });
        match called {
            LaunchCallResult::Launched(id) => (Doing::WriteInstance, LaunchStep::WriteInstance { id, adopted: false }),
            LaunchCallResult::NothingToBeHad { reason, .. } if self.unsure => remove(reason),
            LaunchCallResult::NothingToBeHad { reason, at_once } => discard(reason, at_once),
            LaunchCallResult::Later => (Doing::RestBeforeCall, LaunchStep::Rest(Pause::Call)),
            LaunchCallResult::Unknown => look_then(Then::Call),
            LaunchCallResult::Never if !self.unsure => (Doing::WriteFailure, LaunchStep::WriteFailure),
            LaunchCallResult::Never | LaunchCallResult::TokenUsed => look_then(Then::Fail),
            LaunchCallResult::Unsaid => look_then(Then::GiveUp),
            LaunchCallResult::Regroup if self.unsure => look_then(Then::Attempt),
            LaunchCallResult::Regroup => self.prepare_after(self.number.0),
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
            Then::Attempt => self.prepare_after(attempt_of(&looking.token).unwrap_or(0)),
            Then::Leave => over(LaunchEnd::Deleting),
        }
    }
}

fn look_for(looking: Looking) -> (Doing, LaunchStep) {
    let token = looking.token.clone();
    (Doing::Look(looking), LaunchStep::Look(token))
}

fn prepare() -> (Doing, LaunchStep) {
    (Doing::Prepare, LaunchStep::Prepare)
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
