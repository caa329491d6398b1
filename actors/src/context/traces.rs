//! Traces by object, and the spans that several actors make alike.

use std::collections::BTreeSet;

use dovetail_api::names::annotations::{END_TRACEPARENT, TRACEPARENT};
use dovetail_api::names::labels;
use dovetail_api::v1::NodeClaim;
use dovetail_core::Pod;
use dovetail_core::cluster_state::{NodeSource, Planning, Snapshot};
use dovetail_core::disruption::commands::DisruptionCommand;
use dovetail_core::disruption::{DisruptedClaim, Removal, RemovalReason, WantedRemoval};
use dovetail_core::pack::Packing;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::context::env::Env;
use crate::messages::{TraceContext, WaitingPod};
use crate::telemetry::measure::Measure;
use crate::telemetry::span::{AttributeValue, OpenSpan, names};

/// Most other traces that a packing's trace links to.
pub const MOST_LINKS: usize = 32;
/// Most pods without a node that a packing's trace names.
pub const MOST_UNPLACED: usize = 100;

fn written(claim: &NodeClaim, key: &str) -> Option<TraceContext> {
    claim.annotations().get(key).and_then(|text| TraceContext::parse(text))
}

/// The packing that a claim came from.
pub fn of_packing(claim: &NodeClaim) -> Option<TraceContext> {
    written(claim, TRACEPARENT)
}

/// Trace that led to a claim's end.
pub fn of_end(claim: &NodeClaim) -> Option<TraceContext> {
    written(claim, END_TRACEPARENT)
}

/// The span of a claim's way from its creation until it is ready for pods, inside that of its packing.
pub fn of_claim(packing: TraceContext, name: &str) -> TraceContext {
    packing.inner("nodeclaim", name)
}

/// The span of a claim's end, inside what led to it.
pub fn of_removal(cause: TraceContext, name: &str) -> TraceContext {
    cause.inner("removal", name)
}

pub fn attributes(claim: &NodeClaim) -> Vec<(&'static str, AttributeValue)> {
    let label = |key: &str| claim.labels().get(key).cloned().unwrap_or_default();
    let status = claim.status.clone().unwrap_or_default();
    let instance = dovetail_cloud::cloud::instance_id(&status.provider_id).unwrap_or_default();
    let all = [
        (names::CLAIM, claim.name_any()),
        (names::POOL, label(labels::NODE_POOL)),
        (names::INSTANCE, instance.to_owned()),
        (names::INSTANCE_TYPE, label(labels::INSTANCE_TYPE)),
        (names::CAPACITY_TYPE, label(labels::CAPACITY_TYPE)),
        (names::ZONE, label(labels::ZONE)),
        (names::NODE, status.node_name.clone()),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.into())).collect()
}

/// Tells a claim's span: it is ready for pods, or why it never will be.
pub fn claim_ended(env: &Env, claim: &NodeClaim, error: Option<(&str, &str)>) {
    let Some(packing) = of_packing(claim) else { return };
    let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let span = env.open(of_claim(packing, &claim.name_any()), Some(packing), "nodeclaim").since_some(created);
    let span = span.with_all(|| attributes(claim));
    match error {
        Some((kind, why)) => span.failed(kind, why).end(),
        None => span.end(),
    }
}

/// Tells a pod's span: it waited and is bound to a node, or is gone. `plan` is where it was expected, or the packing.
pub fn pod_ended(env: &Env, pod: &WaitingPod, uid: &str, plan: TraceContext, node: &str) {
    // The pod with which the trace began is what everything lies in.
    let span = match pod.trace.trace() == plan.trace() {
        true => env.open(pod.trace, None, "pod"),
        false => env.span(plan, "pod", uid),
    };
    let span = span.since(pod.since).with(names::POD, &*pod.name).with(names::NAMESPACE, &*pod.namespace);
    span.with(names::POD_UID, uid).with(names::NODE, node).end();
}

/// Times at which the solver was asked and at which it answered.
#[derive(Clone, Copy, Debug)]
pub struct SolveTimes {
    /// By the wall clock.
    pub asked: Timestamp,
    /// By the wall clock.
    pub answered: Timestamp,
}

/// Tells the spans of a packing: `span` is its own; `also` led to it, too.
pub fn packed(
    env: &Env,
    span: OpenSpan,
    planning: &Planning,
    packing: &Packing,
    SolveTimes { asked, answered }: SolveTimes,
    also: &[TraceContext],
) {
    let (trace, pods) = (span.context(), planning.problem.pods.len());
    let seconds = answered.duration_since(asked).as_secs_f64();
    env.measure(&Measure::Scheduled { controller: "provisioner", seconds, trace: trace.trace() });
    if !span.is_wanted() {
        return;
    }
    let solve = env.span(trace, "solve", "").since(asked).with(names::PODS, pods);
    solve.with("dovetail.instance_types", planning.problem.instance_types.len()).end_at(answered);
    let on_existing: usize = packing.on_existing.iter().map(|(_, pods)| pods.len()).sum();
    let mut span = span
        .with(names::PODS, pods)
        .with(names::CLAIMS, packing.claims.len())
        .with("dovetail.pods.on_existing", on_existing)
        .with("dovetail.pods.unplaced", packing.unscheduled.len())
        .with("dovetail.price_per_hour", packing.claims.iter().map(|claim| claim.price).sum::<f64>());
    // Pods expected on claims that are on their way are also traced with these.
    let coming = packing.on_existing.iter().filter_map(|(node, _)| match &planning.existing[*node].source {
        NodeSource::Node(_) => None,
        NodeSource::Claim(entry) | NodeSource::Both(_, entry) => of_packing(&entry.claim),
    });
    let others = also.iter().copied().chain(coming).filter(|other| other.trace() != trace.trace());
    let mut linked = BTreeSet::new();
    for other in others.filter(|other| linked.insert(other.trace())).take(MOST_LINKS) {
        span = span.link(other);
    }
    span.end();
}

/// Tells of a pod that gets no node.
pub fn unplaced(env: &Env, packing: TraceContext, pod: &Pod, error: &str) {
    let span = env.span(packing, "unplaced", &pod.uid);
    let span =
        span.with(names::POD, &*pod.name).with(names::NAMESPACE, &*pod.namespace).with(names::POD_UID, &*pod.uid);
    span.failed("Unschedulable", error).end();
}

/// Tells a decision to remove nodes, in which all lies that follows from it.
pub fn disruption(env: &Env, trace: TraceContext, removal: &Removal) {
    let reason = removal.cause.reason().label();
    let consolidation_type = if removal.cause.reason() == RemovalReason::Empty { "empty" } else { "none" };
    decided(env, &removal.claims, "delete", reason, consolidation_type);
    let pods: usize = removal.claims.iter().map(|disrupted| disrupted.pods).sum();
    let span = env.open(trace, None, "disruption").with(names::REASON, reason).with(names::PODS, pods);
    let span = span.with(names::CLAIMS, removal.claims.len());
    span.end();
    for disrupted in removal.claims.iter().take(MOST_LINKS) {
        let span = env.span(trace, "candidate", &disrupted.claim).with(names::CLAIM, &*disrupted.claim);
        span.with(names::NODE, &*disrupted.node)
            .with(names::POOL, &*disrupted.pool)
            .with(names::PODS, disrupted.pods)
            .end();
    }
}

/// Counts a decision, and once for each pool whose nodes go.
fn decided(env: &Env, claims: &[DisruptedClaim], decision: &'static str, reason: &str, consolidation_type: &str) {
    env.measure(&Measure::DisruptionDecided { decision, reason, consolidation_type });
    let pools: BTreeSet<&str> = claims.iter().map(|disrupted| disrupted.pool.as_str()).collect();
    for pool in pools {
        env.measure(&Measure::DisruptionDecidedInPool { pool, decision, reason, consolidation_type });
    }
}

/// Tells a command, in which all lies that follows from it.
pub fn command(env: &Env, trace: TraceContext, command: &DisruptionCommand) {
    let WantedRemoval { reason, method, claims } = &command.wanted;
    let (decision, reason) = (command.decision(), reason.label());
    decided(env, claims, decision, reason, method);
    let span = env.open(trace, None, "disruption").with(names::REASON, reason).with(names::PODS, command.pods.len());
    span.with(names::CLAIMS, claims.len()).with("dovetail.replacements", command.replacements.len()).end();
    for disrupted in claims.iter().take(MOST_LINKS) {
        let span = env.span(trace, "candidate", &disrupted.claim).with(names::CLAIM, &*disrupted.claim);
        span.with(names::NODE, &*disrupted.node)
            .with(names::POOL, &*disrupted.pool)
            .with(names::PODS, disrupted.pods)
            .end();
    }
}

/// Traces that led to the end of the nodes whose pods a packing moves, one of each node.
pub fn that_lead_to_moves(snapshot: &Snapshot, planning: &Planning) -> Vec<TraceContext> {
    let moved = |pod: &Pod| snapshot.pods.get(&pod.uid).map(|entry| entry.node_name.as_str());
    let nodes: BTreeSet<&str> =
        planning.problem.pods.iter().filter_map(moved).filter(|node| !node.is_empty()).collect();
    let claims = snapshot.deleting.claims.iter().filter_map(|name| snapshot.claims.get(name));
    let moved_from =
        claims.filter(|entry| entry.claim.status.as_ref().is_some_and(|s| nodes.contains(s.node_name.as_str())));
    moved_from.filter_map(|entry| of_end(&entry.claim)).collect()
}
