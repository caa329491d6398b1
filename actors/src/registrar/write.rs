//! Writes of the registrar, and the reports that follow them.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::{conditions, labels};
use dovetail_api::v1::{NodeClaim, condition};
use dovetail_core::lifecycle::claim::from_quantities;
use dovetail_core::lifecycle::{ClaimStage, Timeout, Writes};
use dovetail_core::ownership::OwnershipVerdict;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::binder::{COMES_LAST, NominationWrite, nominate_pods};
use super::{Registrar, Registration, is_news, register, uid_of};
use crate::context::alarms::Alarmed as _;
use crate::context::book::{Key, Latest};
use crate::context::brakes::{Brake, PAUSES};
use crate::context::traces;
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::woken::when_woken;
use crate::launcher::facts::pool_of;
use crate::messages::{NotRegistered, PackNow, Record, TraceContext, Wrote};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;

/// Pause before a claim is given up whose age cannot be reckoned, as the replica's clock is too wrong.
const CLOCK_AGAIN: Duration = Duration::from_secs(10);
/// The pause before a claim is checked again after a failed write.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Registrar {
    /// Writes as soon as the claim's last write is a while ago.
    pub(super) fn write_when_due(&mut self, name: &str, writes: Writes, ctx: &mut Context<Self>) {
        let pace = self.known.get(&Key::claim(name)).map(|own| own.pace).unwrap_or_default();
        match pace.wait(&writes, self.env.now()) {
            Some(pause) => self.take_next_step_in(name.to_owned(), pause, ctx),
            None => self.write(name, writes, ctx),
        }
    }

    pub(super) fn write(&mut self, name: &str, writes: Writes, ctx: &mut Context<Self>) {
        let (name, key) = (name.to_owned(), Key::Claim(name.to_owned()));
        self.known.busy.insert(key.clone());
        // From then on kube-scheduler may put pods there.
        let lets_in = writes.lets_pods_in() && self.keeps_places();
        let may_wait = lets_in && self.may_wait(&writes);
        let (links, wanted, claim) = (self.links.clone(), writes.clone(), name.clone());
        let writing = async move {
            let kept =
                if lets_in { nominate_pods(links.clone(), claim, may_wait).await } else { NominationWrite::default() };
            let written = if kept.waits { None } else { Some(register::write(links, wanted).await) };
            (kept, written)
        };
        ctx.spawn(when_woken(writing).into_actor(self).map(move |(kept, written), registrar, ctx| {
            registrar.note_kept(kept);
            registrar.known.busy.remove(&key);
            let Some(written) = written else {
                return registrar.take_next_step_in(name, Duration::from_secs(1), ctx);
            };
            match written {
                Ok((node, claim)) => {
                    let now = registrar.env.now();
                    if let Some(registration) = registrar.known.get_mut(&key) {
                        registration.brake = None;
                        registration.pace.written(now);
                    }
                    registrar.written(node, claim, &writes);
                    // Only now is it known that the claim is registered.
                    if lets_in {
                        registrar.look_at_kept_places(ctx);
                    }
                }
                Err(CallError::Deposed) => return,
                // A changed or deleted object comes as a change of its own; an immediate look would still see the old one.
                Err(error) => {
                    let pause = registrar.pause_after(&error, &writes.claim);
                    return registrar.take_next_step_in(name, pause, ctx);
                }
            }
            registrar.known.marked.remove(&key);
            registrar.take_next_step(&name, ctx);
        }));
    }

    /// Looks at a claim again after a while, once, however often that is asked for; it counts as it is by then.
    fn take_next_step_in(&mut self, name: String, pause: Duration, ctx: &mut Context<Self>) {
        let key = Key::Claim(name.clone());
        self.known.marked.remove(&key);
        let now = self.env.now();
        self.ring_in(name.clone(), now, pause, ctx, move |registrar, ctx| {
            registrar.known.marked.remove(&key);
            registrar.take_next_step(&name, ctx);
        });
    }

    /// Pause of a claim after a failed call; ever longer if the API server refuses it.
    pub(super) fn pause_after(&mut self, error: &CallError, claim: &NodeClaim) -> Duration {
        if !error.is_refusal() {
            return AFTER_FAILURE;
        }
        let (now, rng) = (self.env.now(), || self.env.rng(uid_of(claim)));
        let Some(registration) = self.known.get_mut(&Key::claim(&claim.name_any())) else { return AFTER_FAILURE };
        registration.brake.get_or_insert_with(|| Brake::new(PAUSES.0, PAUSES.1, rng())).failed(None, now)
            + AFTER_FAILURE
    }

    /// True if a node that is about to be let in may wait for others: not for long after it has joined.
    fn may_wait(&self, writes: &Writes) -> bool {
        let joined = writes.node.as_ref().and_then(|node| node.metadata.creation_timestamp.as_ref());
        joined.is_some_and(|joined| self.env.wall().duration_since(joined.0) < COMES_LAST)
    }

    pub(super) fn written(&mut self, node: Option<Arc<Node>>, claim: Arc<NodeClaim>, writes: &Writes) {
        // Before the answer came the watch may have shown what has become of them since, or that they are gone.
        if let Some(node) = node.filter(|node| is_news(node.as_ref(), self.known.node(&node.name_any()))) {
            self.known.note(Latest::Node(node));
        }
        if is_news(claim.as_ref(), self.known.claim(&claim.name_any())) {
            self.known.note(Latest::Claim(claim.clone()));
        }
        self.emit(&claim, writes);
    }

    pub(super) fn emit(&mut self, claim: &NodeClaim, writes: &Writes) {
        let trace = traces::of_packing(claim);
        let (node_claim, status) = (claim.name_any(), claim.status.clone().unwrap_or_default());
        let node = status.node_name.clone();
        if writes.guard_missing {
            let message = format!("Node {node} joined without the taint karpenter.sh/unregistered:NoExecute");
            self.env
                .post(&self.links.recorder, Record::warning(object::claim(claim), "UnregisteredTaintMissing", message));
            self.env.emit_in(LogEvent::GuardMissing { node_claim: node_claim.clone(), node: node.clone() }, trace);
        }
        for stage in writes.passes {
            let (node_claim, node) = (node_claim.clone(), node.clone());
            match stage {
                ClaimStage::Registered => {
                    *self.passed.entry("registered").or_default() += 1;
                    self.tell_stage(claim, "register", conditions::LAUNCHED);
                    let (pool, zone) = (pool_of(claim), claim.labels().get(labels::ZONE).cloned().unwrap_or_default());
                    self.env.measure(&Measure::NodeCreated { pool: &pool, zone: &zone });
                    let provider_id = status.provider_id.clone();
                    self.env.emit_in(LogEvent::Registered { node_claim, node, provider_id }, trace);
                }
                ClaimStage::Initialized => {
                    *self.passed.entry("initialized").or_default() += 1;
                    self.tell_stage(claim, "initialize", conditions::REGISTERED);
                    traces::claim_ended(&self.env, claim, None);
                    let allocatable = from_quantities(&status.allocatable).to_string();
                    self.env.emit_in(LogEvent::Initialized { node_claim, node, allocatable }, trace);
                }
                ClaimStage::Launched => {}
            }
        }
    }

    /// Tells a stage as a span: it began when the stage before was reached.
    pub(super) fn tell_stage(&self, claim: &NodeClaim, name: &'static str, before: &str) {
        let Some(packing) = traces::of_packing(claim) else { return };
        let own = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let begun = condition(own, before).map(|one| one.last_transition_time.0);
        let span = self.env.span(traces::of_claim(packing, &claim.name_any()), name, "").since_some(begun);
        span.with_all(|| traces::attributes(claim)).end();
    }

    /// Says by an event what a node lacks that has had its time to get ready for pods.
    fn tell_uninitialized(&self, claim: &NodeClaim) {
        let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        let lacks = self.uninitialized(claim).unwrap_or_default();
        let message = format!("Node {node} is deleted, as it was not ready for pods in time: {lacks}");
        let record = Record::warning(object::claim(claim), "InitializationTimeout", message);
        self.env.post(&self.links.recorder, record);
    }

    /// Deletes a claim that has had its time; its instance, if it has one, is the terminator's. Its pods are free.
    pub(super) fn give_up(&mut self, claim: &Arc<NodeClaim>, timeout: Timeout, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        if !self.env.skew().is_borne() {
            return self.take_next_step_in(name, CLOCK_AGAIN, ctx);
        }
        let key = Key::Claim(name.clone());
        self.known.busy.insert(key.clone());
        // If its deletion is refused, this repeats without another report.
        let reported = |registration: &mut Registration| std::mem::replace(&mut registration.gave_up, true);
        if !self.known.get_mut(&key).is_some_and(reported) {
            self.tell_give_up(claim, timeout);
        }
        let packing = traces::of_packing(claim);
        let (claims, claim) = (NodeClaimApi::new(self.links.calls.clone()), claim.clone());
        let there = NodeClaim::clone(&claim);
        let ending = when_woken(async move { claims.remove(there).await }).into_actor(self);
        ctx.spawn(ending.map(move |ended, registrar, ctx| {
            registrar.known.busy.remove(&key);
            match ended {
                Ok(claim) => registrar.env.post(&registrar.links.cluster, Wrote::Claim(Arc::new(claim))),
                Err(CallError::NotFound(_)) => {
                    registrar.env.post(&registrar.links.cluster, Wrote::ClaimGone(name, claim.uid()));
                }
                Err(CallError::Deposed) => return,
                Err(error) => {
                    let pause = registrar.pause_after(&error, &claim);
                    return registrar.take_next_step_in(name, pause, ctx);
                }
            }
            let trace = packing.unwrap_or_else(|| TraceContext::root(&mut registrar.env.rng("give up")));
            registrar.env.post(&registrar.links.packer, PackNow::after(registrar.env.term, trace));
        }));
    }

    /// Tells that a claim is given up, and the launcher where that says something of its pool's nodes.
    fn tell_give_up(&self, claim: &Arc<NodeClaim>, timeout: Timeout) {
        let (node_claim, reason) = (claim.name_any(), timeout.reason().to_owned());
        let why = match timeout {
            Timeout::NodeGone => "its Node is gone",
            Timeout::LaunchTimeout | Timeout::RegistrationTimeout => "its node did not come up in time",
            Timeout::InitializationTimeout => "its node did not get ready for pods in time",
        };
        if timeout == Timeout::InitializationTimeout {
            self.tell_uninitialized(claim);
        }
        traces::claim_ended(&self.env, claim, Some((timeout.reason(), why)));
        self.env.emit_in(LogEvent::GaveUp { node_claim, reason }, traces::of_packing(claim));
        // A claim that names an instance of somebody else says nothing of its pool's nodes.
        if matches!(timeout, Timeout::RegistrationTimeout | Timeout::InitializationTimeout)
            && !matches!(self.instances.verdict(claim), OwnershipVerdict::NotOurs(_))
        {
            self.env.post(&self.links.launcher, NotRegistered { claim: claim.clone() });
        }
    }
}
