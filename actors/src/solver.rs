//! The seam to the packing: in place in a simulation, on threads in production.

use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, solve};
use futures::future::{BoxFuture, FutureExt};

/// Computes packings, away from the mailbox that asks.
pub trait Solver: Send + Sync {
    /// The packing of a problem.
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Packing>;
}

/// Computes in place, when polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct InlineSolver;

impl Solver for InlineSolver {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Packing> {
        async move { solve(&problem, &options) }.boxed()
    }
}
