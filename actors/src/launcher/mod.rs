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
mod futile;
mod held;
mod late;
mod launch;
mod owned;
mod past;
mod queue;
mod record;
mod refused;
mod shared;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::CloudInstances;
use dovetail_core::launch_backoff::LaunchOutcome;
use dovetail_core::launch_limits::LaunchLimits;
use dovetail_core::lifecycle::launch_phase::{ObservedStep, observed_step};
use dovetail_core::lifecycle::{self, ClaimStage, Creations};
use dovetail_core::ownership::{has_foreign_token, token_on};
use dovetail_core::say_once::SayOnce;
use kube::ResourceExt;

use crate::context::alarms::{Alarmed, Alarms};
use crate::context::backoff::Backoff;
use crate::context::book::Key;
use crate::context::brakes::repeats::Repeats;
use crate::context::env::Env;
use crate::kube::calls::Calls;
use crate::launcher::{facts::origin, launch::LaunchEnd, shared::merging::Merging};
use crate::links::{ToCatalogue, ToClusterWatcher, ToOwner, ToPacker, ToRecorder};
use crate::messages::{ClaimChanged, ClaimGone, Counts, LaunchClaims, LaunchFails, PackNow, TraceContext, Wrote};
use queue::Queue;
use record::Launches;
use refused::Refused;

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
    queue: Queue,
    /// Records of claims and orders, by name.
    known: Launches,
    running: usize,
    /// Most that may run now.
    at_once: usize,
    /// Claims of this term, and what may still come of their creation.
    creations: Creations,
    limits: LaunchLimits,
    refused: Refused,
    /// Grows while claims are lost for reasons that repeat themselves.
    losses: Backoff,
    /// Alarms for the next run of the queue and for the packing of lost pods.
    alarms: Alarms,
    common: Common,
    reports: Reports,
    rng: fastrand::Rng,
}

/// The part of a launch's surroundings that all launches share.
#[derive(Clone, Default)]
struct Common {
    /// Own address, for launches under way to report their failures.
    own: Option<Recipient<LaunchFails>>,
    /// Failures that were reported lately, of all launches.
    failures: Arc<Mutex<Repeats>>,
    /// Launches that may be made by one call.
    merging: Arc<Merging>,
}

/// Counts and reports about launches.
#[derive(Default)]
struct Reports {
    ends: Counts,
    /// Number of orders that were held.
    held: u64,
    /// Time of the last LaunchHeld line, by pool and reason. Monotonic.
    lines: SayOnce<(String, &'static str)>,
}

impl Launcher {
    /// A launcher with nothing to do.
    pub fn new(env: &Env, links: LauncherLinks) -> Self {
        let env = env.for_actor("launcher");
        let (rng, jitter) = (env.rng("trace"), env.rng("refusals"));
        Self {
            limits: LaunchLimits::new(env.settings.ceilings).with_bound(env.settings.futile),
            losses: Backoff::new(Duration::from_secs(1), Duration::from_secs(60), env.rng("losses")),
            env,
            links,
            queue: Queue::default(),
            known: Launches::default(),
            running: 0,
            at_once: AT_ONCE.0,
            creations: Creations::default(),
            refused: Refused::new(jitter),
            alarms: Alarms::default(),
            common: Common::default(),
            reports: Reports::default(),
            rng,
        }
    }
}

impl Actor for Launcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.common.own = Some(ctx.address().recipient());
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
        let (pause, left_over) = (self.pause_of(&name, &claim), self.creations.is_left_over(&claim, self.env.term.0));
        match observed_step(&claim, self.phase(&name), pause.is_some(), left_over) {
            ObservedStep::Note => self.known.open(&Key::Claim(name)).observed = Some(claim),
            ObservedStep::Settle => {
                self.end_wait(&name);
                self.look_for_share(&name, &claim, ctx);
            }
            ObservedStep::Wait => self.wait(name, pause.unwrap_or_default(), claim, ctx),
            ObservedStep::LookWhetherNeeded => self.look_whether_needed(&name, claim, ctx),
            ObservedStep::Adopt => self.adopt(&name, &claim, ctx),
        }
    }
}

impl Handler<ClaimGone> for Launcher {
    type Result = ();

    fn handle(&mut self, ClaimGone { name }: ClaimGone, ctx: &mut Self::Context) {
        self.creations.gone(&name, self.env.now());
        self.note_gone(&name);
        if let Some(alarm) = self.drop_claim(&name) {
            ctx.cancel_future(alarm);
        }
        if self.queue.drop_claim(&name) {
            self.leave(&name);
        }
        match self.limits.gone(&name) {
            // Its launch knows why, and whether the next may follow at once.
            Some(trial) if self.is_under_way(&name) => self.known.open(&Key::Claim(name)).lost_trial = Some(trial),
            Some(trial) => self.go_on(&trial, ctx),
            None => {}
        }
    }
}

impl Launcher {
    /// Learns from a claim about launches and registrations.
    fn notice(&mut self, name: &str, claim: &NodeClaim, ctx: &mut Context<Self>) {
        if self.is_under_way(name) {
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
            self.known.open(&Key::claim(name)).unregistered = true;
        } else if self.take_part(name, |own| std::mem::take(&mut own.unregistered)) == Some(true)
            && self.limits.registered(&origin(claim))
        {
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
            LaunchEnd::Launched { .. } if self.running > 0 || !self.queue.orders.is_empty() => {
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
        let mut trial = self.take_part(name, |own| own.lost_trial.take()).flatten();
        *self.reports.ends.entry(end.label()).or_default() += 1;
        match &end {
            LaunchEnd::Launched { uid } => {
                self.losses.reset();
                self.creations.seen(name, uid);
                self.ended_well(name, uid);
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
