//! Which nodes are to go by our own decision, and why (core spec 5).

use serde::Serialize;

/// Why a claim goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No pod that would have to be moved is on it.
    Empty,
    /// It has reached its pool's `expireAfter`.
    Expired,
    /// It is no longer what its pool or class asks for.
    Drifted,
    /// Its pods fit elsewhere, or on something cheaper.
    Underutilized,
    /// The cloud takes its instance away.
    Interrupted,
    /// Its instance is gone.
    GarbageCollected,
}

impl Reason {
    /// As metrics and logs say it (core spec 7.1, `nodeclaims_disrupted_total`).
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Expired => "expired",
            Self::Drifted => "drifted",
            Self::Underutilized => "underutilized",
            Self::Interrupted => "interrupted",
            Self::GarbageCollected => "garbage_collected",
        }
    }
}
