//! Looks at claims and Nodes on their way out: gathers facts, decides the next step and begins it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::{PodEntry, Snapshot};
use dovetail_core::disruption::RemovalReason;
use dovetail_core::interruption::InterruptionNotice;
use dovetail_core::lifecycle::initialization::is_ready;
use dovetail_core::ownership::is_another_providers;
use dovetail_core::termination::claim::{self, ClaimStep};
use dovetail_core::termination::drain::Latecomers;
use dovetail_core::termination::guard::{MayDrain, MayEnd};
use dovetail_core::termination::instance::{Handle, handle_of};
use dovetail_core::termination::node::{self, DeletingNode, NodeStep};
use dovetail_core::termination::{RemovalPhase, volumes};
use futures::StreamExt;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::endings::{EndingObject, InstanceQuery};
use super::removal::instance_id_of;
use super::steps::{Done, EndReason, For, StepEnv, going_since};
use super::{AT_ONCE, Key, SETTLING_TIME, Terminator};
use crate::context::{measures, traces};
use crate::kube::calls::CallError;
use crate::kube::woken::when_woken;
use crate::messages::{DisruptionFacts, Record, TakeSnapshot, TraceContext};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};

/// Claims deleted at the same time.
const DELETIONS: usize = 16;
/// Steps that more than one place begins, in words.
pub(super) const RELEASING: &str = "taking the finalizer off";
const DELETING: &str = "deleting the nodeclaim of";
const SAYING: &str = "writing the status of the end of";
/// Most names that a log line gives.
pub(super) const NAMES_LISTED: usize = 5;

/// Deletes claims, given with their Nodes, by our own decision; `grace` bounds their drain. Answers the names of those that could
/// not be deleted, and why.
pub async fn delete_claims(
    step_env: StepEnv,
    claims: Vec<(Arc<NodeClaim>, Vec<Arc<Node>>)>,
    reason: RemovalReason,
    grace: Option<SignedDuration>,
    disrupted: BTreeMap<String, DisruptionFacts>,
) -> Vec<(String, CallError)> {
    let why = match reason {
        RemovalReason::Interrupted | RemovalReason::GarbageCollected => For::Fact,
        _ => For::Decision,
    };
    let deletions = claims.into_iter().map(|(claim, nodes)| {
        let step_env = step_env.clone();
        let facts = disrupted.get(&claim.name_any()).copied().unwrap_or_default();
        async move {
            match step_env.delete_claim(&claim, why, Some(EndReason { label: reason.label(), grace })).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some((claim.name_any(), error)),
            }
            // For an interruption metrics name its kind (aws spec 5).
            let announced = InterruptionNotice::on(&claim).filter(|_| reason == RemovalReason::Interrupted);
            let label = announced.map_or(reason.label(), |notice| notice.kind.label());
            measures::claim_disrupted(&step_env.env, &claim, label, grace, facts);
            report_removing(&step_env, &claim, &nodes, reason);
            None
        }
    });
    futures::stream::iter(deletions).buffered(DELETIONS).filter_map(futures::future::ready).collect().await
}

fn report_removing(step_env: &StepEnv, claim: &NodeClaim, nodes: &[Arc<Node>], reason: RemovalReason) {
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
        if self.known.marked.is_empty() || std::mem::replace(&mut self.timers.looking, true) {
            return;
        }
        let asked = self.links.cluster.send(TakeSnapshot).into_actor(self);
        ctx.spawn(asked.map(|answer, terminator, ctx| {
            terminator.timers.looking = false;
            // Until everything has been listed once, nothing is known: the next tick tries again.
            if let Ok(Some(snapshot)) = answer {
                terminator.look_at_all(&snapshot, ctx);
                terminator.ask_cloud(ctx);
            }
        }));
    }

    fn look_at_all(&mut self, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        // Pods that are gone are forgotten before any look, so that their slots are free in it.
        self.evictions.retain_pods(|uid| snapshot.pods.contains_key(uid));
        self.patience.retain(|uid| snapshot.pods.contains_key(uid));
        for key in std::mem::take(&mut self.known.marked) {
            // An object with a step under way is looked at again when that is done.
            if self.known.busy.contains(&key) || !self.is_going(&key) {
                continue;
            }
            // It stays to be looked at: each step that ends looks at what is left.
            if self.known.busy.len() >= AT_ONCE {
                self.known.marked.insert(key);
                continue;
            }
            match &key {
                Key::Claim(name) => self.look_at_claim(name, ctx),
                Key::Node(name) => self.look_at_node(name, snapshot, ctx),
            }
        }
    }

    /// Begins a step, named in words, unless it was refused and is not yet to be tried again.
    pub(super) fn begin_step(
        &mut self,
        key: Key,
        step: &'static str,
        doing: impl Future<Output = Done> + 'static,
        ctx: &mut Context<Self>,
    ) {
        let what = format!("{step} {key}");
        if self.known.get(&key).is_none_or(|removal| removal.refused.hold(&what, self.env.now())) {
            return;
        }
        self.known.busy.insert(key.clone());
        ctx.spawn(when_woken(doing).into_actor(self).map(move |done, terminator, ctx| {
            terminator.known.busy.remove(&key);
            let going = terminator.is_going(&key);
            let removal = terminator.known.get_mut(&key);
            // A failed step is decided anew when the object changes, or with the next tick; after refusals ever later.
            match (done, removal) {
                (Ok(()), removal) => {
                    if let Some(removal) = removal {
                        removal.refused.done(&what, &terminator.env);
                    }
                    terminator.known.marked.insert(key);
                    terminator.look_soon(SETTLING_TIME, ctx);
                }
                (Err(error), Some(removal)) if error.is_refusal() && going => {
                    removal.refused.refused(&what, &error.to_string(), &terminator.env);
                }
                (Err(_), _) => {}
            }
        }));
    }

    fn look_at_claim(&mut self, name: &str, ctx: &mut Context<Self>) {
        let Some(claim) = self.known.claim(name).cloned() else { return };
        let nodes = self.instances.own_nodes(&claim, self.known.nodes_of(&claim));
        match self.may_end(&claim, &nodes) {
            MayEnd::Yes => {}
            MayEnd::Ask | MayEnd::NotYet => return,
            MayEnd::Never(why) => return self.let_go(&claim, &why, ctx),
        }
        let refs: Vec<&Node> = nodes.iter().map(AsRef::as_ref).collect();
        let handle = handle_of(&claim);
        let (seen, asked) = self.endings.last_answer(handle.as_ref());
        let step = claim::next_step(&claim, &refs, seen, asked);
        let (key, step_env) = (Key::Claim(name.to_owned()), self.step_env(self.trace_of(&claim)));
        self.enter_phase(&key, RemovalPhase::of_claim(&step));
        match step {
            ClaimStep::NotOurs | ClaimStep::AwaitNodes => {}
            ClaimStep::SetDeadline(deadline) => {
                self.begin_step(key, "writing the deadline of", step_env.set_deadline(claim, nodes, deadline), ctx);
            }
            ClaimStep::DeleteNodes(names) => {
                let nodes = nodes.into_iter().filter(|node| names.contains(&node.name_any())).collect();
                self.begin_step(key, "deleting the node of", step_env.delete_nodes(claim, nodes), ctx);
            }
            ClaimStep::Terminate => self.query_instance(handle, Some(EndingObject::without_node(&claim))),
            ClaimStep::Say(said) => {
                self.begin_step(key, SAYING, step_env.write_conditions(claim, said, String::new()), ctx)
            }
            ClaimStep::Release => {
                let reason = self.reason_of(&claim);
                self.begin_step(key, RELEASING, step_env.release_claim(claim, reason), ctx);
            }
        }
    }

    fn look_at_node(&mut self, name: &str, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        let Some(node) = self.known.node(name).cloned() else { return };
        let key = Key::Node(name.to_owned());
        // Its finalizer has the same name as ours, and is its provider's to take off.
        if is_another_providers(node.labels(), self.env.settings.provider) && self.known.claims_of(&node).is_empty() {
            return self.enter_phase(&key, None);
        }
        let claims = match self.may_drain(&node) {
            (MayDrain::ForOwners | MayDrain::ForItself | MayDrain::AsSilent, claims) => claims,
            (MayDrain::Ask, _) => return,
            (MayDrain::Never, _) => return self.release_stranger(&node, ctx),
        };
        let refs: Vec<&NodeClaim> = claims.iter().map(AsRef::as_ref).collect();
        let only = claims.first().filter(|_| claims.len() == 1).cloned();
        let by_provider = || instance_id_of(&node).map(|id| Handle::Id(id.to_owned()));
        let handle = only.as_ref().map_or_else(by_provider, |claim| handle_of(claim));
        let pods: Vec<Arc<PodEntry>> =
            snapshot.loads.get(name).iter().flat_map(|load| load.pods.values().cloned()).collect();
        let late = Latecomers::on(&pods, going_since(&node), snapshot, self.env.wall());
        let volumes = self.held_volumes(name, &pods, &late, ctx);
        let (seen, asked) = self.endings.last_answer(handle.as_ref());
        let going = DeletingNode { claims: &refs, pods, late, volumes, seen, asked };
        let step = node::next_step(&node, &going, self.env.wall());
        let step_env = self.step_env(only.as_ref().and_then(|claim| self.trace_of(claim)));
        self.enter_phase(&key, RemovalPhase::of_node(&step));
        // Before the step: its log line is to say why.
        self.note_begin(&step_env, &node, only.as_deref(), &step, snapshot);
        if !is_ready(&node) && !matches!(step, NodeStep::NotOurs | NodeStep::Release) {
            // As soon as its instance is known to be gone, nothing more is waited for.
            self.query_instance(handle, None);
        }
        self.begin_node_step(step_env, node, only, step, snapshot, ctx);
        self.report_gone(name);
    }

    /// Begins a Node's step; `claim` is the only claim that it is drained for.
    fn begin_node_step(
        &mut self,
        step_env: StepEnv,
        node: Arc<Node>,
        claim: Option<Arc<NodeClaim>>,
        step: NodeStep,
        snapshot: &Snapshot,
        ctx: &mut Context<Self>,
    ) {
        let name = node.name_any();
        let (key, node_claim) = (Key::node(&name), claim.as_ref().map(|claim| claim.name_any()).unwrap_or_default());
        match (step, claim) {
            (NodeStep::DeleteClaim, Some(claim)) => {
                self.begin_step(key, DELETING, step_env.delete_claim_of(node, claim), ctx)
            }
            (NodeStep::NotOurs | NodeStep::Settle | NodeStep::Ask, _) => {}
            (NodeStep::Cordon(_), _) => {
                let reason = self.reason_of_node(&name);
                self.begin_step(key, "cordoning", step_env.cordon_node(node, node_claim, reason), ctx);
            }
            (NodeStep::Say(said), Some(claim)) if node::is_drained(&said) => {
                self.begin_step(key, SAYING, step_env.write_drained(claim, said, node), ctx);
            }
            (NodeStep::Say(said), Some(claim)) => {
                self.begin_step(key, SAYING, step_env.write_conditions(claim, said, name), ctx)
            }
            (NodeStep::Drain(drain), claim) => {
                self.drain_node(&step_env, &node, claim.as_deref(), drain, snapshot, ctx)
            }
            (NodeStep::AwaitVolumes(volumes), _) => self.await_volumes(&step_env, &node, volumes),
            (NodeStep::Terminate, Some(claim)) => {
                let end = EndingObject::after_drain(&claim, &name, going_since(&node));
                self.query_instance(handle_of(&claim), Some(end));
            }
            (NodeStep::Release, None) if is_ready(&node) => {
                self.begin_step(key, RELEASING, step_env.release_drained(node), ctx);
            }
            (NodeStep::Release, _) => self.begin_step(key, RELEASING, step_env.release_node(node, node_claim), ctx),
            (NodeStep::DeleteClaim | NodeStep::Say(_) | NodeStep::Terminate, None) => {}
        }
    }

    /// The volumes that a Node holds and that have to be detached; unknown until they have been listed.
    fn held_volumes(
        &mut self,
        name: &str,
        pods: &[Arc<PodEntry>],
        late: &Latecomers,
        ctx: &mut Context<Self>,
    ) -> Option<BTreeSet<String>> {
        // None attached needs no look at the claims of the pods that stay.
        if self.attachments.attached_to(name).is_some_and(|all| all.is_empty()) {
            return Some(BTreeSet::new());
        }
        let kept = self.kept_volumes(name, pods, late, ctx)?;
        Some(volumes::held(self.attachments.attached_to(name)?, &kept))
    }

    fn query_instance(&mut self, handle: Option<Handle>, end: Option<EndingObject>) {
        if let Some(handle) = handle {
            self.endings.add_query(InstanceQuery { handle, end });
        }
    }

    fn await_volumes(&mut self, step_env: &StepEnv, node: &Arc<Node>, volumes: BTreeSet<String>) {
        let volumes = Names::first(NAMES_LISTED, volumes);
        let message = format!("Awaiting detachment of volumes: {volumes}");
        step_env.record(Record::normal(object::node(node), "AwaitingVolumeDetachment", message));
        if self.drain_progress(&node.name_any()).is_some_and(|progress| progress.reports.awaits_volumes()) {
            step_env.emit(LogEvent::AwaitingVolumes { node: node.name_any(), volumes });
        }
    }

    /// Tells of the pods that have gone since it was last told.
    fn report_gone(&mut self, node: &str) {
        let Some(progress) = self.known.get_mut(&Key::node(node)).and_then(|removal| removal.drain.as_mut()) else {
            return;
        };
        let (evicted, deleted) = (std::mem::take(&mut progress.evicted), std::mem::take(&mut progress.deleted));
        let trace = self.known.node(node).and_then(|there| self.own_claims(there).first().cloned());
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
        let decided = self.own_decision(&claim.name_any()).map(|(_, trace)| trace);
        decided.or_else(|| traces::of_end(claim)).or_else(|| traces::of_packing(claim))
    }
}
