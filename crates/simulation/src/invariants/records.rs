//! A NodeClaim, an instance, a Node and a pod as an invariant knows them.

use dovetail_api::names::annotations::{END_REASON, TERMINATION_TIMESTAMP};
use dovetail_api::names::labels::CAPACITY_BLOCK;
use dovetail_api::names::labels::CAPACITY_RESERVATION_TYPE;
use serde_json::Value;

use super::commands::ClaimHold;
use super::history::{AmountsByName, amounts};
use crate::scenario::parse_duration;

/// A NodeClaim.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim {
    /// The term in which it was made, whoever has taken it over since.
    pub term: String,
    pub name: String,
    pub pool: String,
    pub token: String,
    /// Its instance's id, empty while it has none.
    pub instance: String,
    pub requests: AmountsByName,
    /// Capacity of its instance, as far as it was written.
    pub capacity: AmountsByName,
    pub created: f64,
    /// Nobody was told that it was made, by a request that may have been done long after it had been given up, and no replica
    /// has written to it since.
    pub unheard: bool,
    /// Seconds at which it expires.
    pub expires: Option<f64>,
    /// True if its drain ends by force some time.
    pub forced: bool,
    pub initialized: bool,
    /// Seconds at which its initialization was first written.
    pub initialized_at: Option<f64>,
    /// The command that holds it, as its condition DisruptionReason says.
    pub held: Option<ClaimHold>,
    /// The reason of its removal, from its own annotation.
    pub goes_for: String,
    /// Written with that reason: its drain has a deadline of its own.
    pub has_deadline: bool,
    /// Its instance is in a capacity block, which EC2 ends at its time.
    pub in_block: bool,
    /// Seconds until which its conditions say that it is to be replaced (Drifted, DisruptionReason): room for its pods comes first.
    pub moves: Option<f64>,
    /// EC2 had nothing for its latest launch, or its deletion was asked for: it brings nothing, whatever comes of that.
    pub given_up: bool,
    /// Seconds since which it is being deleted, by whomever.
    pub deleting: Option<f64>,
    /// Seconds since which it is not there.
    pub gone: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct InstanceRecord {
    /// The launch token, of all attempts that it names.
    pub token: String,
    pub from: f64,
    pub to: Option<f64>,
    /// The cloud has warned of its end.
    pub warned: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct NodeRecord {
    pub instance: String,
    pub ready: bool,
    pub deleting: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PodRecord {
    pub namespace: String,
    pub name: String,
    /// `Kind/name` of what it is one of, empty for a pod of its own.
    pub owner: String,
    pub requests: AmountsByName,
    pub node: String,
    pub ready: bool,
    /// Seconds until which it is or was ready as the API server shows it, which hears of an instance's end only after a while.
    pub shown_ready: f64,
    /// Seconds at which it was created.
    pub created: f64,
    pub deleting: bool,
    /// True once it has succeeded or failed.
    pub ended: bool,
    /// Seconds since which it is being deleted, unless by an eviction.
    pub removed: Option<f64>,
}

impl Claim {
    /// Takes over a write of the claim, at `now` in seconds: the reason of its removal, its expiry, and its conditions. Fields
    /// that are set once, with the claim, count only where it was not `known` before.
    pub(super) fn apply_sent(&mut self, sent: &Value, known: bool, now: f64) {
        let spec = &sent["spec"];
        if let Some(reason) = sent["metadata"]["annotations"][END_REASON].as_str() {
            // With the time.
            reason.split(' ').next().unwrap_or_default().clone_into(&mut self.goes_for);
            self.has_deadline = sent["metadata"]["annotations"][TERMINATION_TIMESTAMP].is_string();
        }
        if !known {
            let after = spec["expireAfter"].as_str().and_then(parse_duration);
            self.expires = after.map(|after| now + after.as_secs_f64());
            self.forced = spec["terminationGracePeriod"].is_string();
        }
        self.in_block |= sent["metadata"]["labels"][CAPACITY_RESERVATION_TYPE] == CAPACITY_BLOCK;
        let status = &sent["status"];
        if status["capacity"].is_object() {
            self.capacity = amounts(&status["capacity"]);
        }
        let conditions = status["conditions"].as_array();
        if let Some(all) = conditions {
            let says = |one: &Value| one["type"] == "Drifted" || one["type"] == "DisruptionReason";
            match all.iter().any(|one| says(one) && one["status"] == "True") {
                true => self.moves = Some(f64::INFINITY),
                false => self.moves = self.moves.map(|until| until.min(now)),
            }
        }
        if let Some(one) = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Initialized")) {
            self.initialized = one["status"] == "True";
            self.initialized_at = self.initialized_at.or(self.initialized.then_some(now));
        }
        if let Some(all) = conditions {
            self.held = ClaimHold::anew(all, self.held.take(), now);
        }
    }
}
