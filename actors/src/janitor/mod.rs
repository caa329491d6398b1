//! Collects what nobody owns: instances without a claim, claims without an instance, launch templates and instance
//! profiles that nothing uses any more. What may go, and when nothing may, is decided by `dovetail_core::collection`;
//! here it is listed (`collect`), ended and told.
//!
//! At the mailbox's bound: one pass at a time, the next one planned when it has ended.

mod collect;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::Cloud;
use dovetail_core::collection::{ClassOrphans, CollectionNotice, CollectionVerdict, Collector};
use dovetail_core::disruption::RemovalReason;
use dovetail_core::lifecycle;
use dovetail_core::say_once::SayOnce;

use crate::context::env::Env;
use crate::janitor::collect::{CollectionPass, GarbageCollection};
use crate::kube::calls::Calls;
use crate::links::{ToClusterWatcher, ToDisruptor, ToRecorder, ToTerminator};
use crate::messages::{
    ClaimChanged, ClaimRef, InstancesSeen, JanitorState, Observe, Record, Remove, TraceContext, UnclaimedInstances,
};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// Pause between two passes; a tenth is added by chance, so that two passes are never less apart.
const PASS_INTERVAL: Duration = Duration::from_secs(120);
/// Longest wait for the first pass of a term.
const FIRST: Duration = Duration::from_secs(20);
/// Pause between two looks at what was made for node classes.
const CLASS_ORPHANS_INTERVAL: Duration = Duration::from_secs(1800);
/// Minimum time between two reports of one lasting thing.
const REPEAT_INTERVAL: Duration = Duration::from_secs(600);

/// Reason under which it is reported that the cloud does not end instances.
const REFUSED: &str = "refused";

/// Addresses that the janitor sends to.
#[derive(Clone)]
pub struct JanitorLinks {
    /// For snapshots and marks.
    pub cluster: ToClusterWatcher,
    /// For claims that are to go.
    pub terminator: ToTerminator,
    /// For what instances' networks are.
    pub disruptor: ToDisruptor,
    /// For events.
    pub recorder: ToRecorder,
    /// Cloud where instances are listed and ended, within the leader's term.
    pub cloud: Arc<dyn Cloud>,
    /// For the API server.
    pub calls: Calls,
}

/// Ends instances that no claim owns, and claims whose instances are gone, within a bound.
pub struct Janitor {
    env: Env,
    links: JanitorLinks,
    rng: fastrand::Rng,
    collector: Collector,
    class_orphans: ClassOrphans,
    /// Time and size of the last report, by reason.
    reported: SayOnce<&'static str, usize>,
    counts: BTreeMap<&'static str, u64>,
    /// Instances that neither a NodeClaim nor a Node has, as they were listed last.
    unclaimed: Vec<UnclaimedInstances>,
}

impl Janitor {
    /// At the start of a term.
    pub fn new(env: &Env, links: JanitorLinks) -> Self {
        let env = env.for_actor("janitor");
        let rng = env.rng("ticks");
        Self {
            env,
            links,
            rng,
            collector: Collector::new(),
            class_orphans: ClassOrphans::default(),
            reported: SayOnce::default(),
            counts: BTreeMap::new(),
            unclaimed: Vec::new(),
        }
    }
}

impl Actor for Janitor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let first = FIRST.mul_f64(self.rng.f64());
        ctx.run_later(first, Self::collect_garbage);
        ctx.run_later(CLASS_ORPHANS_INTERVAL.mul_f64(0.5 + self.rng.f64() / 2.0), Self::look_at_made);
    }
}

impl Handler<ClaimChanged> for Janitor {
    type Result = ();

    /// A claim that is seen on its way out is not missed when it is gone.
    fn handle(&mut self, ClaimChanged(claim): ClaimChanged, _: &mut Self::Context) {
        if lifecycle::is_deleting(&claim) {
            self.collector.leaves(claim.metadata.uid.as_deref().unwrap_or_default());
        }
    }
}

impl Handler<Observe> for Janitor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let (braked, recent) = (self.collector.braked(), self.collector.recent());
        MessageResult(
            JanitorState {
                term: self.env.term,
                braked,
                recent,
                counts: self.counts.clone(),
                unclaimed: self.unclaimed.clone(),
            }
            .into(),
        )
    }
}

impl Janitor {
    fn collect(&self) -> GarbageCollection {
        GarbageCollection { env: self.env.clone(), links: self.links.clone() }
    }

    fn count(&mut self, what: &'static str, by: usize) {
        *self.counts.entry(what).or_default() += u64::try_from(by).unwrap_or(u64::MAX);
    }

    /// A pass: everything is listed, judged, and what is due is done.
    fn collect_garbage(&mut self, ctx: &mut Context<Self>) {
        let (collect, looks_back) = (self.collect(), self.collector.looks_back());
        let listing = async move { collect.list(looks_back).await }.into_actor(self);
        ctx.spawn(listing.map(|found, janitor, ctx| {
            match found {
                Some(found) => janitor.judge(&found, ctx),
                // Not everything could be listed: that is no pass.
                None => janitor.count("passes_skipped", 1),
            }
            let pause = PASS_INTERVAL + PASS_INTERVAL.mul_f64(janitor.rng.f64() / 10.0);
            ctx.run_later(pause, Self::collect_garbage);
        }));
    }

    fn judge(&mut self, found: &CollectionPass, ctx: &mut Context<Self>) {
        self.count("passes", 1);
        self.unclaimed.clone_from(&found.unclaimed);
        self.env.post(&self.links.disruptor, InstancesSeen(found.networks.clone()));
        if let Err(why) = &found.release {
            self.say("release_invalid", 0, format!("the release of the collection's brakes is not understood: {why}"));
        }
        let verdict = self.collector.pass(&found.survey);
        for notice in &verdict.notices {
            self.notice(notice, found);
        }
        let current: Vec<&str> = verdict.notices.iter().map(reason).collect();
        self.reported.retain(|reason| current.contains(reason) || ["release_invalid", REFUSED].contains(reason));
        self.act(verdict, ctx);
    }

    fn act(&mut self, verdict: CollectionVerdict, ctx: &mut Context<Self>) {
        self.count("instances_collected", verdict.terminate.len());
        self.count("claims_removed", verdict.remove.len());
        if !verdict.remove.is_empty() {
            let claims = verdict.remove.into_iter().map(|(name, uid)| ClaimRef { name, uid }).collect();
            let (term, trace) = (self.env.term, TraceContext::root(&mut self.rng));
            self.env.post(
                &self.links.terminator,
                Remove {
                    term,
                    claims,
                    reason: RemovalReason::GarbageCollected,
                    grace: None,
                    disrupted: BTreeMap::new(),
                    trace,
                },
            );
        }
        if !verdict.terminate.is_empty() {
            let collect = self.collect();
            let ending = async move { collect.end_all(verdict.terminate).await }.into_actor(self);
            ctx.spawn(ending.map(|ending, janitor, _| {
                ending.asked.iter().for_each(|(id, at)| janitor.collector.ended(id, *at));
                if let Some(error) = ending.refused.first()
                    && janitor.is_news(REFUSED, ending.refused.len())
                {
                    let what = format!("ending {} instances that no nodeclaim has", ending.refused.len());
                    janitor.env.emit(LogEvent::Retrying { what, error: error.to_string() });
                }
            }));
        }
    }

    fn notice(&mut self, notice: &CollectionNotice, found: &CollectionPass) {
        const BY: &str =
            "annotate namespace kube-system with dovetail.dev/allow-collection=TIME to allow it until then";
        let name = &self.env.settings.cluster_name;
        let (count, message) = match notice {
            CollectionNotice::Braked { due, bound } => (
                *due,
                format!(
                    "{due} instances or nodeclaims are to be collected, more than {bound} in ten minutes: nothing is; {BY}"
                ),
            ),
            CollectionNotice::CloudSuspect { claims } => (
                *claims,
                format!("EC2 lists no instance though {claims} nodeclaims have one: nothing is collected; {BY}"),
            ),
            CollectionNotice::ClaimsSuspect { instances } => (
                *instances,
                format!(
                    "the API server seems to have lost nodeclaims, {instances} instances are without one: nothing is collected; {BY}"
                ),
            ),
            CollectionNotice::Held { instances } => {
                (*instances, format!("{instances} instances whose nodeclaims were lost are left alone; {BY}"))
            }
            CollectionNotice::Foreign { instances } => (
                *instances,
                format!("{instances} instances of another cluster go by the name {name}: they are never touched"),
            ),
            CollectionNotice::Unmarked { instances } => (
                *instances,
                format!(
                    "{instances} instances by the name {name} have no nodeclaim and do not say which cluster made them: they are left alone"
                ),
            ),
            CollectionNotice::Released => {
                let until = found.until.clone();
                if self.is_news("released", 0) {
                    let message = format!("everything may be collected until {until}");
                    self.env.post(
                        &self.links.recorder,
                        Record::normal(object::kube_system(), "CollectionReleased", message),
                    );
                    self.env.emit(LogEvent::CollectionReleased { until });
                }
                return;
            }
        };
        self.count(reason(notice), 1);
        self.say(reason(notice), count, message);
    }

    /// Says what stands still and why: again when it has changed, and from time to time while it lasts.
    fn say(&mut self, reason: &'static str, count: usize, message: String) {
        if !self.is_news(reason, count) {
            return;
        }
        let record = Record::warning(object::kube_system(), "CollectionBraked", &*message).quiet_for(REPEAT_INTERVAL);
        self.env.post(&self.links.recorder, record);
        self.env.emit(LogEvent::CollectionBraked { reason: reason.to_owned(), count, message });
    }

    fn is_news(&mut self, reason: &'static str, count: usize) -> bool {
        self.reported.is_due(reason, count, self.env.now(), REPEAT_INTERVAL)
    }

    /// Launch templates and instance profiles that nothing uses any more.
    fn look_at_made(&mut self, ctx: &mut Context<Self>) {
        let collect = self.collect();
        let listing = async move { collect.list_made().await }.into_actor(self);
        ctx.spawn(listing.map(|listed, janitor, ctx| {
            if let Some((made, things, classes)) = listed {
                let due = janitor.class_orphans.pass(&things, &classes);
                let due: Vec<_> = made.into_iter().filter(|one| due.contains(&one.name)).collect();
                janitor.count("leftovers_removed", due.len());
                let collect = janitor.collect();
                ctx.spawn(async move { collect.remove_made(due).await }.into_actor(janitor));
            }
            ctx.run_later(CLASS_ORPHANS_INTERVAL, Self::look_at_made);
        }));
    }
}

/// A notice's name, for counting and in the log.
fn reason(notice: &CollectionNotice) -> &'static str {
    match notice {
        CollectionNotice::Braked { .. } => "over_bound",
        CollectionNotice::CloudSuspect { .. } => "no_instances",
        CollectionNotice::ClaimsSuspect { .. } => "claims_lost",
        CollectionNotice::Held { .. } => "held",
        CollectionNotice::Foreign { .. } => "foreign",
        CollectionNotice::Unmarked { .. } => "unmarked",
        CollectionNotice::Released => "released",
    }
}
