//! The threads that answer reviews: one takes any, the others only small ones.

use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use super::ReviewHandler;
use super::queue::ReviewQueue;
use super::rooms::{BodyKind, Room};

/// Each builds the values of one object at a time.
const WORKERS: usize = 3;

/// A review, and where its outcome goes.
pub(super) struct Job {
    pub(super) body: Vec<u8>,
    pub(super) room: Room,
    pub(super) outcome: oneshot::Sender<Outcome>,
}

/// The answer, or why there is none, with the room of the body. None comes where answering has failed.
pub(super) struct Outcome {
    pub(super) answer: Result<Vec<u8>, String>,
    pub(super) room: Room,
}

/// State shared by the talking thread and the workers.
#[derive(Default)]
struct Shared {
    queue: Mutex<ReviewQueue<Job>>,
    came: Condvar,
}

/// Threads that answer until the process ends.
pub(super) struct Workers(Arc<Shared>);

impl Workers {
    pub(super) fn start(answer: ReviewHandler) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        for n in 0..WORKERS {
            let (shared, answer) = (shared.clone(), answer.clone());
            let working = move || {
                loop {
                    work(shared.next(n > 0), &answer);
                }
            };
            thread::Builder::new().name(format!("reviews-{n}")).spawn(working)?;
        }
        Ok(Self(shared))
    }

    /// Has a review answered when its turn comes.
    ///
    /// # Errors
    /// Too many are waiting.
    pub(super) fn ask(&self, peer: IpAddr, kind: BodyKind, job: Job) -> Result<(), Job> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).push(peer, kind, job)?;
        // All of them: the one that is woken may be one that takes no large ones.
        self.0.came.notify_all();
        Ok(())
    }
}

impl Shared {
    fn next(&self, small_only: bool) -> Job {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = queue.pop(small_only) {
                return job;
            }
            queue = self.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn work(Job { body, room, outcome }: Job, answer: &ReviewHandler) {
    // Whoever asked may be gone by now.
    if outcome.is_closed() {
        return;
    }
    let Ok(answer) = catch_unwind(AssertUnwindSafe(|| answer(&body))) else { return };
    drop(body);
    let _ = outcome.send(Outcome { answer, room });
}
