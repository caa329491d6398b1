//! Reports of the disruptor: its log lines, and the events that people find at nodes, claims and pools (core spec 7.2, 8).

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_core::cluster_state::Snapshot;
use dovetail_core::disruption::{
    Blocked, DisruptedClaim, DisruptionCause, DisruptionDecision, Exhausted, Nonsense, Removal, TtlMark,
};
use dovetail_core::validity;
use k8s_openapi::api::core::v1::ObjectReference;

use super::Disruptor;
use crate::context::traces;
use crate::messages::{Record, TraceContext, reference};
use crate::telemetry::log_event::{LogEvent, Names};

/// Most names that a log line gives.
pub(super) const NAMES_LISTED: usize = 20;
/// Minimum time between two reports of a pool's blocking budget (core spec 7.2).
const POOL_REPEAT_INTERVAL: Duration = Duration::from_secs(60);

impl Disruptor {
    /// Tells all of a decision but its removals.
    pub(super) fn emit(&self, decision: &DisruptionDecision, snapshot: &Snapshot) {
        for (node_pool, error) in &decision.mistakes {
            self.env.emit(LogEvent::PoolMistaken { node_pool: node_pool.clone(), error: error.clone() });
        }
        decision.ttl.iter().filter(|mark| mark.news).for_each(|mark| self.tell_ttl(mark));
        decision.blocked.iter().for_each(|blocked| self.tell_blocked(blocked));
        decision.exhausted.iter().for_each(|exhausted| self.tell_exhausted(exhausted, snapshot));
        decision.nonsense.iter().for_each(|pod| self.tell_nonsense(pod));
        decision.observed.iter().for_each(|removal| self.tell_observed(removal, snapshot));
    }

    fn tell_ttl(&self, mark: &TtlMark) {
        let (node, seconds) = (mark.node.clone(), mark.seconds);
        self.env.emit(match mark.since {
            Some(_) => LogEvent::TtlAdded { node, seconds },
            None => LogEvent::TtlRemoved { node },
        });
    }

    fn tell_blocked(&self, blocked: &Blocked) {
        let Blocked { claim, uid, node, node_uid, why, news } = blocked;
        if *news {
            let (node, node_claim) = (node.clone(), claim.clone());
            self.env.emit(LogEvent::DisruptionBlocked { node, node_claim, why: why.clone() });
        }
        for object in [node_object(node, node_uid), claim_object(claim, uid)] {
            self.env.post(
                &self.links.recorder,
                Record::normal(object, "DisruptionBlocked", format!("Cannot disrupt: {why}")),
            );
        }
    }

    fn tell_exhausted(&self, exhausted: &Exhausted, snapshot: &Snapshot) {
        let Exhausted { pool, uid, reason, nodes, news } = exhausted;
        let reason = reason.budget_key().unwrap_or_default();
        if *news {
            let (node_pool, reason) = (pool.clone(), reason.to_owned());
            self.env.emit(LogEvent::BudgetBlocked { node_pool, reason, nodes: *nodes });
        }
        let object = reference("karpenter.sh/v1", "NodePool", "", pool, uid);
        let unread = snapshot.pools.get(pool).map(|pool| validity::budgets(pool)).unwrap_or_default();
        let why = if unread.is_empty() { "a budget says so".to_owned() } else { validity::sentence(&unread) };
        let message = format!("No disruptions are allowed for reason {reason}: {why}");
        self.env.post(
            &self.links.recorder,
            Record::normal(object, "DisruptionBlocked", message).quiet_for(POOL_REPEAT_INTERVAL),
        );
    }

    fn tell_nonsense(&self, pod: &Nonsense) {
        let object = reference("v1", "Pod", &pod.namespace, &pod.name, &pod.uid);
        let message = format!(
            "karpenter.sh/do-not-disrupt is {:?} and counts as nothing: \"true\" or a positive duration is allowed",
            pod.says
        );
        self.env.post(&self.links.recorder, Record::warning(object, "InvalidDoNotDisruptAnnotation", message));
    }

    /// Reports removals that are not made as their pools are only observed.
    fn tell_observed(&self, removal: &Removal, snapshot: &Snapshot) {
        let reason = removal.cause.reason().label();
        let mut by_pool: BTreeMap<&str, Vec<&DisruptedClaim>> = BTreeMap::new();
        for disrupted in &removal.claims {
            by_pool.entry(&disrupted.pool).or_default().push(disrupted);
            let message =
                format!("NodePool {} is only observed; otherwise this node would be removed: {reason}", disrupted.pool);
            self.record(disrupted, "DisruptionBlocked", &message);
        }
        for (pool, claims) in by_pool {
            let names = Names::first(NAMES_LISTED, claims.iter().map(|disrupted| disrupted.claim.clone()));
            let (node_pool, reason) = (pool.to_owned(), reason.to_owned());
            let nodes = claims.len();
            self.env.emit(LogEvent::WouldDisrupt { node_pool, reason: reason.clone(), nodes, node_claims: names });
            let uid = snapshot.pools.get(pool).and_then(|pool| pool.metadata.uid.clone()).unwrap_or_default();
            let object = reference("karpenter.sh/v1", "NodePool", "", pool, &uid);
            let message = format!("Only observed; {nodes} node(s) would have been removed: {reason}");
            self.env.post(
                &self.links.recorder,
                Record::normal(object, "DisruptionBlocked", message).quiet_for(POOL_REPEAT_INTERVAL),
            );
        }
    }

    pub(super) fn tell_removal(&self, removal: &Removal, trace: TraceContext) {
        if let DisruptionCause::Ttl(seconds) = removal.cause {
            for disrupted in &removal.claims {
                self.env.emit_in(LogEvent::TtlReached { node: disrupted.node.clone(), seconds }, trace);
            }
        }
        let reason = removal.cause.reason();
        let name = |disrupted: &DisruptedClaim| {
            if disrupted.node.is_empty() { disrupted.claim.clone() } else { disrupted.node.clone() }
        };
        let log_event = LogEvent::Disrupting {
            command: trace.trace_id(),
            decision: "delete".into(),
            reason: reason.label().into(),
            disrupted_node_count: removal.claims.len(),
            replacement_node_count: 0,
            pod_count: removal.claims.iter().map(|disrupted| disrupted.pods).sum(),
            disrupted_nodes: Names::first(NAMES_LISTED, removal.claims.iter().map(name)),
        };
        self.env.emit_in(log_event, trace);
        traces::disruption(&self.env, trace, removal);
        for disrupted in &removal.claims {
            self.record(disrupted, "DisruptionTerminating", &format!("Disrupting: {}", reason.label()));
        }
    }

    /// Records one event at a claim and at its Node.
    pub(super) fn record(&self, disrupted: &DisruptedClaim, reason: &'static str, message: &str) {
        if !disrupted.node.is_empty() {
            let object = node_object(&disrupted.node, &disrupted.node_uid);
            self.env.post(&self.links.recorder, Record::normal(object, reason, message));
        }
        let object = claim_object(&disrupted.claim, &disrupted.uid);
        self.env.post(&self.links.recorder, Record::normal(object, reason, message));
    }
}

pub(super) fn node_object(name: &str, uid: &str) -> ObjectReference {
    reference("v1", "Node", "", name, uid)
}

pub(super) fn claim_object(name: &str, uid: &str) -> ObjectReference {
    reference("karpenter.sh/v1", "NodeClaim", "", name, uid)
}
