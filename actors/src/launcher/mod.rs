//! Creates NodeClaims and launches their instances, a bounded number at a time; adopts claims that an earlier leader, or
//! a person, left without an instance (`late`: where somebody needs them). What one launch does step by step is in `launch`.
//!
//! How many may be launched is decided by `dovetail_core::launch_limits`: an order that has to wait is held for a while,
//! then its pods are packed anew. Before the first launch of a term it is looked at what was launched before (`past`).
//!
//! At the mailbox's bound: an order is queued inside, and no more than [`AT_ONCE`] launches run; a claim is in the queue
//! or running at most once.

mod again;
mod cost;
pub(crate) mod facts;
mod fleet;
mod held;
mod late;
mod launch;
mod owned;
mod past;
mod refused;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::annotations::{LAUNCH_TOKEN, TERM};
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::Cloud;
use dovetail_core::cluster_state::{Snapshot, Target};
use dovetail_core::launch_backoff::{ClosedPool, Demand, LaunchBackoff, Outcome};
use dovetail_core::launch_limits::{Ask, Limits, Origin, Wait};
use dovetail_core::lifecycle::{self, Creations, Stage};
use dovetail_core::ownership::{has_foreign_token, token_on};
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::Notify;

use crate::context::backoff::Backoff;
use crate::context::desk::Desk;
use crate::context::traces;
use crate::kube::calls::Calls;
use crate::launcher::cost::cost_with;
use crate::launcher::facts::{origin, pool_of};
use crate::launcher::launch::{End, Launching};
use crate::links::{ToCatalogue, ToClusterWatcher, ToOwner, ToPacker, ToRecorder};
use crate::messages::{
    ClaimChanged, ClaimGone, Launch, LaunchFails, LaunchOrder, LauncherState, NotRegistered, Observe, PackNow,
    TakeSnapshot, TraceContext, Wrote,
};
use crate::telemetry::story::Story;
use again::Again;

/// How long an order waits that may not be launched yet, before its pods are packed anew.
const HOLD: Duration = Duration::from_secs(30);
/// Longest wait for what was launched before the term, where no ceiling counts it.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// How long it is not said again that launches wait for the same reason.
const QUIET: Duration = Duration::from_secs(600);
/// How long an order may wait before it is looked whether somebody needs it yet.
const NEEDED_FOR: Duration = Duration::from_secs(5);
/// Launches that run at the same time: EC2 refills about five mutating calls a second after a burst of fifty.
const AT_ONCE: usize = 20;

/// Whom the launcher speaks to.
#[derive(Clone)]
pub struct LauncherLinks {
    /// For read-your-writes and snapshots.
    pub cluster: ToClusterWatcher,
    /// For instance types and refusals.
    pub catalogue: ToCatalogue,
    /// For pods whose claim is lost.
    pub packer: ToPacker,
    /// For events.
    pub recorder: ToRecorder,
    /// For whose an instance is that was just launched.
    pub owner: ToOwner,
    /// For instances.
    pub cloud: Arc<dyn Cloud>,
    /// For claims.
    pub calls: Calls,
}

/// See the module.
pub struct Launcher {
    desk: Desk,
    links: LauncherLinks,
    /// What is to be launched.
    queue: VecDeque<Queued>,
    /// Whether it is being looked at who of the queue is still needed.
    sifting: bool,
    /// Claims queued or being launched, by name, each with whom to tell when it is gone.
    busy: BTreeMap<String, Arc<Notify>>,
    running: usize,
    /// Claims of this term, and what may still come of their creation.
    creations: Creations,
    /// Claims as they were shown last while something was done about them, by name.
    shown: BTreeMap<String, Arc<NodeClaim>>,
    /// Claims that have come of creations done late, while the launch of the one before them had not ended, by name.
    late: BTreeMap<String, Arc<NodeClaim>>,
    /// Claims whose launches have ended well.
    again: Again,
    ends: BTreeMap<&'static str, u64>,
    limits: Limits,
    /// Whether it is known what was launched before the term, or waited for no longer.
    begun: bool,
    /// $/h of claims that are being launched, by name, where a ceiling asks for it.
    committed: BTreeMap<String, f64>,
    /// When it was last said of a pool that its launches wait, by reason.
    told: BTreeMap<(String, &'static str), Duration>,
    held: u64,
    /// Orders that wait, by the claim's name.
    waiting: BTreeMap<String, Held>,
    /// Trials whose claims are gone before their launches have ended, by the claim's name.
    over: BTreeMap<String, Origin>,
    /// Claims whose nodes have not registered.
    unregistered: BTreeSet<String>,
    /// Grows while claims are lost for reasons that repeat themselves.
    losses: Backoff,
    /// What is refused, and when it is tried again.
    refusals: LaunchBackoff,
    /// Pools that packing was told to leave out.
    closed: BTreeMap<String, ClosedPool>,
    /// Wakes it when the first of them is tried again.
    opening: Option<SpawnHandle>,
    /// Wakes it for orders that wait for others.
    waking: Option<SpawnHandle>,
    /// To whom launches under way tell that they fail.
    own: Option<Recipient<LaunchFails>>,
    rng: fastrand::Rng,
    jitter: fastrand::Rng,
}

/// An order whose turn has not come.
struct Queued {
    order: LaunchOrder,
    /// The packing that it comes from.
    trace: TraceContext,
    since: Timestamp,
    /// When somebody was known to need it, by the monotonic clock.
    needed: Duration,
}

impl Queued {
    /// Whether its claim is there already.
    fn is_there(&self) -> bool {
        self.order.claim.metadata.uid.is_some()
    }

    /// Whether it is to be looked first who needs it yet.
    fn is_stale(&self, now: Duration) -> bool {
        !self.is_there() && now.saturating_sub(self.needed) >= NEEDED_FOR
    }
}

/// An order that may not be launched yet.
struct Held {
    trace: TraceContext,
    /// For a node of this pool and class to register, if it does.
    trial: Option<Origin>,
    /// The claim, where it is there already.
    claim: Option<Arc<NodeClaim>>,
    /// For what it asks for to be tried again, if that was refused.
    demand: Option<Demand>,
    alarm: SpawnHandle,
}

impl Launcher {
    /// A launcher with nothing to do.
    pub fn new(desk: &Desk, links: LauncherLinks) -> Self {
        let desk = desk.of("launcher");
        let (rng, jitter) = (desk.rng("trace"), desk.rng("refusals"));
        let losses = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), desk.rng("losses"));
        Self {
            limits: Limits::new(desk.settings.ceilings),
            begun: false,
            committed: BTreeMap::new(),
            told: BTreeMap::new(),
            held: 0,
            waiting: BTreeMap::new(),
            over: BTreeMap::new(),
            unregistered: BTreeSet::new(),
            desk,
            links,
            queue: VecDeque::new(),
            sifting: false,
            busy: BTreeMap::new(),
            running: 0,
            creations: Creations::default(),
            shown: BTreeMap::new(),
            late: BTreeMap::new(),
            again: Again::default(),
            ends: BTreeMap::new(),
            losses,
            refusals: LaunchBackoff::default(),
            closed: BTreeMap::new(),
            opening: None,
            waking: None,
            own: None,
            rng,
            jitter,
        }
    }
}

impl Actor for Launcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.own = Some(ctx.address().recipient());
        let looking = past::look(self.links.clone(), self.desk.clone()).into_actor(self);
        ctx.spawn(looking.map(|found, launcher, ctx| {
            if let Some((past, present)) = found {
                launcher.limits.take_over(&past, &present, launcher.desk.now());
                launcher.begin(ctx);
            }
        }));
        if !self.limits.asks_for_launches() {
            ctx.run_later(LONGEST_LOOK, Self::begin);
        }
    }
}

impl Handler<Launch> for Launcher {
    type Result = ();

    fn handle(&mut self, launch: Launch, ctx: &mut Self::Context) {
        if launch.term < self.desk.term {
            return;
        }
        for order in launch.orders {
            self.enqueue(order, launch.trace);
        }
        self.run(ctx);
    }
}

impl Handler<ClaimChanged> for Launcher {
    type Result = ();

    /// A claim without an instance that nobody here launches is adopted.
    fn handle(&mut self, ClaimChanged(claim): ClaimChanged, ctx: &mut Self::Context) {
        let name = claim.name_any();
        if !lifecycle::is_leaving(&claim) && self.creations.is_late(&claim, self.desk.term.0) {
            return self.take_back(&name, claim, ctx);
        }
        self.notice(&name, &claim, ctx);
        // One that was launched here is shown unlaunched by a restored API server, or by what was on its way to this mailbox: its
        // launch begins with a look at it.
        if self.busy.contains_key(&name) {
            self.shown.insert(name, claim);
            return;
        }
        if lifecycle::is_leaving(&claim) || lifecycle::stage(&claim).is_some() {
            return self.waits_no_more(&name);
        }
        if self.waits_again(&claim, ctx) {
            return;
        }
        if self.creations.is_left_over(&claim, self.desk.term.0) {
            return self.look_whether_needed(&name, claim, ctx);
        }
        self.adopt(&name, &claim, ctx);
    }
}

impl Handler<ClaimGone> for Launcher {
    type Result = ();

    fn handle(&mut self, gone: ClaimGone, ctx: &mut Self::Context) {
        self.creations.gone(&gone.name, self.desk.now());
        self.forget_held(&gone.name, ctx);
        self.late.remove(&gone.name);
        self.again.gone(&gone.name);
        self.shown.remove(&gone.name);
        self.busy.get(&gone.name).into_iter().for_each(|launch| launch.notify_one());
        let queued = self.queue.len();
        self.queue.retain(|one| !one.is_there() || one.order.claim.name_any() != gone.name);
        if self.queue.len() < queued {
            self.busy.remove(&gone.name);
        }
        self.unregistered.remove(&gone.name);
        match self.limits.gone(&gone.name) {
            // Its launch knows why, and whether the next may follow at once.
            Some(trial) if self.busy.contains_key(&gone.name) => drop(self.over.insert(gone.name.clone(), trial)),
            Some(trial) => self.go_on(&trial, ctx),
            None => {}
        }
    }
}

impl Handler<NotRegistered> for Launcher {
    type Result = ();

    fn handle(&mut self, NotRegistered { claim }: NotRegistered, _: &mut Self::Context) {
        self.limits.not_registered(&claim.name_any(), &origin(&claim), self.desk.now());
    }
}

impl Handler<Observe> for Launcher {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let state = LauncherState {
            queued: self.queue.len(),
            running: self.running,
            ends: self.ends.clone(),
            held: self.held,
            begun: self.begun,
        };
        MessageResult(state.into())
    }
}

impl Launcher {
    fn adopt(&mut self, name: &str, claim: &NodeClaim, ctx: &mut Context<Self>) {
        let trace = traces::of_packing(claim).unwrap_or_else(|| TraceContext::root(&mut self.rng));
        if let Some(term) = claim.annotations().get(TERM).filter(|term| **term != self.desk.term.0.to_string()) {
            self.desk.tell_in(Story::TakenOver { node_claim: name.to_owned(), of_term: term.clone() }, trace);
        }
        self.enqueue(LaunchOrder { claim: claim.clone(), pods: 0, demand: None }, trace);
        self.run(ctx);
    }

    fn enqueue(&mut self, order: LaunchOrder, trace: TraceContext) {
        if let Entry::Vacant(free) = self.busy.entry(order.claim.name_any()) {
            free.insert(Arc::default());
            self.queue.push_back(Queued { order, trace, since: self.desk.wall(), needed: self.desk.now() });
        }
    }

    fn begin(&mut self, ctx: &mut Context<Self>) {
        self.begun = true;
        self.run(ctx);
    }

    fn run(&mut self, ctx: &mut Context<Self>) {
        // Those that have waited longest are not overtaken for longer than it takes to look.
        if self.running < AT_ONCE {
            self.sift(ctx);
        }
        while self.running < AT_ONCE {
            let Some(Queued { order, trace, since, .. }) = self.next(ctx) else { return };
            self.running += 1;
            // A claim that is there already, whoever has made it, is one more only where ceilings count.
            if order.claim.metadata.uid.is_some() && !self.limits.has_ceilings() {
                self.start(order, trace, since, ctx);
            } else if self.limits.asks_for_cost() {
                self.price(order, trace, since, ctx);
            } else {
                self.admit(order, (trace, since), 0.0, ctx);
            }
        }
    }

    /// Looks which orders that have waited for long are still needed, if any have, and gives up the others.
    fn sift(&mut self, ctx: &mut Context<Self>) {
        let now = self.desk.now();
        if self.sifting || !self.begun || !self.queue.iter().any(|one| one.is_stale(now)) {
            return;
        }
        self.sifting = true;
        ctx.spawn(self.links.cluster.send(TakeSnapshot).into_actor(self).map(|known, launcher, ctx| {
            launcher.sifting = false;
            // Until everything is known nothing is known of that.
            let Ok(Some(known)) = known else {
                ctx.run_later(NEEDED_FOR, Self::run);
                return;
            };
            launcher.keep_needed(&known);
            launcher.run(ctx);
        }));
    }

    fn keep_needed(&mut self, known: &Snapshot) {
        let (awaited, now) = (known.awaited(self.desk.moment()), self.desk.now());
        self.queue.retain_mut(|one| {
            if !one.is_stale(now) {
                return true;
            }
            one.needed = now;
            let name = one.order.claim.name_any();
            let needed = awaited.contains(&Target::Claim(name.clone()));
            if !needed {
                self.busy.remove(&name);
                self.desk.post(&self.links.cluster, Wrote::NotMade(name));
            }
            needed
        });
    }

    /// Finds out what the launch would cost first.
    fn price(&mut self, order: LaunchOrder, trace: TraceContext, since: Timestamp, ctx: &mut Context<Self>) {
        let before = self.committed.clone();
        let pricing = cost_with(self.links.clone(), order.claim.clone(), before.clone()).into_actor(self);
        ctx.spawn(pricing.map(move |cost, launcher, ctx| {
            let (all, own) = cost.unwrap_or((f64::INFINITY, 0.0));
            // Others may have been admitted meanwhile.
            let meanwhile = launcher.committed.iter().filter(|(name, _)| !before.contains_key(*name));
            let meanwhile: f64 = meanwhile.map(|(_, price)| price).sum();
            launcher.committed.insert(order.claim.name_any(), own);
            launcher.admit(order, (trace, since), all + meanwhile + own, ctx);
            launcher.run(ctx);
        }));
    }

    fn admit(
        &mut self,
        order: LaunchOrder,
        (trace, since): (TraceContext, Timestamp),
        cost: f64,
        ctx: &mut Context<Self>,
    ) {
        let ask = Ask { claim: order.claim.name_any(), origin: origin(&order.claim), cost };
        let is_there = order.claim.metadata.uid.is_some();
        let asked = match is_there {
            true => self.limits.ask_for_present(&ask, self.desk.now()),
            false => self.limits.ask(&ask, self.desk.now()),
        };
        match asked {
            Ok(()) => {
                self.allow(&order.claim, ctx);
                self.start(order, trace, since, ctx);
            }
            Err(wait) => self.hold(&order, &wait, trace, ctx),
        }
    }

    fn start(&mut self, order: LaunchOrder, trace: TraceContext, since: Timestamp, ctx: &mut Context<Self>) {
        let name = order.claim.name_any();
        if order.claim.metadata.uid.is_none() {
            self.creations.begin(&name, self.desk.now());
        }
        let inside = traces::of_claim(trace, &name);
        // A successor's attempt is another span beside the one that was cut off.
        let own = inside.inner("launch", &self.desk.term.0.to_string());
        let gone = self.busy.get(&name).cloned().unwrap_or_default();
        let launching = Launching {
            desk: self.desk.clone(),
            links: self.links.clone(),
            own: self.own.clone(),
            trace: own,
            inside,
            since,
            gone,
        };
        let run = launch::run(launching, order).into_actor(self);
        ctx.spawn(run.map(move |(end, outcome), launcher, ctx| {
            launcher.ended(&name, (end, &outcome), trace, ctx);
            launcher.run(ctx);
        }));
    }

    /// The order waits, its pods with it.
    fn hold(&mut self, order: &LaunchOrder, wait: &Wait, trace: TraceContext, ctx: &mut Context<Self>) {
        let (name, node_pool, now) = (order.claim.name_any(), pool_of(&order.claim), self.desk.now());
        self.running -= 1;
        self.held += 1;
        self.committed.remove(&name);
        self.refusals.withdrawn(&name);
        let key = (node_pool.clone(), wait.reason());
        if self.told.get(&key).is_none_or(|when| now.saturating_sub(*when) >= QUIET) {
            self.told.insert(key, now);
            let (reason, message) = (wait.reason().to_owned(), wait.to_string());
            self.desk.tell_in(Story::LaunchHeld { node_pool, reason, message }, trace);
        }
        let (own, trial) = (name.clone(), matches!(wait, Wait::Unregistered { .. }).then(|| origin(&order.claim)));
        let alarm = ctx.run_later(HOLD, move |launcher, ctx| launcher.let_go(&own, ctx));
        let claim = order.claim.metadata.uid.as_ref().map(|_| Arc::new(order.claim.clone()));
        if let Some(claim) = &claim {
            self.say_held(claim, wait, ctx);
        }
        self.waiting.insert(name, Held { trace, trial, claim, demand: None, alarm });
    }

    /// An order waits no longer: its pods are packed anew, as the world may have changed.
    fn let_go(&mut self, name: &str, ctx: &mut Context<Self>) {
        let Some(held) = self.waiting.remove(name) else { return };
        self.busy.remove(name);
        if let Some(claim) = held.claim {
            return self.ask_again(name, claim, ctx);
        }
        self.desk.post(&self.links.cluster, Wrote::NotMade(name.to_owned()));
        self.desk.post(&self.links.packer, PackNow::after(self.desk.term, held.trace));
    }

    /// Another trial of this pool and class may begin, or none is needed: what waits for that need not wait any longer.
    fn go_on(&mut self, trial: &Origin, ctx: &mut Context<Self>) {
        let those: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, held)| held.trial.as_ref() == Some(trial))
            .map(|(name, _)| name.clone())
            .collect();
        self.release(those, ctx);
    }

    /// These orders need not wait any longer.
    fn release(&mut self, those: Vec<String>, ctx: &mut Context<Self>) {
        for name in those {
            if let Some(held) = self.waiting.get(&name) {
                ctx.cancel_future(held.alarm);
            }
            self.let_go(&name, ctx);
        }
    }

    /// A claim was not created, or nobody knows: what has come of it all the same is taken back, and what was planned with it and
    /// has not been begun is planned anew, as the world may be another.
    fn give_up_plans(&mut self, name: &str) {
        self.creations.give_up(name);
        let made =
            |claim: &Arc<NodeClaim>| !lifecycle::is_leaving(claim) && claim.annotations().get(LAUNCH_TOKEN).is_none();
        if let Some(made) = self.shown.get(name).filter(|claim| made(claim)) {
            self.late.insert(name.to_owned(), made.clone());
        }
        let (begun, planned): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.queue).into_iter().partition(Queued::is_there);
        self.queue = begun;
        for one in planned {
            let name = one.order.claim.name_any();
            self.busy.remove(&name);
            self.desk.post(&self.links.cluster, Wrote::NotMade(name));
        }
    }

    /// Nothing is done any more about claims of this name, unless one has come late meanwhile.
    fn free(&mut self, name: &str, ctx: &mut Context<Self>) {
        self.busy.remove(name);
        self.shown.remove(name);
        if let Some(late) = self.late.remove(name) {
            self.take_back(name, late, ctx);
        }
    }

    /// What a claim says of launches and registrations.
    fn notice(&mut self, name: &str, claim: &NodeClaim, ctx: &mut Context<Self>) {
        if self.busy.contains_key(name) {
            self.creations.seen(name, claim.metadata.uid.as_deref().unwrap_or_default());
            self.was_created(name, ctx);
        }
        // One that nobody has begun to launch for counts when it is launched.
        if (lifecycle::stage(claim).is_some() || (token_on(claim).is_some() && !has_foreign_token(claim)))
            && let Some(created) = &claim.metadata.creation_timestamp
        {
            let age = Duration::try_from(self.desk.wall().duration_since(created.0)).unwrap_or(Duration::ZERO);
            self.limits.made(name, self.desk.now(), age);
        }
        if lifecycle::stage(claim) < Some(Stage::Registered) {
            self.unregistered.insert(name.to_owned());
        } else if self.unregistered.remove(name) && self.limits.registered(&origin(claim)) {
            self.go_on(&origin(claim), ctx);
        }
    }

    fn ended(&mut self, name: &str, (end, outcome): (End, &Outcome), trace: TraceContext, ctx: &mut Context<Self>) {
        self.running -= 1;
        // Where it is not the world that has changed, but the pool that is refused, others are not concerned.
        let known = matches!(outcome, Outcome::Refused(..));
        match end {
            End::Refused if known => self.creations.give_up(name),
            End::Refused => self.give_up_plans(name),
            _ => {}
        }
        self.learn(name, outcome, ctx);
        self.free(name, ctx);
        self.committed.remove(name);
        let mut trial = self.over.remove(name);
        *self.ends.entry(end.label()).or_default() += 1;
        match &end {
            End::Launched { uid } => {
                self.losses.reset();
                self.creations.seen(name, uid);
                self.again.ended(name, uid, self.desk.now(), self.desk.rng(&format!("again/{name}")));
                if let Some(trial) = trial {
                    self.go_on(&trial, ctx);
                }
            }
            End::Lost { .. } | End::Refused | End::Leaving => {
                let at_once = end == (End::Lost { at_once: true });
                self.creations.gone(name, self.desk.now());
                if end != End::Leaving {
                    trial = self.limits.gone(name).or(trial);
                    self.desk.post(&self.links.cluster, Wrote::NotMade(name.to_owned()));
                }
                if let Some(trial) = trial.filter(|_| at_once || end == End::Leaving) {
                    self.go_on(&trial, ctx);
                }
                let again = PackNow::after(self.desk.term, trace);
                if at_once || known {
                    self.desk.post(&self.links.packer, again);
                } else {
                    let pause = self.losses.pause();
                    ctx.run_later(pause, move |launcher, _| launcher.desk.post(&launcher.links.packer, again));
                }
            }
            End::Deposed => {}
        }
    }
}
