//! Orders on their way to a launch; their phases are those of `dovetail_core::lifecycle::launch_phase`.
//!
//! ```text
//! enqueue ─► run ─► next (`refused`: whose turn) ─► price ─► admit ─► start ─► `launch::run` ─► ended, run
//!             │ sift: no pod needs it                          │ limits: not yet
//!             ▼                                                ▼
//!          NotMade: its pods may be planned anew             hold ─► let_go: NotMade, PackNow
//! ```
//!
//! Orders that waited for long are sifted before the next has its turn: pods that were bound elsewhere meanwhile need no
//! node. A price is asked for where a ceiling counts dollars alone. Limits come last, as they count what they allow.
//!
//! An example, with `MAX_COST_PER_HOUR` of 10 $ and 8 $/h running: orders a (1.50 $/h) and b (1 $/h) are priced at once, each
//! against the 8 $. a is admitted at 9.50 $ and counts with its 1.50 $. When b's price comes, what was committed
//! meanwhile is added: 8 + 1.50 + 1 is too much, and b is held for half a minute. Then its pods are packed anew.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::annotations::{LAUNCH_TOKEN, TERM};
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::{NominationTarget, Snapshot};
use dovetail_core::launch_backoff::Demand;
use dovetail_core::launch_limits::{AskedLaunch, PoolAndClass, Wait};
use dovetail_core::lifecycle;
use dovetail_core::lifecycle::launch_phase::LaunchPhase;
use dovetail_core::ownership::token::is_shared;
use dovetail_core::ownership::token_on;
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::Notify;

use super::record::Held;
use super::{Common, HOLD, Launcher, NEEDED_FOR, REPEAT_INTERVAL, launch};
use crate::context::alarms::Alarmed as _;
use crate::context::book::Key;
use crate::context::traces;
use crate::kube::woken::when_woken;
use crate::launcher::cost::cost_with;
use crate::launcher::facts::{origin, pool_of};
use crate::launcher::launch::Launching;
use crate::messages::{
    ClaimChanged, ClaimSoldOut, LaunchOrder, LauncherState, Observe, PackNow, TakeSnapshot, TraceContext, Wrote,
};
use crate::telemetry::log_event::LogEvent;

/// Orders that are to be launched, the oldest first.
#[derive(Default)]
pub(super) struct Queue {
    pub orders: VecDeque<Queued>,
    /// True while a snapshot is awaited to drop queued orders that no pod needs.
    sifting: bool,
    /// True once the launches before this term are known or no longer waited for.
    pub begun: bool,
    /// Wakes it for orders that wait for others.
    pub waking: Option<SpawnHandle>,
}

/// An order whose turn has not come.
pub(super) struct Queued {
    pub order: LaunchOrder,
    /// The packing that it comes from.
    pub trace: TraceContext,
    since: Timestamp,
    /// Last time at which it was known to be needed. Monotonic.
    needed: Duration,
}

impl Queued {
    pub fn name(&self) -> String {
        self.order.claim.name_any()
    }

    /// True if its claim exists already.
    pub fn is_there(&self) -> bool {
        self.order.claim.metadata.uid.is_some()
    }

    /// The demand of an order whose claim is to be made.
    pub fn demand(&self) -> Option<&Demand> {
        self.order.demand.as_ref().filter(|_| !self.is_there())
    }

    /// True if it is to be checked first that pods still need it.
    pub fn is_stale(&self, now: Duration) -> bool {
        !self.is_there() && now.saturating_sub(self.needed) >= NEEDED_FOR
    }
}

impl Queue {
    /// A claim is gone. Answers if an order was for that claim.
    pub fn drop_claim(&mut self, name: &str) -> bool {
        let before = self.orders.len();
        self.orders.retain(|one| !one.is_there() || one.name() != name);
        self.orders.len() < before
    }
}

impl Handler<Observe> for Launcher {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let state = LauncherState {
            queued: self.queue.orders.len(),
            running: self.running,
            ends: self.reports.ends.clone(),
            held: self.reports.held,
            begun: self.queue.begun,
        };
        MessageResult(state.into())
    }
}

impl Launcher {
    /// A claim without an instance that nobody here launches: its launch goes on where it stopped.
    pub(super) fn adopt(&mut self, name: &str, claim: &NodeClaim, ctx: &mut Context<Self>) {
        let trace = traces::of_packing(claim).unwrap_or_else(|| TraceContext::root(&mut self.rng));
        if let Some(term) = claim.annotations().get(TERM).filter(|term| **term != self.env.term.0.to_string()) {
            self.env.emit_in(LogEvent::TakenOver { node_claim: name.to_owned(), of_term: term.clone() }, trace);
        }
        self.enqueue(LaunchOrder { claim: claim.clone(), pods: 0, demand: None }, trace);
        self.run(ctx);
    }

    /// A claim that is being deleted and has a part in a call for several, and no instance: it is given its share of what came of
    /// the call, which nobody else could tell from the others'. That needs no room and counts nowhere.
    pub(super) fn look_for_share(&mut self, name: &str, claim: &NodeClaim, ctx: &mut Context<Self>) {
        let has_instance = claim.status.as_ref().is_some_and(|status| !status.provider_id.is_empty());
        if !lifecycle::is_deleting(claim) || has_instance || !token_on(claim).is_some_and(|token| is_shared(&token)) {
            return;
        }
        let trace = traces::of_packing(claim).unwrap_or_else(|| TraceContext::root(&mut self.rng));
        self.enter(name, LaunchPhase::Launching);
        self.running += 1;
        let order = LaunchOrder { claim: claim.clone(), pods: 0, demand: None };
        self.start(order, trace, self.env.wall(), ctx);
    }

    /// A claim is queued or launched at most once: from here on it is under way until it is freed.
    pub(super) fn enqueue(&mut self, order: LaunchOrder, trace: TraceContext) {
        let name = order.claim.name_any();
        if !self.is_under_way(&name) {
            self.enter(&name, LaunchPhase::Queued);
            // To be launched as long as somebody needs it: that is known for now, as it was just planned.
            let (since, needed) = (self.env.wall(), self.env.now());
            self.queue.orders.push_back(Queued { order, trace, since, needed });
        }
    }

    /// Lets launches begin: those before the term are known, or no longer waited for.
    pub(super) fn begin(&mut self, ctx: &mut Context<Self>) {
        self.queue.begun = true;
        self.run(ctx);
    }

    /// Begins launches until as many run as may, or none may begin.
    pub(super) fn run(&mut self, ctx: &mut Context<Self>) {
        if !self.env.skew().is_borne() {
            let now = self.env.now();
            return self.ring_in("run".to_owned(), now, NEEDED_FOR, ctx, Self::run);
        }
        // Those that have waited longest are not overtaken for longer than it takes to look.
        if self.running < self.at_once {
            self.sift(ctx);
        }
        while self.running < self.at_once {
            let Some(Queued { order, trace, since, .. }) = self.next(ctx) else { return };
            // Counted from here on: pricing is part of a launch, or any number would be priced at once.
            self.running += 1;
            // A claim that is there already, whoever has made it, is one more only where ceilings count.
            if order.claim.metadata.uid.is_some() && !self.limits.has_ceilings() {
                self.limits.futile.begun(&order.claim.name_any(), &pool_of(&order.claim));
                self.start(order, trace, since, ctx);
            } else if self.limits.asks_for_cost() {
                self.price(order, trace, since, ctx);
            } else {
                self.admit(order, trace, since, 0.0, ctx);
            }
        }
    }

    /// Looks which orders that have waited for long are still needed, if any have, and gives up the others.
    pub(super) fn sift(&mut self, ctx: &mut Context<Self>) {
        let now = self.env.now();
        if self.queue.sifting || !self.queue.begun || !self.queue.orders.iter().any(|one| one.is_stale(now)) {
            return;
        }
        self.queue.sifting = true;
        ctx.spawn(self.links.cluster.send(TakeSnapshot).into_actor(self).map(|known, launcher, ctx| {
            launcher.queue.sifting = false;
            // Until everything is known nothing is known of that.
            let Ok(Some(known)) = known else {
                let now = launcher.env.now();
                return launcher.ring_in("run".to_owned(), now, NEEDED_FOR, ctx, Self::run);
            };
            launcher.keep_needed(&known);
            launcher.run(ctx);
        }));
    }

    /// Gives up the stale orders that no pod is expected on. An order whose claim is there already is never stale.
    pub(super) fn keep_needed(&mut self, known: &Snapshot) {
        let (awaited, now) = (known.awaited(self.env.moment()), self.env.now());
        let static_capacity = self.env.settings.static_capacity();
        let is_needed = |one: &Queued| {
            let name = one.name();
            (static_capacity && known.is_replica(&name)) || awaited.contains(&NominationTarget::Claim(name))
        };
        self.give_up_orders(|one| one.is_stale(now) && !is_needed(one), false);
        self.queue.orders.iter_mut().filter(|one| one.is_stale(now)).for_each(|one| one.needed = now);
    }

    /// Orders that have not begun are void: whoever needs them has them packed anew.
    pub(super) fn give_up_orders(&mut self, is_meant: impl Fn(&Queued) -> bool, sold_out: bool) {
        let (meant, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.queue.orders).into_iter().partition(is_meant);
        self.queue.orders = others;
        for claim in meant.iter().map(Queued::name) {
            self.leave(&claim);
            if sold_out {
                self.env.post(&self.links.cluster, ClaimSoldOut { claim: claim.clone() });
            }
            self.env.post(&self.links.cluster, Wrote::NotMade(claim));
        }
    }

    /// Finds out what the launch would cost first.
    pub(super) fn price(&mut self, order: LaunchOrder, trace: TraceContext, since: Timestamp, ctx: &mut Context<Self>) {
        let before = self.committed();
        let cost = cost_with(self.links.clone(), order.claim.clone(), before.clone());
        let gone = self.enter(&order.claim.name_any(), LaunchPhase::Pricing);
        let pricing = async move {
            tokio::select! { biased; () = gone.notified() => None, cost = cost => Some(cost) }
        };
        ctx.spawn(when_woken(pricing).into_actor(self).map(move |cost, launcher, ctx| {
            let Some(cost) = cost else {
                // The claim is gone: nothing is launched for it, and nothing waits.
                launcher.running -= 1;
                launcher.free(&order.claim.name_any(), ctx);
                return launcher.run(ctx);
            };
            // A price that nobody knows is above every ceiling.
            let (all, own) = cost.unwrap_or((f64::INFINITY, 0.0));
            // Others may have been admitted meanwhile.
            let now = launcher.committed();
            let meanwhile: f64 =
                now.iter().filter(|(name, _)| !before.contains_key(*name)).map(|(_, price)| price).sum();
            launcher.known.open(&Key::Claim(order.claim.name_any())).price = Some(own);
            launcher.admit(order, trace, since, all + meanwhile + own, ctx);
            launcher.run(ctx);
        }));
    }

    /// Asks the limits with the cost of all in $/h; a launch that has to wait is held, its pods with it.
    pub(super) fn admit(
        &mut self,
        order: LaunchOrder,
        trace: TraceContext,
        since: Timestamp,
        cost: f64,
        ctx: &mut Context<Self>,
    ) {
        let ask = AskedLaunch { claim: order.claim.name_any(), origin: origin(&order.claim), cost };
        let is_there = order.claim.metadata.uid.is_some();
        let asked = match is_there {
            true => self.limits.ask_for_present(&ask, self.env.now()),
            false => self.limits.ask(&ask, self.env.now()),
        };
        match asked {
            Ok(()) => self.start(order, trace, since, ctx),
            Err(wait) => self.hold(&order, &wait, trace, ctx),
        }
    }

    /// Launches; the answer comes to `ended`, and the next order has its turn.
    pub(super) fn start(&mut self, order: LaunchOrder, trace: TraceContext, since: Timestamp, ctx: &mut Context<Self>) {
        let name = order.claim.name_any();
        // Before the call: whether it created the claim may never be known, and then it may still come.
        if order.claim.metadata.uid.is_none() {
            self.creations.begin(&name, self.env.now());
        }
        let inside = traces::of_claim(trace, &name);
        // A successor's attempt is another span beside the one that was cut off.
        let own = inside.inner("launch", &self.env.term.0.to_string());
        let gone = self.enter(&name, LaunchPhase::Launching);
        let launching = self.launching(own, inside, since, gone);
        // One that is to be looked for first comes to a call in a minute, if at all.
        let way = token_on(&order.claim).is_none().then(|| self.common.merging.begin(origin(&order.claim)));
        let run = when_woken(launch::run(launching, order, way)).into_actor(self);
        ctx.spawn(run.map(move |(end, outcome, price), launcher, ctx| {
            launcher.come_to(&name, &end, &outcome, price);
            launcher.ended(&name, end, &outcome, trace, ctx);
            launcher.run(ctx);
        }));
    }

    /// Surroundings of a launch, or of what takes a claim back.
    pub(super) fn launching(
        &self,
        trace: TraceContext,
        inside: TraceContext,
        since: Timestamp,
        gone: Arc<Notify>,
    ) -> Launching {
        let (env, links, common) = (self.env.clone(), self.links.clone(), self.common.clone());
        let Common { own, failures: reported, merging } = common;
        Launching { env, links, own, trace, inside, since, gone, reported, merging, behind: self.queue.orders.len() }
    }

    /// The order waits for a limit, its pods with it.
    pub(super) fn hold(&mut self, order: &LaunchOrder, wait: &Wait, trace: TraceContext, ctx: &mut Context<Self>) {
        let (name, node_pool, now) = (order.claim.name_any(), pool_of(&order.claim), self.env.now());
        self.running -= 1;
        self.refused.backoff.withdrawn(&name);
        if self.reports.lines.is_due((node_pool.clone(), wait.reason()), (), now, REPEAT_INTERVAL) {
            let (reason, message) = (wait.reason().to_owned(), wait.to_string());
            self.say_pool_held(&order.claim, wait);
            self.env.emit_in(LogEvent::LaunchHeld { node_pool, reason, message }, trace);
        }
        let trial = matches!(wait, Wait::Unregistered { .. }).then(|| origin(&order.claim));
        let alarm = self.let_go_in(&name, HOLD, ctx);
        let claim = order.claim.metadata.uid.as_ref().map(|_| Arc::new(order.claim.clone()));
        if let Some(claim) = &claim {
            self.say_held(claim, wait, ctx);
        }
        self.keep_held(&name, Held { trace, trial, claim, demand: None, alarm });
    }

    pub(super) fn let_go_in(&self, name: &str, pause: Duration, ctx: &mut Context<Self>) -> SpawnHandle {
        let own = name.to_owned();
        ctx.run_later(pause, move |launcher, ctx| launcher.let_go(&own, ctx))
    }

    /// An order may not be launched yet.
    pub(super) fn keep_held(&mut self, name: &str, held: Held) {
        self.reports.held += 1;
        self.enter(name, LaunchPhase::Held);
        let own = self.known.open(&Key::claim(name));
        (own.held, own.price) = (Some(held), None);
    }

    /// An order waits no longer: its pods are packed anew, as the world may have changed; a claim that is there is asked for again,
    /// as it is now.
    pub(super) fn let_go(&mut self, name: &str, ctx: &mut Context<Self>) {
        let Some(held) = self.known.get_mut(&Key::claim(name)).and_then(|own| own.held.take()) else { return };
        let observed = self.leave(name);
        if let Some(claim) = held.claim {
            return self.handle(ClaimChanged(observed.unwrap_or(claim)), ctx);
        }
        // In this order: the packing that follows must no longer count on the claim.
        self.env.post(&self.links.cluster, Wrote::NotMade(name.to_owned()));
        self.env.post(&self.links.packer, PackNow::after(self.env.term, held.trace));
    }

    /// Releases the claims that wait for this trial: another one of its pool and class may begin, or none is needed.
    pub(super) fn go_on(&mut self, trial: &PoolAndClass, ctx: &mut Context<Self>) {
        self.release(|held| held.trial.as_ref() == Some(trial), ctx);
    }

    /// Releases the orders that are meant from their wait.
    pub(super) fn release(&mut self, is_meant: impl Fn(&Held) -> bool, ctx: &mut Context<Self>) {
        for name in self.held(is_meant) {
            if let Some(held) = self.known.get(&Key::claim(&name)).and_then(|own| own.held.as_ref()) {
                ctx.cancel_future(held.alarm);
            }
            self.let_go(&name, ctx);
        }
    }

    /// A claim was not created, or nobody knows: what has come of it all the same is taken back, and what was planned with it and
    /// has not been begun is planned anew, as the world may be another.
    pub(super) fn give_up_plans(&mut self, name: &str) {
        self.creations.give_up(name);
        let made =
            |claim: &Arc<NodeClaim>| !lifecycle::is_deleting(claim) && claim.annotations().get(LAUNCH_TOKEN).is_none();
        let own = self.known.open(&Key::claim(name));
        if let Some(made) = own.observed.clone().filter(made) {
            own.late = Some(made);
        }
        self.give_up_orders(|one| !one.is_there(), false);
    }

    /// Ends the work on claims of this name, and takes back one that came late meanwhile.
    pub(super) fn free(&mut self, name: &str, ctx: &mut Context<Self>) {
        let late = self.known.get_mut(&Key::claim(name)).and_then(|own| own.late.take());
        self.leave(name);
        if let Some(late) = late {
            self.take_back(name, late, ctx);
        }
    }
}
