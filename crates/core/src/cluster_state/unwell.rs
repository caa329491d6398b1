//! Unhealthy conditions of a Node, as node repair goes by them (core spec 5.10, aws spec 4.10).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use crate::clock::later;

/// A policy: condition, status, and for how many minutes it is tolerated.
type Policy = (&'static str, &'static str, i64);

/// Conditions that EC2's nodes are repaired for.
const POLICIES: [Policy; 7] = [
    ("Ready", "False", 30),
    ("Ready", "Unknown", 30),
    ("AcceleratedHardwareReady", "False", 10),
    ("StorageReady", "False", 30),
    ("NetworkingReady", "False", 30),
    ("KernelReady", "False", 30),
    ("ContainerRuntimeReady", "False", 30),
];

/// A condition of a Node that it is repaired for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnhealthyCondition {
    /// `type` of the condition: `Ready`, `StorageReady`, …
    pub condition: &'static str,
    /// `status` that is unwell: `False` or `Unknown`.
    pub status: &'static str,
    /// Time until which it is tolerated.
    pub until: Timestamp,
}

/// The conditions for which a Node is to be repaired; a condition without a time of its beginning is left out.
#[must_use]
pub fn unwell(node: &Node) -> Vec<UnhealthyCondition> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let of = |&(condition, status, minutes): &Policy| {
        let mut all = conditions.into_iter().flatten();
        let one = all.find(|one| one.type_ == condition && one.status == status)?;
        let until = later(one.last_transition_time.as_ref()?.0, SignedDuration::from_mins(minutes));
        Some(UnhealthyCondition { condition, status, until })
    };
    POLICIES.iter().filter_map(of).collect()
}
