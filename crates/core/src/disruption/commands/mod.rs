//! Commands: nodes that go by our own decision, with what is launched in their stead first (core spec 5.8).
//!
//! ```text
//! Rhythm ──► Question ──► Command (what goes, and the place of each pod) ──► Waiting ──► the same Question for its claims alone
//!                └── asked with those that wait as if they had begun ◄──────────┘            │
//!                                                    claims are removed ◄── Running ◄────────┘
//!                                undone: untainted, unmarked, said ◄───────────┘
//! ```
//!
//! The claims are held, so that nothing new comes to them; replacements are launched; the claims are removed when these are
//! initialized. Drift has a way of its own, which leaves the places to packing (`super::drift`).

mod demand;
mod live;
mod policy;
mod question;
mod queue;
mod rhythm;
mod waiting;
mod written;

pub use demand::{Demand, SpareNodes};
pub use live::ClaimsGoingAnyway;
pub use policy::kept_by_policy;
pub use question::{CommandAnswer, Moved, Question, StayingNode};
pub use queue::{CommandStep, Ended, Queue, Running};
pub use rhythm::Rhythm;
pub use waiting::{WaitingCommand, WaitingCommands, WaitingStep};
pub use written::{HeldClaim, held_by_commands};

use std::collections::BTreeSet;

use dovetail_api::v1::ConsolidationPolicy;

use super::RemovalReason;
use super::look::DisruptedClaim;
use super::pools::DisruptionPool;
use crate::cluster_state::Snapshot;
use crate::pack::PlannedClaim;

/// Claims that are to go together, once the pods on them have places elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRemoval {
    pub reason: RemovalReason,
    /// The method, as the label `consolidation_type` of metrics names it.
    pub method: &'static str,
    /// The claims that go.
    pub claims: Vec<DisruptedClaim>,
}

/// A decision of consolidation, with the place of each pod.
#[derive(Clone, Debug, PartialEq)]
pub struct DisruptionCommand {
    /// The claims that go, with the reason.
    pub wanted: WantedRemoval,
    /// The nodes to be launched before; their pods are indices of the problem's pods.
    pub replacements: Vec<PlannedClaim>,
    /// Drivers of the devices that pods of each of these nodes will have.
    pub drivers: Vec<BTreeSet<String>>,
    /// Pods, by uid, that nodes take which are there, by their index among the problem's nodes.
    pub on_existing: Vec<(usize, Vec<String>)>,
    /// All pods that move, by uid.
    pub pods: Vec<String>,
    /// Dollars an hour of the nodes that go.
    pub price_before: f64,
    /// Dollars an hour of the nodes that are launched, each at its cheapest.
    pub price_after: f64,
    /// True if it was found without regard to commitments, as the bill ends lower so.
    pub blind: bool,
    /// True if it pays only because prices differ.
    pub price_move: bool,
}

/// True if any pool consolidates nodes with pods.
#[must_use]
pub fn any_consolidates(snapshot: &Snapshot) -> bool {
    snapshot.pools.values().any(|pool| {
        let view = DisruptionPool::from_pool(pool);
        let full = view.pool.spec.disruption.consolidation_policy != ConsolidationPolicy::WhenEmpty;
        full && view.after.is_some() && view.ttl.is_none()
    })
}

impl DisruptionCommand {
    /// The decision in a word, as logs and metrics name it.
    #[must_use]
    pub fn decision(&self) -> &'static str {
        if self.replacements.is_empty() { "delete" } else { "replace" }
    }

    /// True if it is done to save money.
    #[must_use]
    pub fn saves(&self) -> bool {
        self.wanted.reason == RemovalReason::Underutilized
    }
}
