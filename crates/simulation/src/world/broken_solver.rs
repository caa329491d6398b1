//! A solver that is broken on purpose.

use std::sync::Arc;

use dovetail_actors::{Solution, Solver};
use dovetail_core::Problem;
use dovetail_core::disruption::commands::{CommandAnswer, Question};
use dovetail_core::pack::{Options, PackingError};
use futures::future::BoxFuture;
use jiff::SignedDuration;

use super::broken::Broken;

/// A solver that is asked something else about consolidation.
struct BrokenSolver {
    inner: Arc<dyn Solver>,
    broken: Broken,
}

/// The solver itself where it is not what is broken.
pub fn solver_instead_of(inner: Arc<dyn Solver>, broken: Option<Broken>) -> Arc<dyn Solver> {
    match broken {
        Some(broken @ (Broken::ForgottenMoves | Broken::NoLeastAge)) => Arc::new(BrokenSolver { inner, broken }),
        _ => inner,
    }
}

impl Solver for BrokenSolver {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        self.inner.solve(problem, options)
    }

    fn consolidate(&self, mut question: Question) -> BoxFuture<'static, Result<CommandAnswer, PackingError>> {
        match self.broken {
            Broken::ForgottenMoves => question.moved = Arc::default(),
            _ => question.settings.least_age = SignedDuration::ZERO,
        }
        self.inner.consolidate(question)
    }
}
