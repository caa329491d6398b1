//! Orders whose launches are refused: which may begin, which wait, and what packing learns of it. When is decided by
//! `dovetail_core::launch_backoff` (docs/decisions/038).
//!
//! An example: EC2 denies what a pool asks for, and twenty orders of that pool are queued.
//! 1. The first fails. The others are given back (`NotMade`), and packing leaves the pool out while it is closed (`ClosedPools`).
//! 2. Their pods are packed for other pools, or stay unschedulable with that reason.
//! 3. When the pause is over the pool opens, packing is asked, and one order is tried. The others wait (`AfterOthers`).
//! 4. Where it fails, the next pause is longer. Where it is launched, the pods of those that wait are packed anew at once.

use std::collections::VecDeque;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::launch_backoff::{BackoffCause, Demand, LaunchOutcome, LaunchVerdict};
use kube::ResourceExt;

use super::{Held, Launcher, Queued, REPEAT_INTERVAL};
use crate::launcher::facts::pool_of;
use crate::messages::{ClaimSoldOut, ClosedPools, LaunchFails, PackNow, TraceContext, Wrote};
use crate::telemetry::log_event::LogEvent;

/// Orders that wait for others are looked at again after this long at the latest.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Handler<LaunchFails> for Launcher {
    type Result = ();

    fn handle(&mut self, fails: LaunchFails, ctx: &mut Self::Context) {
        let (now, jitter) = (self.env.now(), self.jitter.f64());
        let demand = self.refusals.demand(&fails.claim);
        self.refusals.fails(&fails.claim, BackoffCause::Call(fails.reason), &fails.words, now, jitter);
        if let Some(demand) = demand {
            self.give_back(|other| other.pool == demand.pool, false);
            self.env.post(&self.links.packer, PackNow::after(self.env.term, fails.trace));
        }
        self.close_pools(ctx);
    }
}

impl Launcher {
    /// The next order: without ceilings one for a claim that is there while it is not known what was launched before, and one that
    /// was known to be needed of late and whose launch is not likely to be refused.
    pub(super) fn next(&mut self, ctx: &mut Context<Self>) -> Option<Queued> {
        let now = self.env.now();
        let (mut chosen, mut waits, mut after_others) = (None, Vec::new(), false);
        for (at, one) in self.queue.iter().enumerate() {
            let may_begin = match one.is_there() {
                true => self.begun || !self.limits.has_ceilings(),
                false => self.begun && !one.is_stale(now),
            };
            if !may_begin {
                continue;
            }
            let demand = one.order.demand.as_ref().filter(|_| !one.is_there());
            match demand.map_or(LaunchVerdict::Go, |demand| self.refusals.ask(demand, now)) {
                LaunchVerdict::Go => {
                    let refusals = demand.map_or(0, |demand| self.refusals.refusals_of_shape(demand));
                    if chosen.is_none_or(|(least, _)| refusals < least) {
                        chosen = Some((refusals, at));
                    }
                    // The oldest that nothing speaks against: nobody further back is better.
                    if refusals == 0 {
                        break;
                    }
                }
                LaunchVerdict::AfterOthers => after_others = true,
                LaunchVerdict::Wait { until, cause } => waits.push((at, until, cause)),
            }
        }
        if after_others && self.waking.is_none() {
            self.waking = Some(ctx.run_later(CHECK_INTERVAL, |launcher, ctx| {
                launcher.waking = None;
                launcher.run(ctx);
            }));
        }
        let chosen = chosen.and_then(|(_, at)| self.queue.remove(at).map(|one| (at, one)));
        // From the back, so that the places of those in front stay as they are.
        for (at, until, cause) in waits.into_iter().rev() {
            // Those behind the chosen one have moved up.
            let at = if chosen.as_ref().is_some_and(|(gone, _)| *gone < at) { at - 1 } else { at };
            if let Some(one) = self.queue.remove(at) {
                self.hold_back(one, until, cause, ctx);
            }
        }
        let (_, one) = chosen?;
        if let Some(demand) = one.order.demand.as_ref().filter(|_| !one.is_there()) {
            self.refusals.begin(&one.order.claim.name_any(), demand, now);
            self.close_pools(ctx);
        }
        Some(one)
    }

    /// The order waits, its pods with it.
    fn hold_back(&mut self, one: Queued, until: Duration, cause: BackoffCause, ctx: &mut Context<Self>) {
        let (name, now) = (one.order.claim.name_any(), self.env.now());
        self.held += 1;
        self.tell_held(&pool_of(&one.order.claim), cause, one.trace);
        let pause = until.saturating_sub(now);
        let own = name.clone();
        let alarm = ctx.run_later(pause, move |launcher, ctx| launcher.let_go(&own, ctx));
        self.waiting.insert(name, Held { trace: one.trace, trial: None, claim: None, demand: one.order.demand, alarm });
    }

    fn tell_held(&mut self, node_pool: &str, cause: BackoffCause, trace: TraceContext) {
        if !self.reported.is_due((node_pool.to_owned(), cause.name()), (), self.env.now(), REPEAT_INTERVAL) {
            return;
        }
        let (node_pool, reason) = (node_pool.to_owned(), cause.name().to_owned());
        let message = format!("{cause}; one at a time is tried, after growing pauses");
        self.env.emit_in(LogEvent::LaunchHeld { node_pool, reason, message }, trace);
    }

    /// Applies the outcome of a launch to other claims.
    pub(super) fn learn(&mut self, name: &str, outcome: &LaunchOutcome, ctx: &mut Context<Self>) {
        let (now, jitter) = (self.env.now(), self.jitter.f64());
        let Some(demand) = self.refusals.ended(name, outcome, now, jitter) else { return };
        match outcome {
            // Those that ask for as much or more, and nowhere else: others may still find something.
            LaunchOutcome::SoldOut => self.give_back(|other| demand.covers(other), true),
            LaunchOutcome::Refused(..) if self.refusals.closed(now).contains_key(&demand.pool) => {
                self.give_back(|other| other.pool == demand.pool, false);
            }
            // The first refusal of this shape: the pool's other shapes may be fine.
            LaunchOutcome::Refused(..) => {
                self.give_back(|other| other.pool == demand.pool && other.shape == demand.shape, false);
            }
            LaunchOutcome::Launched => {
                let freed = |held: &Held| held.demand.as_ref().is_some_and(|other| other.pool == demand.pool);
                let freed: Vec<_> =
                    self.waiting.iter().filter(|(_, held)| freed(held)).map(|(name, _)| name.clone()).collect();
                self.release(freed, ctx);
            }
            LaunchOutcome::Vanished | LaunchOutcome::Other => {}
        }
        self.close_pools(ctx);
    }

    /// A claim has been created: others of its pool may be.
    pub(super) fn was_created(&mut self, name: &str, ctx: &mut Context<Self>) {
        if self.refusals.created(name, self.env.now()) {
            self.close_pools(ctx);
            self.run(ctx);
        }
    }

    /// Orders that have not begun are void: whoever asks again has them packed anew.
    fn give_back(&mut self, which: impl Fn(&Demand) -> bool, sold_out: bool) {
        let is_meant = |one: &Queued| !one.is_there() && one.order.demand.as_ref().is_some_and(&which);
        let (meant, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.queue).into_iter().partition(is_meant);
        self.queue = others;
        for name in meant.iter().map(|one| one.order.claim.name_any()) {
            if sold_out {
                self.env.post(&self.links.cluster, ClaimSoldOut { claim: name.clone() });
            }
            self.busy.remove(&name);
            self.env.post(&self.links.cluster, Wrote::NotMade(name));
        }
    }

    /// Packing is told which pools it leaves out, and is asked again when that changes.
    fn close_pools(&mut self, ctx: &mut Context<Self>) {
        let now = self.env.now();
        let closed = self.refusals.closed(now);
        if closed == self.closed {
            return;
        }
        // Packing asks by itself when pools are closed, as their orders were given back. Nobody asks when one opens.
        let opened = self.closed.keys().any(|pool| !closed.contains_key(pool));
        let next = closed.values().map(|one| one.until).min();
        self.closed.clone_from(&closed);
        self.env.post(&self.links.cluster, ClosedPools { closed });
        if let Some(alarm) = self.opening.take() {
            ctx.cancel_future(alarm);
        }
        if let Some(next) = next {
            let alarm = ctx.run_later(next.saturating_sub(now), |launcher, ctx| {
                launcher.opening = None;
                launcher.close_pools(ctx);
            });
            self.opening = Some(alarm);
        }
        if opened {
            let trace = TraceContext::root(&mut self.rng);
            self.env.post(&self.links.packer, PackNow::after(self.env.term, trace));
        }
    }
}
