//! Measurements that several actors share: claims and Nodes on their way out (core spec 7.1).

use dovetail_api::names::{conditions, labels};
use dovetail_api::v1::{NodeClaim, condition};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::context::env::Env;
use crate::messages::DisruptionFacts;
use crate::telemetry::measure::Measure;

/// A label's value for a metric: one that nobody has written is `none`, as an empty one cannot be told from a missing one.
fn label<'a>(labels: &'a std::collections::BTreeMap<String, String>, key: &str) -> &'a str {
    labels.get(key).map(String::as_str).filter(|value| !value.is_empty()).unwrap_or("none")
}

/// A claim has been told to go; `grace` bounds its drain, and the claim's own does where that is absent.
pub fn claim_disrupted(
    env: &Env,
    claim: &NodeClaim,
    reason: &str,
    grace: Option<SignedDuration>,
    facts: DisruptionFacts,
) {
    let own = claim.labels();
    let (pool, capacity_type) = (label(own, labels::NODE_POOL), label(own, labels::CAPACITY_TYPE));
    let grace = grace_of(claim, grace);
    let policy = if facts.policy.is_empty() { "none" } else { facts.policy };
    let facts = DisruptionFacts { policy, ..facts };
    env.measure(&Measure::ClaimDisrupted { pool, capacity_type, reason, grace, facts });
}

/// Time at which the cloud began to end a claim's instance.
pub fn instance_ends(claim: &NodeClaim) -> Option<Timestamp> {
    let own = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(own, conditions::INSTANCE_TERMINATING).map(|one| one.last_transition_time.0)
}

pub fn claim_gone(env: &Env, claim: &NodeClaim) {
    let (own, now) = (claim.labels(), env.wall());
    let pool = label(own, labels::NODE_POOL);
    let (capacity_type, zone) = (label(own, labels::CAPACITY_TYPE), label(own, labels::ZONE));
    env.measure(&Measure::ClaimTerminated { pool, capacity_type, zone });
    let since = |then: Timestamp| now.duration_since(then).as_secs_f64();
    if let Some(deleted) = &claim.metadata.deletion_timestamp {
        env.measure(&Measure::ClaimEnded { pool, seconds: since(deleted.0) });
    }
    if let Some(begun) = instance_ends(claim) {
        env.measure(&Measure::InstanceTerminated { pool, seconds: since(begun) });
    }
}

pub fn node_gone(env: &Env, node: &Node) {
    let (own, now) = (node.labels(), env.wall());
    let (pool, zone) = (label(own, labels::NODE_POOL), label(own, labels::ZONE));
    let since = |then: Timestamp| now.duration_since(then).as_secs_f64();
    let seconds = node.metadata.deletion_timestamp.as_ref().map(|time| since(time.0));
    let lifetime = node.metadata.creation_timestamp.as_ref().map(|time| since(time.0));
    env.measure(&Measure::NodeTerminated { pool, zone, seconds, lifetime });
}

/// Longest time that a claim's drain may take, seconds.
fn grace_of(claim: &NodeClaim, of_removal: Option<SignedDuration>) -> Option<u64> {
    let of_removal = of_removal.map(|grace| grace.as_secs().max(0).unsigned_abs());
    of_removal.or_else(|| claim.spec.termination_grace_period.as_ref().map(|grace| grace.get().as_secs()))
}

/// A claim goes as its Node has had that condition for too long; `grace` bounds its drain in the claim's stead.
pub fn claim_unhealthy(env: &Env, claim: &NodeClaim, condition: &'static str, grace: Option<SignedDuration>) {
    let own = claim.labels();
    let (pool, capacity_type) = (label(own, labels::NODE_POOL), label(own, labels::CAPACITY_TYPE));
    let image = claim.status.as_ref().map_or("", |status| status.image_id.as_str());
    let grace = grace_of(claim, grace);
    env.measure(&Measure::ClaimUnhealthy { condition, pool, capacity_type, image, grace });
}
