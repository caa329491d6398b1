//! The status of a quota: what its nodes have, and if it is held.

use dovetail_api::autoscaling::{CapacityAmounts, CapacityQuotaStatus};
use dovetail_api::names::conditions::{FALSE, TRUE};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{MOST_QUOTAS, WrittenQuota};
use crate::lifecycle::claim::to_quantities;
use crate::resources::{Resources, format_amount};

/// The condition that Cluster Autoscaler has too, with its reasons.
const RECONCILED: &str = "Reconciled";
const SUCCEEDED: &str = "ReconciliationSucceeded";
const FAILED: &str = "ReconciliationFailed";

/// The finding on a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaVerdict {
    /// True if it is held.
    pub held: bool,
    /// True if nodes have more than it allows.
    pub exceeded: bool,
    /// Message of the condition Reconciled.
    pub message: String,
    /// Capacity of the Nodes that count, of the resources that the quota names; `None` where it is not held.
    pub used: Option<Resources>,
}

/// Judges a quota by what its Nodes have. `is_held` is false for one beyond those that are held.
#[must_use]
pub fn judge_quota(quota: &WrittenQuota, is_held: bool, used: Resources) -> QuotaVerdict {
    let limits = match &quota.read {
        Err(why) => return QuotaVerdict::not_held(why),
        Ok(_) if !is_held => {
            return QuotaVerdict::not_held(&format!("only the first {MOST_QUOTAS} quotas by name are"));
        }
        Ok(read) => &read.limits,
    };
    let over = limits.iter().filter(|(name, limit)| used.get(name) > *limit);
    let over: Vec<String> = over
        .map(|(name, limit)| {
            format!("{} of {} {name}", format_amount(name, used.get(name)), format_amount(name, limit))
        })
        .collect();
    let message = match over.as_slice() {
        [] if limits.is_empty() => "it limits nothing: spec.limits.resources names no resource".to_owned(),
        [] => "it is held when nodes are launched".to_owned(),
        over => format!("nodes have {}: none is ended for it, and none is launched", over.join(", ")),
    };
    QuotaVerdict { held: true, exceeded: !over.is_empty(), message, used: Some(used) }
}

impl QuotaVerdict {
    fn not_held(why: &str) -> Self {
        Self { held: false, exceeded: false, message: format!("it is not held: {why}"), used: None }
    }

    /// Writes it into the status of a quota of this generation.
    pub fn write_to(&self, status: &mut CapacityQuotaStatus, generation: Option<i64>, now: Timestamp) {
        if let Some(used) = &self.used {
            status.used = Some(CapacityAmounts { resources: to_quantities(used) });
        }
        status.observed_generation = generation;
        let (value, reason) = if self.held { (TRUE, SUCCEEDED) } else { (FALSE, FAILED) };
        let known = status.conditions.iter().find(|one| one.type_ == RECONCILED);
        let since = known.filter(|one| one.status == value).map(|one| one.last_transition_time.clone());
        let condition = Condition {
            type_: RECONCILED.to_owned(),
            status: value.to_owned(),
            reason: reason.to_owned(),
            message: self.message.clone(),
            observed_generation: generation,
            last_transition_time: since.unwrap_or(Time(now)),
        };
        status.conditions.retain(|one| one.type_ != RECONCILED);
        status.conditions.push(condition);
    }
}
