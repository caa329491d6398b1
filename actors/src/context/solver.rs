//! The seam to the packing: in place in a simulation, on threads in production.

use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, PackingError, solve_within};
use futures::future::{BoxFuture, FutureExt};

/// What a solver answers: a packing, or that it has met its bound.
pub type Solution = Result<Packing, PackingError>;

/// Computes packings, away from the mailbox that asks. One that panics ends nothing: who asks catches it.
pub trait Solver: Send + Sync {
    /// The packing of a problem.
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution>;
}

/// Computes in place, when polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct InlineSolver;

impl Solver for InlineSolver {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        async move { solve_within(&problem, &options) }.boxed()
    }
}
