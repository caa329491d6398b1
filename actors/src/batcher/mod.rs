//! Lets pending pods wait for company: the windows of `dovetail_core::window::by_namespace` with an alarm clock.
//!
//! At the mailbox's bound: a message is a uid; a window keeps each once.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::window::by_namespace::{Batched, WindowStep, Windows};
use dovetail_core::window::{WindowInput, WindowSettings};
use jiff::Timestamp;

use crate::context::env::Env;
use crate::messages::{Batch, BatcherState, Observe, PodBound, PodGone, PodPending, TraceContext};
use crate::telemetry::span::names;

/// Holds pending pods for the batch window of their namespace, then hands them to `packer` as one batch.
pub struct Batcher {
    env: Env,
    packer: Recipient<Batch>,
    windows: Windows,
    /// By namespace, when its window was opened, and the trace of the pod that opened it.
    traces: BTreeMap<String, (Timestamp, TraceContext)>,
    alarm: Option<SpawnHandle>,
    batches: u64,
}

impl Batcher {
    /// No window is open before the packer.
    pub fn new(env: &Env, packer: Recipient<Batch>) -> Self {
        let own = &env.settings;
        let settings =
            WindowSettings { idle: own.batch_idle, max: own.batch_max, pace: own.batch_by_pace, most: own.batch_most };
        let env = env.for_actor("batcher");
        Self { env, packer, windows: Windows::new(settings), traces: BTreeMap::new(), alarm: None, batches: 0 }
    }
}

impl Actor for Batcher {
    type Context = Context<Self>;
}

impl Handler<PodPending> for Batcher {
    type Result = ();

    fn handle(&mut self, pod: PodPending, ctx: &mut Self::Context) {
        if self.windows.is_shut(&pod.namespace) {
            self.traces.insert(pod.namespace.clone(), (self.env.wall(), pod.trace));
        }
        let input = match pod.waited {
            Some(waited) => WindowInput::Waited(&pod.uid, waited),
            None => WindowInput::Pending(&pod.uid),
        };
        let step = self.windows.join(&pod.namespace, input, self.env.now());
        self.act(step, ctx);
    }
}

impl Handler<PodGone> for Batcher {
    type Result = ();

    fn handle(&mut self, pod: PodGone, _: &mut Self::Context) {
        self.leave(&pod.uid);
    }
}

impl Handler<PodBound> for Batcher {
    type Result = ();

    fn handle(&mut self, pod: PodBound, _: &mut Self::Context) {
        self.leave(&pod.uid);
    }
}

impl Handler<Observe> for Batcher {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(BatcherState { in_window: self.windows.len(), batches: self.batches }.into())
    }
}

impl Batcher {
    fn leave(&mut self, uid: &str) {
        self.windows.leave(uid, self.env.now());
        self.traces.retain(|namespace, _| !self.windows.is_shut(namespace));
    }

    fn act(&mut self, step: WindowStep, ctx: &mut Context<Self>) {
        if let Some(batched) = step.batch {
            self.send_batch(batched);
        }
        if let Some(due) = step.wake {
            self.wake_in(due.saturating_sub(self.env.now()), ctx);
        }
    }

    /// The batch goes on in the trace of the pod that has waited longest.
    fn send_batch(&mut self, Batched { batch, namespaces }: Batched) {
        let opened: Vec<_> = namespaces.iter().filter_map(|namespace| self.traces.remove(namespace)).collect();
        let Some((opened, trace)) = opened.into_iter().min_by_key(|(opened, _)| *opened) else { return };
        self.batches += 1;
        let span = self.env.span(trace, "batch", &opened.to_string()).since(opened);
        let trace = span.context();
        span.with(names::PODS, batch.pods.len()).end();
        let waited = batch.closed.saturating_sub(batch.opened);
        let pods = batch.pods.into_iter().collect();
        self.env.post(&self.packer, Batch { term: self.env.term, pods, waited, trace });
    }

    fn wake_in(&mut self, pause: Duration, ctx: &mut Context<Self>) {
        if let Some(alarm) = self.alarm.take() {
            ctx.cancel_future(alarm);
        }
        // A clock that drifts against tokio's may wake a little early: never spin.
        let pause = pause.max(Duration::from_millis(1));
        self.alarm = Some(ctx.run_later(pause, |batcher, ctx| {
            batcher.alarm = None;
            let step = batcher.windows.tick(batcher.env.now());
            batcher.act(step, ctx);
        }));
    }
}
