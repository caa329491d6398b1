//! Takes nodes away: deletes the claims that it is told to, and brings what is being deleted, by whomever, to its end:
//! taint, drain, volumes, instance, finalizers. What comes next is decided by `dovetail_core::termination`.
//!
//! ```text
//! Remove ──► look::delete_claims: the claim is deleted ─┐
//! somebody deletes a claim, a Node or a pool ────────────┴► ClaimChanged, NodeChanged ─► mark_if_going ─► look: all that has changed ─┐
//!                                                                                                   ▲                             │
//!                                                            a step is done, or a second is over ───┴────── one step of each ◄────┘
//!   Node:  owned::may_drain ─► node::next_step ─► tainted ─► drained (places, evictions) ─► volumes ─► instance ─► finalizer
//!   claim: owned::may_end ──► claim::next_step ─► its Nodes deleted, awaited ────────────────────────► instance ─► finalizer
//!                                            instance: `endings`, many in one call; the other steps: `steps`
//! Interrupted ─► interrupted: written on the claim ─► ClaimChanged ─► Node tainted ─► places ready, or time up ─► Remove
//! ```
//!
//! What changes is looked at soon afterwards, everything that goes at least once a second; while nothing goes, nothing
//! is asked. At the mailbox's bound: a claim or Node is worked on by one step at a time and by [`AT_ONCE`] steps in all;
//! what changes meanwhile is looked at afterwards.

mod attachments;
mod endings;
mod evictor;
mod interrupted;
mod kept;
mod left;
mod look;
mod named;
mod others;
mod owned;
mod places;
mod removal;
mod rollouts;
mod steps;
mod why;

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::CloudInstances;
use dovetail_core::ownership::Instances;
use dovetail_core::termination::evictions::Evictions;
use dovetail_core::termination::{Patience, RemovalPhase, instance::Handle, instance::handle_of};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use kube_runtime::watcher::Event;

use crate::context::book::{Book, Key, Latest};
use crate::context::env::Env;
use crate::kube::calls::{CallError, Calls};
use crate::kube::watch::{AfterWatchFailure, WatchNews, watch};
use crate::links::{ToCatalogue, ToClusterWatcher, ToOwner, ToRecorder};
use crate::messages::{
    ClaimChanged, ClaimGone, Counts, NodeChanged, NodeGone, Observe, Remove, TerminatorState, TraceContext,
};
use crate::reading::LenientApi;
use crate::reading::report::Reports;
use crate::telemetry::log_event::LogEvent;
use attachments::Attachments;
use endings::Endings;
use evictor::Draws;
use kept::KeptVolumes;
use removal::{Removal, instance_id_of, is_deleting};
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
    known: Book<Removal, RemovalPhase>,
    attachments: Attachments,
    kept: KeptVolumes,
    evictions: Evictions<Draws>,
    /// Starts of the waits for pods' places.
    patience: Patience,
    endings: Endings,
    /// Ownership of the claims' instances.
    instances: Instances,
    timers: Timers,
    counts: Counts,
}

/// Looks that run or are scheduled.
#[derive(Default)]
struct Timers {
    looking: bool,
    scheduled: bool,
    /// Places of interrupted nodes' pods are watched.
    watching_places: bool,
}

impl Terminator {
    /// A terminator with nothing to do.
    pub fn new(env: &Env, links: TerminatorLinks) -> Self {
        let env = env.for_actor("terminator");
        let endings = Endings::new(env.rng("endings"));
        Self {
            env,
            links,
            known: Book::default(),
            attachments: Attachments::default(),
            kept: KeptVolumes::default(),
            evictions: Evictions::default(),
            patience: Patience::default(),
            endings,
            instances: Instances::default(),
            timers: Timers::default(),
            counts: Counts::new(),
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
            terminator.report_held_by_others();
            // All that goes is looked at: a change that was missed and a step that failed cost a tick at most.
            if !terminator.mark_going() {
                // By the next drain claims may be bound to other volumes.
                return terminator.kept.forget_all();
            }
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
            let Some(claim) = self.known.claim(&wanted.name).cloned() else { continue };
            // Another claim of that name is nobody's decision, and one that goes already keeps the reason that it has.
            if claim.uid().as_deref() == Some(&wanted.uid) && !is_deleting(&*claim) {
                if let Some(removal) = self.known.get_mut(&Key::claim(&wanted.name)) {
                    removal.reason = Some((remove.reason, remove.trace));
                }
                let nodes = self.own_nodes(&claim);
                claims.push((claim, nodes));
            }
        }
        let step_env = self.step_env(Some(remove.trace));
        let removing =
            look::delete_claims(step_env, claims, remove.reason, remove.grace, remove.disrupted).into_actor(self);
        ctx.spawn(removing.map(move |failed, terminator, _| {
            for (name, error) in failed {
                let Some(removal) = terminator.known.get_mut(&Key::claim(&name)) else { continue };
                if let Some(announced) = &mut removal.announced {
                    announced.end.not_deleted(terminator.env.now());
                }
                // It came to nothing: who deletes the claim later has reasons of his own. Where nobody answered it may have been done.
                let void = error.is_refusal() || matches!(error, CallError::Conflict(_));
                if void && removal.reason.is_some_and(|(_, trace)| trace == remove.trace) {
                    removal.reason = None;
                }
                // The actor that has decided it orders it again.
                if error.is_refusal() {
                    let what = format!("deleting {}", Key::Claim(name));
                    removal.refused.refused(&what, &error.to_string(), &terminator.env);
                }
            }
        }));
    }
}

impl Handler<ClaimChanged> for Terminator {
    type Result = ();

    fn handle(&mut self, ClaimChanged(claim): ClaimChanged, ctx: &mut Self::Context) {
        // Once it names its instance it is no longer asked about by its token.
        let before = self.known.claim(&claim.name_any()).and_then(|known| handle_of(known));
        if let Some(before) = before.filter(|before| handle_of(&claim).as_ref() != Some(before)) {
            self.endings.forget_instance(&before);
        }
        self.known.note(Latest::Claim(claim.clone()));
        self.instances.note(&claim);
        self.look_for_notice(&claim, ctx);
        if is_deleting(&*claim) {
            self.note_deletion(Key::Claim(claim.name_any()), ctx);
        }
        for node in self.known.nodes_of(&claim) {
            self.mark_if_going(Key::Node(node.name_any()), ctx);
        }
    }
}

impl Handler<ClaimGone> for Terminator {
    type Result = ();

    fn handle(&mut self, gone: ClaimGone, ctx: &mut Self::Context) {
        let Some(claim) = self.known.claim(&gone.name).cloned() else { return };
        self.known.gone(&Key::Claim(gone.name));
        self.instances.forget(&claim);
        if let Some(handle) = handle_of(&claim) {
            self.endings.forget_instance(&handle);
        }
        for node in self.known.nodes_of(&claim) {
            self.mark_if_going(Key::Node(node.name_any()), ctx);
        }
    }
}

impl Handler<NodeChanged> for Terminator {
    type Result = ();

    fn handle(&mut self, NodeChanged(node): NodeChanged, ctx: &mut Self::Context) {
        self.known.note(Latest::Node(node.clone()));
        self.note_held_by_others(&node);
        if is_deleting(&*node) {
            self.note_deletion(Key::Node(node.name_any()), ctx);
        }
        for claim in self.known.claims_of(&node) {
            self.mark_if_going(Key::Claim(claim.name_any()), ctx);
        }
    }
}

impl Handler<NodeGone> for Terminator {
    type Result = ();

    fn handle(&mut self, gone: NodeGone, ctx: &mut Self::Context) {
        let Some(node) = self.known.node(&gone.name).cloned() else { return };
        if let Some(held) = self.known.gone(&Key::Node(gone.name.clone())).and_then(|removal| removal.held) {
            self.others_let_go(gone.name, held);
        }
        let claims = self.known.claims_of(&node);
        // While a claim names the instance, it is the claim's end that forgets it.
        if let (true, Some(id)) = (claims.is_empty(), instance_id_of(&node)) {
            self.endings.forget_instance(&Handle::Id(id.to_owned()));
            self.instances.forget_instance(id);
        }
        for claim in claims {
            self.mark_if_going(Key::Claim(claim.name_any()), ctx);
        }
    }
}

impl Handler<Seen> for Terminator {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen, ctx: &mut Self::Context) {
        for node in self.attachments.apply_event(event) {
            self.mark_if_going(Key::Node(node), ctx);
        }
    }
}

impl Handler<Observe> for Terminator {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let mut phases = Counts::new();
        self.known.under_way().for_each(|(_, phase)| *phases.entry(phase.label()).or_default() += 1);
        let state = TerminatorState {
            deleting: self.going_keys().len(),
            phases,
            busy: self.known.busy.len(),
            evicting: self.evictions.running_count(),
            instances: self.endings.known_count(),
            interrupted: self.announced_claims().len(),
            counts: self.counts.clone(),
        };
        MessageResult(state.into())
    }
}

impl Terminator {
    fn step_env(&self, trace: Option<TraceContext>) -> StepEnv {
        StepEnv { env: self.env.clone(), links: self.links.clone(), trace }
    }

    /// An object is seen to be deleted.
    fn note_deletion(&mut self, key: Key, ctx: &mut Context<Self>) {
        if !self.is_going(&key) {
            self.enter_phase(&key, Some(RemovalPhase::Tainted));
        }
        self.mark_if_going(key, ctx);
    }

    /// Something has changed about what may be going.
    fn mark_if_going(&mut self, key: Key, ctx: &mut Context<Self>) {
        if !self.is_going(&key) {
            return;
        }
        // One snapshot serves all that changes within the settling time: a drain touches its node once a pod.
        self.known.marked.insert(key);
        self.look_soon(SETTLING_TIME, ctx);
    }

    fn look_soon(&mut self, after: Duration, ctx: &mut Context<Self>) {
        if !std::mem::replace(&mut self.timers.scheduled, true) {
            ctx.run_later(after, |terminator, ctx| {
                terminator.timers.scheduled = false;
                terminator.look_at_changes(ctx);
            });
        }
    }

    fn add_to_count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Asks the cloud of all instances that are due.
    fn ask_cloud(&mut self, ctx: &mut Context<Self>) {
        let asks = self.endings.take_due(self.env.now(), self.env.wall());
        if asks.is_empty() {
            return;
        }
        let asking = endings::ask_and_end(self.links.clone(), asks).into_actor(self);
        ctx.spawn(asking.map(|mut answered, terminator, ctx| {
            let failed = terminator.endings.take_answers(&mut answered, terminator.env.now());
            for (error, times) in failed.into_iter().filter(|_| terminator.links.calls.may_act()) {
                let (what, error) = (error.call().to_owned(), error.to_string());
                terminator.env.emit(match times {
                    1 => LogEvent::Retrying { what, error },
                    _ => LogEvent::StillRefused { what, error, times, seconds: endings::REFUSED_AGAIN.1.as_secs_f64() },
                });
            }
            answered.answers.iter().filter(|one| !one.ended.is_empty()).for_each(|one| terminator.report_ended(one));
            // An answer leads to a look at every claim and Node: a look costs no call.
            terminator.mark_going();
            terminator.look_soon(SETTLING_TIME, ctx);
        }));
    }

    fn report_ended(&mut self, answer: &endings::InstanceAnswer) {
        let of = self.known.claims().find(|claim| handle_of(claim).as_ref() == Some(&answer.handle)).cloned();
        let Some(claim) = of else { return };
        let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        for instance in &answer.ended {
            self.add_to_count("terminated");
            let (node_claim, node, instance) = (claim.name_any(), node.clone(), instance.clone());
            self.env.emit_in(LogEvent::Terminated { node_claim, node, instance }, self.trace_of(&claim));
        }
    }
}
