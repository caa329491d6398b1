//! Packings on threads of their own, so that the actors go on meanwhile: renewals above all.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use dovetail_actors::{Solution, Solver};
use dovetail_core::Problem;
use dovetail_core::disruption::commands::{CommandAnswer, Question};
use dovetail_core::dra::{DeviceAnswer, DeviceQuestion};
use dovetail_core::pack::{Options, PackingError, solve_within};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

type Outcome<T> = Result<T, Box<dyn Any + Send>>;
type Job = Box<dyn FnOnce() + Send>;

/// A few threads that compute packings, in the order in which they are asked for.
pub struct PoolSolver {
    jobs: Mutex<Sender<Job>>,
}

impl PoolSolver {
    /// Starts a pool of so many threads.
    ///
    /// # Errors
    /// The system gives none.
    pub fn start(threads: usize) -> io::Result<Self> {
        let (jobs, taken) = channel();
        let taken = Arc::new(Mutex::new(taken));
        for number in 0..threads.max(1) {
            let taken = taken.clone();
            thread::Builder::new().name(format!("solver-{number}")).spawn(move || work(&taken))?;
        }
        Ok(Self { jobs: Mutex::new(jobs) })
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        job();
    }
}

impl PoolSolver {
    /// Has a thread do it. What panics in there panics here: whoever asked catches it, the thread goes on.
    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> BoxFuture<'static, T> {
        let (sender, answer) = oneshot::channel::<Outcome<T>>();
        let job = move || {
            // Whoever asked may be gone.
            if !sender.is_closed() {
                let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
            }
        };
        let sent = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(Box::new(job));
        async move {
            match answer.await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => resume_unwind(panic),
                Err(gone) => resume_unwind(Box::new(format!("no thread computes packings: {gone}, {sent:?}"))),
            }
        }
        .boxed()
    }
}

impl Solver for PoolSolver {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        self.run(move || solve_within(&problem, &options))
    }

    fn consolidate(&self, question: Question) -> BoxFuture<'static, Result<CommandAnswer, PackingError>> {
        self.run(move || question.answer())
    }

    fn place_devices(&self, question: Arc<DeviceQuestion>) -> BoxFuture<'static, DeviceAnswer> {
        self.run(move || question.answer())
    }
}
