//! Takes nodes away: deletes the claims that it is told to, and brings what is being deleted, by whomever, to its end:
//! taint, drain, volumes, instance, finalizers. What comes next is decided by `dovetail_core::termination`.
//!
//! ```text
//! Remove ──► look::remove: the claim is deleted ─┐
//! somebody deletes a claim, a Node or a pool ────┴► ClaimChanged, NodeChanged ─► touch ─► look: all that has changed ─┐
//!                                                                                 ▲                                   │
//!                                          a step is done, or a second is over ───┴──────────── one step of each ◄────┘
//!   Node:  owned::may_drain ─► node::next ─► tainted ─► drained (places, evictions) ─► volumes ─► instance ─► finalizer
//!   claim: owned::may_end ──► claim::next ─► its Nodes deleted, awaited ────────────────────────► instance ─► finalizer
//!                                            instance: `endings`, many in one call; the other steps: `steps`
//! Interrupted ─► interrupted: written on the claim ─► ClaimChanged ─► Node tainted ─► places ready, or time up ─► Remove
//! ```
//!
//! What changes is looked at soon afterwards, everything that goes at least once a second; while nothing goes, nothing
//! is asked. At the mailbox's bound: a claim or Node is worked on by one step at a time and by [`AT_ONCE`] steps in all;
//! what changes meanwhile is looked at afterwards.

mod attachments;
mod endings;
mod evictions;
mod foreign;
mod interrupted;
mod kept;
mod known;
mod left;
mod look;
mod named;
mod owned;
mod places;
mod rollouts;
mod steps;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::CloudInstances;
use dovetail_core::disruption::RemovalReason;
use dovetail_core::say_once::SayOnce;
use dovetail_core::termination::{Patience, instance::Handle, instance::handle};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use kube_runtime::watcher::Event;

use crate::context::env::Env;
use crate::context::refusals::Refusals;
use crate::kube::calls::{CallError, Calls};
use crate::kube::watch::{AfterWatchFailure, WatchNews, watch};
use crate::links::{ToCatalogue, ToClusterWatcher, ToOwner, ToRecorder};
use crate::messages::{ClaimChanged, ClaimGone, NodeChanged, NodeGone, Observe, Remove, TerminatorState, TraceContext};
use crate::owner::owned::Instances;
use crate::reading::LenientApi;
use crate::reading::report::Reports;
use crate::telemetry::log_event::LogEvent;
use attachments::Attachments;
use endings::Endings;
use evictions::Evictions;
use foreign::HeldByOthers;
use interrupted::InterruptedNodes;
use kept::KeptVolumes;
use known::{Key, KnownNodes, is_deleting};
use places::DrainProgress;
use rollouts::Rollouts;
use steps::StepEnv;

/// Everything that goes is looked at this often.
const STEP_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a change before a look, to handle others with it.
const SETTLING_TIME: Duration = Duration::from_millis(50);
/// Steps that run at the same time.
const AT_ONCE: usize = 64;

/// Addresses that the terminator sends to.
#[derive(Clone)]
pub struct TerminatorLinks {
    /// For snapshots and read-your-writes.
    pub cluster: ToClusterWatcher,
    pub recorder: ToRecorder,
    /// For whose an instance is that no claim names.
    pub owner: ToOwner,
    pub catalogue: ToCatalogue,
    /// For instances.
    pub cloud: Arc<dyn CloudInstances>,
    /// For claims, Nodes, pods.
    pub calls: Calls,
}

/// The actor `terminator`: drains nodes that go, ends their instances, and lets their objects go.
pub struct Terminator {
    env: Env,
    links: TerminatorLinks,
    known: KnownNodes,
    attachments: Attachments,
    kept: KeptVolumes,
    evictions: Evictions,
    /// Starts of the waits for pods' places.
    patience: Patience,
    endings: Endings,
    /// Ownership of the claims' instances.
    instances: Instances,
    deleting: BTreeSet<Key>,
    /// Deleted objects that are to be looked at.
    dirty: BTreeSet<Key>,
    busy: BTreeSet<Key>,
    /// Nodes that were let go here and are still there.
    held_by_others: HeldByOthers,
    /// Steps that the API server refuses.
    refused: Refusals,
    /// Last report about claims, by name, whose instances are not their own.
    not_owned: SayOnce<String, String>,
    /// Progress of Nodes, for the log.
    progress: BTreeMap<String, DrainProgress>,
    /// Reasons for deletion, by claim, if this term decided it.
    reasons: BTreeMap<String, (RemovalReason, TraceContext)>,
    /// Claims whose instances end and whose nodes are not drained yet.
    waiting: InterruptedNodes,
    /// Deployments that are restarted for Nodes that go.
    rollouts: Rollouts,
    looking: bool,
    scheduled: bool,
    counts: BTreeMap<&'static str, u64>,
}

impl Terminator {
    /// A terminator with nothing to do.
    pub fn new(env: &Env, links: TerminatorLinks) -> Self {
        let env = env.for_actor("terminator");
        let endings = Endings::new(env.rng("endings"));
        Self {
            env,
            links,
            known: KnownNodes::default(),
            attachments: Attachments::default(),
            kept: KeptVolumes::default(),
            evictions: Evictions::default(),
            patience: Patience::default(),
            endings,
            instances: Instances::default(),
            deleting: BTreeSet::new(),
            dirty: BTreeSet::new(),
            busy: BTreeSet::new(),
            held_by_others: HeldByOthers::default(),
            refused: Refusals::default(),
            not_owned: SayOnce::default(),
            progress: BTreeMap::new(),
            reasons: BTreeMap::new(),
            waiting: InterruptedNodes::default(),
            rollouts: Rollouts::default(),
            looking: false,
            scheduled: false,
            counts: BTreeMap::new(),
        }
    }
}

/// An event of the watch on VolumeAttachments, as a message.
#[derive(Message)]
#[rtype(result = "()")]
struct Seen(Event<VolumeAttachment>);

impl Actor for Terminator {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let (this, env) = (ctx.address(), self.env.clone());
        let api = LenientApi::<VolumeAttachment>::all(self.links.calls.client.clone());
        let (recorder, mut reports) = (self.links.recorder.clone(), Reports::default());
        let on = move |heard| {
            let event = match heard {
                WatchNews::Event(event) => event,
                WatchNews::NotRead(object, came) => {
                    let (event, record) = attachments::not_read(&env, &mut reports, &object, came);
                    record.into_iter().for_each(|record| env.post(&recorder, record));
                    event
                }
                WatchNews::Failed(..) | WatchNews::Runs => return,
            };
            env.post(&this, Seen(event));
        };
        ctx.spawn(watch(api, self.env.clone(), "volumeattachments", AfterWatchFailure::GoOn, on).into_actor(self));
        ctx.run_interval(STEP_INTERVAL, |terminator, ctx| {
            terminator.tell_held_by_others();
            if terminator.deleting.is_empty() {
                // By the next drain claims may be bound to other volumes.
                return terminator.kept.clear();
            }
            // All that goes is looked at: a change that was missed and a step that failed cost a tick at most.
            terminator.dirty.extend(terminator.deleting.iter().cloned());
            terminator.look_at_changes(ctx);
            terminator.ask_cloud(ctx);
        });
    }
}

impl Handler<Remove> for Terminator {
    type Result = ();

    fn handle(&mut self, remove: Remove, ctx: &mut Self::Context) {
        if remove.term < self.env.term {
            return;
        }
        let mut claims = Vec::new();
        for wanted in &remove.claims {
            let Some(claim) = self.known.claims.get(&wanted.name) else { continue };
            // Another claim of that name is nobody's decision, and one that goes already keeps the reason that it has.
            if claim.uid().as_deref() == Some(&wanted.uid) && !is_deleting(&**claim) {
                self.reasons.insert(wanted.name.clone(), (remove.reason, remove.trace));
                claims.push((claim.clone(), self.own_nodes(claim)));
            }
        }
        let step_env = self.step_env(Some(remove.trace));
        let removing = look::remove(step_env, claims, remove.reason, remove.grace).into_actor(self);
        ctx.spawn(removing.map(move |failed, terminator, _| {
            for (name, error) in failed {
                terminator.waiting.not_deleted(&name, terminator.env.now());
                // It came to nothing: who deletes the claim later has reasons of his own. Where nobody answered it may have been done.
                let void = error.is_refusal() || matches!(error, CallError::Conflict(_));
                if void && terminator.reasons.get(&name).is_some_and(|(_, trace)| *trace == remove.trace) {
                    terminator.reasons.remove(&name);
                }
                // The actor that has decided it orders it again.
                if error.is_refusal() && terminator.known.claims.contains_key(&name) {
                    let what = format!("deleting {}", Key::Claim(name));
                    terminator.refused.refused(&what, &error.to_string(), &terminator.env);
                }
            }
        }));
    }
}

impl Handler<ClaimChanged> for Terminator {
    type Result = ();

    fn handle(&mut self, ClaimChanged(claim): ClaimChanged, ctx: &mut Self::Context) {
        self.known.apply_claim(claim.clone());
        self.instances.note(&claim);
        self.look_for_notice(&claim, ctx);
        if is_deleting(&*claim) {
            self.deleting.insert(Key::Claim(claim.name_any()));
            self.touch(Key::Claim(claim.name_any()), ctx);
        }
        for node in self.known.nodes_of(&claim) {
            self.touch(Key::Node(node.name_any()), ctx);
        }
    }
}

impl Handler<ClaimGone> for Terminator {
    type Result = ();

    fn handle(&mut self, gone: ClaimGone, ctx: &mut Self::Context) {
        self.forget(&Key::Claim(gone.name.clone()));
        self.not_owned.gone(&gone.name);
        self.reasons.remove(&gone.name);
        self.waiting.forget(&gone.name);
        let Some(claim) = self.known.forget_claim(&gone.name) else { return };
        self.instances.forget(&claim);
        if let Some(handle) = handle(&claim) {
            self.endings.forget(&handle);
        }
        for node in self.known.nodes_of(&claim) {
            self.touch(Key::Node(node.name_any()), ctx);
        }
    }
}

impl Handler<NodeChanged> for Terminator {
    type Result = ();

    fn handle(&mut self, NodeChanged(node): NodeChanged, ctx: &mut Self::Context) {
        self.known.apply_node(node.clone());
        self.note_held_by_others(&node);
        if is_deleting(&*node) {
            self.deleting.insert(Key::Node(node.name_any()));
            self.touch(Key::Node(node.name_any()), ctx);
        }
        for claim in self.known.claims_of(&node) {
            self.touch(Key::Claim(claim.name_any()), ctx);
        }
    }
}

impl Handler<NodeGone> for Terminator {
    type Result = ();

    fn handle(&mut self, gone: NodeGone, ctx: &mut Self::Context) {
        self.others_let_go(&gone.name);
        self.forget(&Key::Node(gone.name.clone()));
        self.progress.remove(&gone.name);
        self.rollouts.forget(&gone.name);
        let Some(node) = self.known.forget_node(&gone.name) else { return };
        let claims = self.known.claims_of(&node);
        // While a claim names the instance, it is the claim's end that forgets it.
        if let (true, Some(id)) = (claims.is_empty(), dovetail_api::names::instance_id(known::of_node(&node))) {
            self.endings.forget(&Handle::Id(id.to_owned()));
            self.instances.forget_instance(id);
        }
        for claim in claims {
            self.touch(Key::Claim(claim.name_any()), ctx);
        }
    }
}

impl Handler<Seen> for Terminator {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen, ctx: &mut Self::Context) {
        for node in self.attachments.apply(event) {
            self.touch(Key::Node(node), ctx);
        }
    }
}

impl Handler<Observe> for Terminator {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let state = TerminatorState {
            deleting: self.deleting.len(),
            busy: self.busy.len(),
            evicting: self.evictions.running(),
            instances: self.endings.count(),
            interrupted: self.waiting.len(),
            counts: self.counts.clone(),
        };
        MessageResult(state.into())
    }
}

impl Terminator {
    fn step_env(&self, trace: Option<TraceContext>) -> StepEnv {
        StepEnv { env: self.env.clone(), links: self.links.clone(), trace }
    }

    /// Something has changed about what may be going.
    fn touch(&mut self, key: Key, ctx: &mut Context<Self>) {
        if !self.deleting.contains(&key) {
            return;
        }
        // One snapshot serves all that changes within the settling time: a drain touches its node once a pod.
        self.dirty.insert(key);
        self.look_soon(SETTLING_TIME, ctx);
    }

    fn look_soon(&mut self, after: Duration, ctx: &mut Context<Self>) {
        if !std::mem::replace(&mut self.scheduled, true) {
            ctx.run_later(after, |terminator, ctx| {
                terminator.scheduled = false;
                terminator.look_at_changes(ctx);
            });
        }
    }

    fn forget(&mut self, key: &Key) {
        self.deleting.remove(key);
        self.dirty.remove(key);
        self.refused.forget(&format!(" {key}"));
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Asks the cloud of all instances that are due.
    fn ask_cloud(&mut self, ctx: &mut Context<Self>) {
        let asks = self.endings.begin(self.env.now(), self.env.wall());
        if asks.is_empty() {
            return;
        }
        let asking = endings::ask(self.links.clone(), asks).into_actor(self);
        ctx.spawn(asking.map(|mut answered, terminator, ctx| {
            let failed = terminator.endings.end(&mut answered, terminator.env.now());
            for (error, times) in failed.into_iter().filter(|_| terminator.links.calls.may_act()) {
                let (what, error) = (error.call().to_owned(), error.to_string());
                terminator.env.emit(match times {
                    1 => LogEvent::Retrying { what, error },
                    _ => LogEvent::StillRefused { what, error, times, seconds: endings::REFUSED_AGAIN.1.as_secs_f64() },
                });
            }
            answered.answers.iter().filter(|one| !one.ended.is_empty()).for_each(|one| terminator.tell_ended(one));
            // An answer leads to a look at every claim and Node: a look costs no call.
            terminator.dirty.extend(terminator.deleting.iter().cloned());
            terminator.look_soon(SETTLING_TIME, ctx);
        }));
    }

    fn tell_ended(&mut self, answer: &endings::InstanceAnswer) {
        let of = self.known.claims.values().find(|claim| handle(claim).as_ref() == Some(&answer.handle)).cloned();
        let Some(claim) = of else { return };
        let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        for instance in &answer.ended {
            self.count("terminated");
            let (node_claim, node, instance) = (claim.name_any(), node.clone(), instance.clone());
            self.env.emit_in(LogEvent::Terminated { node_claim, node, instance }, self.trace_of(&claim));
        }
    }
}
