//! Orders whose launches are refused: which may begin, which wait, and what packing learns of it. When is decided by
//! `dovetail_core::launch_backoff` (docs/decisions/038).
//!
//! An example: EC2 denies what a pool asks for, and twenty orders of that pool are queued.
//! 1. The first fails. The others are given back (`NotMade`), and packing leaves the pool out while it is closed (`ClosedPools`).
//! 2. Their pods are packed for other pools, or stay unschedulable with that reason.
//! 3. When the pause is over the pool opens, packing is asked, and one order is tried. The others wait (`AfterOthers`).
//! 4. Where it fails, the next pause is longer. Where it is launched, the pods of those that wait are packed anew at once.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::launch_backoff::{BackoffCause, ClosedPool, Demand, LaunchBackoff, LaunchOutcome, LaunchTurn};

use super::queue::Queued;
use super::record::Held;
use super::{Launcher, REPEAT_INTERVAL};
use crate::launcher::facts::pool_of;
use crate::messages::{ClosedPools, LaunchFails, PackNow, TraceContext};
use crate::telemetry::log_event::LogEvent;

/// Orders that wait for others are looked at again after this long at the latest.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Refused demands, and the times at which they are tried again.
pub(super) struct Refused {
    pub backoff: LaunchBackoff,
    /// Pools that packing was told to leave out.
    closed: BTreeMap<String, ClosedPool>,
    /// Wakes it when the first of them is tried again.
    opening: Option<SpawnHandle>,
    jitter: fastrand::Rng,
}

impl Refused {
    pub fn new(jitter: fastrand::Rng) -> Self {
        Self { backoff: LaunchBackoff::default(), closed: BTreeMap::new(), opening: None, jitter }
    }
}

impl Handler<LaunchFails> for Launcher {
    type Result = ();

    fn handle(&mut self, fails: LaunchFails, ctx: &mut Self::Context) {
        let (now, jitter) = (self.env.now(), self.refused.jitter.f64());
        let demand = self.refused.backoff.demand(&fails.claim);
        self.refused.backoff.fails(&fails.claim, BackoffCause::Call(fails.reason), &fails.words, now, jitter);
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
        let may_begin = |one: &Queued| match one.is_there() {
            true => self.queue.begun || !self.limits.has_ceilings(),
            false => self.queue.begun && !one.is_stale(now),
        };
        let orders = self.queue.orders.iter().enumerate().filter(|(_, one)| may_begin(one));
        let LaunchTurn { next, held, after_others } =
            self.refused.backoff.turn(orders.map(|(at, one)| (at, one.demand())), now);
        if after_others && self.queue.waking.is_none() {
            self.queue.waking = Some(ctx.run_later(CHECK_INTERVAL, |launcher, ctx| {
                launcher.queue.waking = None;
                launcher.run(ctx);
            }));
        }
        let chosen = next.and_then(|at| self.queue.orders.remove(at).map(|one| (at, one)));
        // From the back, so that the places of those in front stay as they are.
        for (at, until, cause) in held.into_iter().rev() {
            // Those behind the chosen one have moved up.
            let at = if chosen.as_ref().is_some_and(|(gone, _)| *gone < at) { at - 1 } else { at };
            if let Some(one) = self.queue.orders.remove(at) {
                self.hold_back(one, until, cause, ctx);
            }
        }
        let (_, one) = chosen?;
        if let Some(demand) = one.demand() {
            self.refused.backoff.begin(&one.name(), demand, now);
            self.close_pools(ctx);
        }
        Some(one)
    }

    /// The order waits for a pool or demand that is refused to be tried again, its pods with it.
    fn hold_back(&mut self, one: Queued, until: Duration, cause: BackoffCause, ctx: &mut Context<Self>) {
        self.tell_held(&pool_of(&one.order.claim), cause, one.trace);
        let name = one.name();
        let alarm = self.let_go_in(&name, until.saturating_sub(self.env.now()), ctx);
        self.keep_held(&name, Held { trace: one.trace, trial: None, claim: None, demand: one.order.demand, alarm });
    }

    fn tell_held(&mut self, node_pool: &str, cause: BackoffCause, trace: TraceContext) {
        if !self.reports.lines.is_due((node_pool.to_owned(), cause.name()), (), self.env.now(), REPEAT_INTERVAL) {
            return;
        }
        let (node_pool, reason) = (node_pool.to_owned(), cause.name().to_owned());
        let message = format!("{cause}; one at a time is tried, after growing pauses");
        self.env.emit_in(LogEvent::LaunchHeld { node_pool, reason, message }, trace);
    }

    /// Applies the outcome of a launch to other claims.
    pub(super) fn learn(&mut self, name: &str, outcome: &LaunchOutcome, ctx: &mut Context<Self>) {
        let (now, jitter) = (self.env.now(), self.refused.jitter.f64());
        let Some(demand) = self.refused.backoff.ended(name, outcome, now, jitter) else { return };
        match outcome {
            // Those that ask for as much or more, and nowhere else: others may still find something.
            LaunchOutcome::SoldOut => self.give_back(|other| demand.covers(other), true),
            LaunchOutcome::Refused(..) if self.refused.backoff.closed(now).contains_key(&demand.pool) => {
                self.give_back(|other| other.pool == demand.pool, false);
            }
            // The first refusal of this shape: the pool's other shapes may be fine.
            LaunchOutcome::Refused(..) => {
                self.give_back(|other| other.pool == demand.pool && other.shape == demand.shape, false);
            }
            LaunchOutcome::Launched => {
                self.release(|held| held.demand.as_ref().is_some_and(|other| other.pool == demand.pool), ctx);
            }
            LaunchOutcome::Vanished | LaunchOutcome::Other => {}
        }
        self.close_pools(ctx);
    }

    /// A claim has been created: others of its pool may be.
    pub(super) fn was_created(&mut self, name: &str, ctx: &mut Context<Self>) {
        if self.refused.backoff.created(name, self.env.now()) {
            self.close_pools(ctx);
            self.run(ctx);
        }
    }

    fn give_back(&mut self, is_meant: impl Fn(&Demand) -> bool, sold_out: bool) {
        self.give_up_orders(|one| one.demand().is_some_and(&is_meant), sold_out);
    }

    /// Packing is told which pools it leaves out, and is asked again when that changes.
    fn close_pools(&mut self, ctx: &mut Context<Self>) {
        let now = self.env.now();
        let closed = self.refused.backoff.closed(now);
        if closed == self.refused.closed {
            return;
        }
        // Packing asks by itself when pools are closed, as their orders were given back. Nobody asks when one opens.
        let opened = self.refused.closed.keys().any(|pool| !closed.contains_key(pool));
        let next = closed.values().map(|one| one.until).min();
        self.refused.closed.clone_from(&closed);
        self.env.post(&self.links.cluster, ClosedPools { closed });
        if let Some(alarm) = self.refused.opening.take() {
            ctx.cancel_future(alarm);
        }
        if let Some(next) = next {
            let alarm = ctx.run_later(next.saturating_sub(now), |launcher, ctx| {
                launcher.refused.opening = None;
                launcher.close_pools(ctx);
            });
            self.refused.opening = Some(alarm);
        }
        if opened {
            let trace = TraceContext::root(&mut self.rng);
            self.env.post(&self.links.packer, PackNow::after(self.env.term, trace));
        }
    }
}
