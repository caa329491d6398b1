//! The seam to the packing: in place in a simulation, on threads in production.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_core::disruption::commands::{CommandAnswer, Question};
use dovetail_core::dra::{DeviceAnswer, DeviceQuestion};
use dovetail_core::pack::{Options, Packing, PackingError, solve_within};
use futures::future::{BoxFuture, FutureExt};

/// A solver's answer: a packing, or that it has met its bound.
pub type Solution = Result<Packing, PackingError>;

/// Computes packings, away from the mailbox that asks. One that panics ends nothing: who asks catches it.
pub trait Solver: Send + Sync {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution>;

    /// Answers a consolidation question; computed in place by default.
    fn consolidate(&self, question: Question) -> BoxFuture<'static, Result<CommandAnswer, PackingError>> {
        async move { question.answer() }.boxed()
    }

    /// Decides the places of pods that claim devices; computed in place by default.
    fn place_devices(&self, question: Arc<DeviceQuestion>) -> BoxFuture<'static, DeviceAnswer> {
        async move { question.answer() }.boxed()
    }
}

/// Asks a solver, whatever it does.
///
/// # Errors
/// It has met its bound, or panicked.
pub async fn attempt(
    solver: Arc<dyn Solver>,
    problem: Arc<Problem>,
    options: Options,
) -> Result<Packing, PackingError> {
    // Nothing that outlives the attempt is shared with it but the problem, which it cannot change.
    let solving = AssertUnwindSafe(async move { solver.solve(problem, options).await }).catch_unwind();
    solving.await.unwrap_or_else(|panic| Err(PackingError::of_panic(&*panic)))
}

/// Asks what consolidation would do, whatever the solver does.
///
/// # Errors
/// It has met a bound, or panicked.
pub async fn consolidate(solver: Arc<dyn Solver>, question: Question) -> Result<CommandAnswer, PackingError> {
    let computing = AssertUnwindSafe(async move { solver.consolidate(question).await }).catch_unwind();
    computing.await.unwrap_or_else(|panic| Err(PackingError::of_panic(&*panic)))
}

/// Asks for the places of pods that claim devices, whatever the solver does: if it panics, these pods wait.
pub async fn place_devices(solver: Arc<dyn Solver>, question: DeviceQuestion) -> DeviceAnswer {
    let question = Arc::new(question);
    let asked = question.clone();
    let placing = AssertUnwindSafe(async move { solver.place_devices(asked).await }).catch_unwind();
    placing.await.unwrap_or_else(|panic| {
        question.unanswered(&format!("the search for devices failed: {}", PackingError::of_panic(&*panic)))
    })
}

/// Computes in place, when polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct InlineSolver;

impl Solver for InlineSolver {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        async move { solve_within(&problem, &options) }.boxed()
    }
}
