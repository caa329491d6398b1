//! Answers about a NodeClaim: its stage, and what it waits for.

use dovetail_api::names::conditions::{DRAINED, INITIALIZED, LAUNCHED, REGISTERED, TRUE, VOLUMES_DETACHED};
use dovetail_api::names::{annotations, instance_id, labels};
use dovetail_api::v1::{NodeClaim, condition};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::ExplainInput;
use crate::clock::{later, signed};
use crate::cluster_state::Snapshot;
use crate::lifecycle::{self, ClaimStage, liveness};

/// A condition as it is written on an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionNow {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub since: Timestamp,
}

/// The answer about a NodeClaim.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimAnswer {
    pub claim: String,
    pub pool: String,
    /// Name of its Node; empty until it has one.
    pub node: String,
    /// EC2's id of its instance; empty until it has one.
    pub instance: String,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    /// The last stage that it has passed; `None` before its launch.
    pub stage: Option<ClaimStage>,
    /// The step that it waits for, as a sentence without its end.
    pub waits_for: String,
    /// Time at which it is given up, where it waits.
    pub given_up_at: Option<Timestamp>,
    pub created: Option<Timestamp>,
    /// Trace of the batch that it was launched for; empty if it has none.
    pub trace_id: String,
    /// Pods that wait for a node and belong to the workloads that it was launched for, as far as they are known.
    pub pods: Vec<String>,
    pub conditions: Vec<ConditionNow>,
}

/// Most pods that are named.
const MOST_PODS_NAMED: usize = 10;

/// Explains a claim; `None` if there is none of that name.
#[must_use]
pub fn explain_claim(input: &ExplainInput<'_>, name: &str) -> Option<ClaimAnswer> {
    let entry = input.snapshot.claims.get(name)?;
    let (claim, facts) = (&entry.claim, &entry.facts);
    let of = |key: &str| claim.metadata.labels.as_ref().and_then(|own| own.get(key)).cloned().unwrap_or_default();
    Some(ClaimAnswer {
        claim: facts.name.clone(),
        pool: facts.pool.clone(),
        node: facts.node.clone(),
        instance: instance_id(entry.provider_id()).unwrap_or_default().to_owned(),
        instance_type: of(labels::INSTANCE_TYPE),
        zone: of(labels::ZONE),
        capacity_type: of(labels::CAPACITY_TYPE),
        stage: facts.stage,
        waits_for: pending_step(claim),
        given_up_at: given_up_at(claim),
        created: facts.created,
        trace_id: trace_id(claim),
        pods: launched_for(input.snapshot, &facts.launched_for),
        conditions: conditions_of(claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()),
    })
}

pub(super) fn conditions_of(
    written: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
) -> Vec<ConditionNow> {
    let one = |one: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| ConditionNow {
        type_: one.type_.clone(),
        status: one.status.clone(),
        reason: one.reason.clone(),
        message: one.message.clone(),
        since: one.last_transition_time.0,
    };
    written.iter().map(one).collect()
}

/// The trace id of the annotation that a claim carries; empty without one.
pub(super) fn trace_id(claim: &NodeClaim) -> String {
    let written = claim.metadata.annotations.as_ref().and_then(|own| own.get(annotations::TRACEPARENT));
    written.and_then(|text| text.split('-').nth(1)).unwrap_or_default().to_owned()
}

/// Pods of the workloads that a claim was launched for, by name, on nodes or waiting.
pub(super) fn launched_for(snapshot: &Snapshot, workloads: &[(String, u32)]) -> Vec<String> {
    let of = |workload: &str| workloads.iter().any(|(own, _)| own == workload);
    let pods = snapshot.pods.values().filter(|entry| of(&entry.workload));
    let mut names: Vec<String> = pods.map(|entry| format!("{}/{}", entry.pod.namespace, entry.pod.name)).collect();
    names.sort();
    names.truncate(MOST_PODS_NAMED);
    names
}

/// The step that a claim waits for, with the words of its condition.
#[must_use]
pub fn pending_step(claim: &NodeClaim) -> String {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let with = |head: &str, type_: &str| {
        let own = condition(conditions, type_).filter(|one| one.status != TRUE && !one.message.is_empty());
        own.map_or_else(|| head.to_owned(), |one| format!("{head}: {}: {}", one.reason, one.message))
    };
    if claim.metadata.deletion_timestamp.is_some() {
        let open = [(DRAINED, "it is being drained"), (VOLUMES_DETACHED, "its volumes are being detached")];
        let step =
            open.into_iter().find(|(type_, _)| condition(conditions, type_).is_none_or(|one| one.status != TRUE));
        return step.map_or_else(|| "its instance is being terminated".to_owned(), |(type_, head)| with(head, type_));
    }
    match lifecycle::stage(claim) {
        None => with("it waits for its instance", LAUNCHED),
        Some(ClaimStage::Launched) => with("its instance runs, it waits for its Node to join", REGISTERED),
        Some(ClaimStage::Registered) => with("its Node has joined, it waits for it to be ready for pods", INITIALIZED),
        Some(ClaimStage::Initialized) => "nothing: its Node is ready for pods".to_owned(),
    }
}

/// Time at which a claim that does not get on is given up.
#[must_use]
pub fn given_up_at(claim: &NodeClaim) -> Option<Timestamp> {
    if claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let since = |type_: &str| {
        let written = condition(conditions, type_).map(|one| one.last_transition_time.0);
        written.or_else(|| claim.metadata.creation_timestamp.as_ref().map(|time| time.0))
    };
    let after = |type_: &str, limit: std::time::Duration| {
        let limit: SignedDuration = signed(limit);
        since(type_).map(|since| later(since, limit))
    };
    match lifecycle::stage(claim) {
        None if lifecycle::launch::is_held(claim) => None,
        None => after(LAUNCHED, liveness::LAUNCH),
        Some(ClaimStage::Launched) => after(REGISTERED, liveness::REGISTRATION),
        _ => None,
    }
}
