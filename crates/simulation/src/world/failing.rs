//! A solver that a scenario has panic: packing that fails for some pods, as a bug in it would.

use std::sync::Arc;

use dovetail_actors::{InlineSolver, Solution, Solver};
use dovetail_core::Problem;
use dovetail_core::pack::Options;
use dovetail_sandbox::faults::glob_matches;
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Panics where a pod takes part whose name is one of some globs, and packs otherwise.
pub struct FailingSolver {
    globs: Vec<String>,
}

impl FailingSolver {
    /// The solver of a world: one that fails only where globs say so.
    pub fn with(globs: &[String]) -> Arc<dyn Solver> {
        if globs.is_empty() { Arc::new(InlineSolver) } else { Arc::new(Self { globs: globs.to_vec() }) }
    }
}

impl Solver for FailingSolver {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        let fails = |name: &str| self.globs.iter().any(|glob| glob_matches(glob, name));
        let Some(pod) = problem.pods.iter().find(|pod| fails(&pod.name)) else {
            return InlineSolver.solve(problem, options);
        };
        let message = format!("the scenario says so of pod {}/{}", pod.namespace, pod.name);
        async move { panics(message) }.boxed()
    }
}

/// Unwinds as a panic does, but no hook prints it: it is no bug.
fn panics(message: String) -> Solution {
    std::panic::resume_unwind(Box::new(message))
}
