//! Decides which nodes to launch: takes a snapshot and the catalogue, has the solver compute, plans claims and hands
//! them to the launcher. One packing at a time, off the mailbox; what is asked for meanwhile is merged into the next.
//! The cluster state hears of a plan before anything is created and before the next snapshot is taken: nothing is
//! planned twice. Pods on nodes that are leaving are packed with those that wait, without a window, and their places
//! kept until they have gone.
//!
//! At the mailbox's bound: requests merge, so that at most one waits however many come.

mod committed;
mod devices;
mod gangs;
mod packing;
mod report;
mod request;
mod rise;
mod solving;
mod spot_share;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{NominationTarget, Planning, PlanningInput};
use dovetail_core::pod_groups::take_out_short;
use dovetail_core::price_rise::FirstPrices;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::context::brakes::repeats::Repeats;
use crate::context::env::Env;
use crate::context::plan::{Plans, request_drivers};
use crate::context::solver::Solver;
use crate::context::traces;
use crate::links::{ToCatalogue, ToClusterWatcher, ToLauncher, ToRecorder, ToRegistrar, ToTerminator};
use crate::messages::{
    Batch, LaunchClaims, Observe, PackNow, PackerState, PlanClaims, Planned, TraceContext, WorldChanged,
};
use crate::packer::gangs::PackerGangs;
use crate::packer::packing::PackerFailures;
use crate::telemetry::log_event::LogEvent;
use request::Request;
use solving::{Solved, compute};

/// Interval at which pods that wait too long for kube-scheduler are checked (core spec 0.2).
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after a change before the packer packs, as changes come in bursts.
const SETTLING_TIME: Duration = Duration::from_millis(200);
/// Pods whose place kube-scheduler has given to others wait this long for those to whom the same happens: it is at it.
const PLACES_LOST_PAUSE: Duration = Duration::from_secs(1);
/// Most names that a log line gives.
const NAMES_LISTED: usize = 20;
/// Minimum time between two FailedScheduling events of one pod (core spec 7.2).
const FAILURE_REPEAT_INTERVAL: Duration = Duration::from_secs(300);

/// Addresses that the packer sends to.
#[derive(Clone)]
pub struct PackerLinks {
    /// For snapshots and plans.
    pub cluster: ToClusterWatcher,
    /// For instance types.
    pub catalogue: ToCatalogue,
    /// For claims.
    pub launcher: ToLauncher,
    /// For pods expected.
    pub registrar: ToRegistrar,
    /// For nodes of gangs that are given back.
    pub terminator: ToTerminator,
    /// For events.
    pub recorder: ToRecorder,
}

/// Packs batches and pods that have to move, orders launches, and reports what stays pending.
pub struct Packer {
    env: Env,
    links: PackerLinks,
    solver: Arc<dyn Solver>,
    rng: fastrand::Rng,
    solving: bool,
    queued: Option<Request>,
    /// Time of the next reaction to changes, and its timer.
    settling: Option<(Duration, SpawnHandle)>,
    /// Pods whose window has closed and that are not bound yet.
    handled: Arc<BTreeSet<String>>,
    /// Handled pods whose window closed after the latest computation began: it does not include them.
    since: BTreeSet<String>,
    /// Pods left over by the last packing, and what was said of each.
    left_over: BTreeMap<String, String>,
    skipped: BTreeMap<String, String>,
    /// Pods, by uid, that were packed without what they prefer in the last packing.
    relaxed: BTreeSet<String>,
    /// Lines of the log that would repeat themselves.
    repeats: Repeats,
    /// Pods that packing fails with.
    failures: PackerFailures,
    /// True if nodes were leaving at the last look.
    deleting: bool,
    packings: u64,
    /// The price of the first plan for each pod.
    first_prices: FirstPrices,
    gangs: PackerGangs,
    /// Time of the last comparison of a packing with another policy. Monotonic.
    compared: Option<Duration>,
}

impl Packer {
    /// A packer that has packed nothing.
    pub fn new(env: &Env, links: PackerLinks, solver: Arc<dyn Solver>) -> Self {
        let env = env.for_actor("packer");
        let rng = env.rng("names");
        let failures = PackerFailures::new(&env, links.recorder.clone());
        let gangs = PackerGangs::new(&env, links.terminator.clone());
        Self {
            env,
            links,
            solver,
            rng,
            solving: false,
            queued: None,
            settling: None,
            handled: Arc::default(),
            since: BTreeSet::new(),
            left_over: BTreeMap::new(),
            skipped: BTreeMap::new(),
            relaxed: BTreeSet::new(),
            repeats: Repeats::default(),
            failures,
            deleting: false,
            packings: 0,
            first_prices: FirstPrices::default(),
            gangs,
            compared: None,
        }
    }
}

impl Actor for Packer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.env.emit(LogEvent::Waiting {});
        ctx.run_interval(CHECK_INTERVAL, |packer, ctx| {
            if !packer.handled.is_empty() || packer.deleting {
                packer.look_again(ctx);
            }
        });
    }
}

impl Handler<Batch> for Packer {
    type Result = ();

    fn handle(&mut self, batch: Batch, ctx: &mut Self::Context) {
        if batch.term < self.env.term {
            return;
        }
        Arc::make_mut(&mut self.handled).extend(batch.pods.iter().cloned());
        self.since.extend(batch.pods.iter().cloned());
        let pods = batch.pods.into_iter().collect();
        self.ask(Request::new(batch.trace, Some((pods, batch.waited))), ctx);
    }
}

impl Handler<PackNow> for Packer {
    type Result = ();

    fn handle(&mut self, now: PackNow, ctx: &mut Self::Context) {
        if now.term >= self.env.term {
            self.ask(Request { also: now.also, ..Request::new(now.trace, None) }, ctx);
        }
    }
}

impl Handler<WorldChanged> for Packer {
    type Result = ();

    fn handle(&mut self, what: WorldChanged, ctx: &mut Self::Context) {
        if what == WorldChanged::Room && self.left_over.is_empty() {
            return;
        }
        let pause = if what == WorldChanged::PlacesLost { PLACES_LOST_PAUSE } else { SETTLING_TIME };
        let due = self.env.now() + pause;
        match self.settling {
            Some((earlier, _)) if earlier <= due => return,
            Some((_, later)) => drop(ctx.cancel_future(later)),
            None => {}
        }
        let alarm = ctx.run_later(pause, |packer, ctx| {
            packer.settling = None;
            packer.look_again(ctx);
        });
        self.settling = Some((due, alarm));
    }
}

impl Handler<Observe> for Packer {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let state = PackerState {
            solving: self.solving,
            queued: self.queued.is_some(),
            handled: self.handled.len(),
            left_over: self.left_over.clone(),
            packings: self.packings,
            failing: self.failures.classes(),
        };
        MessageResult(state.into())
    }
}

impl Packer {
    fn look_again(&mut self, ctx: &mut Context<Self>) {
        let trace = TraceContext::root(&mut self.rng);
        self.ask(Request { own: true, ..Request::new(trace, None) }, ctx);
    }

    fn ask(&mut self, request: Request, ctx: &mut Context<Self>) {
        if self.solving {
            match &mut self.queued {
                Some(queued) => queued.merge(request),
                None => self.queued = Some(request),
            }
            return;
        }
        self.solving = true;
        self.since.clear();
        let asked = self.env.wall();
        let (links, solver) = (self.links.clone(), self.solver.clone());
        let input = PlanningInput {
            commitments: self.env.settings.commitments.declared(),
            only: Some(self.handled.clone()),
            whole_gangs: true,
            ..self.env.planning_input()
        };
        let left_over = self.left_over.keys().cloned().collect();
        let computing =
            compute(links, solver, input, (self.failures.held(), self.gangs.memory()), left_over, self.env.clone())
                .into_actor(self);
        ctx.spawn(computing.map(move |solved, packer, ctx| {
            packer.solving = false;
            if let Some(solved) = solved {
                packer.compare(&solved, ctx);
                packer.act_on(solved, request, asked);
            }
            if let Some(next) = packer.queued.take() {
                packer.ask(next, ctx);
            }
        }));
    }

    /// Reports all that a planning says of its pods and pools.
    fn report_planning(&mut self, planning: &Planning, request: &Request) {
        self.tell_batch(planning, request);
        self.tell_skipped(planning, request);
        self.tell_relaxed(planning, request);
        self.tell_refused_places(planning, request);
        self.report_unmet_shares(planning);
    }

    fn act_on(&mut self, solved: Solved, mut request: Request, asked: Timestamp) {
        let Solved { snapshot, mut planning, mut packing, failed, held, solving, mistrust, devices, failed_gangs } =
            solved;
        if !devices.is_empty() {
            devices.restore(Arc::make_mut(&mut planning.problem));
        }
        let waiting = |uid: &String| snapshot.pods.get(uid).is_some_and(|entry| entry.provisionable || entry.unmarked);
        Arc::make_mut(&mut self.handled).retain(|uid| self.since.contains(uid) || waiting(uid));
        self.deleting = !snapshot.deleting.is_empty();
        if planning.problem.pods.is_empty() {
            return self.left_over.clear();
        }
        dovetail_core::termination::home::stay(&snapshot, &planning, &mut packing);
        let most_rise = self.env.settings.max_price_rise;
        let dear = self.first_prices.hold_dear_nodes(&snapshot, &mut planning, &mut packing, most_rise);
        take_out_short(&planning.gangs, &planning.problem, &mut planning.held, &mut packing);
        let mut also = traces::that_lead_to_moves(&snapshot, &planning);
        if let Some(first) = also.first().filter(|_| request.own) {
            request.trace = *first;
        }
        // Requests that came during the computation are in its snapshot as a rule, and leave nothing to the next packing.
        also.extend(request.traces().chain(self.queued.iter().flat_map(Request::traces)));
        self.report_planning(&planning, &request);
        self.tell_daemons(&planning.problem, &packing, request.trace);
        self.tell_mistrust(mistrust, request.trace);
        self.failures.took(&planning.problem, &held, &failed, request.trace);
        self.packings += 1;
        let span = self.env.span(request.trace, "pack", &format!("{asked}/{}", self.packings)).since(asked);
        // From here on everything lies in this packing.
        request.trace = span.context();
        traces::packed(&self.env, span, &planning, &packing, solving, &also);
        self.report_dear_nodes(&planning, &dear, request.trace);
        let traceparent = request.trace.to_string();
        let plans = Plans::new(&snapshot, &planning, self.env.term);
        let mut orders = Vec::new();
        let (mut planned, mut expected) = (Vec::new(), Vec::new());
        for claim in &packing.claims {
            let Some(mut order) = plans.order(claim, &traceparent, &mut self.rng) else { continue };
            request_drivers(&mut order.claim, devices.drivers_of(&claim.pods));
            gangs::note_groups(&mut order.claim, &planning, &claim.pods);
            let pods = plans.uids(&claim.pods);
            expected.push((pods, NominationTarget::Claim(order.claim.name_any())));
            planned.push((order.claim.clone(), plans.most_capacity(claim)));
            orders.push(order);
        }
        for (node, pods) in &packing.on_existing {
            expected.push((plans.uids(pods), planning.existing[*node].target()));
        }
        self.tell_packing(&planning, &packing, &request);
        self.tell_nominations(&plans, &packing, &orders);
        // The order of these sends is what keeps a pod from being planned twice: see the module.
        for (pods, target) in &expected {
            // A pod that moves is not bound itself: its successors are, and these are other pods.
            let pods: Vec<_> = pods.iter().filter(|uid| !snapshot.is_bound(uid)).cloned().collect();
            if !pods.is_empty() {
                self.env.post(&self.links.registrar, Planned { target: target.clone(), pods, trace: request.trace });
            }
        }
        self.env.post(&self.links.cluster, PlanClaims { term: self.env.term, claims: planned, expected });
        if !orders.is_empty() {
            self.env.post(&self.links.launcher, LaunchClaims { term: self.env.term, orders, trace: request.trace });
        }
        self.tell_left_over(&plans, &packing, &request);
        self.gangs.settle(&snapshot, (&planning, &packing), &failed_gangs, request.trace);
    }
}
