//! Reboots of unwell nodes: what `dovetail_core::disruption::repair` decides of them is written, asked of EC2 and reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::instance_id;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::CloudError;
use dovetail_core::cluster_state::{PodEntry, Snapshot};
use dovetail_core::disruption::repair::{RebootEnd, RebootOrder, RebootStep, on_claim, on_node};
use dovetail_core::ownership::OwnershipMarks;
use jiff::Timestamp;

use super::report::{claim_object, node_object};
use super::writes::Write;
use super::{Disruptor, DisruptorLinks};
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::evict::{self, EvictionOutcome};
use crate::kube::nodes::Nodes;
use crate::messages::{Record, Wrote};
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;

/// Evictions under way at a time.
const MOST_EVICTIONS: usize = 16;
/// Time until a pod is evicted again, and EC2 asked again.
const PAUSE: Duration = Duration::from_secs(10);

/// Effects of reboots that are under way or rest, and steps that have been reported.
#[derive(Default)]
pub(super) struct Reboots {
    /// Pods that are being evicted, by uid.
    evicting: BTreeSet<String>,
    /// Claims, by uid, for which EC2 is being asked.
    calling: BTreeSet<String>,
    /// Times until which a pod or a claim, by uid, rests.
    rests: BTreeMap<String, Duration>,
    /// Claims, by uid, with what has been reported of them last.
    said: BTreeMap<String, &'static str>,
}

/// Karpenter's word for the end of a reboot; none for one that EC2 was not asked for.
fn result(end: RebootEnd) -> Option<&'static str> {
    match end {
        RebootEnd::Succeeded => Some("succeeded"),
        RebootEnd::Failed => Some("recovery_timeout"),
        RebootEnd::Refused => Some("provider_error"),
        RebootEnd::Undrained | RebootEnd::CalledOff => None,
    }
}

impl Disruptor {
    /// Does the next steps of reboots.
    pub(super) fn reboot(&mut self, orders: &[RebootOrder], snapshot: &Snapshot, ctx: &mut Context<Self>) {
        let now = self.env.now();
        self.reboots.rests.retain(|_, until| *until > now);
        if !self.reboots.said.is_empty() {
            let there: BTreeSet<&str> = snapshot.claims.values().map(|entry| entry.facts.uid.as_str()).collect();
            self.reboots.said.retain(|uid, _| there.contains(uid.as_str()));
        }
        for order in orders {
            let Some(entry) = snapshot.claims.get(&order.disrupted.claim) else { continue };
            self.tell_reboot(order);
            match &order.step {
                RebootStep::Drain { evict } => {
                    evict.iter().for_each(|pod| self.evict_for_reboot(order, pod, ctx));
                }
                RebootStep::Call => self.call_reboot(entry.claim.clone(), order.clone(), ctx),
                _ => self.queue.push_back(Write::Reboot { claim: entry.claim.clone(), order: order.clone() }),
            }
        }
    }

    fn evict_for_reboot(&mut self, order: &RebootOrder, entry: &PodEntry, ctx: &mut Context<Self>) {
        let (pod, uid, order) = (entry.pod.clone(), entry.pod.uid.clone(), order.clone());
        let rests = self.reboots.rests.contains_key(&uid) || self.reboots.evicting.len() >= MOST_EVICTIONS;
        if rests || !self.reboots.evicting.insert(uid.clone()) {
            return;
        }
        let calls = self.links.calls.clone();
        let evicting = async move { (evict::evict(&calls, &pod).await, format!("{}/{}", pod.namespace, pod.name)) };
        ctx.spawn(evicting.into_actor(self).map(move |(outcome, pod), disruptor, _| {
            disruptor.reboots.evicting.remove(&uid);
            if !matches!(outcome, EvictionOutcome::Gone) {
                disruptor.reboots.rests.insert(uid, disruptor.env.now() + PAUSE);
            }
            // A budget's refusal is said as for any node that may not go.
            if let EvictionOutcome::Denied(why) | EvictionOutcome::Failed(why) = outcome
                && disruptor.links.calls.may_act()
            {
                disruptor.tell_failed(&order, "not drained", &format!("pod {pod} is not evicted: {why}"));
            }
        }));
    }

    /// Asks EC2 for the reboot, and writes on the claim that it has been asked.
    fn call_reboot(&mut self, claim: Arc<NodeClaim>, order: RebootOrder, ctx: &mut Context<Self>) {
        let uid = order.disrupted.uid.clone();
        if self.reboots.rests.contains_key(&uid) || !self.reboots.calling.insert(uid.clone()) {
            return;
        }
        let (links, now) = (self.links.clone(), self.env.wall());
        let asking = async move {
            ask_for_reboot(&links, &claim).await.map_err(|why| (order.clone(), why))?;
            write_step(&links, &claim, &order, now).await.map_err(|error| (order, Unasked::ForNow(error.to_string())))
        };
        ctx.spawn(asking.into_actor(self).map(move |asked, disruptor, _| {
            disruptor.reboots.calling.remove(&uid);
            disruptor.reboots.rests.insert(uid, disruptor.env.now() + PAUSE);
            if let Err((order, why)) = asked {
                disruptor.tell_unasked(&order, &why);
            }
        }));
    }

    fn tell_unasked(&mut self, order: &RebootOrder, why: &Unasked) {
        let all = matches!(why, Unasked::Forbidden(_));
        let says = match why {
            Unasked::ForNow(why) => format!("EC2 could not be asked for it: {why}"),
            Unasked::ForGood(why) => format!("EC2 could not be asked for it, and is not asked again: {why}"),
            Unasked::Forbidden(why) => {
                format!("EC2 does not let us ask for it, and no node is rebooted until the next leader: {why}")
            }
        };
        if !matches!(why, Unasked::ForNow(_)) {
            self.memory.refuse_reboot(&order.disrupted, all);
        }
        self.tell_failed(order, "not asked", &says);
    }

    fn tell_reboot(&mut self, order: &RebootOrder) {
        let said =
            |disruptor: &mut Self, what| disruptor.reboots.said.insert(order.disrupted.uid.clone(), what) == Some(what);
        let (node, node_claim) = (order.disrupted.node.clone(), order.disrupted.claim.clone());
        match &order.step {
            RebootStep::Request { condition, .. } if !said(self, "requested") => {
                let message = format!("Drained and rebooted, for its condition {condition}");
                self.record(&order.disrupted, "NodeRebooting", &message);
                self.env.emit(LogEvent::NodeRebooting { node, node_claim, condition: (*condition).to_owned() });
            }
            RebootStep::End(end) if !said(self, end.label()) => {
                let pool = &order.disrupted.pool;
                self.env.measure(&Measure::NodeRebooted { pool, outcome: end.label(), result: result(*end) });
                match end {
                    RebootEnd::Failed | RebootEnd::Refused | RebootEnd::Undrained => {
                        self.tell_failed(order, "failed", &format!("{}: it is replaced", end.message()));
                    }
                    RebootEnd::Succeeded | RebootEnd::CalledOff => {
                        self.record(&order.disrupted, "NodeRebooted", end.message());
                        self.env.emit(LogEvent::NodeRebooted { node, node_claim, outcome: end.message().to_owned() });
                    }
                }
            }
            _ => {}
        }
    }

    fn tell_failed(&mut self, order: &RebootOrder, what: &'static str, why: &str) {
        let disrupted = &order.disrupted;
        if what != "failed" && self.reboots.said.insert(disrupted.uid.clone(), what) == Some(what) {
            return;
        }
        let objects =
            [node_object(&disrupted.node, &disrupted.node_uid), claim_object(&disrupted.claim, &disrupted.uid)];
        for object in objects {
            self.env.post(&self.links.recorder, Record::warning(object, "NodeRebootFailed", format!("Reboot: {why}")));
        }
        let (node, node_claim) = (disrupted.node.clone(), disrupted.claim.clone());
        self.env.emit(LogEvent::NodeRebootFailed { node, node_claim, why: why.to_owned() });
    }
}

/// The reason for which EC2 has not been asked for a reboot.
enum Unasked {
    /// It is asked again.
    ForNow(String),
    /// Nothing helps.
    ForGood(String),
    /// Nor for any other node: the role does not have the right.
    Forbidden(String),
}

impl Unasked {
    fn from_error(error: &CloudError) -> Self {
        let why = error.to_string();
        match error.is_retryable() {
            true => Self::ForNow(why),
            false if error.is_denied() => Self::Forbidden(why),
            false => Self::ForGood(why),
        }
    }
}

/// Asks EC2 to reboot a claim's instance, if its tags say that it is the claim's own.
async fn ask_for_reboot(links: &DisruptorLinks, claim: &NodeClaim) -> Result<(), Unasked> {
    let provider_id = claim.status.as_ref().map_or("", |status| status.provider_id.as_str());
    let id = instance_id(provider_id).ok_or_else(|| Unasked::ForGood(format!("{provider_id:?} is no instance")))?;
    let found = links.cloud.instance(id).await.map_err(|error| Unasked::from_error(&error))?;
    let found = found.ok_or_else(|| Unasked::ForGood(format!("it does not know {id}")))?;
    let cluster = links.calls.env.cluster(&*links.cloud);
    let marks = OwnershipMarks::new(&cluster, &found.tags, &found.private_dns_name);
    marks.is_of(claim).map_err(|why| Unasked::ForGood(format!("{id} is not its own: {why}")))?;
    links.cloud.reboot(&found).await.map_err(|error| Unasked::from_error(&error))
}

/// Writes a step on the claim, then on the Node, as far as it is about them: an end that is not on the claim would be a beginning.
///
/// # Errors
/// As [`Calls::run`](crate::kube::calls::Calls::run).
pub(super) async fn write_step(
    links: &DisruptorLinks,
    claim: &Arc<NodeClaim>,
    order: &RebootOrder,
    now: Timestamp,
) -> Result<(), CallError> {
    if order.step.is_about_claim() {
        let claims = NodeClaimApi::new(links.calls.clone());
        let written = claims.change_status(NodeClaim::clone(claim), |claim| on_claim(order, claim, now)).await?;
        links.calls.env.post(&links.cluster, Wrote::Claim(Arc::new(written)));
    }
    if order.step.is_about_node() {
        let nodes = Nodes::new(links.calls.clone());
        let there = nodes.get(&order.disrupted.node).await?;
        let node = nodes.change(there, |node| on_node(order, node, now)).await?;
        links.calls.env.post(&links.cluster, Wrote::Node(Arc::new(node)));
    }
    Ok(())
}
