//! Nodes that are not used by the pods that they were launched for: the event that people find at pods, pool and claim, and
//! what is written down so that the next leader goes on from it. What is decided is `dovetail_core::launch_limits`'.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_core::Pod;
use dovetail_core::cluster_state::{ClaimEntry, NotUsed, Snapshot, TaintAwaited};

use super::Disruptor;
use super::report::claim_object;
use super::writes::Write;
use crate::context::traces;
use crate::messages::{CameToNothing, NodeUnused, Record, reference};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;

/// Reason of the event where a node is not used.
const NOT_USED: &str = "NodeNotUsed";
/// Nodes with far less than foreseen of which one look tells.
const MOST_DOUBTS: usize = 10;
/// Reason of the event where its pods wait for a taint.
const AWAITING_TAINT: &str = "AwaitingTaint";
/// Most pods that a log line names.
const NAMES_LISTED: usize = 5;

impl Handler<NodeUnused> for Disruptor {
    type Result = ();

    fn handle(&mut self, news: NodeUnused, _: &mut Self::Context) {
        match news {
            NodeUnused::NotUsed(not_used) => self.tell_not_used(&not_used),
            NodeUnused::AwaitsTaint(awaited) => self.tell_taint(&awaited),
        }
    }
}

impl Disruptor {
    fn tell_not_used(&mut self, not_used: &NotUsed) {
        let facts = &not_used.claim.facts;
        self.env.post(&self.links.launcher, CameToNothing { claim: facts.name.clone() });
        self.env.measure(&Measure::NodeUnused { pool: &facts.pool, reason: not_used.reason.label() });
        let message = message(not_used);
        let log_event = LogEvent::NodeNotUsed {
            node_claim: facts.name.clone(),
            node: not_used.node.clone(),
            node_pool: facts.pool.clone(),
            reason: not_used.reason.label().to_owned(),
            failures: not_used.failures,
            pause_seconds: not_used.pause.as_secs(),
            pods: Names::first(NAMES_LISTED, not_used.pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name))),
            message: message.clone(),
        };
        self.env.emit_in(log_event, traces::of_packing(&not_used.claim.claim));
        self.tell_concerned(&not_used.claim, &not_used.pods, NOT_USED, &message);
    }

    /// Pods wait for a taint that nobody has declared: said before anything follows from it.
    fn tell_taint(&mut self, awaited: &TaintAwaited) {
        let facts = &awaited.claim.facts;
        let (node, taint) = (facts.node.clone(), format!("{}:{}", awaited.taint.key, awaited.taint.effect));
        let pods = Names::first(NAMES_LISTED, awaited.pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)));
        let (node_claim, node_pool, until) = (facts.name.clone(), facts.pool.clone(), awaited.until.to_string());
        let message = format!(
            "Node {node} has the taint {taint}, which NodePool {node_pool} does not declare; its pods wait for it until {until}. \
             If an agent takes it off when it is ready, add it to the pool's startupTaints; else find who sets it"
        );
        let log_event = LogEvent::TaintAwaited { node_claim, node, node_pool, taint, pods, until };
        self.env.emit_in(log_event, traces::of_packing(&awaited.claim.claim));
        self.tell_concerned(&awaited.claim, &awaited.pods, AWAITING_TAINT, &message);
    }

    /// Says it at the claim, its pool and these pods.
    fn tell_concerned(&self, claim: &ClaimEntry, pods: &[Arc<Pod>], reason: &'static str, message: &str) {
        let facts = &claim.facts;
        let owners = claim.claim.metadata.owner_references.iter().flatten();
        let pool = owners.into_iter().find(|owner| owner.kind == "NodePool").map_or("", |owner| owner.uid.as_str());
        let pool = reference("karpenter.sh/v1", "NodePool", "", &facts.pool, pool);
        let objects = [claim_object(&facts.name, &facts.uid), pool].into_iter();
        for object in objects.chain(pods.iter().map(|pod| object::pod(pod))) {
            self.env.post(&self.links.recorder, Record::warning(object, reason, message));
        }
    }
}

/// Event text: what happened, in kube-scheduler's or kubelet's own words, and what follows.
fn message(not_used: &NotUsed) -> String {
    let node = if not_used.node.is_empty() { String::new() } else { format!(" (node {})", not_used.node) };
    let seen = not_used.seen.as_ref().map(|seen| format!(" ({seen})")).unwrap_or_default();
    let words = match not_used.words.as_str() {
        "" => String::new(),
        words => format!(": {words}"),
    };
    let next = match not_used.pause.as_secs() {
        0 => String::new(),
        seconds => format!("; the next launch for them is tried in {} min", seconds / 60),
    };
    let (claim, reason) = (&not_used.claim.facts.name, not_used.reason);
    format!("nodeclaim {claim}{node} is not used by the pods that it was launched for, as {reason}{seen}{words}{next}")
}

/// Events about nodes that have far less for pods than was foreseen, on their class, where the class does not say so yet.
pub(super) fn doubts(snapshot: &Snapshot) -> Vec<Record> {
    let doubted = snapshot.doubted_nodes().into_iter().take(MOST_DOUBTS);
    doubted
        .map(|(class, node)| {
            Record::warning(object::class(&class, snapshot.provider), "AllocatableDoubted", node.to_string())
        })
        .collect()
}

/// Annotations of pools and classes that have to be written.
pub(super) fn writes(snapshot: &Snapshot) -> Vec<Write> {
    let pools = snapshot.unused_to_write().into_iter().filter_map(|(name, text)| {
        let pool = snapshot.pools.get(&name)?.clone();
        Some(Write::Unused { pool, text })
    });
    let classes = snapshot.observed_to_write().into_iter().filter_map(|(name, text)| {
        let class = snapshot.classes.get(&name)?.clone();
        Some(Write::Observed { class, text })
    });
    pools.chain(classes).collect()
}
