//! What goes is looked at: facts are gathered, the next step is decided and begun.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::{PodEntry, Snapshot};
use dovetail_core::disruption::RemovalReason;
use dovetail_core::interruption::InterruptionNotice;
use dovetail_core::lifecycle::initialization::is_ready;
use dovetail_core::ownership::is_another_providers;
use dovetail_core::termination::claim::{self, ClaimStep};
use dovetail_core::termination::instance::{Handle, handle};
use dovetail_core::termination::node::{self, DeletingNode, NodeStep};
use dovetail_core::termination::volumes;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::endings::{EndingObject, InstanceQuery};
use super::evictions::{Candidate, Ended};
use super::known::of_node;
use super::owned::{MayDrain, MayEnd};
use super::steps::{Done, For, StepEnv};
use super::{AT_ONCE, Key, SETTLING_TIME, Terminator};
use crate::context::{measures, traces};
use crate::kube::evict::{self, EvictionOutcome};
use crate::messages::{Record, TakeSnapshot, TraceContext};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;
use crate::telemetry::span::names;

/// Claims deleted at the same time.
const DELETIONS: usize = 16;
/// How many names a log line gives.
pub(super) const NAMES_LISTED: usize = 5;

/// A pod that leaves its node now.
pub(super) struct LeavingPod {
    pub pod: Arc<PodEntry>,
    /// The PodDisruptionBudget that an eviction asks; none for a deletion.
    pub budget: Option<String>,
    /// Seconds that the pod has to end, where it is deleted because its node's time is up; none for an eviction.
    pub grace: Option<u32>,
}

/// An eviction or deletion that was sent.
struct EvictionAttempt<'a> {
    pod: &'a PodEntry,
    /// When it was sent.
    begun: Timestamp,
    /// It was a deletion, which asks no budget.
    forced: bool,
}

/// Deletes claims, given with their Nodes, by our own decision. Answers the names of those that could not be deleted.
pub async fn remove(
    step_env: StepEnv,
    claims: Vec<(Arc<NodeClaim>, Vec<Arc<Node>>)>,
    reason: RemovalReason,
) -> Vec<String> {
    let why = match reason {
        RemovalReason::Interrupted | RemovalReason::GarbageCollected => For::Fact,
        _ => For::Decision,
    };
    let deletions = claims.into_iter().map(|(claim, nodes)| {
        let step_env = step_env.clone();
        async move {
            match step_env.delete_claim(&claim, why, Some(reason.label())).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => return Some(claim.name_any()),
            }
            // Of an interruption metrics name the kind (aws spec 5).
            let announced = InterruptionNotice::on(&claim).filter(|_| reason == RemovalReason::Interrupted);
            let label = announced.map_or(reason.label(), |notice| notice.kind.label());
            measures::claim_disrupted(&step_env.env, &claim, label);
            tell_removing(&step_env, &claim, &nodes, reason);
            None
        }
    });
    futures::stream::iter(deletions).buffered(DELETIONS).filter_map(futures::future::ready).collect().await
}

fn tell_removing(step_env: &StepEnv, claim: &NodeClaim, nodes: &[Arc<Node>], reason: RemovalReason) {
    let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    let message = format!("Disrupting: {}", reason.label());
    for object in nodes.iter().map(|node| object::node(node)).chain([object::claim(claim)]) {
        step_env.record(Record::normal(object, "DisruptionTerminating", &*message));
    }
    let (node_claim, reason) = (claim.name_any(), reason.label().to_owned());
    step_env.emit(LogEvent::Removing { node_claim, node, reason });
}

impl Terminator {
    /// Looks at all that has changed, on a snapshot of the pods.
    pub(super) fn look_at_changes(&mut self, ctx: &mut Context<Self>) {
        if self.dirty.is_empty() || std::mem::replace(&mut self.looking, true) {
            return;
        }
        let asked = self.links.cluster.send(TakeSnapshot).into_actor(self);
        ctx.spawn(asked.map(|answer, terminator, ctx| {
            terminator.looking = false;
            // Until everything has been listed once, nothing is known: the next tick tries again.
            if let Ok(Some(snapshot)) = answer {
                terminator.look_at_all(&snapshot, ctx);
                terminator.ask_cloud(ctx);
            }
        }));
    }

    fn look_at_all(&mut self, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        // Pods that are gone are forgotten before any look, so that their slots are free in it.
        self.evictions.retain(|uid| snapshot.pods.contains_key(uid));
        self.patience.retain(|uid| snapshot.pods.contains_key(uid));
        for key in std::mem::take(&mut self.dirty) {
            // What is being worked on is looked at again when that is done.
            if self.busy.contains(&key) || !self.deleting.contains(&key) {
                continue;
            }
            if self.busy.len() >= AT_ONCE {
                self.dirty.insert(key);
                continue;
            }
            match &key {
                Key::Claim(name) => self.look_at_claim(name, ctx),
                Key::Node(name) => self.look_at_node(name, snapshot, ctx),
            }
        }
    }

    /// Begins a step.
    pub(super) fn begin(&mut self, key: Key, step: impl Future<Output = Done> + 'static, ctx: &mut Context<Self>) {
        self.busy.insert(key.clone());
        ctx.spawn(step.into_actor(self).map(move |done, terminator, ctx| {
            terminator.busy.remove(&key);
            // What failed for good is decided anew when it changes, or with the next tick.
            if done.is_ok() {
                terminator.dirty.insert(key);
                terminator.look_soon(SETTLING_TIME, ctx);
            }
        }));
    }

    fn look_at_claim(&mut self, name: &str, ctx: &mut Context<Self>) {
        let Some(claim) = self.known.claims.get(name).cloned() else { return };
        let nodes = match self.may_end(&claim) {
            MayEnd::Yes(nodes) => nodes,
            MayEnd::NotYet => return,
            MayEnd::Never(why) => return self.let_go(&claim, &why, ctx),
        };
        let refs: Vec<&Node> = nodes.iter().map(AsRef::as_ref).collect();
        let handle = handle(&claim);
        let (seen, asked) = self.endings.seen(handle.as_ref());
        let step = claim::next(&claim, &refs, seen, asked);
        let (key, step_env) = (Key::Claim(name.to_owned()), self.step_env(self.trace_of(&claim)));
        match step {
            ClaimStep::NotOurs => drop(self.deleting.remove(&key)),
            ClaimStep::SetDeadline(deadline) => self.begin(key, step_env.set_deadline(claim, nodes, deadline), ctx),
            ClaimStep::DeleteNodes(names) => {
                let nodes = nodes.into_iter().filter(|node| names.contains(&node.name_any())).collect();
                self.begin(key, step_env.delete_nodes(claim, nodes), ctx);
            }
            ClaimStep::AwaitNodes => {}
            ClaimStep::Terminate => self.want(handle, Some(EndingObject::without_node(&claim))),
            ClaimStep::Say(said) => self.begin(key, step_env.say(claim, said, String::new()), ctx),
            ClaimStep::Release => {
                let reason = self.reason_of(&claim);
                self.begin(key, step_env.release_claim(claim, reason), ctx);
            }
        }
    }

    fn look_at_node(&mut self, name: &str, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        let Some(node) = self.known.nodes.get(name).cloned() else { return };
        // Its finalizer has the same name as ours, and is its provider's to take off.
        if is_another_providers(node.labels()) && self.known.claims_of(&node).is_empty() {
            self.deleting.remove(&Key::Node(name.to_owned()));
            return;
        }
        let claims = match self.may_drain(&node) {
            MayDrain::For(claims) => claims,
            MayDrain::NotYet => return,
            MayDrain::Never => return self.release_stranger(&node, ctx),
        };
        let refs: Vec<&NodeClaim> = claims.iter().map(AsRef::as_ref).collect();
        let only = claims.first().filter(|_| claims.len() == 1).cloned();
        let by_provider = || dovetail_api::names::instance_id(of_node(&node)).map(|id| Handle::Id(id.to_owned()));
        let handle = only.as_ref().map_or_else(by_provider, |claim| handle(claim));
        let load = snapshot.loads.get(name);
        let pods: Vec<Arc<PodEntry>> = load.into_iter().flat_map(|load| load.pods.values().cloned()).collect();
        // None attached needs no look at the claims of the pods that stay.
        let held = match self.attachments.on(name) {
            Some(all) if all.is_empty() => Some(BTreeSet::new()),
            _ => self.kept(name, &pods, ctx).and_then(|kept| Some(volumes::held(self.attachments.on(name)?, &kept))),
        };
        let (seen, asked) = self.endings.seen(handle.as_ref());
        let known = DeletingNode { claims: &refs, pods, volumes: held, seen, asked };
        let step = node::next(&node, &known, self.env.wall());
        let step_env = self.step_env(only.as_ref().and_then(|claim| self.trace_of(claim)));
        let node_claim = only.as_ref().map(|claim| claim.name_any()).unwrap_or_default();
        let key = Key::Node(name.to_owned());
        // Before the step: its log line is to say why.
        self.note_begin(&step_env, &node, only.as_deref(), &step, snapshot);
        if !is_ready(&node) && !matches!(step, NodeStep::NotOurs | NodeStep::Release) {
            // As soon as its instance is known to be gone, nothing more is waited for.
            self.want(handle.clone(), None);
        }
        match (step, only) {
            (NodeStep::NotOurs, _) => drop(self.deleting.remove(&key)),
            (NodeStep::Settle, _) => {}
            (NodeStep::DeleteClaim, Some(claim)) => self.begin(key, step_env.delete_claim_of(node, claim), ctx),
            (NodeStep::Ask, _) => {}
            (NodeStep::Cordon(_), _) => {
                let reason = self.reason_of_node(name);
                self.begin(key, step_env.cordon(node, node_claim, reason), ctx);
            }
            (NodeStep::Say(said), Some(claim)) if node::is_drained(&said) => {
                self.begin(key, step_env.say_drained(claim, said, node), ctx);
            }
            (NodeStep::Say(said), Some(claim)) => self.begin(key, step_env.say(claim, said, name.to_owned()), ctx),
            (NodeStep::Drain(drain), claim) => self.drain(&step_env, &node, claim.as_deref(), drain, snapshot, ctx),
            (NodeStep::AwaitVolumes(volumes), _) => self.await_volumes(&step_env, &node, volumes),
            (NodeStep::Terminate, Some(claim)) => self.want(handle, Some(EndingObject::drained(&claim, name))),
            (NodeStep::Release, None) if is_ready(&node) => self.begin(key, step_env.release_drained(node), ctx),
            (NodeStep::Release, _) => self.begin(key, step_env.release_node(node, node_claim), ctx),
            (NodeStep::DeleteClaim | NodeStep::Say(_) | NodeStep::Terminate, None) => {}
        }
        self.tell_gone(name);
    }

    fn want(&mut self, handle: Option<Handle>, end: Option<EndingObject>) {
        if let Some(handle) = handle {
            self.endings.want(InstanceQuery { handle, end });
        }
    }

    /// Evicts or deletes a pod, unless that is under way.
    pub(super) fn send_away(
        &mut self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        leaving: LeavingPod,
        ctx: &mut Context<Self>,
    ) {
        let LeavingPod { pod, budget, grace } = leaving;
        let (uid, now) = (pod.pod.uid.clone(), self.env.now());
        let env = self.env.clone();
        let (name, budget) = (node.name_any(), budget.as_deref());
        let candidate = Candidate { uid: &uid, node: &name, forced: grace.is_some(), budget };
        if !self.evictions.begins(&candidate, now, || env.rng(&uid)) {
            return;
        }
        let begun = self.env.wall();
        let (calls, target) = (self.links.calls.clone(), pod.clone());
        // What no budget is asked about has to rest on what stands.
        let (claim, going) = (self.own_claims(node).first().cloned(), step_env.clone());
        let attempt = async move {
            let Some(seconds) = grace else { return evict::evict(&calls, &target.pod).await };
            let stands = match &claim {
                Some(claim) => going.still_goes(claim).await,
                None => Ok(()),
            };
            match stands {
                Ok(()) => evict::delete(&calls, &target.pod, seconds).await,
                Err(error) => EvictionOutcome::Failed(error.to_string()),
            }
        };
        let (step_env, node) = (step_env.clone(), node.clone());
        ctx.spawn(attempt.into_actor(self).map(move |outcome, terminator, ctx| {
            let attempt = EvictionAttempt { pod: &pod, begun, forced: grace.is_some() };
            terminator.sent_away(&step_env, &node, &attempt, &outcome, ctx);
        }));
    }

    fn sent_away(
        &mut self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        attempt: &EvictionAttempt<'_>,
        outcome: &EvictionOutcome,
        ctx: &mut Context<Self>,
    ) {
        let EvictionAttempt { pod, forced, .. } = *attempt;
        let (name, full) = (node.name_any(), format!("{}/{}", pod.pod.namespace, pod.pod.name));
        let goes = matches!(outcome, EvictionOutcome::Going | EvictionOutcome::Gone);
        let Ended { pause, first_refusal, next } = self.evictions.ended(&pod.pod.uid, outcome, self.env.now());
        next.into_iter().for_each(|node| self.touch(Key::Node(node), ctx));
        self.tell_sent_away(step_env, node, attempt, outcome, first_refusal);
        match outcome {
            EvictionOutcome::Going => {
                self.count(if forced { "deleted" } else { "evicted" });
                let progress = self.progress.entry(name.clone()).or_default();
                if forced { &mut progress.deleted } else { &mut progress.evicted }.push(full);
                let (reason, message) = match forced {
                    true => (
                        "Disrupted",
                        format!("Deleted the pod to accommodate the terminationGracePeriod of node {name}"),
                    ),
                    false => ("Evicted", format!("Evicted pod: node {name} is being terminated")),
                };
                step_env.record(Record::normal(object::pod(&pod.pod), reason, message));
            }
            EvictionOutcome::Refused(error) => {
                let message = format!("evicting pod {full}: {error}");
                step_env.record(Record::warning(object::node(node), "FailedDraining", message));
                if first_refusal {
                    let (pod, error) = (full, error.clone());
                    step_env.emit(LogEvent::EvictionRefused { pod, node: name.clone(), error });
                }
            }
            EvictionOutcome::Gone | EvictionOutcome::Failed(_) => {}
        }
        let (key, again) = (Key::Node(name), if goes { SETTLING_TIME } else { pause });
        ctx.run_later(again, move |terminator, ctx| terminator.touch(key, ctx));
    }

    /// Tells an attempt as a span: one that was accepted, or the first that was refused.
    fn tell_sent_away(
        &self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        attempt: &EvictionAttempt<'_>,
        outcome: &EvictionOutcome,
        first_refusal: bool,
    ) {
        let (pod, forced) = (&attempt.pod.pod, attempt.forced);
        let code = match outcome {
            EvictionOutcome::Going => 201,
            EvictionOutcome::Gone => 404,
            EvictionOutcome::Refused(_) => 429,
            EvictionOutcome::Failed(_) => 500,
        };
        if !forced {
            self.env.measure(&Measure::EvictionAnswered { code });
        }
        let claim = self.own_claims(node).first().cloned();
        if matches!(outcome, EvictionOutcome::Going) {
            let decided = claim.as_ref().and_then(|claim| self.reasons.get(&claim.name_any()));
            // Nobody of us has decided it: its deletion was asked for.
            let reason = decided.map_or("deletion_asked", |(reason, _)| reason.label());
            self.env.measure(&Measure::PodDrained { reason: if forced { "Forceful Termination" } else { reason } });
        }
        let (Some(cause), Some(claim)) = (step_env.trace, claim) else { return };
        let inside = traces::of_removal(cause, &claim.name_any());
        let span =
            |key: &str| self.env.span(inside, if forced { "delete pod" } else { "evict" }, key).since(attempt.begun);
        let span = match outcome {
            EvictionOutcome::Going => span(&pod.uid),
            EvictionOutcome::Refused(why) if first_refusal => {
                span(&format!("{} refused", pod.uid)).failed("429", why.as_str())
            }
            EvictionOutcome::Refused(_) | EvictionOutcome::Gone | EvictionOutcome::Failed(_) => return,
        };
        let span = span.remote().with(names::POD, &*pod.name).with(names::NAMESPACE, &*pod.namespace);
        span.with(names::NODE, node.name_any()).with(names::CLAIM, claim.name_any()).end();
    }

    fn await_volumes(&mut self, step_env: &StepEnv, node: &Arc<Node>, volumes: BTreeSet<String>) {
        let volumes = Names::first(NAMES_LISTED, volumes);
        let message = format!("Awaiting detachment of volumes: {volumes}");
        step_env.record(Record::normal(object::node(node), "AwaitingVolumeDetachment", message));
        let progress = self.progress.entry(node.name_any()).or_default();
        if !std::mem::replace(&mut progress.awaiting_volumes, true) {
            step_env.emit(LogEvent::AwaitingVolumes { node: node.name_any(), volumes });
        }
    }

    /// Tells of the pods that have gone since it was last told.
    fn tell_gone(&mut self, node: &str) {
        let Some(progress) = self.progress.get_mut(node) else { return };
        let (evicted, deleted) = (std::mem::take(&mut progress.evicted), std::mem::take(&mut progress.deleted));
        let trace = self.known.nodes.get(node).and_then(|there| self.own_claims(there).first().cloned());
        let trace = trace.and_then(|claim| self.trace_of(&claim));
        let node = node.to_owned();
        if !evicted.is_empty() {
            let (node, pods, names) = (node.clone(), evicted.len(), Names::first(NAMES_LISTED, evicted));
            self.env.emit_in(LogEvent::Evicted { node, pods, names }, trace);
        }
        if !deleted.is_empty() {
            let (pods, names) = (deleted.len(), Names::first(NAMES_LISTED, deleted));
            self.env.emit_in(LogEvent::PodsDeleted { node, pods, names }, trace);
        }
    }

    /// The trace of the decision, or else what is written on the claim: what led to its end, or else of the batch that the claim came from.
    pub(super) fn trace_of(&self, claim: &NodeClaim) -> Option<TraceContext> {
        let decided = self.reasons.get(&claim.name_any()).map(|(_, trace)| *trace);
        decided.or_else(|| traces::of_end(claim)).or_else(|| traces::of_packing(claim))
    }
}
