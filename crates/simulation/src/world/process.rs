//! A replica's process: everything that it runs is one LocalSet. To kill it is to drop it, to pause it is not to poll it.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dovetail_sandbox::cpu;
use tokio::task::LocalSet;

/// A LocalSet that can be paused and killed from outside. Clones hold the same one.
#[derive(Clone, Default)]
pub struct ReplicaProcess(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    set: Option<Pin<Box<LocalSet>>>,
    /// Raised at every start and every kill, so that a driver knows whether its set is still wanted.
    life: u64,
    paused: bool,
    waker: Option<Waker>,
    /// CPU time that it has taken, answers to it left out; counted only while that of answers is.
    cpu: Duration,
}

impl ReplicaProcess {
    /// Runs what `start` spawns until it is killed. What ran before ends first.
    pub fn run(&self, start: impl Future<Output = ()> + 'static) {
        self.kill();
        let set = LocalSet::new();
        set.spawn_local(start);
        let life = {
            let mut inner = self.0.borrow_mut();
            inner.set = Some(Box::pin(set));
            inner.paused = false;
            inner.life
        };
        tokio::task::spawn_local(Driver { process: self.clone(), life });
    }

    /// Ends everything in it at once, wherever it stands.
    pub fn kill(&self) {
        // Dropped outside of the borrow: what ends may look at us.
        let set = {
            let mut inner = self.0.borrow_mut();
            inner.life += 1;
            inner.set.take()
        };
        drop(set);
        self.wake();
    }

    /// Nothing in it goes on until [`ReplicaProcess::resume`]; time does.
    pub fn pause(&self) {
        self.0.borrow_mut().paused = true;
    }

    /// It goes on where it stood.
    pub fn resume(&self) {
        self.0.borrow_mut().paused = false;
        self.wake();
    }

    /// True while something runs in it (paused or not).
    pub fn alive(&self) -> bool {
        self.0.borrow().set.is_some()
    }

    /// CPU time that it has taken in all its lives, answers to it left out; zero unless it is measured.
    pub fn cpu(&self) -> Duration {
        self.0.borrow().cpu
    }

    fn wake(&self) {
        if let Some(waker) = self.0.borrow_mut().waker.take() {
            waker.wake();
        }
    }
}

/// Polls the set as a task of the world's.
struct Driver {
    process: ReplicaProcess,
    life: u64,
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.process.0.borrow_mut();
        if inner.life != self.life {
            return Poll::Ready(());
        }
        inner.waker = Some(context.waker().clone());
        if inner.paused {
            return Poll::Pending;
        }
        let Some(mut set) = inner.set.take() else { return Poll::Ready(()) };
        // Not borrowed while it runs: what runs in it may pause or kill its own replica.
        drop(inner);
        let (done, took) = measured(|| set.as_mut().poll(context).is_ready());
        let mut inner = self.process.0.borrow_mut();
        inner.cpu += took;
        if done {
            return Poll::Ready(());
        }
        if inner.life != self.life {
            drop(inner);
            return Poll::Ready(());
        }
        inner.set = Some(set);
        Poll::Pending
    }
}

/// Does the work, and answers the CPU time that it took without that of answers; zero where that is not measured.
fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let Some(answers) = cpu::of_answers() else { return (work(), Duration::ZERO) };
    let begun = cpu::of_thread();
    let done = work();
    let answers = cpu::of_answers().unwrap_or_default().saturating_sub(answers);
    (done, cpu::of_thread().saturating_sub(begun).saturating_sub(answers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::Duration;

    async fn counter(count: Rc<Cell<u32>>) {
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                count.set(count.get() + 1);
            }
        });
        std::future::pending::<()>().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_paused_stands_still_and_what_is_killed_ends() {
        LocalSet::new()
            .run_until(async {
                let (process, count) = (ReplicaProcess::default(), Rc::new(Cell::new(0)));
                process.run(counter(count.clone()));
                tokio::time::sleep(Duration::from_millis(2500)).await;
                assert_eq!(count.get(), 2);
                process.pause();
                tokio::time::sleep(Duration::from_secs(10)).await;
                assert_eq!(count.get(), 2);
                process.resume();
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert!(count.get() >= 3);
                process.kill();
                let at_death = count.get();
                assert!(!process.alive());
                tokio::time::sleep(Duration::from_secs(10)).await;
                assert_eq!(count.get(), at_death);
                assert_eq!(Rc::strong_count(&count), 1, "what ran in it has been dropped");
            })
            .await;
    }
}
