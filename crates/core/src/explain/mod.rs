//! Answers to an operator who asks why a pod waits, a node stays, a claim is not ready, a pool launches nothing
//! (`dovetail explain`).
//!
//! ```text
//! Snapshot ──► planning, packing ───────────────► PodAnswer: by pool the rule, what each rule took
//!    │                │ └► the same with one thing changed ──► the smallest change that lets it run
//!    │                └──► a pod that asks for nothing ──────► PoolAnswer: what may still be launched
//!    └───────► decide_disruption, Question, drain ──────────► NodeAnswer: what keeps it, what blocks its drain
//! ```
//!
//! Nothing here decides anew: every reason is asked of the code that decides, so that events, the log, `plan` and this say
//! the same.

mod change;
mod claim;
mod node;
mod outcome;
mod pod;
mod pool;
mod remedies;
mod staying;
mod suggest;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;

pub use change::{Change, Suggestion};
pub use claim::{ClaimAnswer, ConditionNow, explain_claim, given_up_at, pending_step};
pub use node::{DrainHold, NodeAnswer, explain_node};
pub use outcome::Placement;
pub use pod::{AwaitedClaim, NominatedTo, PodAnswer, PodVerdict, explain_known_pod, explain_pod};
pub use pool::{BudgetNow, LimitNow, PoolAnswer, ReplicasNow, explain_pool};
pub use staying::{MethodAnswer, MethodVerdict};
pub use words::why_not;

use crate::cluster_state::{PlanningInput, Snapshot};
use crate::disruption::drift::Gates;
use crate::disruption::methods::ConsolidationSettings;
use crate::pack::{Options, Packing};
use crate::problem::Problem;

/// A way to pack a problem that survives one that breaks packing.
pub type Solve<'a> = &'a dyn Fn(&Arc<Problem>, &Options) -> Packing;

/// The cluster that is asked about, with the settings by which it is decided.
#[derive(Clone, Copy)]
pub struct ExplainInput<'a> {
    pub snapshot: &'a Snapshot,
    /// Input of packing; its `now` is the time of all answers.
    pub planning: &'a PlanningInput,
    pub options: &'a Options,
    pub rules: &'a ConsolidationSettings,
    pub gates: Gates,
    pub solve: Solve<'a>,
}
