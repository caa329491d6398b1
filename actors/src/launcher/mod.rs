//! Creates NodeClaims and launches their instances, a bounded number at a time; adopts claims that an earlier leader, or
//! a person, left without an instance (`late`: where somebody needs them). What one launch does step by step is in `launch`.
//!
//! How many may be launched is decided by `dovetail_core::launch_limits`: an order that has to wait is held for a while,
//! then its pods are packed anew. Before the first launch of a term it is looked at what was launched before (`past`).
//!
//! At the mailbox's bound: an order is queued inside, and a bounded number of launches run; a claim is in the queue
//! or running at most once.

mod again;
mod cost;
mod denied;
pub(crate) mod facts;
mod fleet;
mod futile;
mod held;
mod late;
mod launch;
mod owned;
mod past;
mod queue;
mod refused;
mod shared;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::CloudInstances;
use dovetail_core::launch_backoff::{ClosedPool, Demand, LaunchBackoff, LaunchOutcome};
use dovetail_core::launch_limits::{LaunchLimits, PoolAndClass};
use dovetail_core::lifecycle::{self, ClaimStage, Creations};
use dovetail_core::ownership::{has_foreign_token, token_on};
use dovetail_core::say_once::SayOnce;
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::Notify;

use crate::context::alarms::{Alarmed, Alarms};
use crate::context::backoff::Backoff;
use crate::context::brakes::repeats::Repeats;
use crate::context::env::Env;
use crate::kube::calls::Calls;
use crate::launcher::{facts::origin, launch::LaunchEnd, shared::merging::Merging};
use crate::links::{ToCatalogue, ToClusterWatcher, ToOwner, ToPacker, ToRecorder};
use crate::messages::{ClaimChanged, ClaimGone, LaunchClaims, LaunchFails, LaunchOrder, PackNow, TraceContext, Wrote};
use again::Again;

/// Longest wait of an order that may not be launched yet; after it, its pods are packed anew.
const HOLD: Duration = Duration::from_secs(30);
/// Longest wait for what was launched before the term, where no ceiling counts it.
const LONGEST_CHECK: Duration = Duration::from_secs(5);
/// Minimum time between two LaunchHeld lines for one pool and reason.
const REPEAT_INTERVAL: Duration = Duration::from_secs(600);
/// Age of an order from which it is checked if its pods still need it.
const NEEDED_FOR: Duration = Duration::from_secs(5);
/// Launches that run at the same time: at first, and at most. Those that ask for the same are one call to EC2, so that this bounds
/// how much is written to the API server at once, and how much is under way when EC2 begins to refuse.
const AT_ONCE: (usize, usize) = (20, 250);
/// Launches more that may run for each that has come out well, until none runs or one fails.
const MORE_FOR_EACH: usize = 3;

/// Addresses that the launcher sends to.
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
    pub cloud: Arc<dyn CloudInstances>,
    /// For claims.
    pub calls: Calls,
}

/// Creates claims and calls the cloud for them, within limits, and goes on where an earlier leader stopped.
pub struct Launcher {
    env: Env,
    links: LauncherLinks,
    /// Orders that are to be launched.
    queue: VecDeque<Queued>,
    /// True while a snapshot is awaited to drop queued orders that no pod needs.
    sifting: bool,
    /// Claims queued or being launched, by name, each with whom to tell when it is gone.
    busy: BTreeMap<String, Arc<Notify>>,
    running: usize,
    /// Most that may run now.
    at_once: usize,
    /// Claims of this term, and what may still come of their creation.
    creations: Creations,
    /// Claims as they were shown last while something was done about them, by name.
    observed: BTreeMap<String, Arc<NodeClaim>>,
    /// Claims that have come of creations done late, while the launch of the one before them had not ended, by name.
    late: BTreeMap<String, Arc<NodeClaim>>,
    /// Claims whose launches have ended well.
    again: Again,
    ends: BTreeMap<&'static str, u64>,
    limits: LaunchLimits,
    /// True once the launches before this term are known or no longer waited for.
    begun: bool,
    /// $/h of claims that are being launched, by name, where a ceiling asks for it.
    committed: BTreeMap<String, f64>,
    /// Time of the last LaunchHeld line, by pool and reason. Monotonic.
    reported: SayOnce<(String, &'static str)>,
    held: u64,
    /// Orders that wait, by the claim's name.
    waiting: BTreeMap<String, Held>,
    /// Trials whose claims are gone before their launches have ended, by the claim's name.
    over: BTreeMap<String, PoolAndClass>,
    /// Claims whose nodes have not registered.
    unregistered: BTreeSet<String>,
    /// Grows while claims are lost for reasons that repeat themselves.
    losses: Backoff,
    /// Refused demands, and the times at which they are tried again.
    refusals: LaunchBackoff,
    /// Pools that packing was told to leave out.
    closed: BTreeMap<String, ClosedPool>,
    /// Wakes it when the first of them is tried again.
    opening: Option<SpawnHandle>,
    /// Wakes it for orders that wait for others.
    waking: Option<SpawnHandle>,
    /// Alarms for the next run of the queue and for the packing of lost pods.
    alarms: Alarms,
    /// Own address, for launches under way to report their failures.
    own: Option<Recipient<LaunchFails>>,
    /// Failures that were reported lately, of all launches.
    failures: Arc<Mutex<Repeats>>,
    /// Launches that may be made by one call.
    merging: Arc<Merging>,
    rng: fastrand::Rng,
    jitter: fastrand::Rng,
}

/// An order whose turn has not come.
struct Queued {
    order: LaunchOrder,
    /// The packing that it comes from.
    trace: TraceContext,
    since: Timestamp,
    /// Last time at which it was known to be needed. Monotonic.
    needed: Duration,
}

impl Queued {
    /// True if its claim exists already.
    fn is_there(&self) -> bool {
        self.order.claim.metadata.uid.is_some()
    }

    /// True if it is to be checked first that pods still need it.
    fn is_stale(&self, now: Duration) -> bool {
        !self.is_there() && now.saturating_sub(self.needed) >= NEEDED_FOR
    }
}

/// An order that may not be launched yet.
struct Held {
    trace: TraceContext,
    /// For a node of this pool and class to register, if it does.
    trial: Option<PoolAndClass>,
    /// The claim, where it is there already.
    claim: Option<Arc<NodeClaim>>,
    /// For what it asks for to be tried again, if that was refused.
    demand: Option<Demand>,
    alarm: SpawnHandle,
}

impl Launcher {
    /// A launcher with nothing to do.
    pub fn new(env: &Env, links: LauncherLinks) -> Self {
        let env = env.for_actor("launcher");
        let (rng, jitter) = (env.rng("trace"), env.rng("refusals"));
        let losses = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), env.rng("losses"));
        Self {
            limits: LaunchLimits::new(env.settings.ceilings).with_bound(env.settings.futile),
            begun: false,
            committed: BTreeMap::new(),
            reported: SayOnce::default(),
            failures: Arc::default(),
            merging: Arc::default(),
            held: 0,
            waiting: BTreeMap::new(),
            over: BTreeMap::new(),
            unregistered: BTreeSet::new(),
            env,
            links,
            queue: VecDeque::new(),
            sifting: false,
            busy: BTreeMap::new(),
            running: 0,
            at_once: AT_ONCE.0,
            creations: Creations::default(),
            observed: BTreeMap::new(),
            late: BTreeMap::new(),
            again: Again::default(),
            ends: BTreeMap::new(),
            losses,
            refusals: LaunchBackoff::default(),
            closed: BTreeMap::new(),
            opening: None,
            waking: None,
            alarms: Alarms::default(),
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
        let looking = past::list_past(self.links.clone(), self.env.clone()).into_actor(self);
        ctx.spawn(looking.map(|found, launcher, ctx| {
            if let Some(before) = found {
                launcher.take_over(&before);
                launcher.begin(ctx);
            }
        }));
        // A ceiling on launches that does not know the past would allow as many once more.
        if !self.limits.asks_for_launches() {
            ctx.run_later(LONGEST_CHECK, Self::begin);
        }
    }
}

impl Alarmed for Launcher {
    fn alarms(&mut self) -> &mut Alarms {
        &mut self.alarms
    }
}

impl Handler<LaunchClaims> for Launcher {
    type Result = ();

    fn handle(&mut self, launch: LaunchClaims, ctx: &mut Self::Context) {
        if launch.term < self.env.term {
            return;
        }
        // All of them before the first begins: which has its turn is chosen among all.
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
        // First, as such a claim belongs to no plan any more.
        if !lifecycle::is_deleting(&claim) && self.creations.is_late(&claim, self.env.term.0) {
            return self.take_back(&name, claim, ctx);
        }
        self.notice(&name, &claim, ctx);
        // One that was launched here is shown unlaunched by a restored API server, or by what was on its way to this mailbox: its
        // launch begins with a look at it.
        if self.busy.contains_key(&name) {
            self.observed.insert(name, claim);
            return;
        }
        if lifecycle::is_deleting(&claim) || lifecycle::stage(&claim).is_some() {
            self.waits_no_more(&name);
            return self.look_for_share(&name, &claim, ctx);
        }
        if self.waits_again(&claim, ctx) {
            return;
        }
        if self.creations.is_left_over(&claim, self.env.term.0) {
            return self.look_whether_needed(&name, claim, ctx);
        }
        self.adopt(&name, &claim, ctx);
    }
}

impl Handler<ClaimGone> for Launcher {
    type Result = ();

    fn handle(&mut self, gone: ClaimGone, ctx: &mut Self::Context) {
        self.creations.gone(&gone.name, self.env.now());
        self.note_gone(&gone.name);
        self.forget_held(&gone.name, ctx);
        self.late.remove(&gone.name);
        self.again.gone(&gone.name);
        self.observed.remove(&gone.name);
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

impl Launcher {
    /// Learns from a claim about launches and registrations.
    fn notice(&mut self, name: &str, claim: &NodeClaim, ctx: &mut Context<Self>) {
        if self.busy.contains_key(name) {
            self.creations.seen(name, claim.metadata.uid.as_deref().unwrap_or_default());
            self.was_created(name, ctx);
        }
        // One that nobody has begun to launch for counts when it is launched.
        if (lifecycle::stage(claim).is_some() || (token_on(claim).is_some() && !has_foreign_token(claim)))
            && let Some(created) = &claim.metadata.creation_timestamp
        {
            let age = Duration::try_from(self.env.wall().duration_since(created.0)).unwrap_or(Duration::ZERO);
            self.limits.made(name, self.env.now(), age);
        }
        self.note_use(name, claim);
        if lifecycle::stage(claim) < Some(ClaimStage::Registered) {
            self.unregistered.insert(name.to_owned());
        } else if self.unregistered.remove(name) && self.limits.registered(&origin(claim)) {
            self.go_on(&origin(claim), ctx);
        }
    }

    /// A launch has ended. What it says of its pool is learnt before the claim is freed: a claim that came late and is taken back
    /// then, and the next order, are judged by it.
    fn ended(
        &mut self,
        name: &str,
        end: LaunchEnd,
        outcome: &LaunchOutcome,
        trace: TraceContext,
        ctx: &mut Context<Self>,
    ) {
        self.running -= 1;
        self.at_once = match &end {
            LaunchEnd::Launched { .. } if self.running > 0 || !self.queue.is_empty() => {
                AT_ONCE.1.min(self.at_once + MORE_FOR_EACH)
            }
            _ => AT_ONCE.0,
        };
        // Steps that depend on each other, in this order: what is learnt, the claim freed, its trial ended, packing asked.
        // Where it is not the world that has changed, but the pool that is refused, others are not concerned.
        let known = matches!(outcome, LaunchOutcome::Refused(..));
        match end {
            LaunchEnd::Refused if known => self.creations.give_up(name),
            LaunchEnd::Refused => self.give_up_plans(name),
            _ => {}
        }
        self.learn(name, outcome, ctx);
        self.free(name, ctx);
        self.committed.remove(name);
        let mut trial = self.over.remove(name);
        *self.ends.entry(end.label()).or_default() += 1;
        match &end {
            LaunchEnd::Launched { uid } => {
                self.losses.reset();
                self.creations.seen(name, uid);
                self.again.ended(name, uid, self.env.now(), self.env.rng(&format!("again/{name}")));
                if let Some(trial) = trial {
                    self.go_on(&trial, ctx);
                }
            }
            LaunchEnd::Lost { .. } | LaunchEnd::Refused | LaunchEnd::Deleting => {
                let at_once = end == (LaunchEnd::Lost { at_once: true });
                self.creations.gone(name, self.env.now());
                if end != LaunchEnd::Deleting {
                    trial = self.limits.gone(name).or(trial);
                    self.env.post(&self.links.cluster, Wrote::NotMade(name.to_owned()));
                }
                trial.iter().filter(|_| at_once || end == LaunchEnd::Deleting).for_each(|trial| self.go_on(trial, ctx));
                let again = PackNow::after(self.env.term, trace);
                // Packing knows EC2's answers about capacity and the pool by now, and will not choose the same again. Any other
                // loss may repeat itself: the pause grows, and one packing is for the pods of all that are lost by then.
                let post = move |launcher: &mut Self, _: &mut _| launcher.env.post(&launcher.links.packer, again);
                if at_once || known {
                    post(self, ctx);
                } else {
                    let (pause, now) = (self.losses.pause(), self.env.now());
                    self.ring_in("pack".to_owned(), now, pause, ctx, post);
                }
            }
            LaunchEnd::Deposed => {}
        }
    }
}
