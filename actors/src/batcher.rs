//! Lets pending pods wait for company: the window of `dovetail_core::window` with an alarm clock.
//!
//! At the mailbox's bound: a message is a uid; the window keeps each once.

use std::time::Duration;

use actix::prelude::*;
use dovetail_core::window::{Window, WindowInput, WindowOutput, WindowSettings};
use jiff::Timestamp;
use serde_json::json;

use crate::desk::Desk;
use crate::messages::{Batch, Observe, PodBound, PodGone, PodPending, TraceContext};
use crate::span::names;

/// See the module.
pub struct Batcher {
    desk: Desk,
    packer: Recipient<Batch>,
    window: Window,
    /// Trace of the pod that opened the window, and when.
    trace: Option<(TraceContext, Timestamp)>,
    alarm: Option<SpawnHandle>,
    batches: u64,
}

impl Batcher {
    /// A shut window before the packer.
    pub fn new(desk: &Desk, packer: Recipient<Batch>) -> Self {
        let own = &desk.settings;
        let settings =
            WindowSettings { idle: own.batch_idle, max: own.batch_max, pace: own.batch_by_pace, most: own.batch_most };
        let desk = desk.of("batcher");
        Self { desk, packer, window: Window::new(settings), trace: None, alarm: None, batches: 0 }
    }
}

impl Actor for Batcher {
    type Context = Context<Self>;
}

impl Handler<PodPending> for Batcher {
    type Result = ();

    fn handle(&mut self, pod: PodPending, ctx: &mut Self::Context) {
        if self.window.is_empty() {
            self.trace = Some((pod.trace, self.desk.wall()));
        }
        let input = match pod.waited {
            Some(waited) => WindowInput::Waited(&pod.uid, waited),
            None => WindowInput::Pending(&pod.uid),
        };
        self.step(input, ctx);
    }
}

impl Handler<PodGone> for Batcher {
    type Result = ();

    fn handle(&mut self, pod: PodGone, ctx: &mut Self::Context) {
        self.step(WindowInput::Gone(&pod.uid), ctx);
    }
}

impl Handler<PodBound> for Batcher {
    type Result = ();

    fn handle(&mut self, pod: PodBound, ctx: &mut Self::Context) {
        self.step(WindowInput::Gone(&pod.uid), ctx);
    }
}

impl Handler<Observe> for Batcher {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({"inWindow": self.window.len(), "batches": self.batches}))
    }
}

impl Batcher {
    fn step(&mut self, input: WindowInput<'_>, ctx: &mut Context<Self>) {
        let now = self.desk.now();
        match self.window.step(input, now) {
            WindowOutput::Nothing => {}
            WindowOutput::WakeAt(due) => self.wake_in(due.saturating_sub(now), ctx),
            WindowOutput::Close(closed) => {
                let Some((trace, opened)) = self.trace.take() else { return };
                self.batches += 1;
                let span = self.desk.span(trace, "batch", &opened.to_string()).since(opened);
                let trace = span.context();
                span.with(names::PODS, closed.pods.len()).end();
                self.desk.post(
                    &self.packer,
                    Batch {
                        term: self.desk.term,
                        pods: closed.pods.into_iter().collect(),
                        waited: closed.closed.saturating_sub(closed.opened),
                        trace,
                    },
                );
            }
        }
    }

    fn wake_in(&mut self, pause: Duration, ctx: &mut Context<Self>) {
        if let Some(alarm) = self.alarm.take() {
            ctx.cancel_future(alarm);
        }
        // A clock that drifts against tokio's may wake a little early: never spin.
        let pause = pause.max(Duration::from_millis(1));
        self.alarm = Some(ctx.run_later(pause, |batcher, ctx| {
            batcher.alarm = None;
            batcher.step(WindowInput::Time, ctx);
        }));
    }
}
