//! Nodes whose instances the cloud takes away: the end is written on the claim and the node tainted at once, and the
//! claim is deleted, which drains the node, when `dovetail_core::interruption::replacement_step` says so. What is written on the
//! claim is enough to go on: a successor hears of it as of any other claim.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::annotations;
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::{Moment, PodEntry, Snapshot};
use dovetail_core::disruption::RemovalReason;
use dovetail_core::interruption::{DeletionCause, DisplacedPod, InterruptionNotice, ReplacementStep, replacement_step};
use dovetail_core::ownership::OwnershipVerdict;
use dovetail_core::termination::node::cordoned;
use dovetail_core::termination::{AnnouncedEnd, RemovalPhase};
use kube::ResourceExt;

use super::removal::Announced;
use super::{Key, Terminator, TerminatorLinks};
use crate::context::book::{provider_id_of, provider_id_of_node};
use crate::context::traces;
use crate::kube::calls::{CallError, Conflicts};
use crate::kube::claims::NodeClaimApi;
use crate::kube::nodes::Nodes;
use crate::kube::woken::when_woken;
use crate::messages::{ClaimRef, Interrupted, Record, Remove, TakeSnapshot, TraceContext, Wrote};
use crate::recorder::object;
use crate::settings::Interruptions;
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::span::names;

/// Interval at which it is checked that places are ready. The pods run meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of checks after which a claim that was ordered to be deleted, and is not, leads to another order.
const CHECKS_BEFORE_REPEAT: u32 = 20;

impl Handler<Interrupted> for Terminator {
    type Result = ResponseFuture<bool>;

    fn handle(&mut self, interrupted: Interrupted, ctx: &mut Self::Context) -> Self::Result {
        if interrupted.term < self.env.term {
            return Box::pin(async { false });
        }
        let Interrupted { claim, notice, trace, .. } = interrupted;
        let links = self.links.clone();
        // Karpenter's way: the claim is deleted at once. The answer comes once that is seen, so that the queue's message stays
        // until then and comes again where this replica ends before.
        if self.env.settings.interruption == Interruptions::Evict {
            let order = Remove {
                term: self.env.term,
                claims: vec![claim.clone()],
                reason: RemovalReason::Interrupted,
                grace: None,
                disrupted: BTreeMap::new(),
                trace,
            };
            ctx.notify(order);
            return Box::pin(async move { await_deletion(&links, &claim).await });
        }
        // The claim's annotation outlives this replica: only after it is written is the message taken off the queue.
        Box::pin(async move {
            match write_down(&links, &claim, notice, trace).await {
                Ok(()) | Err(CallError::NotFound(_)) => true,
                Err(_) => false,
            }
        })
    }
}

impl Terminator {
    /// A claim is there or has changed: whether an end is written on it that is to be waited for. What was announced is a fact: it
    /// stays known as long as the claim, and is written down again where a backup shows the claim as it was before.
    pub(super) fn look_for_notice(&mut self, claim: &Arc<NodeClaim>, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        let (written, goes) = (InterruptionNotice::on(claim), claim.metadata.deletion_timestamp.is_some());
        if let Some(known) = self.known.get_mut(&Key::claim(&name)).and_then(|removal| removal.announced.as_mut()) {
            if known.end.observe(written, goes) {
                self.write_down_again(claim, ctx);
            }
            return;
        }
        let Some(notice) = written.filter(|_| !goes) else { return };
        // Anybody may have written that: no Node is tainted for an instance that is not known to be the claim's.
        if self.instances.verdict(claim) != OwnershipVerdict::Ours {
            return;
        }
        let trace = traces::of_end(claim).or_else(|| traces::of_packing(claim));
        let trace = trace.unwrap_or_else(|| TraceContext::root(&mut self.env.rng("interruption")));
        let announced = Announced { end: AnnouncedEnd::new(notice, self.env.wall()), trace, writing: false };
        if let Some(removal) = self.known.get_mut(&Key::claim(&name)) {
            removal.announced = Some(announced);
        }
        self.enter_phase(&Key::Claim(name), Some(RemovalPhase::Announced));
        ctx.spawn(when_woken(taint_node(self.links.clone(), claim.clone())).into_actor(self));
        if !std::mem::replace(&mut self.timers.watching_places, true) {
            self.watch_places(ctx);
        }
    }

    /// Writes an end down that its claim does not say any more. Where that fails, the claim's next change is another occasion.
    fn write_down_again(&mut self, claim: &Arc<NodeClaim>, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        let what = format!("writing the interruption on {}", Key::Claim(name.clone()));
        let Some(removal) = self.known.get_mut(&Key::claim(&name)) else { return };
        let Some(known) = &mut removal.announced else { return };
        if removal.refused.hold(&what, self.env.now()) || std::mem::replace(&mut known.writing, true) {
            return;
        }
        let (notice, trace, links) = (known.end.notice, known.trace, self.links.clone());
        let (of, claim) = (ClaimRef { name: name.clone(), uid: claim.uid().unwrap_or_default() }, claim.clone());
        let writing = async move {
            let written = write_down(&links, &of, notice, trace).await;
            taint_node(links, claim).await;
            written
        };
        ctx.spawn(when_woken(writing).into_actor(self).map(move |written, terminator, _| {
            let Some(removal) = terminator.known.get_mut(&Key::claim(&name)) else { return };
            let Some(known) = &mut removal.announced else { return };
            known.writing = false;
            match written {
                Ok(()) => removal.refused.done(&what, &terminator.env),
                Err(error) if error.is_refusal() => {
                    removal.refused.refused(&what, &error.to_string(), &terminator.env);
                }
                Err(_) => {}
            }
        }));
    }

    /// Looks once in a while whether nodes can be drained, as long as there are any.
    fn watch_places(&mut self, ctx: &mut Context<Self>) {
        let cluster = self.links.cluster.clone();
        ctx.spawn(cluster.send(TakeSnapshot).into_actor(self).map(|snapshot, terminator, ctx| {
            if let Ok(Some(snapshot)) = snapshot {
                terminator.replacement_step(&snapshot, ctx);
            }
            terminator.timers.watching_places = !terminator.announced_claims().is_empty();
            if terminator.timers.watching_places {
                ctx.run_later(CHECK_INTERVAL, Self::watch_places);
            }
        }));
    }

    /// Names of the claims with an announced end.
    pub(super) fn announced_claims(&self) -> Vec<String> {
        let is_announced = |key: &Key| self.known.get(key).is_some_and(|removal| removal.announced.is_some());
        let name = |(key, _): (&Key, RemovalPhase)| match key {
            Key::Claim(name) if is_announced(key) => Some(name.clone()),
            Key::Claim(_) | Key::Node(_) => None,
        };
        self.known.under_way().filter_map(name).collect()
    }

    fn replacement_step(&mut self, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        let now = self.env.moment();
        let mut orders = Vec::new();
        for name in self.announced_claims() {
            let uid = self.known.claim(&name).and_then(|claim| claim.uid()).unwrap_or_default();
            let known = self.known.get_mut(&Key::claim(&name)).and_then(|removal| removal.announced.as_mut());
            let Some(known) = known.filter(|known| known.end.is_due(now.monotonic)) else { continue };
            // Until the state has what is written on the claim, it does not count its pods.
            if !snapshot.deleting.claims.contains(&name) {
                continue;
            }
            let displaced = displaced_pods(snapshot, &name, known.end.notice.ends().is_some(), now);
            if let ReplacementStep::Delete(cause) = replacement_step(&known.end.notice, &displaced, now.wall) {
                let first = known.end.order();
                orders.push((ClaimRef { name, uid }, cause, displaced.len(), (known.trace, known.end.since, first)));
            }
        }
        for (claim, cause, pods, (trace, since, first)) in orders {
            // A repeated order is no news.
            if first {
                self.emit_replacements_first(snapshot, &claim, cause, pods, trace);
                let span = self.env.span(trace, "await places", &claim.name).since(since);
                let span = span.with(names::CLAIM, &*claim.name).with(names::PODS, pods);
                span.with(names::REASON, cause_in_words(cause)).end();
            }
            ctx.notify(Remove {
                term: self.env.term,
                claims: vec![claim],
                reason: RemovalReason::Interrupted,
                grace: None,
                disrupted: BTreeMap::new(),
                trace,
            });
        }
    }

    fn emit_replacements_first(
        &self,
        snapshot: &Snapshot,
        claim: &ClaimRef,
        cause: DeletionCause,
        pods: usize,
        trace: TraceContext,
    ) {
        let Some(entry) = snapshot.claims.get(&claim.name) else { return };
        let node = entry.claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        let cause = cause_in_words(cause);
        let message = format!("Interruption triggered termination: {cause}");
        for one in [Some(object::claim(&entry.claim)), (!node.is_empty()).then(|| object::node_named(&node))] {
            let Some(one) = one else { continue };
            self.env.post(&self.links.recorder, Record::warning(one, "TerminatingOnInterruption", message.clone()));
        }
        let node_claim = claim.name.clone();
        self.env.emit_in(LogEvent::ReplacementsFirst { node_claim, node, cause: cause.to_owned(), pods }, trace);
    }
}

fn cause_in_words(cause: DeletionCause) -> &'static str {
    match cause {
        DeletionCause::Replaced => "every place is ready",
        DeletionCause::TimeIsUp => "the pods need the rest of its time to end",
        DeletionCause::InstanceEnds => "its instance is ending",
    }
}

/// The pods that have to leave a claim's node, and whether their places are ready; near enough, where the node ends.
fn displaced_pods(snapshot: &Snapshot, claim: &str, ends: bool, now: Moment) -> Vec<DisplacedPod> {
    let Some(entry) = snapshot.claims.get(claim) else { return Vec::new() };
    let Some(node) = snapshot.node_of(entry) else { return Vec::new() };
    let displaced = snapshot.displaced(&node.name, now.wall).into_iter();
    let ready = |pod: &PodEntry| match ends {
        true => snapshot.place_is_near(pod, now),
        false => snapshot.place_is_ready(&pod.pod.uid, now),
    };
    displaced.map(|pod| DisplacedPod { ready: ready(pod), grace: pod.grace }).collect()
}

/// Writes the end on the claim, unless a sooner one is there.
async fn write_down(
    links: &TerminatorLinks,
    claim: &ClaimRef,
    notice: InterruptionNotice,
    trace: TraceContext,
) -> Result<(), CallError> {
    let claims = NodeClaimApi::new(links.calls.clone());
    let there = claims.get(&claim.name).await?;
    // Another claim of that name has another instance, and one that goes needs no notice: that is done.
    if there.uid().as_deref() != Some(claim.uid.as_str()) || there.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let written = claims
        .change_metadata(there, |claim| {
            let counts = InterruptionNotice::on(claim).map_or(notice, |known| known.sooner(notice));
            claim.annotations_mut().insert(annotations::INTERRUPTION.into(), counts.to_string());
            claim.annotations_mut().entry(annotations::END_TRACEPARENT.into()).or_insert_with(|| trace.to_string());
        })
        .await?;
    links.calls.env.post(&links.cluster, Wrote::Claim(Arc::new(written)));
    Ok(())
}

/// Waits until a claim that is ordered to be deleted is being deleted.
async fn await_deletion(links: &TerminatorLinks, claim: &ClaimRef) -> bool {
    let claims = NodeClaimApi::new(links.calls.clone());
    for _ in 0..CHECKS_BEFORE_REPEAT {
        match claims.get(&claim.name).await {
            Ok(there) if there.uid().as_deref() != Some(claim.uid.as_str()) => return true,
            Ok(there) if there.metadata.deletion_timestamp.is_some() => return true,
            Ok(_) => tokio::time::sleep(CHECK_INTERVAL).await,
            Err(CallError::NotFound(_)) => return true,
            Err(_) => return false,
        }
    }
    false
}

/// Keeps new pods away from the claim's node, and load balancers: they need their time to forget it.
async fn taint_node(links: TerminatorLinks, claim: Arc<NodeClaim>) {
    let name = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    if name.is_empty() {
        return;
    }
    let (nodes, mut conflicts) = (Nodes::new(links.calls.clone()), Conflicts::default());
    loop {
        let Ok(node) = nodes.get(&name).await else { return };
        // The name on the claim may have been written by hand.
        if provider_id_of_node(&node) != provider_id_of(&claim) {
            return;
        }
        let Some(cordoned) = cordoned(&node) else { return };
        match nodes.write(&node, &cordoned).await {
            Ok(node) => return links.calls.env.post(&links.cluster, Wrote::Node(Arc::new(node))),
            Err(CallError::Conflict(_)) => conflicts.pause(&links.calls, &name).await,
            // If it cannot be written now, the drain cordons the Node when it begins.
            Err(_) => return,
        }
    }
}
