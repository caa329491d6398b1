//! Steps of a launch, and their results.

use std::time::Duration;

use super::claimed::Claimed;
use crate::ownership::token::LaunchPart;

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
    /// The call was not made again, as it was for several claims and some of them are out of it.
    Regroup,
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
    /// The call is known that the claim will be in.
    Joined(LaunchPart),
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
    /// Put together the request to the cloud.
    Prepare,
    /// Find the claims that ask for the same at the same time, for one call; the attempt's number is this at least.
    Join(u32),
    /// Write the attempt's token and the claim's place, and the term, on the claim.
    WriteToken(LaunchPart),
    /// Call the cloud with the token, as soon as it is on each claim of the call.
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
            ApiFailure::Gone => super::LOST,
        }
    }
}
