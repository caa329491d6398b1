//! Nodes that are not used by the pods that they were launched for: the event that people find at pods, pool and claim, and
//! what is written down so that the next leader goes on from it. What is decided is `dovetail_core::launch_limits`'.

use actix::prelude::*;
use dovetail_core::cluster_state::{NotUsed, Snapshot};

use super::Disruptor;
use super::report::claim_object;
use super::writes::Write;
use crate::context::traces;
use crate::messages::{CameToNothing, NodeUnused, Record, reference};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;

/// Reason of the event.
const NOT_USED: &str = "NodeNotUsed";
/// How many pods a log line names.
const NAMES_LISTED: usize = 5;

impl Handler<NodeUnused> for Disruptor {
    type Result = ();

    fn handle(&mut self, NodeUnused(not_used): NodeUnused, _: &mut Self::Context) {
        let facts = &not_used.claim.facts;
        self.env.post(&self.links.launcher, CameToNothing { claim: facts.name.clone() });
        self.env.measure(&Measure::NodeUnused { pool: &facts.pool, reason: not_used.reason.label() });
        let message = message(&not_used);
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
        let owners = not_used.claim.claim.metadata.owner_references.iter().flatten();
        let pool = owners.into_iter().find(|owner| owner.kind == "NodePool").map_or("", |owner| owner.uid.as_str());
        let pool = reference("karpenter.sh/v1", "NodePool", "", &facts.pool, pool);
        let objects = [claim_object(&facts.name, &facts.uid), pool].into_iter();
        for object in objects.chain(not_used.pods.iter().map(|pod| object::pod(pod))) {
            self.env.post(&self.links.recorder, Record::warning(object, NOT_USED, message.clone()));
        }
    }
}

/// What happened, in kube-scheduler's or kubelet's own words, and what follows.
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

/// What is to be written on pools and classes, where they do not say it.
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
