//! A future that is polled only when it has asked for it.
//!
//! An actor's context polls everything spawned on it whenever any of it, or a message, wakes the actor. For what is
//! deep and mostly waits that costs more than what it does when its turn has come.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// Polls a future only when its own waker was called, whatever else its task is woken for.
pub struct WhenWoken<F> {
    inner: Pin<Box<F>>,
    signal: Arc<Signal>,
    waker: Waker,
}

/// Waker of the inner future: notes that it was woken and wakes the outer task.
struct Signal {
    woken: AtomicBool,
    outer: AtomicWaker,
}

/// Wraps a future so that it is polled only after it was woken.
pub fn when_woken<F: Future>(inner: F) -> WhenWoken<F> {
    let signal = Arc::new(Signal { woken: AtomicBool::new(true), outer: AtomicWaker::new() });
    WhenWoken { inner: Box::pin(inner), waker: Waker::from(Arc::clone(&signal)), signal }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.outer.wake();
    }
}

impl<F: Future> Future for WhenWoken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Registered before looking, so that no wake falls between looking and waiting.
        self.signal.outer.register(context.waker());
        if !self.signal.woken.swap(false, Ordering::Acquire) {
            return Poll::Pending;
        }
        let waker = self.waker.clone();
        self.inner.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use futures::future::{join, poll_fn};

    #[tokio::test(start_paused = true)]
    async fn it_is_polled_when_woken_and_not_when_its_neighbour_is() {
        let polls = Rc::new(Cell::new(0));
        let counted = {
            let polls = polls.clone();
            let mut sleep = Box::pin(tokio::time::sleep(Duration::from_secs(10)));
            poll_fn(move |context| {
                polls.set(polls.get() + 1);
                sleep.as_mut().poll(context)
            })
        };
        let neighbour = async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        join(when_woken(counted), neighbour).await;
        assert_eq!(polls.get(), 2, "once at the beginning and once when its time has come");
    }
}
